"""The pairwise term of manifold regularisation, for scores f = Phi theta:

q(theta, w) = sum_ij w_i w_j W_ij (f_i - f_j)^2 = theta' M(w) theta
M(w) = 2 [Phi' diag(w d) Phi - (w Phi)' W (w Phi)],  d = W w the weighted degrees
"""

from functools import cached_property
from typing import Any, NamedTuple

import autograd.numpy as anp
import numpy as np

from ...protocol import own_copy

KEPT = 2**25  # numbers that are kept of folds: a quarter of a gigabyte


class LeftOut(NamedTuple):
    """What M loses without a fold's points o: M(1 - 1_o) = M(1) - linear + inside, both (D, D)."""

    linear: np.ndarray
    inside: np.ndarray


class ManifoldEnergy:
    """q for features Phi (p, D) and an affinity of as many points.

    Sums over pairs are kept, those of at most `kept` numbers of folds, for models to share: a model
    takes one product with all of W, and one with the columns of the points left out.
    """

    def __init__(self, features: np.ndarray, affinity: Any, kept: int = KEPT):
        self.features = own_copy(features)
        self.affinity = affinity
        if self.features.ndim != 2 or len(self.features) != affinity.n_points:
            rows = f"a row for each of {affinity.n_points} points"
            raise ValueError(f"features {self.features.shape} must have {rows}")
        if not np.isfinite(self.features).all():
            raise ValueError("features hold NaN or infinity")
        self._max_kept = kept // (2 * self.features.shape[1] ** 2)
        self._kept: dict[bytes, LeftOut] = {}

    def value(self, params: np.ndarray, weights: np.ndarray) -> float:
        """q; differentiable by autograd in params (D,) and weights (p,). Forms W: for small p."""
        f = anp.dot(self.features, params)
        weighted = weights * f
        squares = anp.sum(weighted * f * anp.dot(self._dense, weights))
        return 2.0 * (squares - anp.dot(weighted, anp.dot(self._dense, weighted)))

    def matrix(self, weights: np.ndarray) -> np.ndarray:
        """M(w) (D, D), from sums that are at hand where all weights are 0 or 1."""
        if (weights == 1.0).all():
            return self.full
        if np.isin(weights, (0.0, 1.0)).all():
            linear, inside = self.left_out(np.flatnonzero(weights == 0.0))
            return self.full - linear + inside
        weighted = weights[:, None] * self.features
        both = self.affinity.product(np.column_stack([weights, weighted]))
        degrees = both[:, 0]
        return 2.0 * (self._gram(weights * degrees) - weighted.T @ both[:, 1:])

    @cached_property
    def full(self) -> np.ndarray:
        """M(1) (D, D)."""
        degrees, product = self._products
        return 2.0 * (self._gram(degrees) - self.features.T @ product)

    def left_out(self, fold: np.ndarray) -> LeftOut:
        """What M(1) loses without a fold's points. Threads may share it: no entry is waited for."""
        key = fold.tobytes()
        kept = self._kept
        if key not in kept:
            if len(kept) >= self._max_kept:
                kept = self._kept = {}
            kept[key] = self._without(fold)
        return kept[key]

    def _without(self, fold):
        degrees, product = self._products
        own = self.features[fold]
        to_fold = self.affinity.product(np.ones((len(fold), 1)), fold)[:, 0]
        cross = own.T @ product[fold]
        lost = own.T @ (degrees[fold, None] * own)
        linear = self._gram(to_fold) + lost - cross - cross.T
        among = own.T @ (to_fold[fold, None] * own)
        inside = among - own.T @ self.affinity.entries(fold) @ own
        return LeftOut(2.0 * linear, 2.0 * inside)

    @cached_property
    def _products(self):
        """(W 1 (p,), W Phi (p, D))."""
        ones = np.ones(len(self.features))
        both = self.affinity.product(np.column_stack([ones, self.features]))
        return both[:, 0].copy(), both[:, 1:]

    @cached_property
    def _dense(self):
        return self.affinity.entries(np.arange(len(self.features)))

    def _gram(self, weights):
        return (self.features * weights[:, None]).T @ self.features
