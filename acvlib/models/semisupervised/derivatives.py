"""Closed forms of a `SemiSupervised` model; tested against autograd.

Each fold's pairwise terms come from the model's energy, which keeps them.
"""

from typing import Any

import numpy as np

from ...derivatives import Derivatives
from ...folds import Folds
from ...protocol import override
from ...solvers.inverse import DenseHessian


class SemiSupervisedDerivatives(Derivatives):
    """F / s = shares . losses + theta' Q theta; the shares and Q (D, D) go with the weights."""

    # A Hessian costs little more than a gradient, as its sums over pairs are at hand.
    hessians_first = True
    chord_rate = 0.01

    def __init__(self, model: Any):
        super().__init__(model)
        self.loss = model.loss_functions
        self.labelled = model.labelled
        self.x = model.energy.features[model.labelled]
        self.y = model.y[model.labelled]

    @override
    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """(F, dF/dparams)."""
        f = self.x @ params
        share = self._shares(weights)
        curved = self._quadratic(weights) @ params
        value = share @ self.loss.value(f, self.y) + params @ curved
        gradient = (share * self.loss.slope(f, self.y)) @ self.x + 2.0 * curved
        return len(self.y) * float(value), len(self.y) * gradient

    @override
    def hessian(self, params: np.ndarray, weights: np.ndarray) -> DenseHessian:
        """d2F/dparams2."""
        curvature = self._shares(weights) * self.loss.curvature(self.x @ params, self.y)
        by_loss = (self.x * curvature[:, None]).T @ self.x
        return DenseHessian(len(self.y) * (by_loss + 2.0 * self._quadratic(weights)))

    @override
    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """J (w_o - 1) of each fold, with the normalisers' own derivative."""
        slopes, pairs = fold_sums(self.model, params, folds)
        mean = self.model.gamma_s * self.loss.slope(self.x @ params, self.y) @ self.x
        n_labels = folds.indicator(self.n_sites) @ self.model.observed
        cross = (n_labels[:, None] / len(self.y) * mean - slopes) / len(self.y)
        if self.model.gamma_p:
            whole = self.model.gamma_p * self.model.energy.full @ params
            shrunk = 4.0 * folds.sizes[:, None] / self.n_sites * whole
            cross = cross + (shrunk - pairs) / self.n_sites**2
        return len(self.y) * cross

    def _shares(self, weights):
        """gamma_S w_i / sum of w, of the labelled points."""
        kept = weights[self.labelled]
        return self.model.gamma_s * kept / kept.sum()

    def _quadratic(self, weights):
        """Q = gamma_P M(w) / (sum of w)^2 + gamma_I R."""
        ridge = self.model.gamma_i * self.model.penalty
        if not self.model.gamma_p:
            return ridge
        return self.model.gamma_p * self.model.energy.matrix(weights) / weights.sum() ** 2 + ridge


def fold_sums(model: Any, params: np.ndarray, folds: Folds) -> tuple[np.ndarray, np.ndarray]:
    """Sum gamma_S dloss_i/dparams and 2 gamma_P sum_j dq_ij/dparams over each fold's points i.

    Returns two arrays (n_folds, D).
    """
    x = model.energy.features[model.labelled]
    slope = model.loss_functions.slope(x @ params, model.y[model.labelled])
    omitted = folds.indicator(model.n_sites)[:, model.labelled]
    slopes = model.gamma_s * (omitted @ (slope[:, None] * x))
    if not model.gamma_p:
        return slopes, np.zeros_like(slopes)
    pairs = [model.energy.left_out(fold).linear @ params for fold in folds]
    return slopes, 2.0 * model.gamma_p * np.array(pairs)
