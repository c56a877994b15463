"""Closed forms of a `PairwiseLinear` model, named as in `curvature`, over blocks of rows of the p x p pairs.

With S (p, p) the slopes and C the curvatures of all pairs: the gradient of the weighted sum is 2 X'(w * S w), its
Hessian 2 [X' diag(w * C w) X - (w X)' C (w X)].
"""

import numpy as np

BLOCK = 2**20  # pairs that are worked out together


class PairwiseFast:
    """Values and derivatives for any weights >= 0."""

    def __init__(self, model):
        self.model, self.x, self.p, self.loss = model, model.X, model.n_sites, model.loss

    def value_and_gradient(self, params, weights):
        """(F, dF/dparams)."""
        value, gradient = 0.0, np.zeros(len(params))
        for rows, u, t in self._pairs(params, weights):
            value += weights[rows] @ (self.loss.value(u, t) @ weights)
            gradient += 2.0 * (weights[rows] * (self.loss.slope(u, t) @ weights)) @ self.x[rows]
        scale, ridge = self.p / weights.sum() ** 2, self.p * self.model.gamma_i
        return float(
            scale * value + ridge * params @ params
        ), scale * gradient + 2.0 * ridge * params

    def hessian(self, params, weights):
        """d2F/dparams2 (D, D)."""
        weighted, total = weights[:, None] * self.x, np.zeros((len(params),) * 2)
        for rows, u, t in self._pairs(params, weights):
            curvature = self.loss.curvature(u, t)
            degree = weights[rows] * (curvature @ weights)
            total += (self.x[rows] * degree[:, None]).T @ self.x[rows] - weighted[rows].T @ (
                curvature @ weighted
            )
        return self.p * (
            2.0 * total / weights.sum() ** 2 + 2.0 * self.model.gamma_i * np.eye(len(params))
        )

    def hessian_and_cross(self, params, weights):
        """(H, J), J (D, p) with the normaliser's own derivative."""
        sums, total = self.site_sums(params, weights), weights.sum()
        mean = weights @ sums / total
        return self.hessian(params, weights), self.p * (sums - mean).T / total**2

    def site_sums(self, params, weights):
        """2 sum_j w_j dloss_ij/dparams of each site, (p, D)."""
        weighted, sums = weights[:, None] * self.x, np.zeros_like(self.x)
        for rows, u, t in self._pairs(params, np.ones(self.p)):
            slope = self.loss.slope(u, t)
            sums[rows] = 2.0 * ((slope @ weights)[:, None] * self.x[rows] - slope @ weighted)
        return sums

    def heldout_expansion(self, params, move, fold):
        """`heldout_loss` at params + move, to first order, (len(fold),)."""
        x, y = self.x[fold], self.model.y[fold]
        f, change, t = x @ params, x @ move, self.loss.relation(y[:, None], y)
        u = f[:, None] - f
        return (self.loss.value(u, t) + self.loss.slope(u, t) * (change[:, None] - change)).mean(
            axis=1
        )

    def printed_cross(self, params, folds):
        """g(w_o) of Theorem 3.1 as printed, (n_folds, D): the normaliser is the fold's, and fixed."""
        sums = self.site_sums(params, np.ones(self.p))
        return -self.p * np.array(
            [sums[fold].sum(axis=0) / (self.p - len(fold)) ** 2 for fold in folds]
        )

    def _pairs(self, params, weights):
        """(rows, u, t) of blocks of rows whose weight is not 0, with all columns."""
        f, y, rows = self.x @ params, self.model.y, np.flatnonzero(weights)
        for part in np.array_split(rows, -(-len(rows) * self.p // BLOCK)):
            yield part, f[part, None] - f, self.loss.relation(y[part, None], y)
