"""Pairs of points in manifold regularisation: how alike they are, and what they add to F.

q(theta, w) = sum_ij w_i w_j W_ij (f_i - f_j)^2 = theta' M(w) theta,    f = Phi theta
M(w) = 2 (w Phi)' [d Phi - W (w Phi)],  d = W w the weighted degrees

An affinity W (p, p) is symmetric, multiplied and never held: `product(right, columns)` is
W[:, columns] @ right (p, r), right (len(columns), r), of all columns by default. `entries(rows)` is
W[rows, rows].
"""

import sys
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import autograd.numpy as anp
import numpy as np
from joblib import delayed
from scipy.sparse import csr_matrix, issparse

from ...checks import columns_of, in_columns_of, in_order_of, index_of, one_line, real_array
from ...declared import Positive, Real, declared
from ...parallel import threads

BLOCK = 2**20  # entries: 8 MB, about a cache
FARTHEST = 1e9  # |x - mean|^2 / (2 sigma), which is rounded: W is wrong by 1e-7 of itself
KEPT = 2**25  # numbers that are kept of folds: a quarter of a gigabyte
Points = Annotated[np.ndarray, Real("p d")]


class RBFAffinity:
    """W_ij = exp(-|x_i - x_j|^2 / (2 sigma)) for points (p, d); sigma in squared units.

    A product takes O(p^2 d) time and, besides O(p d), `BLOCK` entries of W at a time in a thread;
    threads as `joblib.parallel_config` says. Source: Zhu and Liu (2021), Example 1.
    """

    __repr__ = one_line
    index: Any = None  # of the points, in pandas

    @declared
    def __init__(self, points: Points, sigma: Positive):
        self.points = points
        self.sigma = sigma
        self.n_points = len(points)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = (points - points.mean(axis=0)) / np.sqrt(sigma)
            half = -0.5 * (scaled**2).sum(axis=1)
        if not half.min() > -FARTHEST:
            apart = f"points are {-half.min():.2g} sigma from their mean: no digit of W is right"
            raise ValueError(f"{apart}. Drop outliers, or raise sigma = {sigma:g}")
        # x_i x_j - |x_i|^2 / 2 - |x_j|^2 / 2 is one product of two (p, d + 2), of scaled points.
        ones = np.ones(len(points))
        self._left = np.column_stack([scaled, half, ones])
        self._right = np.column_stack([scaled, ones, half])

    def entries(self, rows: np.ndarray) -> np.ndarray:
        """W[rows, rows]."""
        return np.exp(self._left[rows] @ self._right[rows].T)

    def product(self, right: np.ndarray, columns: np.ndarray | None = None) -> np.ndarray:
        """W[:, columns] @ right."""
        chosen = self._right if columns is None else self._right[columns]

        def rows(left: Any):
            exponents = left @ chosen.T
            return np.exp(exponents, out=exponents) @ right

        n_blocks = 1 + self.n_points * len(chosen) // BLOCK
        blocks = np.array_split(self._left, n_blocks)
        return np.concatenate(threads()(delayed(rows)(block) for block in blocks))


class GraphAffinity:
    """A given symmetric W (p, p): an array, or scipy's sparse."""

    __repr__ = one_line

    def __init__(self, matrix: Any):
        self.index = index_of(matrix)
        if self.index is not None:
            matrix = in_columns_of(list(self.index), "an affinity", matrix)
        elif (columns := columns_of(matrix)) and "pandas" in sys.modules:  # as of polars
            self.index = sys.modules["pandas"].Index(columns)
        dense = matrix if issparse(matrix) else real_array("an affinity", matrix, 2, finite=False)
        self.matrix = csr_matrix(dense, dtype=float, copy=True)
        rows, columns = self.matrix.shape
        if rows != columns or not np.isfinite(self.matrix.data).all():
            raise ValueError(f"an affinity {self.matrix.shape} must be square and finite")
        self.n_points = rows
        gap = abs(self.matrix - self.matrix.T)
        if gap.max() > 1e-12 * abs(self.matrix).max():
            i, j = divmod(gap.argmax(), rows)
            above = f"W[{i}, {j}] = {self.matrix[i, j]:g}"
            raise ValueError(f"not symmetric: {above} and W[{j}, {i}] = {self.matrix[j, i]:g}")

    def entries(self, rows: np.ndarray) -> np.ndarray:
        """W[rows, rows]."""
        return self.matrix[rows][:, rows].toarray()

    def product(self, right: np.ndarray, columns: np.ndarray | None = None) -> np.ndarray:
        """W[:, columns] @ right."""
        chosen = self.matrix if columns is None else self.matrix[columns].T
        return chosen @ right


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
    index: Any = None  # of the features, in pandas

    @declared
    def __init__(self, features: Annotated[np.ndarray, Real("p D")], affinity: Any):
        if not hasattr(affinity, "n_points"):
            raise TypeError(f"{affinity!r:.60} is no affinity: pass RBFAffinity or GraphAffinity")
        if len(features) != affinity.n_points:
            points = f"a row for each of {affinity.n_points} points"
            raise ValueError(f"features {features.shape} must have {points}")
        self.features = features
        in_order_of(self.index, "the affinity's points", affinity)  # which refuses another
        self.index = index_of(affinity) if self.index is None else self.index
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
