"""Pairwise learning with a linear score f = X theta:

    F(theta, w) / p = sum_ij w_i w_j loss(f_i - f_j, t_ij) / (sum_i w_i)^2 + gamma_I |theta|^2

t_ij says how i and j relate. The factor p counts distances in the metric of F as those of p points.
Source: Zhu and Liu (2021), Eq. 7, Example 3 and Corollary 6.2.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

import autograd.numpy as anp
import numpy as np

from ..declared import NonNegative, OneOf, Params, Real, Rng, declared
from ..derivatives import Derivatives, SmoothLoss
from ..folds import WHOLE, Fold, Folds, ModelFolds
from ..model import ModelDefaults
from ..solvers.inverse import DenseHessian
from ..trials import check_curved
from ..weighting import Weights

FEW = 3  # directions of further starts
SIZES = (0.3, 1.0, 3.0)  # of these
SMOOTH = 0.1  # |u| is sqrt(u^2 + SMOOTH^2), Zhu and Liu (2021), Section 5.1


class PairLoss(SmoothLoss):
    """value(u, t), even in u where t is; relation(y_i, y_j) gives t."""

    def __init__(self, value: Callable, relation: Callable, convex: bool):
        super().__init__(value)
        self.relation = relation
        self.convex = convex


def _contrastive(u, t):
    return t * u**2 + (1.0 - t) * anp.maximum(1.0 - anp.sqrt(u**2 + SMOOTH**2), 0.0) ** 2


LOSSES = {
    # abs(t) log(1 + exp(-t u)), t the sign of y_i - y_j: which of two points is the higher one
    "ranking": PairLoss(
        lambda u, t: abs(t) * anp.logaddexp(0.0, -t * u), lambda a, b: np.sign(a - b), convex=True
    ),
    # t u^2 + (1 - t) max(1 - |u|, 0)^2, t = 1 within a class, else 0; |u| smoothed at 0
    "contrastive": PairLoss(_contrastive, lambda a, b: (a == b).astype(float), convex=False),
}


@declared
@dataclass(frozen=True, eq=False, repr=False)
class PairwiseLinear(ModelDefaults):
    """Every point is a site; a fold is scored by pairs of its scored points. All pairs are held.

    Parameters
    ----------
    X : (p, D)
    y : (p,), responses for loss "ranking", classes for "contrastive"
    """

    X: Annotated[np.ndarray, Real("p D")] = field(repr=False)
    y: Annotated[np.ndarray, Real("p")] = field(repr=False)
    loss: Annotated[str, OneOf(*LOSSES)] = "ranking"
    gamma_i: NonNegative = 0.1
    normalised = True
    sites = "points"

    def __post_init__(self):
        if not self.convex:
            self.__dict__["further_starts"] = self._other_directions
        if np.ptp(self.y) == 0.0:
            raise ValueError(f"every y is {self.y[0]}: no two points differ")

    @property
    def convex(self) -> bool:
        return LOSSES[self.loss].convex

    @property
    def n_sites(self) -> int:
        return len(self.y)

    @property
    def n_params(self) -> int:
        """D."""
        return self.X.shape[1]

    @property
    def derivatives(self) -> "PairwiseDerivatives":
        """Closed forms, block by block."""
        return PairwiseDerivatives(self)

    @declared
    def pair_losses(self, params: Params, fold: Fold) -> np.ndarray:
        """Loss of every pair inside the fold, (len(fold), len(fold))."""
        f = anp.dot(self.X[fold], params)
        y = self.y[fold]
        loss = LOSSES[self.loss]
        return loss.value(f[:, None] - f, loss.relation(y[:, None], y))

    @declared
    def objective(self, params: Params, weights: Weights) -> float:
        """F(params, weights), weights >= 0."""
        losses = self.pair_losses(params, np.arange(self.n_sites))
        total = anp.dot(weights, anp.dot(losses, weights))
        ridge = self.gamma_i * anp.sum(params**2)
        return self.n_sites * (total / anp.sum(weights) ** 2 + ridge)

    @declared
    def heldout_loss(self, params: Params, fold: Fold) -> np.ndarray:
        """Each point's mean loss over its pairs inside the fold: Eq. 8 is the mean of these."""
        return anp.mean(self.pair_losses(params, fold), axis=1)

    @declared
    def initial_params(self, rng: Rng | None = None) -> np.ndarray:
        """Zeros where F is convex; else the direction in which class means differ most, or by rng
        one in which they differ somehow.
        """
        if self.convex:
            return np.zeros(self.n_params)
        directions = self._directions
        return directions[0] if rng is None else rng.normal(size=len(directions)) @ directions

    def _other_directions(self):
        """Short and long ones, in which class means differ less."""
        return [size * each for each in self._directions[:FEW] for size in SIZES]

    @cached_property
    def _directions(self):
        means = np.array([self.X[self.y == label].mean(axis=0) for label in np.unique(self.y)])
        return np.linalg.svd(means - means.mean(axis=0))[2]

    def check_folds(self, folds: Folds) -> None:
        """Raise ValueError for a fold of which one point is scored, which has no pair."""
        alone = folds.scored.sizes == 1
        folds.scored.refuse(alone, "scores one point, which has no pair: omit two or more together")

    def check_optimum(self, params: np.ndarray) -> None:
        """Raise NoFiniteOptimum where params (D,) run to infinity, or are not determined."""
        check_curved(self, params[None], WHOLE)

    def check_refits(self, params: np.ndarray, folds: Folds) -> None:
        """The same of the first such fold, of params (n_folds, D)."""
        check_curved(self, params, folds)

    @declared
    def printed_cross(self, params: Params, folds: ModelFolds) -> np.ndarray:
        """g(w_o) of Theorem 3.1 as printed, (n_folds, D): the fold's own normaliser, held fixed."""
        sums = self.derivatives._site_sums(params, np.ones(self.n_sites))
        kept = self.n_sites - folds.sizes[:, None]
        return -self.n_sites * (folds.indicator(self.n_sites) @ sums) / kept**2


