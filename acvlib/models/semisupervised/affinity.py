"""How alike two points are: an affinity W (p, p), symmetric, that is multiplied and never held.

`product(right, rows)` is W[rows] @ right and `transposed_product(right, rows)` is W[:, rows] @ right.
"""

from copy import copy

import numpy as np
from joblib import delayed
from scipy.sparse import csr_matrix, issparse

from ...parallel import threads

BLOCK = 2**20  # entries of W that are computed, used and forgotten together: 8 MB, about a cache


class RBFAffinity:
    """W_ij = exp(-|x_i - x_j|^2 / (2 sigma)) for points (p, d); sigma in squared units (Zhu and Liu 2021, Example 1).

    Memory: O(p d) and blocks of 8 MB a thread; time: O(p^2 d) for a product. Threads: `joblib.parallel_config`.
    Raises ValueError for NaN, or sigma <= 0.
    """

    def __init__(self, points, sigma):
        points = np.asarray(points, float)
        if points.ndim != 2 or not np.isfinite(points).all():
            raise ValueError(f"points {points.shape} must be 2-d and finite")
        if not sigma > 0.0:
            raise ValueError(f"sigma = {sigma}: must be > 0")
        self.sigma, self.n_points = float(sigma), len(points)
        scaled = (points - points.mean(axis=0)) / np.sqrt(sigma)
        half, one = -0.5 * (scaled**2).sum(axis=1, keepdims=True), np.ones((len(points), 1))
        self._left, self._right = (
            np.hstack([scaled, half, one]),
            np.hstack([scaled, one, half]).T.copy(),
        )

    def subset(self, kept):
        """The affinity of these points alone."""
        part = copy(self)
        part.n_points, part._left, part._right = (
            len(kept),
            self._left[kept],
            self._right[:, kept].copy(),
        )
        return part

    def rows(self, rows):
        """W[rows] (len(rows), p)."""
        exponent = (
            self._left[rows] @ self._right
        )  # x_i x_j - |x_i|^2 / 2 - |x_j|^2 / 2 in one product
        return np.exp(exponent, out=exponent)

    def entries(self, rows):
        """W[rows, rows]."""
        return np.exp(self._left[rows] @ self._right[:, rows])

    def product(self, right, rows=None):
        """W[rows] @ right, right (p, r); all rows where none are given."""
        rows = np.arange(self.n_points) if rows is None else rows
        jobs = (delayed(lambda part: self.rows(part) @ right)(part) for part in self._blocks(rows))
        return np.concatenate(threads()(jobs))

    def transposed_product(self, right, rows):
        """W[:, rows] @ right, right (len(rows), r)."""
        places = self._blocks(np.arange(len(rows)))
        return sum(
            threads()(delayed(lambda at: self.rows(rows[at]).T @ right[at])(at) for at in places)
        )

    def _blocks(self, rows):
        return np.array_split(rows, max(1, -(-len(rows) * self.n_points // BLOCK)))


class GraphAffinity:
    """A given W (p, p): an array or scipy's sparse. Raises ValueError where it is not symmetric, or not finite."""

    def __init__(self, matrix):
        matrix = csr_matrix(matrix) if issparse(matrix) else np.asarray(matrix, float)
        values = matrix.data if issparse(matrix) else matrix
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(values).all():
            raise ValueError(f"an affinity {matrix.shape} must be square and finite")
        gap = abs(matrix - matrix.T)
        if gap.max() > 1e-12 * max(abs(values).max(initial=0.0), 1e-300):
            i, j = np.unravel_index(gap.argmax(), matrix.shape)
            raise ValueError(
                f"not symmetric: W[{i}, {j}] = {matrix[i, j]:g} and W[{j}, {i}] = {matrix[j, i]:g}"
            )
        self.matrix, self.n_points = matrix, matrix.shape[0]

    def subset(self, kept):
        """The affinity of these points alone."""
        return GraphAffinity(self.matrix[kept][:, kept])

    def entries(self, rows):
        """W[rows, rows]."""
        block = self.matrix[rows][:, rows]
        return block.toarray() if issparse(block) else block

    def product(self, right, rows=None):
        """W[rows] @ right, right (p, r); all rows where none are given."""
        return (self.matrix if rows is None else self.matrix[rows]) @ right

    def transposed_product(self, right, rows):
        """W[:, rows] @ right, right (len(rows), r)."""
        return self.matrix[rows].T @ right


def median_square_distance(points, rng, n_pairs=10_000):
    """The median of |x_i - x_j|^2 over random pairs of points: a scale for `sigma` at which W is neither 0 nor 1."""
    first, second = rng.integers(len(points), size=(2, n_pairs))
    apart = first != second
    return float(np.median(((points[first[apart]] - points[second[apart]]) ** 2).sum(axis=1)))
