"""What a pairwise ranking knows of its third derivative: see `acvlib.concordance`.

F is a mean of losses of u_ij = (x_i - x_j)' theta with |third| <= curvature, and a ridge. |x_i -
x_j| is at most twice the larger distance from any one point, such as the mean of all.
"""

from typing import Any

import numpy as np

from ...concordance import EPSILON, Concordance, spreads, widened
from ...folds import Folds
from ...results import Fit


class RankingConcordance(Concordance):
    """Of the logistic loss of pairs."""

    def __init__(self, model: Any, fit: Fit):
        super().__init__(fit, 2 * model.n_sites)
        self.model = model
        self._apart = model.X - model.X.mean(axis=0)

    def rates(self, metric: np.ndarray) -> np.ndarray:
        """Twice the distance of each point from the mean of all."""
        return 2.0 * spreads(np.linalg.cholesky(metric), self._apart)

    def noise(self, params: np.ndarray, folds: Folds) -> Any:
        """4 (2 p + D) epsilons of all numbers that a gradient sums up; slopes are at most 1."""
        p, dim = self.model.X.shape
        x = np.abs(self.model.X)
        scores = 1.0 + 2.0 * np.abs(params) @ x.max(axis=0)  # bounds what each |u| is made of
        pairs = 2.0 * p / (p - folds.sizes) * (1.0 + scores) * (x @ self.units).sum()
        pull = 2.0 * p * self.model.gamma_i * np.abs(params) @ self.units
        return 4.0 * (self.terms + dim) * EPSILON * (pairs + pull)

    def loss_range(
        self, centre: np.ndarray, radius: np.ndarray, folds: Folds
    ) -> tuple[np.ndarray, np.ndarray]:
        """The mean over pairs of losses where each u may be; each loss goes one way in u."""
        ends = [self._ends(*each) for each in zip(centre, radius, folds, strict=True)]
        low = folds.pick([low for low, _ in ends])
        high = folds.pick([high for _, high in ends])
        return widened(np.concatenate(low), np.concatenate(high))

    def _ends(self, params, radius, fold):
        x = self.model.X[fold]
        f = x @ params
        relation = self.model.loss.relation(self.model.y[fold][:, None], self.model.y[fold])
        apart = (x[:, None] - x).reshape(-1, x.shape[1])
        spread = self.lengths(apart).reshape(len(fold), len(fold))
        u = f[:, None] - f
        rounding = 8.0 * x.shape[1] * EPSILON * (np.abs(x) @ np.abs(params)).max()
        with np.errstate(invalid="ignore"):
            moves = np.where(relation == 0.0, 0.0, radius * spread + rounding)
        ends = [self.model.loss.value(u + way * moves, relation) for way in (-1.0, 1.0)]
        return np.min(ends, axis=0).mean(axis=1), np.max(ends, axis=0).mean(axis=1)
