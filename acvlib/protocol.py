"""The whole interface: what a method may know of a model, and what a fit and a method give back."""

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from .folds import is_table, sizes


@runtime_checkable
class WeightedModel(Protocol):
    """F(params, weights): minus a weighted log joint density; weight 1 keeps a site, weight 0 leaves it out.

    A model may also offer `observed` (n_sites,), False where a site is missing and can be in no fold; `convex`,
    True where F is convex in params, so that Newton's method finds the optimum from any start; `quadratic`, True where
    it does so in one step; `normalised`, True where F divides by the sum of the weights, so that leaving sites out
    takes no curvature away; `fast`, None or an object with any of `value_and_gradient`, `hessian`,
    `hessian_and_cross`, `fold_gradients`, `fold_hessians`, `fold_heldout_losses`, `heldout_expansion`,
    `jackknife_params`, `newton_params`, `fold_chords`, `weighted_derivatives`, `hessian_products`, with `fold_cross`
    (J (w_o - 1) of each fold, (n_folds, D)), which then stand in for their namesakes in `curvature`;
    `check_optimum(params)`, which raises where an optimum that `fit` found is at infinity; and `check_folds(folds)`,
    which raises where a fold leaves too little to fit.
    """

    n_sites: int

    def objective(self, params, weights):
        """F as a float; twice differentiable by autograd in params (D,) and weights (n_sites,)."""

    def heldout_loss(self, params, fold):
        """-log p(x_t | x outside the fold; params) for each t in fold, shape (len(fold),)."""

    def initial_params(self, rng):
        """A starting point (D,) for the optimiser."""


@runtime_checkable
class EstimatingEquation(Protocol):
    """r(params, weights) = 0 in place of a minimum: multi-stage fits, whose Jacobian is not symmetric.

    May offer what a `WeightedModel` may. For many parameters the `fast` of an equation has `fold_solutions`, its own
    solver, `equation_metric`, which may be sparse, and as H an object with `factorise(damping)` in place of an array.
    """

    n_sites: int

    def residual(self, params, weights):
        """r (D,), differentiable by autograd in params (D,) and weights (n_sites,)."""

    def heldout_loss(self, params, fold):
        """As in `WeightedModel`."""

    def initial_params(self, rng):
        """As in `WeightedModel`."""


@dataclass(frozen=True)
class Fit:
    """A point on the way to, or at, the optimum of a model with all weights 1.

    params (D,); objective: F; grad_norm: |dF/dparams|; newton_decrement: sqrt(g' H^-1 g), the distance to
    the optimum in standard errors (inf where H is indefinite); metric (D, D), an array or a
    `krylov.HessianOperator`, or scipy's sparse: error'metric error is an error's squared size in standard errors;
    iterates: params after each optimiser step.
    """

    params: np.ndarray = field(repr=False)
    objective: float
    grad_norm: float
    newton_decrement: float
    metric: np.ndarray = field(repr=False)
    iterates: tuple = field(default=(), repr=False)

    def _repr_html_(self):
        decrement = f"Newton decrement {self.newton_decrement:.2g} standard errors"
        return f"<p><b>Fit</b> of {len(self.params)} parameters: objective {self.objective:.8g}, {decrement}</p>"

    def standard_errors_between(self, a, b):
        """sqrt((a - b)' metric (a - b)): the distance of parameters (..., D), in standard errors."""
        gap = np.asarray(a) - np.asarray(b)
        return np.sqrt(np.maximum(np.einsum("...i,...i->...", gap @ self.metric, gap), 0.0))


@dataclass(frozen=True)
class CVResult:
    """Cross-validation by one method: one row of params and one array of held-out losses for each fold.

    params (n_folds, D); pointwise: per fold, -log p(x_t | x outside the fold) of its sites in fold order;
    diagnostics: per-fold arrays (n_folds,), see each method; settings: the method's arguments; seconds:
    wall clock without the initial fit; evaluations: counts of what was computed.
    """

    method: str
    fit: Fit = field(repr=False)
    folds: list = field(repr=False)
    params: np.ndarray = field(repr=False)
    pointwise: list = field(repr=False)
    seconds: float
    evaluations: Counter
    diagnostics: dict = field(default_factory=dict, repr=False)
    settings: dict = field(default_factory=dict)

    @cached_property
    def fold_losses(self):
        """Sum of the held-out losses of each fold, (n_folds,)."""
        if is_table(self.folds):
            return np.asarray(self.pointwise).sum(axis=1)
        return np.array([losses.sum() for losses in self.pointwise])

    @property
    def loss(self):
        """Mean of the fold losses."""
        return float(self.fold_losses.mean())

    @property
    def se(self):
        """Standard error of `loss` over folds; nan for a single fold."""
        n = len(self.fold_losses)
        return float(self.fold_losses.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")

    def to_frame(self):
        """One row a fold: size, loss, step from the full fit in standard errors, diagnostics."""
        import pandas as pd

        step = self.fit.standard_errors_between(self.params, self.fit.params)
        columns = {"size": sizes(self.folds), "loss": self.fold_losses, "step_se": step}
        return pd.DataFrame(columns | self.diagnostics).rename_axis("fold")

    def _repr_html_(self):
        head = f"<b>{self.method}</b>: loss {self.loss:.6g} ± {self.se:.2g} (se), {len(self.folds)} folds"
        return f"<p>{head}, {self.seconds:.3g} s</p>" + self.to_frame().describe().to_html(
            float_format="%.4g"
        )
