"""How alike two points are: an affinity W (p, p), symmetric, that is multiplied and never held.

`product(right, columns)` is W[:, columns] @ right (p, r), right (len(columns), r); of all columns
by default. `entries(rows)` is W[rows, rows], `subset(kept)` the affinity of some points alone.
"""

from typing import Any

import numpy as np
from joblib import delayed
from scipy.sparse import csr_matrix, issparse

from ...parallel import threads
from ...protocol import own_copy

BLOCK = 2**20  # entries: 8 MB, about a cache


class RBFAffinity:
    """W_ij = exp(-|x_i - x_j|^2 / (2 sigma)) for points (p, d); sigma in squared units.

    A product takes O(p^2 d) time and, besides O(p d), `block` entries of W at a time in a thread;
    threads as `joblib.parallel_config` says. Source: Zhu and Liu (2021), Example 1.
    """

    def __init__(self, points: np.ndarray, sigma: float, block: int = BLOCK):
        self.points = own_copy(points)
        self.sigma = float(sigma)
        self.block = block
        if self.points.ndim != 2 or not np.isfinite(self.points).all():
            raise ValueError(f"points {self.points.shape} must be 2-d and finite")
        if not sigma > 0.0:
            raise ValueError(f"sigma = {sigma}: must be > 0")
        self.n_points = len(self.points)
        scaled = (self.points - self.points.mean(axis=0)) / np.sqrt(sigma)
        half = -0.5 * (scaled**2).sum(axis=1)
        one = np.ones(self.n_points)
        # x_i x_j - |x_i|^2 / 2 - |x_j|^2 / 2 in one product
        self._left = np.column_stack([scaled, half, one])
        self._right = np.vstack([scaled.T, one, half])

    def subset(self, kept: np.ndarray) -> "RBFAffinity":
        """The affinity of these points alone."""
        return RBFAffinity(self.points[kept], self.sigma, self.block)

    def entries(self, rows: np.ndarray) -> np.ndarray:
        """W[rows, rows]."""
        return np.exp(self._left[rows] @ self._right[:, rows])

    def product(self, right: np.ndarray, columns: np.ndarray | None = None) -> np.ndarray:
        """W[:, columns] @ right."""
        chosen = self._right if columns is None else self._right[:, columns]

        def rows(left):
            exponents = left @ chosen
            return np.exp(exponents, out=exponents) @ right

        n_entries = self.n_points * chosen.shape[1]
        parts = np.array_split(self._left, max(1, -(-n_entries // self.block)))
        return np.concatenate(threads()(delayed(rows)(part) for part in parts))


class GraphAffinity:
    """A given symmetric W (p, p): an array, or scipy's sparse."""

    def __init__(self, matrix: Any):
        self.matrix = csr_matrix(matrix) if issparse(matrix) else own_copy(matrix)
        values: Any = self.matrix.data if issparse(matrix) else self.matrix
        shape = self.matrix.shape
        self.n_points = shape[0]
        if shape != (self.n_points, self.n_points) or not np.isfinite(values).all():
            raise ValueError(f"an affinity {shape} must be square and finite")
        gap = abs(self.matrix - self.matrix.T)
        if gap.max() > 1e-12 * abs(values).max(initial=0.0):
            i, j = np.unravel_index(gap.argmax(), shape)
            above = f"W[{i}, {j}] = {self.matrix[i, j]:g}"
            below = f"W[{j}, {i}] = {self.matrix[j, i]:g}"
            raise ValueError(f"not symmetric: {above} and {below}")

    def subset(self, kept: np.ndarray) -> "GraphAffinity":
        """The affinity of these points alone."""
        return GraphAffinity(self.matrix[kept][:, kept])

    def entries(self, rows: np.ndarray) -> np.ndarray:
        """W[rows, rows]."""
        block = self.matrix[rows][:, rows]
        return block.toarray() if issparse(block) else block

    def product(self, right: np.ndarray, columns: np.ndarray | None = None) -> np.ndarray:
        """W[:, columns] @ right."""
        chosen = self.matrix if columns is None else self.matrix[columns].T
        return chosen @ right


def median_square_distance(
    points: np.ndarray, rng: np.random.Generator, n_pairs: int = 10_000
) -> float:
    """The median of |x_i - x_j|^2 over random pairs: a `sigma` at which W is neither 0 nor 1."""
    first, second = rng.integers(len(points), size=(2, n_pairs))
    gaps = (points[first] - points[second])[first != second]
    return float(np.median((gaps**2).sum(axis=1)))
