"""Linear-chain CRFs whose sites are sentences.

log Z is the cumulant generating function of a sentence's features S: its third derivative along u,
v, v is at most the range of u'S over tag sequences times the second one along v: the largest
differences of u among first tags, T - 1 times among transitions, and among last tags. Posteriors
are ratios of sums of positive terms, whose rounding errors are relative.
"""

from typing import Any

import numpy as np

from ...folds import Folds
from .verified import UNIT, UP, Metric, choices_range, gamma


class Chain:
    """A fit of a model whose scores may have any level."""

    def __init__(self, fit: Any):
        self.fit = fit
        self.model = model = fit.model
        self.at = fit.params
        self.ridge = np.broadcast_to(model.ridge, len(self.at))
        self.together = 1 + 2**21 // len(self.at)
        k = model.n_tags
        self.blocks = np.split(np.arange(len(self.at)), [k, k + k**2])
        self.counts = model.sample_weight @ model.tokens.observed[:, model.free]
        self.lengths = model.tokens.lengths
        self.steepest = k + 6.0 + max(np.abs(scores).max() for scores in model.emissions)
        _, gradient = self.fit.derivatives.value_and_gradient(self.at, np.ones(model.n_sites))
        hessian = self.with_errors(fit.hessian.matrix, self.at, gradient)
        self.whole = Metric(*hessian, self.ridge)
        inverse = self.whole.inverse
        variance = inverse.diagonal()
        squares = variance[:, None] + variance - 2.0 * inverse + 8.0 * UNIT * variance.max()
        widest = np.array([squares[np.ix_(block, block)].max() for block in self.blocks])
        self.spreads = self._range(UP * np.sqrt(widest / (1.0 - self.whole.doubt)))
        self.rate = self.spreads.max()

    def inward(self, params: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(params as they are, 0: nothing is lost by that)."""
        return params, np.zeros(len(params))

    def _range(self, widths):
        """The range of a sum of features of each sentence (..., N), by that of each block."""
        first, link, last = widths[..., None]
        return UP * (first + (self.lengths - 1) * link + last)

    def _error(self, points):
        """The relative error of posteriors at points (..., D): of scores, K and T at each of T."""
        scores = sum(np.abs(points[..., block]).max(axis=-1) for block in self.blocks)
        longest = 8.0 * UNIT * float(self.lengths.max()) ** 2
        return longest * (self.steepest + scores) + gamma(2 * self.lengths.sum())

    def _terms(self, points, gradients):
        """Above sums of expected features, of those of the labels and the ridge's pull."""
        return 2.0 * (self.counts + np.abs(gradients) + self.ridge * np.abs(points))

    def with_errors(
        self, matrix: np.ndarray, point: np.ndarray, gradient: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """As `Metric` takes it: E[S_i S_j] <= (T + 1) sqrt(E[S_i] E[S_j]), with errors as T^2."""
        terms = 2.0 * (self.lengths.max() + 1) * self._terms(point, gradient)
        return matrix, self.ridge + terms, 4.0 * self._error(point)

    def kept(self, folds: Folds) -> np.ndarray:
        """What share of the fit's curvature each fold keeps there."""
        near = self.fit.derivatives.fold_hessians(self.at, folds, 0.0, self.fit.hessian).matrices
        return np.array([self.whole.share(each) for each in near])

    def gradients(self, points: np.ndarray, folds: Folds) -> tuple:
        """(g (n, D), its errors, how far scores moved apart from the fit's) of folds."""
        _, gradients = self.fit.derivatives.fold_gradients(points, folds, values=False)
        noise = self._error(points) * (self._terms(points, gradients) @ self.whole.units)
        widths = [np.ptp(points[:, block] - self.at[block], axis=1) for block in self.blocks]
        return gradients, UP * noise, self._range(np.array(widths)).max(axis=1)

    def losses(self, params: np.ndarray, moves: np.ndarray, folds: Folds) -> np.ndarray:
        """Ends (2, .) of the scored sentences' losses, end to end, where scores move so far."""
        losses = np.concatenate(list(self.fit.derivatives.heldout(params, folds)))
        errors = np.repeat(2.0 * self._error(params), folds.scored.sizes)
        return choices_range(losses, errors * (1.0 + np.abs(losses)), moves)
