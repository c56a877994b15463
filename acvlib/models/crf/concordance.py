"""What a chain CRF knows of its third derivative: see `acvlib.concordance`.

log Z of a sentence is the cumulant generating function of its features S(z): F'''[u, v, v] is the
third cumulant of u'S, v'S and v'S, and at most the range of u'S over tag sequences times the second
one of v'S. u'S adds up u of one first tag, T - 1 transitions and one last tag, so that its range is
at most a + (T - 1) b + e, the largest differences of u within each block: over u of a standard
error, |e_i - e_j| in H^-1 for two features of a block.
"""

from typing import Any

import numpy as np

from ...concordance import EPSILON, Concordance, widened
from ...folds import Folds
from ...results import Fit


class CRFConcordance(Concordance):
    """Of a CRF whose sites are sentences."""

    def __init__(self, derivatives: Any, fit: Fit):
        model = derivatives.model
        self.lengths_of = model.tokens.lengths
        super().__init__(fit, model.n_sites + model.n_tags * int(self.lengths_of.max()))
        self.derivatives = derivatives
        self.model = model

    def rates(self, metric: np.ndarray) -> np.ndarray:
        """a + (T - 1) b + e of each sentence."""
        k = self.model.n_tags
        covariance = np.linalg.inv(metric)
        blocks = np.split(np.arange(len(metric)), [k, k + k**2])
        first, link, last = (_widest(covariance[np.ix_(own, own)]) for own in blocks)
        return first + (self.lengths_of - 1) * link + last

    def noise(self, params: np.ndarray, folds: Folds) -> Any:
        """4 (sentences + K T + D) epsilons of twice all features, and of the ridge's pull."""
        features = self.model.sentence_weights @ (self.lengths_of + 1)
        count = 2.0 * features * self.units.max()
        pull = self.model.ridge * np.abs(params) @ self.units
        return 4.0 * (self.terms + len(self.units)) * EPSILON * (count + pull)

    def loss_range(
        self, centre: np.ndarray, radius: np.ndarray, folds: Folds
    ) -> tuple[np.ndarray, np.ndarray]:
        """loss -+ r |q|, q its gradient, as it is convex; above, r^2 / 2 of the largest variance.

        A variance is at most a quarter of the squared range.
        """
        rates = self.whole_rates
        parts = []
        for fold, theta, r in zip(folds, centre, radius, strict=True):
            losses, gradients = self.derivatives._each_loss(theta, fold)
            with np.errstate(invalid="ignore"):
                slope = r * self.lengths(gradients)
                bend = r**2 * rates[fold] ** 2 / 8.0
                rounding = self.terms * EPSILON * (1.0 + 2.0 * self.lengths_of[fold])
                parts.append([losses - slope - rounding, losses + slope + bend + rounding])
        low = folds.pick([low for low, _ in parts])
        high = folds.pick([high for _, high in parts])
        return widened(np.maximum(np.concatenate(low), 0.0), np.concatenate(high))


def _widest(covariance):
    """The largest |e_i - e_j| in a covariance."""
    variance = np.diag(covariance)
    squares = variance[:, None] + variance - 2.0 * covariance
    return np.sqrt(max(squares.max(), 0.0))
