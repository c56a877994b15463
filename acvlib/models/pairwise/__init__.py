"""Pairwise learning with a linear score f = X theta:

    F(theta, w) / p = sum_ij w_i w_j loss(f_i - f_j, t_ij) / (sum_i w_i)^2 + gamma_I |theta|^2

t_ij says how i and j relate. The factor p counts distances in the metric of F as those of p points.
Source: Zhu and Liu (2021), Eq. 7, Example 3 and Corollary 6.2.
"""

from dataclasses import dataclass, field

import autograd.numpy as anp
import numpy as np

from ...checks import check_choice, check_kind, real_number
from ...folds import Folds
from ...model import ModelDefaults, checked, own_copy
from .derivatives import PairwiseDerivatives, site_sums
from .losses import LOSSES, PairLoss, contrastive, ranking

__all__ = ["PairLoss", "PairwiseLinear", "contrastive", "ranking"]


@dataclass(frozen=True, repr=False)
class PairwiseLinear(ModelDefaults):
    """Every point is a site; a fold is scored by the pairs inside it.

    Parameters
    ----------
    X : (p, D)
    y : (p,), responses for loss "ranking", classes for "contrastive", or as a `PairLoss` has it
    block : how many pairs are worked out together
    """

    X: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    loss: PairLoss | str = "ranking"
    gamma_i: float = 0.1
    block: int = field(default=2**20, repr=False)
    normalised = True
    sites = "points"

    def __post_init__(self):
        for name in ("X", "y"):  # as floats: differences of unsigned integers would wrap
            object.__setattr__(self, name, own_copy(getattr(self, name), name=name))
        if isinstance(self.loss, str):
            object.__setattr__(self, "loss", _loss_of(self.loss))
        check_kind("loss", self.loss, PairLoss)
        object.__setattr__(self, "gamma_i", real_number("gamma_i", self.gamma_i, least=0.0))
        self._check_data()

    def _check_data(self):
        table = self.X.shape
        length = self.y.shape
        if len(table) != 2 or length != table[:1]:
            raise ValueError(f"X {table} must be 2-d and y {length} have one entry for each row")
        if not (np.isfinite(self.X).all() and np.isfinite(self.y).all()):
            raise ValueError("X or y holds NaN or infinity")
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

    @checked
    def pair_losses(self, params: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """Loss of every pair inside the fold, (len(fold), len(fold))."""
        f = anp.dot(self.X[fold], params)
        y = self.y[fold]
        relation = self.loss.relation(y[:, None], y)
        return self.loss.value(f[:, None] - f, relation)

    @checked
    def objective(self, params: np.ndarray, weights: np.ndarray) -> float:
        """F(params, weights), weights >= 0; forms all pairs at once, for small p."""
        losses = self.pair_losses(params, np.arange(self.n_sites))
        total = anp.dot(weights, anp.dot(losses, weights))
        ridge = self.gamma_i * anp.sum(params**2)
        return self.n_sites * (total / anp.sum(weights) ** 2 + ridge)

    @checked
    def heldout_loss(self, params: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """Each point's mean loss over its pairs inside the fold: Eq. 8 is the mean of these."""
        return anp.mean(self.pair_losses(params, fold), axis=1)

    @checked
    def initial_params(self, rng: np.random.Generator | None = None) -> np.ndarray:
        """Zeros where F is convex; else the direction in which class means differ most."""
        if self.convex:
            return np.zeros(self.X.shape[1])
        classes = [self.X[self.y == label] for label in np.unique(self.y)]
        means = np.array([points.mean(axis=0) for points in classes])
        _, _, directions = np.linalg.svd(means - means.mean(axis=0))
        return directions[0]

    @checked
    def printed_cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """g(w_o) of Theorem 3.1 as printed, (n_folds, D): the fold's own normaliser, held fixed."""
        sums = site_sums(self, params, np.ones(self.n_sites))
        kept = self.n_sites - folds.sizes[:, None]
        return -self.n_sites * (folds.indicator(self.n_sites) @ sums) / kept**2


def _loss_of(name):
    check_choice("loss", name, LOSSES)
    return LOSSES[name]()
