"""What a model is, what a method may know of it, and what a fit and a method give back."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property, wraps
from inspect import signature
from typing import Any, Protocol, runtime_checkable

import numpy as np
from autograd.tracer import isbox

from . import weighting
from .checks import LARGEST, check_kind, generator, real_array
from .extras import require
from .folds import Folds
from .folds.checks import one_fold
from .scores import HeldOutLosses, error_of_sum


class NoFiniteOptimum(ValueError):
    """The objective has no minimum: it keeps falling along a ray."""


@runtime_checkable
class Model(Protocol):
    """F(params, weights), minus a weighted log joint density: weight 1 keeps a site, 0 omits it.

    Any class with these four members is a model. It may also have those of `ModelDefaults`, and
    `derivatives`, an instance of a subclass of `acvlib.derivatives.Derivatives`.
    """

    @property
    def n_sites(self) -> int:
        """How many sites can be left out."""

    def objective(self, params: np.ndarray, weights: np.ndarray) -> float:
        """F; twice differentiable by autograd in params (D,) and weights (n_sites,)."""

    def heldout_loss(self, params: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """-log p(x_t | x outside the fold; params) for each t of the fold, (len(fold),)."""

    def initial_params(self, rng: np.random.Generator | None) -> np.ndarray:
        """A starting point (D,) for the optimiser."""


@runtime_checkable
class EstimatingEquation(Protocol):
    """r(params, weights) = 0 in place of a minimum: multi-stage fits, without symmetry."""

    @property
    def n_sites(self) -> int:
        """As in `Model`."""

    def residual(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """r (D,); differentiable by autograd in params (D,) and weights (n_sites,)."""

    def heldout_loss(self, params: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """As in `Model`."""

    def initial_params(self, rng: np.random.Generator | None) -> np.ndarray:
        """As in `Model`."""


class ModelDefaults:
    """What a model may say of itself, and what holds where it says nothing.

    observed (n_sites,): False where a site is missing and can be in no fold; convex: F at w = 1 is
    convex in params, so that Newton's method finds its minimum from any start; quadratic: it does
    so in one step; normalised: F divides by the sum of the weights, so that omitting sites takes no
    curvature away.
    """

    observed: Any = None
    convex: Any = False
    quadratic: Any = False
    normalised: Any = False

    def check_optimum(self, params: np.ndarray) -> None:
        """Raise where the optimum that a fit found is at infinity."""

    def check_refits(self, params: np.ndarray, folds: Folds) -> None:
        """Raise where the optimum that a refit found, a row of params a fold, is at infinity."""

    def check_folds(self, folds: Folds) -> None:
        """Raise where a fold leaves too little to fit."""


def with_defaults(model: Any) -> ModelDefaults:
    """The optional members of a model, filled in for a user's own class that lacks some."""
    if isinstance(model, ModelDefaults):
        return model
    filled = ModelDefaults()
    for name in [name for name in vars(ModelDefaults) if not name.startswith("_")]:
        setattr(filled, name, getattr(model, name, getattr(filled, name)))
    return filled


def own_copy(values: Any, dtype: Any = float, name: str = "data") -> np.ndarray:
    """Copy an array that a model is given, read-only: the caller may change theirs."""
    copied = real_array(name, values, finite=False) if dtype is float else np.array(values, dtype)
    large = np.isfinite(copied) & (abs(copied) > LARGEST)
    if large.any():
        raise ValueError(f"{name} holds {copied[large][0]:.2g}, whose square overflows: rescale it")
    copied.setflags(write=False)
    return copied


def checked(method: Callable) -> Callable:
    """Have a model's method check its params, weights, fold, folds and rng, by these names.

    What autograd passes through is its own business.
    """
    names = signature(method)

    @wraps(method)
    def with_checks(self, *args, **named):
        bound = names.bind(self, *args, **named)
        for name in bound.arguments.keys() & _CHECKS.keys():
            value = bound.arguments[name]
            if not isbox(value) and value is not names.parameters[name].default:
                bound.arguments[name] = _CHECKS[name](self, value)
        return method(*bound.args, **bound.kwargs)

    return with_checks


def _checked_params(model, params):
    params = real_array("params", params, 1, finite=False)
    if len(params) != model.n_params:
        raise ValueError(f"params ({len(params)},) must be ({model.n_params},), as a fit's are")
    return params


def _checked_weights(model, weights):
    weighting.check(weights, model.n_sites)
    weights = np.asarray(weights, float)
    total = weights.sum()
    if model.normalised and not 1.0 / LARGEST < total < LARGEST:
        raise ValueError(f"weights sum to {total}: F divides by the square of that")
    return weights


def _checked_fold(model, fold):
    return one_fold(fold, model.n_sites)


def _checked_folds(model, folds):
    check_kind("folds", folds, Folds)
    return Folds.of(folds, model.n_sites, model.observed)


