"""Semi-supervised learning with a manifold term, s labelled points of p:

    F(theta, w) / s = gamma_S sum_i w_i loss(f_i, y_i) / sum_i w_i            over labelled i
                    + gamma_P sum_ij w_i w_j W_ij (f_i - f_j)^2 / (sum_i w_i)^2    over all i, j
                    + gamma_I theta' R theta,       f = Phi theta

The factor s makes a distance in the metric of F one in standard errors for the logistic loss; for
the square loss, once divided by the root of twice the residual variance. Source: Zhu and Liu
(2021), Eqs. 1, 2 and 6, whose s - v and p - v are the sums of weights.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.special import expit

from ...checks import real_array
from ...declared import Is, NonNegative, OneOf, Params, Positive, Real, Rng, Sizes, declared
from ...derivatives import Derivatives
from ...folds import WHOLE, Fold, Folds, ModelFolds
from ...model import ModelDefaults
from ...solvers.inverse import DenseHessian
from ...trials import check_curved
from ...weighting import Weights
from .energy import ManifoldEnergy


class PointLoss(NamedTuple):
    """value(f, y), differentiable by autograd, and its derivatives in f, elementwise."""

    value: Callable
    slope: Callable
    curvature: Callable


LOSSES = {
    "square": PointLoss(
        lambda f, y: (f - y) ** 2,
        lambda f, y: 2.0 * (f - y),
        lambda f, y: np.full(len(f), 2.0),
    ),
    "logistic": PointLoss(
        lambda f, y: anp.logaddexp(0.0, -y * f),
        lambda f, y: -y * expit(-y * f),
        lambda f, y: expit(f) * expit(-f),  # y is -1 or +1
    ),
    "squared_hinge": PointLoss(
        lambda f, y: anp.maximum(0.0, 1.0 - y * f) ** 2,
        lambda f, y: -2.0 * y * np.maximum(0.0, 1.0 - y * f),
        lambda f, y: 2.0 * (y * f < 1.0),
    ),
}


class Points(Is):
    """The energy, whose points are the sites: they have its order and its names."""

    def bind(self, given: dict, name: str, sizes: Sizes) -> None:
        if isinstance(energy := given[name], ManifoldEnergy):
            p, D = energy.features.shape
            sizes |= {"p": (p, name, energy.index), "D": (D, name, None)}


@declared
@dataclass(frozen=True, eq=False, repr=False)
class SemiSupervised(ModelDefaults):
    """LapRLS (loss "square"), LapRLR ("logistic") or LapSVM ("squared_hinge"); a site is a point.

    Parameters
    ----------
    energy : Phi (p, D) and the affinity, shared by models that differ in the rest
    y : (p,), nan where unlabelled (then in no fold), -1 or +1 for classification
    ridge : R (D, D), by default the identity
    """

    energy: Annotated[ManifoldEnergy, Points()] = field(repr=False)
    y: Annotated[np.ndarray, Real("p", finite=False)] = field(repr=False)
    loss: Annotated[str, OneOf(*LOSSES)] = "square"
    gamma_s: Positive = 1.0
    gamma_p: NonNegative = 0.1
    gamma_i: NonNegative = 0.1
    ridge: Annotated[np.ndarray, Real("D D")] | None = field(default=None, repr=False)
    convex = True
    normalised = True  # a mean: leaving points out takes no curvature away

    def __post_init__(self):
        known = real_array("y", self.y[self.labelled])
        if len(known) < 2:
            raise ValueError(f"{len(known)} points have a label: at least two are needed")
        other = known[abs(known) != 1.0]
        if not self.quadratic and other.size:
            raise ValueError(f"labels must be -1 or +1; found {np.unique(other)[:3]}")
        self.check_optimum(self.initial_params())  # every loss is curved at f = 0

    @property
    def quadratic(self) -> bool:
        return self.loss == "square"

    @property
    def n_sites(self) -> int:
        return len(self.energy.features)

    @property
    def n_params(self) -> int:
        """D."""
        return self.energy.features.shape[1]

    @cached_property
    def observed(self) -> np.ndarray:
        """(p,) True where labelled."""
        return ~np.isnan(self.y)

    @cached_property
    def labelled(self) -> np.ndarray:
        """The labelled points, (s,)."""
        return np.flatnonzero(self.observed)

    @cached_property
    def penalty(self) -> np.ndarray:
        """R (D, D)."""
        return np.eye(self.n_params) if self.ridge is None else self.ridge

    @property
    def derivatives(self) -> "SemiSupervisedDerivatives":
        """Closed forms."""
        return SemiSupervisedDerivatives(self)

    @declared
    def objective(self, params: Params, weights: Weights) -> float:
        """F(params, weights), weights >= 0; forms W, for small p."""
        kept = weights[self.labelled]
        losses = self.heldout_loss(params, self.labelled)
        value = self.gamma_s * anp.dot(kept, losses) / anp.sum(kept)
        if self.gamma_p:
            energy = self.energy.value(params, weights)
            value = value + self.gamma_p * energy / anp.sum(weights) ** 2
        ridge = anp.dot(params, anp.dot(self.penalty, params))
        return len(self.labelled) * (value + self.gamma_i * ridge)

    @declared
    def heldout_loss(self, params: Params, fold: Fold) -> np.ndarray:
        """loss(f_i, y_i) of each point i of the fold: the evaluation function of Eq. 4."""
        f = anp.dot(self.energy.features[fold], params)
        return LOSSES[self.loss].value(f, self.y[fold])

    @declared
    def initial_params(self, rng: Rng | None = None) -> np.ndarray:
        """Zeros, as the objective is convex."""
        return np.zeros(self.n_params)

    @declared
    def printed_cross(self, params: Params, folds: ModelFolds) -> np.ndarray:
        """g(w_o) of Theorem 3.1 as printed, (n_folds, D): the fold's normalisers, held fixed."""
        slopes, pairs = self.derivatives._fold_sums(params, folds)
        omitted = folds.sizes[:, None]
        by_loss = slopes / (len(self.labelled) - omitted)
        return -by_loss - pairs / (self.n_sites - omitted) ** 2

    def check_optimum(self, params: np.ndarray) -> None:
        """Raise NoFiniteOptimum where gamma_i = 0 leaves a direction undetermined, or infinite."""
        check_curved(self, params[None], WHOLE)

    def check_refits(self, params: np.ndarray, folds: Folds) -> None:
        """The same of the first such fold, of params (n_folds, D)."""
        check_curved(self, params, folds)


