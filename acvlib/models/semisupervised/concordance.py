"""What semi-supervised learning knows of its third derivative: see `acvlib.concordance`.

F is a mean of losses of f_i = phi_i' theta and a quadratic form, which has no third derivative; for
the logistic loss |third| <= curvature, so that R is the largest |phi_i' u| of the labelled points.
"""

from typing import Any

import numpy as np

from ...concordance import EPSILON, Concordance, convex_range, spreads
from ...folds import Folds
from ...folds import weights as fold_weights
from ...folds.checks import end_to_end
from ...results import Fit

NEGATIVE = -1e-10  # least over largest eigenvalue of a quadratic form that counts as convex


class SemiSupervisedConcordance(Concordance):
    """Of the square and of the logistic loss."""

    def __init__(self, derivatives: Any, fit: Fit):
        super().__init__(fit, derivatives.n_sites)
        self.derivatives = derivatives
        self.model = derivatives.model

    def rates(self, metric: np.ndarray) -> np.ndarray:
        """The spread of each labelled point."""
        if self.model.quadratic:
            return np.zeros(self.model.n_sites)
        moves = spreads(np.linalg.cholesky(metric), self.model.energy.features)
        return np.where(self.model.observed, moves, 0.0)

    def rate(
        self, params: np.ndarray, folds: Folds, radius: np.ndarray, rates: np.ndarray
    ) -> np.ndarray:
        """inf where affinities or a ridge below 0 leave a quadratic form that is not convex."""
        found = super().rate(params, folds, radius, rates)
        for number, fold in enumerate(folds):
            form = self.derivatives._quadratic(fold_weights(self.model.n_sites, fold))
            values = np.linalg.eigvalsh(form)
            if values[0] < NEGATIVE * np.abs(values).max():
                found[number] = np.inf
        return found

    def noise(self, params: np.ndarray, folds: Folds) -> Any:
        """4 (p + D) epsilons of all numbers that a gradient sums up, in absolute values."""
        d = self.derivatives
        x = np.abs(d._x)
        f = params @ d._x.T
        losses = self.model.loss_functions
        slope = np.abs(losses.slope(f, d._y)) + np.abs(d._y)
        bent = losses.curvature(f, d._y) * (1.0 + np.abs(params) @ x.T)
        kept = len(d._y) - folds.indicator(self.model.n_sites) @ self.model.observed
        share = self.model.gamma_s * len(d._y) / kept
        form = np.abs(d._quadratic(np.ones(self.model.n_sites)))
        pull = 8.0 * (np.abs(params) @ form) @ self.units * share / self.model.gamma_s
        total = share * ((slope + bent) @ (x @ self.units)) + pull
        return 4.0 * (self.terms + x.shape[1]) * EPSILON * total

    def loss_range(
        self, centre: np.ndarray, radius: np.ndarray, folds: Folds
    ) -> tuple[np.ndarray, np.ndarray]:
        """The losses where each f may be."""
        sites, sizes = end_to_end(folds.scored)
        fold = np.repeat(np.arange(len(folds)), sizes)
        x = self.model.energy.features[sites]
        y = self.model.y[sites]
        f = (x * centre[fold]).sum(axis=1)
        rounding = 4.0 * x.shape[1] * EPSILON * (np.abs(x) * np.abs(centre[fold])).sum(axis=1)
        moves = self.lengths(x) * radius[fold] + rounding
        best = y if self.model.quadratic else y * np.inf
        return convex_range(lambda at: self.model.loss_functions.value(at, y), f, moves, best)