_CHECKS = {
    "params": _checked_params,
    "weights": _checked_weights,
    "fold": _checked_fold,
    "folds": _checked_folds,
    "rng": lambda model, rng: generator(rng),
}


def override(method: Callable) -> Callable:
    """Mark a method that stands in for one of its base class, which `Derivatives` checks."""
    method.__override__ = True  # type: ignore[attr-defined]
    return method


def check_overrides(cls: type) -> None:
    """Raise TypeError for a public or marked name of a subclass that its bases do not have."""
    known = {name for base in cls.__mro__[1:] for name in vars(base)}
    for name, value in vars(cls).items():
        marked = getattr(value, "__override__", False)
        if name not in known and (marked or not name.startswith("_")):
            near = get_close_matches(name, [k for k in known if k[0] != "_"], 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise TypeError(
                f"{cls.__name__}.{name} overrides nothing of Derivatives{hint} "
                "(names of helpers start with an underscore)"
            )


class FoldProducts(Protocol):
    """H(w_o) of n folds as products with vectors (B, D); `rows` (B,) numbers their folds.

    `rough` is None, or the same, cheaper and less accurate.
    """

    rough: "FoldProducts | None"

    def multiply(self, vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """H(w_o) times each vector, (B, D)."""

    def precondition(self, vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """An approximate H(w_o)^-1 times each vector, (B, D)."""

    def evaluate(self) -> tuple[np.ndarray, np.ndarray]:
        """(F (n,), dF/dparams (n, D)) of folds with params of their own."""


@dataclass(frozen=True)
class Fit:
    """A point on the way to, or at, the optimum of a model with all weights 1.

    params (D,); objective: F; grad_norm: |dF/dparams|; newton_decrement: sqrt(g' H^-1 g), the
    distance to the optimum in standard errors (inf where H is indefinite); hessian: H as a
    `solvers.inverse.Solvable`; metric (D, D): error' metric error is the squared size of an error
    in standard errors, H itself unless the model is an estimating equation; iterates: params after
    each step of the optimiser.
    """

    params: np.ndarray = field(repr=False)
    objective: float
    grad_norm: float
    newton_decrement: float
    hessian: Any = field(repr=False)
    metric: Any = field(default=None, repr=False)
    iterates: tuple = field(default=(), repr=False)

    def __post_init__(self):
        if self.metric is None:
            object.__setattr__(self, "metric", self.hessian)

    def _repr_html_(self):
        decrement = f"Newton decrement {self.newton_decrement:.2g} standard errors"
        size = f"<b>Fit</b> of {len(self.params)} parameters"
        return f"<p>{size}: objective {self.objective:.8g}, {decrement}</p>"

    def standard_errors_between(self, a: np.ndarray, b: np.ndarray | float) -> np.ndarray:
        """sqrt((a - b)' metric (a - b)): the distance of params (..., D), in standard errors."""
        a = real_array("params", a, finite=False)
        b = real_array("params", b, finite=False)
        if a.shape[-1:] != self.params.shape or b.shape[-1:] not in ((), self.params.shape):
            raise ValueError(f"params {a.shape} and {b.shape} must be (..., {len(self.params)})")
        gap = a - b
        squares = np.einsum("...i,...i->...", gap @ self.metric, gap)
        return np.sqrt(np.maximum(squares, 0.0))


def check_is_model(model: Any) -> None:
    """Raise TypeError unless an object has what a `Model` or an `EstimatingEquation` has."""
    members = ("n_sites", "heldout_loss", "initial_params")
    if isinstance(model, type) or not all(hasattr(model, name) for name in members):
        found = f"{model!r:.60} has no {', '.join(members)}"
        raise TypeError(f"{found}: give a model, of acv.models or of your own (acv.Model)")


def check_fit(model: Any, fit: Any) -> None:
    """Raise TypeError or ValueError unless `fit` is a `Fit`, and may be of this model."""
    check_is_model(model)
    check_kind("fit", fit, Fit)
    n_params = getattr(model, "n_params", len(fit.params))
    if len(fit.params) != n_params:
        size = f"{len(fit.params)} parameters, the model {n_params}"
        raise ValueError(f"the fit has {size}: it is another model's")


def check_result_of(model: Any, result: Any) -> None:
    """Raise TypeError or ValueError unless `result` is a `CVResult`, and may be of this model."""
    check_kind("result", result, CVResult)
    check_fit(model, result.fit)
    if result.n_sites != model.n_sites:
        sizes = f"of {result.n_sites} sites, and the model of {model.n_sites}"
        raise ValueError(f"the result is {sizes}: it is another model's")


@dataclass
class Refits:
    """Where n refits ended, one entry a fold.

    params (n, D); decrement: the distance that was left, in standard errors; indefinite: whether
    the last Hessian was; steps; converged; residual: |gradient|; evaluations: what was computed.
    """

    params: np.ndarray
    decrement: np.ndarray
    indefinite: np.ndarray
    steps: np.ndarray
    converged: np.ndarray
    residual: np.ndarray
    evaluations: Counter = field(default_factory=Counter)

    @classmethod
    def unfinished(cls, n: int, n_params: int) -> "Refits":
        """None of n refits yet: solvers write here as they go, for what Ctrl-C leaves."""
        return cls(
            params=np.full((n, n_params), np.nan),
            decrement=np.full(n, np.inf),
            indefinite=np.zeros(n, bool),
            steps=np.zeros(n, int),
            converged=np.zeros(n, bool),
            residual=np.full(n, np.nan),
        )

    def part(self, rows: slice) -> "Refits":
        """Those of some folds, in the same memory, with the same `evaluations`."""
        arrays = {name: array for name, array in vars(self).items() if name != "evaluations"}
        views = {name: array[rows] for name, array in arrays.items()}
        return Refits(**views, evaluations=self.evaluations)


@dataclass(frozen=True)
class CVResult(HeldOutLosses):
    """Cross-validation by one method: one row of params and one array of held-out losses a fold.

    losses: per fold, -log p(x_t | x outside the fold) of its scored sites; `pointwise`, `loss`,
    `se`, `fold_losses` and `fold_totals` follow from them; params (n_folds, D); indefinite
    (n_folds,): whether the Hessian that the method used for the fold has negative curvature, None
    where it used none of the fold's own; diagnostics: arrays (n_folds,), see each method; settings:
    the method's arguments; seconds: wall clock without the initial fit; evaluations: how often what
    was computed; derivatives: the model's, which a pickle leaves out.
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
    settings: dict = field(default_factory=dict)
    derivatives: Any = field(default=None, repr=False)

    def __getstate__(self):
        return vars(self) | {"derivatives": None}

    @property
    def _n_folds(self):
        return len(self.folds)

    @cached_property
    def _pairs(self):
        scored = np.array([len(sites) for sites in self.folds.scored])
        given = np.array([np.size(losses) for losses in self.losses])
        if (scored != given).any():
            number = np.argmax(scored != given)
            sites = f"the {scored[number]} sites that fold {number} scores"
            raise ValueError(f"heldout_loss gives {given[number]} losses of {sites}: one a site")
        fold = np.repeat(np.arange(len(scored)), scored)
        return fold, np.concatenate(self.folds.scored), np.concatenate(self.losses)

    @cached_property
    def fitted_losses(self) -> np.ndarray:
        """`pointwise` with the full fit's params in place of the folds', (n_sites,).

        nan everywhere in a result that was pickled.
        """
        if self.derivatives is None:
            return np.full(self.n_sites, np.nan)
        losses = self.derivatives.heldout(self.fit.params, self.folds)
        return replace(self, losses=losses).pointwise

    @cached_property
    def p_loo(self) -> float:
        """Effective number of parameters: `pointwise` minus `fitted_losses`, summed over sites."""
        scored = self.groups >= 0
        return float((self.pointwise - self.fitted_losses)[scored].sum())

    def to_arviz(self) -> Any:
        """The `ELPDData` of arviz_stats, which `arviz_stats.compare` accepts (extra `arviz`).

        Its `warning` is True where folds overlap or score several sites: `arviz_stats.compare`
        takes all sites for independent, so that its `dse` is not valid there; `compare_models`
        has one that is.
        """
        xarray = require("xarray", extra="arviz")
        arviz = require("arviz_stats", extra="arviz")
        sites = np.flatnonzero(self.groups >= 0)
        elpd = -self.pointwise[sites]
        return arviz.ELPDData(
            kind="loo_kfold",
            elpd=float(elpd.sum()),
            se=error_of_sum(elpd, self.groups[sites]),
            p=self.p_loo,
            n_samples=1,
            n_data_points=len(sites),
            scale="log",
            warning=self.se_over != "sites",
            good_k=None,
            elpd_i=xarray.DataArray(elpd, {"site": sites}, "site"),
            n_folds=len(self.folds),
        )

    def to_frame(self) -> Any:
        """A DataFrame, one row a fold: size, loss, step in standard errors, diagnostics."""
        step = self.fit.standard_errors_between(self.params, self.fit.params)
        columns = {"size": self.folds.sizes, "loss": self.fold_losses, "step_se": step}
        if self.indefinite is not None:
            columns["indefinite"] = self.indefinite
        pandas = require("pandas", extra="tables")
        return pandas.DataFrame(columns | self.diagnostics).rename_axis("fold")

    def _repr_html_(self):
        error = f"± {self.se:.2g} (se over {self.se_over})"
        loss = f"loss {self.loss:.6g} {error}, {len(self.folds)} folds"
        head = f"<p><b>{self.method}</b>: {loss}, {self.seconds:.3g} s</p>"
        return head + self.to_frame().describe().to_html(float_format="%.4g")