class SemiSupervisedDerivatives(Derivatives):
    """F = shares . losses + theta' Q theta; the shares and Q (D, D) go with the weights."""

    hessians_first = True  # a Hessian costs little more than a gradient
    chord_rate = 0.01

    def __init__(self, model: Any):
        super().__init__(model)
        self._loss = LOSSES[model.loss]
        self._x = model.energy.features[model.labelled]
        self._y = model.y[model.labelled]
        self._by_loss = len(self._y) * model.gamma_s
        self._by_pairs = len(self._y) * model.gamma_p
        self._ridge = len(self._y) * model.gamma_i * model.penalty

    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        f = self._x @ params
        shares = self._shares(weights)
        curved = self._quadratic(weights) @ params
        value = shares @ self._loss.value(f, self._y) + params @ curved
        slopes = shares * self._loss.slope(f, self._y)
        return float(value), slopes @ self._x + 2.0 * curved

    def hessian(self, params: np.ndarray, weights: np.ndarray) -> DenseHessian:
        curvature = self._loss.curvature(self._x @ params, self._y)
        weighted = (self._shares(weights) * curvature)[:, None] * self._x
        return DenseHessian(self._x.T @ weighted + 2.0 * self._quadratic(weights))

    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """With the normalisers' own derivative."""
        n_labels = len(self._y)
        slopes, pairs = self._fold_sums(params, folds)
        share = folds.indicator(self.n_sites) @ self.model.observed / n_labels
        slopes = np.outer(share, self._slopes(params).sum(axis=0)) - slopes
        if self._by_pairs:
            all_pairs = 4.0 * self._by_pairs * self.model.energy.full @ params
            pairs = np.outer(folds.sizes / self.n_sites, all_pairs) - pairs
        return slopes / n_labels + pairs / self.n_sites**2

    def _shares(self, weights):
        """s gamma_S w_i / sum of w, of the labelled points."""
        kept = weights[self.model.labelled]
        return self._by_loss * kept / kept.sum()

    def _quadratic(self, weights):
        """Q = s gamma_P M(w) / (sum of w)^2 + s gamma_I R."""
        if not self._by_pairs:
            return self._ridge
        pairs = self._by_pairs * self.model.energy.matrix(weights)
        return pairs / weights.sum() ** 2 + self._ridge

    def _slopes(self, params):
        """s gamma_S dloss_i/dparams of the labelled points, (s, D)."""
        slope = self._loss.slope(self._x @ params, self._y)
        return self._by_loss * slope[:, None] * self._x

    def _fold_sums(self, params, folds):
        """Sum `_slopes` and 2 s gamma_P sum_j dq_ij/dparams over each fold, two (n_folds, D)."""
        omitted = folds.indicator(self.n_sites)[:, self.model.labelled]
        slopes = omitted @ self._slopes(params)
        if not self._by_pairs:
            return slopes, np.zeros_like(slopes)
        left_out = self.model.energy.left_out
        pairs = [left_out(fold).linear @ params for fold in folds]
        return slopes, 2.0 * self._by_pairs * np.array(pairs)
