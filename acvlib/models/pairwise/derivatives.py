"""Closed forms of a `PairwiseLinear` model over blocks of rows of the p x p pairs.

With S (p, p) the slopes and C the curvatures of all pairs: the gradient of the weighted sum is
2 X'(w * S w), its Hessian 2 [X' diag(w * C w) X - (w X)' C (w X)].
"""

import numpy as np

from ...concordance import Concordance
from ...derivatives import Derivatives
from ...model import override
from ...results import Fit
from ...solvers.inverse import DenseHessian
from .concordance import RankingConcordance


class PairwiseDerivatives(Derivatives):
    """Values and derivatives for any weights >= 0."""

    def __init__(self, model):
        super().__init__(model)
        self._ridge = model.n_sites * model.gamma_i

    @override
    def value_and_gradient(self, params, weights):
        loss = self.model.loss
        value = 0.0
        pulls = np.zeros(self.n_sites)
        for rows, u, t in _pairs(self.model, params, weights):
            own = weights[rows]
            value += own @ (loss.value(u, t) @ weights)
            pulls[rows] = own * (loss.slope(u, t) @ weights)
        scale = self.n_sites / weights.sum() ** 2
        ridge = self._ridge * params
        gradient = scale * pulls @ self.model.X + ridge
        return float(scale * value + ridge @ params), 2.0 * gradient

    @override
    def hessian(self, params, weights):
        X = self.model.X
        weighted = weights[:, None] * X
        total = np.zeros((X.shape[1], X.shape[1]))
        for rows, u, t in _pairs(self.model, params, weights):
            curvature = self.model.loss.curvature(u, t)
            total += weighted[rows].T @ _contrast(curvature, weights, weighted, X[rows])
        scale = self.n_sites / weights.sum() ** 2
        ridge = self._ridge * np.eye(len(total))
        return DenseHessian(2.0 * (scale * total + ridge))

    @override
    def cross_matrix(self, params, weights):
        """J (D, p), with the normaliser's own derivative."""
        sums = site_sums(self.model, params, weights)
        total = weights.sum()
        mean = weights @ sums / total
        return self.n_sites * (sums - mean).T / total**2

    @override
    def concordance(self, fit: Fit) -> Concordance:
        """Of the logistic loss of pairs alone."""
        if not self.model.loss.self_concordant:
            return super().concordance(fit)
        return RankingConcordance(self.model, fit)


def site_sums(model, params, weights):
    """2 sum_j w_j dloss_ij/dparams of each site i, (p, D)."""
    weighted = weights[:, None] * model.X
    blocks = []
    for rows, u, t in _pairs(model, params, np.ones(model.n_sites)):
        slope = model.loss.slope(u, t)
        blocks.append(_contrast(slope, weights, weighted, model.X[rows]))
    return 2.0 * np.concatenate(blocks)


def _contrast(table, weights, weighted, own):
    """sum_j table_ij w_j (x_i - x_j) for a block of sites i, (rows, D)."""
    return (table @ weights)[:, None] * own - table @ weighted


def _pairs(model, params, weights):
    """Yield (rows, u, t) of blocks of rows whose weight is not 0, with all columns."""
    f = model.X @ params
    rows = np.flatnonzero(weights)
    n_blocks = 1 + len(rows) * model.n_sites // model.block
    for part in np.array_split(rows, n_blocks):
        u = f[part, None] - f
        yield part, u, model.loss.relation(model.y[part, None], model.y)
