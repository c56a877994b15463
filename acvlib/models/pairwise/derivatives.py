"""Closed forms of a `PairwiseLinear` model over blocks of rows of the p x p pairs.

With S (p, p) the slopes and C the curvatures of all pairs: the gradient of the weighted sum is
2 X'(w * S w), its Hessian 2 [X' diag(w * C w) X - (w X)' C (w X)].
"""

import numpy as np

from ...derivatives import Derivatives
from ...model import override
from ...solvers.inverse import DenseHessian


class PairwiseDerivatives(Derivatives):
    """Values and derivatives for any weights >= 0."""

    @override
    def value_and_gradient(self, params, weights):
        loss = self.model.loss
        value = 0.0
        pulls = np.zeros(self.n_sites)
        for rows, u, t in self._pairs(params, weights):
            value += weights[rows] @ (loss.value(u, t) @ weights)
            pulls[rows] = weights[rows] * (loss.slope(u, t) @ weights)
        scale = self.n_sites / weights.sum() ** 2
        ridge = self.n_sites * self.model.gamma_i * params
        gradient = scale * pulls @ self.model.X + ridge
        return float(scale * value + ridge @ params), 2.0 * gradient

    @override
    def hessian(self, params, weights):
        weighted = weights[:, None] * self.model.X
        total = self.model.gamma_i * weights.sum() ** 2 * np.eye(len(params))
        for rows, u, t in self._pairs(params, weights):
            curvature = self.model.loss.curvature(u, t)
            total += weighted[rows].T @ self._apart(curvature, rows, weights, weighted)
        return DenseHessian(2.0 * self.n_sites / weights.sum() ** 2 * total)

    @override
    def cross_matrix(self, params, weights):
        """J (D, p), with the normaliser's own derivative."""
        sums = self._site_sums(params, weights)
        total = weights.sum()
        return self.n_sites * (sums - weights @ sums / total).T / total**2

    def _site_sums(self, params, weights):
        """2 sum_j w_j dloss_ij/dparams of each site i, (p, D)."""
        weighted = weights[:, None] * self.model.X
        blocks = [
            self._apart(self.model.loss.slope(u, t), rows, weights, weighted)
            for rows, u, t in self._pairs(params, np.ones(self.n_sites))
        ]
        return 2.0 * np.concatenate(blocks)

    def _apart(self, table, rows, weights, weighted):
        """sum_j table_ij w_j (x_i - x_j) of the rows i of a block, (rows, D)."""
        return (table @ weights)[:, None] * self.model.X[rows] - table @ weighted

    def _pairs(self, params, weights):
        """Yield (rows, u, t) of blocks of rows whose weight is not 0, with all columns."""
        model = self.model
        f = model.X @ params
        rows = np.flatnonzero(weights)
        n_blocks = 1 + len(rows) * self.n_sites // model.block
        for part in np.array_split(rows, n_blocks):
            yield part, f[part, None] - f, model.loss.relation(model.y[part, None], model.y)
