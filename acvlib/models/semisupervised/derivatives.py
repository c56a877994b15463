"""Closed forms of a `SemiSupervised` model; tested against autograd."""

from typing import Any

import numpy as np

from ...derivatives import Derivatives
from ...folds import Folds
from ...protocol import override
from ...solvers.inverse import DenseHessian


class SemiSupervisedDerivatives(Derivatives):
    """F / s = shares . losses + theta' Q theta; the shares and Q (D, D) go with the weights."""

    hessians_first = True  # a Hessian costs little more than a gradient
    chord_rate = 0.01

    def __init__(self, model: Any):
        super().__init__(model)
        self._loss = model.loss_functions
        self._x = model.energy.features[model.labelled]
        self._y = model.y[model.labelled]

    @override
    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """(F, dF/dparams)."""
        f = self._x @ params
        shares = self._shares(weights)
        curved = self._quadratic(weights) @ params
        value = shares @ self._loss.value(f, self._y) + params @ curved
        slopes = shares * self._loss.slope(f, self._y)
        gradient = slopes @ self._x + 2.0 * curved
        return len(self._y) * float(value), len(self._y) * gradient

    @override
    def hessian(self, params: np.ndarray, weights: np.ndarray) -> DenseHessian:
        """d2F/dparams2."""
        curvature = self._shares(weights) * self._loss.curvature(self._x @ params, self._y)
        by_loss = self._x.T @ (curvature[:, None] * self._x)
        return DenseHessian(len(self._y) * (by_loss + 2.0 * self._quadratic(weights)))

    @override
    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """J (w_o - 1) of each fold, with the normalisers' own derivative."""
        model = self.model
        slopes, pairs = fold_sums(model, params, folds)
        all_slopes = model.gamma_s * self._loss.slope(self._x @ params, self._y) @ self._x
        share = folds.indicator(self.n_sites) @ model.observed / len(self._y)
        cross = share[:, None] * all_slopes - slopes
        if not model.gamma_p:
            return cross
        all_pairs = 4.0 * model.gamma_p * model.energy.full @ params
        share = folds.sizes / self.n_sites
        changes = share[:, None] * all_pairs - pairs
        return cross + len(self._y) * changes / self.n_sites**2

    def _shares(self, weights):
        """gamma_S w_i / sum of w, of the labelled points."""
        kept = weights[self.model.labelled]
        return self.model.gamma_s * kept / kept.sum()

    def _quadratic(self, weights):
        """Q = gamma_P M(w) / (sum of w)^2 + gamma_I R."""
        ridge = self.model.gamma_i * self.model.penalty
        if not self.model.gamma_p:
            return ridge
        energy = self.model.energy.matrix(weights) / weights.sum() ** 2
        return self.model.gamma_p * energy + ridge


def fold_sums(model: Any, params: np.ndarray, folds: Folds) -> tuple[np.ndarray, np.ndarray]:
    """Sum gamma_S dloss_i/dparams and 2 gamma_P sum_j dq_ij/dparams over each fold's points i.

    Returns two arrays (n_folds, D).
    """
    x = model.energy.features[model.labelled]
    slope = model.gamma_s * model.loss_functions.slope(x @ params, model.y[model.labelled])
    omitted = folds.indicator(model.n_sites)[:, model.labelled]
    slopes = omitted @ (slope[:, None] * x)
    if not model.gamma_p:
        return slopes, np.zeros_like(slopes)
    pairs = [model.energy.left_out(fold).linear @ params for fold in folds]
    return slopes, 2.0 * model.gamma_p * np.array(pairs)
