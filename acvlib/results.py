"""What a fit and a method give back, and what every method does alike to get there."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any
from weakref import WeakSet

import numpy as np

from .checks import real_array, require, warn
from .declared import Is
from .derivatives import derivatives_of
from .folds import Folds
from .model import Refits
from .scores import HeldOutLosses
from .trials import FAILURES, UnconvergedFit, reasons

TOLERANCE = 1e-6  # of the Newton decrement, in standard errors


@dataclass(frozen=True, eq=False)
class Fit:
    """A point on the way to, or at, the optimum of a model with all weights 1.

    model: what was fitted, with which every method computes; params (D,); objective: F; grad_norm:
    |dF/dparams|; newton_decrement: sqrt(g' H^-1 g), the distance to the optimum in standard errors
    (inf where H is indefinite); hessian: H as a `solvers.inverse.Solvable`; metric (D, D): error'
    metric error is the squared size of an error in standard errors, H itself unless the model is an
    estimating equation.
    """

    model: Any = field(repr=False)
    params: np.ndarray = field(repr=False)
    objective: float
    grad_norm: float
    newton_decrement: float
    hessian: Any = field(repr=False)
    metric: Any = field(default=None, repr=False)

    def __post_init__(self):
        n_params = getattr(self.model, "n_params", len(self.params))
        if len(self.params) != n_params:
            raise ValueError(f"params {self.params.shape} must be ({n_params},), as the model's")
        if self.metric is None:
            object.__setattr__(self, "metric", self.hessian)

    def __repr__(self):
        decrement = f"Newton decrement {self.newton_decrement:.2g} standard errors"
        return f"Fit({len(self.params)} parameters: objective {self.objective:.8g}, {decrement})"

    @cached_property
    def derivatives(self) -> Any:
        """The `Derivatives` of the model."""
        return derivatives_of(self.model)

    @cached_property
    def checked_folds(self) -> WeakSet:
        """`Folds` that the model is known to fit without: they are checked once."""
        return WeakSet()

    def __getstate__(self):
        kept = vars(self).keys() - {"derivatives", "checked_folds"}
        return {name: vars(self)[name] for name in kept}

    def warn_unconverged(self, who: str, tolerance: float = TOLERANCE) -> None:
        """Say that `who` starts from, or ended at, a point that is no optimum, if it is none."""
        if not self.newton_decrement <= tolerance:
            decrement = f"Newton decrement {self.newton_decrement:.3g} is above {tolerance:.0e}"
            warn(f"{who}: {decrement}: the point is not an optimum", UnconvergedFit)

    def standard_errors_between(self, a: np.ndarray, b: np.ndarray | float) -> np.ndarray:
        """sqrt((a - b)' metric (a - b)): the distance of params (..., D), in standard errors."""
        a = real_array("params", a, finite=False)
        b = real_array("params", b, finite=False)
        if a.shape[-1:] != self.params.shape or b.shape[-1:] not in ((), self.params.shape):
            raise ValueError(f"params {a.shape} and {b.shape} must be (..., {len(self.params)})")
        gap = a - b
        squares = np.einsum("...i,...i->...", gap @ self.metric, gap)
        return np.sqrt(np.maximum(squares, 0.0))


@dataclass(frozen=True, eq=False, repr=False)
class CVResult(HeldOutLosses):
    """Cross-validation by one method: one row of params and one array of held-out losses a fold.

    losses: per fold, -log p(x_t | x outside the fold) of its scored sites; `pointwise`, `loss`,
    `se`, `fold_losses` and `fold_totals` follow from them; params (n_folds, D); indefinite
    (n_folds,): whether the Hessian that the method used for the fold has negative curvature, None
    where it used none of the fold's own; diagnostics: arrays (n_folds,), see each method; seconds:
    wall clock without the initial fit; evaluations: how often what was computed.
    """

    method: str
    fit: Fit = field(repr=False)
    folds: Folds = field(repr=False)
    n_sites: int
    params: np.ndarray = field(repr=False)
    losses: Sequence[np.ndarray] | np.ndarray = field(repr=False)
    seconds: float
    evaluations: Counter
    indefinite: np.ndarray | None = field(default=None, repr=False)
    diagnostics: dict = field(default_factory=dict, repr=False)

    @property
    def n_folds(self) -> int:
        """How many folds there are."""
        return len(self.folds)

    @property
    def labels(self) -> Any:
        """The user's names of the folds (n_folds,), or None."""
        return self.folds.labels

    @property
    def _is_unreliable(self):
        indefinite = False if self.indefinite is None else self.indefinite
        unconverged = np.logical_not(self.diagnostics.get("converged", True))
        return super()._is_unreliable | indefinite | unconverged

    @cached_property
    def _pairs(self):
        sites, sizes = self.folds.scored.sites, self.folds.scored.sizes
        if isinstance(self.losses, np.ndarray) and self.losses.ndim == 2:  # a row a fold
            losses = self.losses.ravel()
            given = np.full(*self.losses.shape)
        else:
            losses = np.concatenate(self.losses)
            given = np.array([np.size(of_fold) for of_fold in self.losses])
        if (sizes != given).any():
            number = np.argmax(sizes != given)
            wanted = f"the {sizes[number]} sites that {self.folds.name(number)} scores"
            raise ValueError(f"heldout_loss gives {given[number]} losses of {wanted}: one a site")
        return np.repeat(np.arange(len(sizes)), sizes), sites, losses

    @cached_property
    def fitted_losses(self) -> np.ndarray:
        """`pointwise` with the full fit's params in place of the folds', (n_sites,)."""
        losses = self.fit.derivatives.heldout(self.fit.params, self.folds)
        return replace(self, losses=losses).pointwise

    @cached_property
    def p_loo(self) -> float:
        """Effective number of parameters: `pointwise` minus `fitted_losses`, summed over sites."""
        scored = self.groups >= 0
        return float((self.pointwise - self.fitted_losses)[scored].sum())

    def to_frame(self) -> Any:
        """A DataFrame, one row a fold: size, loss, step in standard errors, diagnostics."""
        step = self.fit.standard_errors_between(self.params, self.fit.params)
        columns = {"size": self.folds.sizes, "loss": self.fold_losses, "step_se": step}
        if self.indefinite is not None:
            columns["indefinite"] = self.indefinite
        pandas = require("pandas", extra="tables")
        return pandas.DataFrame(columns | self.diagnostics, self.labels).rename_axis("fold")


AFit = Annotated[Fit, Is(": give acv.fit(model), which keeps its model", sized=True)]
AResult = Annotated[CVResult, Is(": give what a method returns", sized=True)]


class Run:
    """One method on one fit: `Run(...)` starts the clock, `finish` scores each fold's params.

    lost: why folds that cannot be evaluated cannot, by number.
    """

    def __init__(self, method: str, fit: Fit, folds: Any):
        self.started = time.perf_counter()
        self.method = method
        self.fit = fit
        self.derivatives = fit.derivatives
        self.is_checked = isinstance(folds, Folds) and folds in fit.checked_folds
        self.folds = folds if self.is_checked else Folds.of(folds, fit.model)
        self.lost: dict[int, Exception] = {}
        fit.warn_unconverged(method)

    def each(self, solve: Callable[[Folds], Refits]) -> Refits:
        """solve(folds); where that fails, of ever smaller parts: the params of lost folds are nan.

        Raises what `solve` raises of all folds where it raises of each.
        """
        n_folds = len(self.folds.sizes)
        parts = [slice(0, n_folds)]
        errors: list[Exception] = []
        while parts:
            part = parts.pop()
            folds = self.folds if not errors else self.folds.part(part)
            try:
                if not self.is_checked:
                    self.derivatives.defaults.check_folds(folds)
                refits = solve(folds)
            except FAILURES as error:
                if not errors:
                    solved = Refits.unfinished(n_folds, len(self.fit.params))
                errors.append(error)
                middle = (part.start + part.stop) // 2
                if middle > part.start:
                    parts += [slice(part.start, middle), slice(middle, part.stop)]
                else:
                    self.lost[part.start] = error
                continue
            if not errors:
                self.fit.checked_folds.add(self.folds)
                return refits
            solved.take(part, refits)
        if len(self.lost) == n_folds:
            raise errors[0]
        why = []
        for number, lost in sorted(self.lost.items()):
            name = self.folds.name(number)
            says = f"{type(lost).__name__}: {lost}"
            why.append((name, says if name in says else says.replace("fold 0", name)))
        count = f"the losses of {len(why)} of {n_folds} folds are nan"
        warn(f"{self.method}: {count}. {reasons(why)}", UnconvergedFit)
        return solved

    def finish(
        self,
        params: np.ndarray,
        evaluations: Mapping[str, int],
        indefinite: np.ndarray | None = None,
        **diagnostics: np.ndarray,
    ) -> CVResult:
        """The `CVResult` of params (D,) or (n_folds, D), with nan losses of the lost folds."""
        folds = self.folds
        n_folds = len(folds.omitted.sizes)
        if self.lost:
            rows = np.setdiff1d(np.arange(n_folds), list(self.lost))
            losses = [np.full(len(sites), np.nan) for sites in folds.scored]
            scored = self.derivatives.heldout(params[rows], folds[rows])
            for row, of_fold in zip(rows, scored, strict=True):
                losses[row] = of_fold
        else:
            losses = self.derivatives.heldout(params, folds)
        return CVResult(
            method=self.method,
            fit=self.fit,
            folds=folds,
            n_sites=self.derivatives.n_sites,
            params=params if params.ndim == 2 else np.tile(params, (n_folds, 1)),
            losses=losses,
            seconds=time.perf_counter() - self.started,
            evaluations=Counter({"heldout": n_folds - len(self.lost), **evaluations}),
            indefinite=indefinite,
            diagnostics=diagnostics,
        )