class PairwiseDerivatives(Derivatives):
    """Values and derivatives for any weights >= 0, of all p x p pairs at once.

    With S (p, p) the slopes and C the curvatures of all pairs: the gradient of the weighted sum is
    2 X'(w * S w), its Hessian 2 [X' diag(w * C w) X - (w X)' C (w X)].
    """

    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        loss, u, t = self._pairs(params)
        scale = self.n_sites / weights.sum() ** 2
        ridge = self.n_sites * self.model.gamma_i * params
        value = scale * weights @ loss.value(u, t) @ weights + ridge @ params
        pulls = weights * (loss.slope(u, t) @ weights)
        return float(value), 2.0 * (scale * pulls @ self.model.X + ridge)

    def hessian(self, params: np.ndarray, weights: np.ndarray) -> DenseHessian:
        loss, u, t = self._pairs(params)
        pairs = (weights[:, None] * self.model.X).T @ self._apart(loss.curvature(u, t), weights)
        ridge = self.model.gamma_i * np.eye(len(params))
        return DenseHessian(2.0 * self.n_sites * (pairs / weights.sum() ** 2 + ridge))

    def cross_matrix(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """J (D, p), with the normaliser's own derivative."""
        sums = self._site_sums(params, weights)
        total = weights.sum()
        return self.n_sites * (sums - weights @ sums / total).T / total**2

    def heldout(self, params: np.ndarray, folds: Folds) -> Any:
        """Of the pairs of scored points, whatever else a fold omits."""
        return super().heldout(params, Folds(folds.scored))

    def _site_sums(self, params, weights):
        """2 sum_j w_j dloss_ij/dparams of each site i, (p, D)."""
        loss, u, t = self._pairs(params)
        return 2.0 * self._apart(loss.slope(u, t), weights)

    def _apart(self, table, weights):
        """sum_j table_ij w_j (x_i - x_j) of each site i, (p, D)."""
        X = self.model.X
        return (table @ weights)[:, None] * X - table @ (weights[:, None] * X)

    def _pairs(self, params):
        """(the loss, u (p, p), t (p, p))."""
        loss = LOSSES[self.model.loss]
        f = self.model.X @ params
        y = self.model.y
        return loss, f[:, None] - f, loss.relation(y[:, None], y)
