"""Pairwise learning with a linear score f = X theta:

    F(theta, w) / p = sum_ij w_i w_j loss(f_i - f_j, t_ij) / (sum_i w_i)^2 + gamma_I |theta|^2

t_ij says how i and j relate. The factor p counts distances in the metric of F as those of p points.
Source: Zhu and Liu (2021), Eq. 7, Example 3 and Corollary 6.2.
"""

from dataclasses import dataclass, field
from typing import Annotated

import autograd.numpy as anp
import numpy as np

from ...checks import check_choice
from ...declared import Count, Is, NonNegative, Params, Real, Rng, declared
from ...folds import Fold, ModelFolds
from ...model import ModelDefaults
from ...weighting import Weights
from .derivatives import PairwiseDerivatives
from .losses import LOSSES, PairLoss, contrastive, ranking

__all__ = ["PairLoss", "PairwiseLinear", "contrastive", "ranking"]


@declared
@dataclass(frozen=True, repr=False)
class PairwiseLinear(ModelDefaults):
    """Every point is a site; a fold is scored by the pairs inside it.

    Parameters
    ----------
    X : (p, D)
    y : (p,), responses for loss "ranking", classes for "contrastive", or as a `PairLoss` has it
    block : how many pairs are worked out together
    """

    X: Annotated[np.ndarray, Real("p D")] = field(repr=False)
    y: Annotated[np.ndarray, Real("p")] = field(repr=False)
    loss: Annotated[PairLoss | str, Is()] = "ranking"
    gamma_i: NonNegative = 0.1
    block: Count = field(default=2**20, repr=False)
    normalised = True
    sites = "points"

    def __post_init__(self):
        if isinstance(self.loss, str):
            check_choice("loss", self.loss, LOSSES)
            object.__setattr__(self, "loss", LOSSES[self.loss]())
        if np.ptp(self.y) == 0.0:
            raise ValueError(f"every y is {self.y[0]}: no two points differ")

    @property
    def convex(self) -> bool:
        return self.loss.convex

    @property
    def n_sites(self) -> int:
        return len(self.y)

    @property
    def n_params(self) -> int:
        """D."""
        return self.X.shape[1]

    @property
    def derivatives(self) -> PairwiseDerivatives:
        """Closed forms, block by block."""
        return PairwiseDerivatives(self)

    @declared
    def pair_losses(self, params: Params, fold: Fold) -> np.ndarray:
        """Loss of every pair inside the fold, (len(fold), len(fold))."""
        f = anp.dot(self.X[fold], params)
        y = self.y[fold]
        relation = self.loss.relation(y[:, None], y)
        return self.loss.value(f[:, None] - f, relation)

    @declared
    def objective(self, params: Params, weights: Weights) -> float:
        """F(params, weights), weights >= 0; forms all pairs at once, for small p."""
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
        """Zeros where F is convex; else the direction in which class means differ most."""
        if self.convex:
            return np.zeros(self.X.shape[1])
        classes = [self.X[self.y == label] for label in np.unique(self.y)]
        means = np.array([points.mean(axis=0) for points in classes])
        _, _, directions = np.linalg.svd(means - means.mean(axis=0))
        return directions[0]

    @declared
    def printed_cross(self, params: Params, folds: ModelFolds) -> np.ndarray:
        """g(w_o) of Theorem 3.1 as printed, (n_folds, D): the fold's own normaliser, held fixed."""
        sums = self.derivatives._site_sums(params, np.ones(self.n_sites))
        kept = self.n_sites - folds.sizes[:, None]
        return -self.n_sites * (folds.indicator(self.n_sites) @ sums) / kept**2
