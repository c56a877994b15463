"""The pairwise term of manifold regularisation, for scores f = Phi theta:

q(theta, w) = sum_ij w_i w_j W_ij (f_i - f_j)^2 = theta' M(w) theta
M(w) = 2 (w Phi)' [d Phi - W (w Phi)],  d = W w the weighted degrees
"""

from functools import cached_property
from typing import Annotated, Any, NamedTuple

import autograd.numpy as anp
import numpy as np

from ...checks import one_line
from ...declared import Real, declared

KEPT = 2**25  # numbers that are kept of folds: a quarter of a gigabyte


class LeftOut(NamedTuple):
    """What M loses without a fold's points o: M(1 - 1_o) = M(1) - linear + inside, both (D, D)."""

    linear: np.ndarray
    inside: np.ndarray


class ManifoldEnergy:
    """q for features Phi (p, D) and an affinity of as many points.

    Sums over pairs are kept for models to share: a model takes one product with all of W, and one
    with the columns of the points left out.
    """

    __repr__ = one_line

    @declared
    def __init__(self, features: Annotated[np.ndarray, Real("p D")], affinity: Any):
        if not hasattr(affinity, "n_points"):
            raise TypeError(f"{affinity!r:.60} is no affinity: pass RBFAffinity or GraphAffinity")
        if len(features) != affinity.n_points:
            points = f"a row for each of {affinity.n_points} points"
            raise ValueError(f"features {features.shape} must have {points}")
        self.features = features
        self.affinity = affinity
        self._kept: dict[bytes, LeftOut] = {}

    def value(self, params: np.ndarray, weights: np.ndarray) -> float:
        """q; differentiable by autograd in params (D,) and weights (p,). Forms W: for small p."""
        f = anp.dot(self.features, params)
        weighted = weights * f
        pulls = f * anp.dot(self._dense, weights) - anp.dot(self._dense, weighted)
        return 2.0 * anp.dot(weighted, pulls)

    def matrix(self, weights: np.ndarray) -> np.ndarray:
        """M(w) (D, D), from sums that are at hand where all weights are 0 or 1."""
        if not np.isin(weights, (0.0, 1.0)).all():
            return self._matrix(weights, *self._products(weights))
        linear, inside = self.left_out(np.flatnonzero(weights == 0.0))
        return self.full - linear + inside

    @cached_property
    def full(self) -> np.ndarray:
        """M(1) (D, D)."""
        return self._matrix(np.ones(len(self.features)), *self._at_one)

    def left_out(self, fold: np.ndarray) -> LeftOut:
        """What M(1) loses without a fold's points. Threads may share it: no entry is waited for."""
        key = fold.tobytes()
        kept = self._kept
        if key not in kept:
            if len(kept) * 2 * self.features.shape[1] ** 2 >= KEPT:
                kept = self._kept = {}
            kept[key] = self._without(fold)
        return kept[key]

    def _without(self, fold):
        rows = self.features[fold]
        degrees, product = (each[fold] for each in self._at_one)
        to_fold = self.affinity.product(np.ones((len(fold), 1)), fold)
        inside = 2.0 * rows.T @ (to_fold[fold] * rows - self.affinity.entries(fold) @ rows)
        spread = 2.0 * self.features.T @ (to_fold * self.features)
        one_way = rows.T @ (degrees * rows - 2.0 * product)
        return LeftOut(spread + one_way + one_way.T, inside)

    def _matrix(self, weights, degrees, product):
        return 2.0 * (weights[:, None] * self.features).T @ (degrees * self.features - product)

    def _products(self, weights):
        """(d = W w (p, 1), W (w Phi) (p, D))."""
        both = np.column_stack([weights, weights[:, None] * self.features])
        product = self.affinity.product(both)
        return product[:, :1].copy(), product[:, 1:]

    @cached_property
    def _at_one(self):
        return self._products(np.ones(len(self.features)))

    @cached_property
    def _dense(self):
        return self.affinity.entries(np.arange(len(self.features)))
