"""What a model with several linear predictors knows of its third derivative.

With p the classes' probabilities and a = scores of u, b = scores of v, the third cumulant of a, b
and b is at most the range of a times the variance of b: R is the largest distance that the scores
of a site move apart by a standard error. A Gaussian has no third derivative.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from ....concordance import EPSILON, Concordance, widened
from ....folds import Folds
from ....folds.checks import end_to_end
from ....protocol import Fit
from .hessians import JointHessian


class VectorConcordance(Concordance):
    """Of classes, or of several targets."""

    shared = True

    def __init__(self, model: Any, fit: Fit, cheap: Callable):
        super().__init__(fit, model.n_sites * (1 + model.balance.n_classes), cheap)
        self.model = model

    def rates(self, factor: np.ndarray) -> np.ndarray:
        """How far scores of each site move apart."""
        if self.model.quadratic:
            return np.zeros(self.model.n_sites)
        leverages = JointHessian(factor @ factor.T).leverages(self.model.design)
        return self.model.family.spreads(leverages) * self.model.observed

    @cached_property
    def spreads(self) -> np.ndarray:
        """How far a standard error of the fit moves scores of each site (apart), (n_sites,)."""
        return self.model.family.spreads(self.fit.hessian.leverages(self.model.design))

    def noise(self, params: np.ndarray, folds: Folds) -> Any:
        """4 (n (1 + C) + D) epsilons of all that a gradient sums up; residuals are at most 1."""
        model = self.model
        x = np.abs(model.design)
        units = self.units.reshape(model.n_outputs, -1)
        tall = (x @ units.T).sum(axis=1) * model.full_weights
        size = 2.0 + np.abs(params).max(axis=-1)[..., None] * x.sum(axis=1)
        if model.quadratic:
            size = size + np.abs(model.y).max(axis=1)
        grown = np.maximum(model.balance.factors(folds).max(axis=1), 1.0)
        pulls = np.abs(model.prior.ravel() * params) @ self.units
        return 4.0 * (self.terms + len(self.units)) * EPSILON * (grown * (size @ tall) + pulls)

    def loss_range(
        self, centre: np.ndarray, radius: np.ndarray, folds: Folds
    ) -> tuple[np.ndarray, np.ndarray]:
        """The losses, and at most how much they change where scores move apart."""
        sites, sizes = end_to_end(folds.scored)
        scores = self.model.own_scores(centre, sites, sizes)
        y = self.model.y[sites]
        loss = self.model.family.loss(scores, y)
        rounding = 64.0 * self.model.design.shape[1] * EPSILON * (1.0 + np.abs(scores).max(axis=0))
        apart = self.spreads[sites] * np.repeat(radius, sizes) + rounding
        with np.errstate(all="ignore"):
            change = self.model.family.change(scores, y, apart)
        return widened(loss - change, loss + change)
