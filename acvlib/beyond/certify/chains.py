"""Linear-chain CRFs whose sites are sentences.

log Z is the cumulant generating function of a sentence's features S: its third derivative along u,
v, v is at most the range of u'S over tag sequences times the second one along v: the largest
differences of u among first tags, T - 1 times among transitions, and among last tags. Posteriors
are ratios of sums of positive terms, whose rounding errors are relative.
"""

from typing import Any

import numpy as np

from ...folds import Folds
from ...solvers.inverse import DenseHessian
from .verified import UNIT, UP, Metric, choices_range, gamma


class Chain:
    """A fit of a model whose scores may have any level."""

    def __init__(self, fit: Any):
        self.model = model = fit.model
        self.derivatives = fit.derivatives
        self.at = fit.params
        self.together = 1 + 2**21 // len(self.at) ** 2
        k = model.n_tags
        self.blocks = np.split(np.arange(len(self.at)), [k, k + k**2])
        self.features = np.zeros((model.n_sites, len(self.at)))  # of the labels, weighted
        for row, tags, weight in zip(self.features, model.labels, model.sample_weight, strict=True):
            places = [tags[:1], k + k * tags[:-1] + tags[1:], k + k**2 + tags[-1:]]
            np.add.at(row, np.concatenate(places), weight)
        self.lengths = model.tokens.lengths
        self.steepest = k + 6.0 + max(np.abs(scores).max() for scores in model.emissions)
        self.matrix = self._with_errors(self.at, np.asarray(fit.hessian))
        self.whole = Metric(*self.matrix)
        heights = np.sqrt(model.ridge * np.ones(len(self.at)))
        ratio = np.abs(self.matrix[0]) / np.outer(heights, heights)
        self.floor = 0.5 / ratio.sum(axis=0).max()  # of the ridge alone: H is at most twice that
        inverse = self.whole.inverse
        variance = inverse.diagonal()
        squares = variance[:, None] + variance - 2.0 * inverse + 8.0 * UNIT * variance.max()
        widest = [squares[np.ix_(block, block)].max() for block in self.blocks]
        self.spreads = self._range(UP * np.sqrt(np.array(widest) / (1.0 - self.whole.doubt)))
        self.rate = self.spreads.max()

    def inward(self, params: np.ndarray) -> tuple[np.ndarray, Any]:
        """(params as they are, 0: nothing is lost by that)."""
        return params, np.zeros(len(params))

    def _widths(self, points):
        """The largest difference in each block of points (n, D), (3, n)."""
        return np.array([np.ptp(points[:, block], axis=1) for block in self.blocks])

    def _range(self, widths):
        """The range of a sum of features of each sentence (..., N), by that of each block."""
        first, link, last = widths[..., None]
        return UP * (first + (self.lengths - 1) * link + last)

    def _error(self, points):
        """The relative error of posteriors at points (..., D): of scores, K and T at each of T."""
        scores = sum(np.abs(points[..., block]).max(axis=-1) for block in self.blocks)
        longest = 8.0 * UNIT * float(self.lengths.max()) ** 2
        return longest * (self.steepest + scores) + gamma(2 * self.lengths.sum())

    def _terms(self, points, gradients, weights):
        """Above weighted sums of expected features, of those of the labels and the ridge's pull."""
        counts = weights @ self.features
        return 2.0 * (counts + np.abs(gradients) + self.model.ridge * np.abs(points))

    def _with_errors(self, point, matrix):
        """As `Metric` takes it: E[S_i S_j] <= (T + 1) sqrt(E[S_i] E[S_j]), with errors as T^2.

        A sum over all tokens adds a 28th of their number to T^2 at most.
        """
        longest = self.lengths.max()
        weights = (self.lengths**2 + (self.lengths.sum() + 8) / 16) / longest**2
        weights = np.minimum(weights, 1.0) * (self.lengths + 1) / (longest + 1)
        _, gradient = self.derivatives.value_and_gradient(point, weights)
        terms = self._terms(point, gradient, weights)
        return matrix, self.model.ridge + 2.0 * (longest + 1) * terms, 4.0 * self._error(point)

    def near(self, folds: Folds) -> np.ndarray:
        """Each fold's Hessian at the fit, (n, D, D)."""
        whole = DenseHessian(self.matrix[0])
        return self.derivatives.fold_hessians(self.at, folds, 0.0, whole).matrices

    def outward(self, moves: np.ndarray) -> np.ndarray:
        """Moves (n, D), as they are."""
        return moves

    def kept(self, folds: Folds) -> np.ndarray:
        """What share of the fit's curvature each fold keeps there."""
        return self.whole.shares(self.near(folds))

    def hessian(self, point: np.ndarray, fold: Folds) -> tuple:
        """A fold's own, as `Metric` takes it."""
        (matrix,) = self.derivatives.fold_hessians(point[None], fold).matrices
        return self._with_errors(point, matrix)

    def gradients(self, points: np.ndarray, folds: Folds, centre: Any = None) -> tuple:
        """(g (n, D), its errors, how far scores moved apart from centre, or the fit) of folds."""
        _, gradients = self.derivatives.fold_gradients(points, folds, values=False)
        terms = self._terms(points, gradients, np.ones(len(self.lengths)))
        noise = self._error(points) * (terms @ self.whole.units)
        moves = points - (self.at if centre is None else centre)
        return gradients, UP * noise, self._range(self._widths(moves)).max(axis=1)

    def losses(self, params: np.ndarray, radii: np.ndarray, folds: Folds) -> np.ndarray:
        """Ends (2, .) of the scored sentences' losses, end to end, within radii of params."""
        sites, sizes = folds.scored.sites, folds.scored.sizes
        scored = Folds(folds.scored, n_sites=folds.n_sites)
        losses = np.concatenate(list(self.derivatives.heldout(params, scored)))
        radii, errors = (np.repeat(each, sizes) for each in (radii, 2.0 * self._error(params)))
        return choices_range(losses, errors * (1.0 + np.abs(losses)), radii * self.spreads[sites])
