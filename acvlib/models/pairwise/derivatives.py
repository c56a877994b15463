"""Closed forms of a `PairwiseLinear` model over blocks of rows of the p x p pairs.

With S (p, p) the slopes and C the curvatures of all pairs: the gradient of the weighted sum is
2 X'(w * S w), its Hessian 2 [X' diag(w * C w) X - (w X)' C (w X)].
"""

from typing import Any

import numpy as np

from ...derivatives import Derivatives
from ...protocol import override
from ...solvers.inverse import DenseHessian


class PairwiseDerivatives(Derivatives):
    """Values and derivatives for any weights >= 0."""

    @override
    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        loss = self.model.loss
        value = 0.0
        pulls = np.zeros(self.n_sites)
        for rows, u, t in _pairs(self.model, params, weights):
            value += weights[rows] @ (loss.value(u, t) @ weights)
            pulls[rows] = weights[rows] * (loss.slope(u, t) @ weights)
        scale = self.n_sites / weights.sum() ** 2
        ridge = self.n_sites * self.model.gamma_i * params
        gradient = 2.0 * (scale * pulls @ self.model.X + ridge)
        return float(scale * value + ridge @ params), gradient

    @override
    def hessian(self, params: np.ndarray, weights: np.ndarray) -> DenseHessian:
        X = self.model.X
        weighted = weights[:, None] * X
        total = np.zeros((len(params), len(params)))
        for rows, u, t in _pairs(self.model, params, weights):
            curvature = self.model.loss.curvature(u, t)
            own = (curvature @ weights)[:, None] * X[rows]
            total += weighted[rows].T @ (own - curvature @ weighted)
        mean = total / weights.sum() ** 2
        ridge = self.model.gamma_i * np.eye(len(params))
        return DenseHessian(2.0 * self.n_sites * (mean + ridge))

    @override
    def cross_matrix(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """J (D, p), with the normaliser's own derivative."""
        sums = site_sums(self.model, params, weights)
        total = weights.sum()
        mean = weights @ sums / total
        return self.n_sites * (sums - mean).T / total**2


def site_sums(model: Any, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """2 sum_j w_j dloss_ij/dparams of each site i, (p, D)."""
    weighted = weights[:, None] * model.X
    sums = np.zeros_like(model.X)
    for rows, u, t in _pairs(model, params, np.ones(model.n_sites)):
        slope = model.loss.slope(u, t)
        own = (slope @ weights)[:, None] * model.X[rows]
        sums[rows] = 2.0 * (own - slope @ weighted)
    return sums


def _pairs(model, params, weights):
    """Yield (rows, u, t) of blocks of rows whose weight is not 0, with all columns."""
    f = model.X @ params
    rows = np.flatnonzero(weights)
    n_blocks = -(-len(rows) * model.n_sites // model.block)
    for part in np.array_split(rows, n_blocks):
        relation = model.loss.relation(model.y[part, None], model.y)
        yield part, f[part, None] - f, relation
