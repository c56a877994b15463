"""Losses of a score f against a label y, and closed forms of a `SemiSupervised` model."""

from collections.abc import Callable
from typing import Any, NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.special import expit

from ...derivatives import Derivatives
from ...folds import Folds
from ...solvers.inverse import DenseHessian


class Loss(NamedTuple):
    """value(f, y), differentiable by autograd, and its derivatives in f; y is -1 or +1 or any."""

    value: Callable
    slope: Callable
    curvature: Callable


LOSSES = {
    "square": Loss(
        value=lambda f, y: (f - y) ** 2,
        slope=lambda f, y: 2.0 * (f - y),
        curvature=lambda f, y: np.full_like(f, 2.0),
    ),
    "logistic": Loss(
        value=lambda f, y: anp.logaddexp(0.0, -y * f),
        slope=lambda f, y: -y * expit(-y * f),
        curvature=lambda f, y: expit(f) * expit(-f),
    ),
    "squared_hinge": Loss(
        value=lambda f, y: anp.maximum(0.0, 1.0 - y * f) ** 2,
        slope=lambda f, y: -2.0 * y * np.maximum(0.0, 1.0 - y * f),
        curvature=lambda f, y: 2.0 * (y * f < 1.0),
    ),
}


class SemiSupervisedDerivatives(Derivatives):
    """F = shares . losses + theta' Q theta; the shares and Q (D, D) go with the weights."""

    hessians_first = True  # a Hessian costs little more than a gradient
    chord_rate = 0.01

    def __init__(self, model: Any):
        super().__init__(model)
        self._loss = LOSSES[model.loss]
        self._x = model.energy.features[model.labelled]
        self._y = model.y[model.labelled]
        self._by_loss = len(self._y) * model.gamma_s
        self._by_pairs = len(self._y) * model.gamma_p
        self._ridge = len(self._y) * model.gamma_i * model.penalty

    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        f = self._x @ params
        shares = self._shares(weights)
        curved = self._quadratic(weights) @ params
        value = shares @ self._loss.value(f, self._y) + params @ curved
        slopes = shares * self._loss.slope(f, self._y)
        return float(value), slopes @ self._x + 2.0 * curved

    def hessian(self, params: np.ndarray, weights: np.ndarray) -> DenseHessian:
        curvature = self._loss.curvature(self._x @ params, self._y)
        weighted = (self._shares(weights) * curvature)[:, None] * self._x
        return DenseHessian(self._x.T @ weighted + 2.0 * self._quadratic(weights))

    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """With the normalisers' own derivative."""
        n_labels = len(self._y)
        slopes, pairs = self._fold_sums(params, folds)
        share = folds.indicator(self.n_sites) @ self.model.observed / n_labels
        slopes = np.outer(share, self._slopes(params).sum(axis=0)) - slopes
        if self._by_pairs:
            all_pairs = 4.0 * self._by_pairs * self.model.energy.full @ params
            pairs = np.outer(folds.sizes / self.n_sites, all_pairs) - pairs
        return slopes / n_labels + pairs / self.n_sites**2

    def _shares(self, weights):
        """s gamma_S w_i / sum of w, of the labelled points."""
        kept = weights[self.model.labelled]
        return self._by_loss * kept / kept.sum()

    def _quadratic(self, weights):
        """Q = s gamma_P M(w) / (sum of w)^2 + s gamma_I R."""
        if not self._by_pairs:
            return self._ridge
        pairs = self._by_pairs * self.model.energy.matrix(weights)
        return pairs / weights.sum() ** 2 + self._ridge

    def _slopes(self, params):
        """s gamma_S dloss_i/dparams of the labelled points, (s, D)."""
        slope = self._loss.slope(self._x @ params, self._y)
        return self._by_loss * slope[:, None] * self._x

    def _fold_sums(self, params, folds):
        """Sum `_slopes` and 2 s gamma_P sum_j dq_ij/dparams over each fold, two (n_folds, D)."""
        omitted = folds.indicator(self.n_sites)[:, self.model.labelled]
        slopes = omitted @ self._slopes(params)
        if not self._by_pairs:
            return slopes, np.zeros_like(slopes)
        left_out = self.model.energy.left_out
        pairs = [left_out(fold).linear @ params for fold in folds]
        return slopes, 2.0 * self._by_pairs * np.array(pairs)
