"""How alike two points are: an affinity W (p, p), symmetric, that is multiplied and never held.

`product(right, columns)` is W[:, columns] @ right (p, r), right (len(columns), r); of all columns
by default. `entries(rows)` is W[rows, rows], `subset(kept)` the affinity of some points alone.
"""

from typing import Annotated, Any

import numpy as np
from joblib import delayed
from scipy.sparse import csr_matrix, issparse

from ...checks import one_line, real_array
from ...declared import Positive, Real, declared
from ...parallel import threads

BLOCK = 2**20  # entries: 8 MB, about a cache
FARTHEST = 1e9  # |x - mean|^2 / (2 sigma), which is rounded: W is wrong by 1e-7 of itself
Points = Annotated[np.ndarray, Real("p d")]


class RBFAffinity:
    """W_ij = exp(-|x_i - x_j|^2 / (2 sigma)) for points (p, d); sigma in squared units.

    A product takes O(p^2 d) time and, besides O(p d), `BLOCK` entries of W at a time in a thread;
    threads as `joblib.parallel_config` says. Source: Zhu and Liu (2021), Example 1.
    """

    __repr__ = one_line

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

    def subset(self, kept: np.ndarray) -> "RBFAffinity":
        """The affinity of these points alone."""
        return RBFAffinity(self.points[kept], self.sigma)

    def entries(self, rows: np.ndarray) -> np.ndarray:
        """W[rows, rows]."""
        return np.exp(self._left[rows] @ self._right[rows].T)

    def product(self, right: np.ndarray, columns: np.ndarray | None = None) -> np.ndarray:
        """W[:, columns] @ right."""
        chosen = self._right if columns is None else self._right[columns]

        def rows(left):
            exponents = left @ chosen.T
            return np.exp(exponents, out=exponents) @ right

        n_blocks = 1 + self.n_points * len(chosen) // BLOCK
        blocks = np.array_split(self._left, n_blocks)
        return np.concatenate(threads()(delayed(rows)(block) for block in blocks))


class GraphAffinity:
    """A given symmetric W (p, p): an array, or scipy's sparse."""

    __repr__ = one_line

    def __init__(self, matrix: Any):
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

    def subset(self, kept: np.ndarray) -> "GraphAffinity":
        """The affinity of these points alone."""
        return GraphAffinity(self.matrix[kept][:, kept])

    def entries(self, rows: np.ndarray) -> np.ndarray:
        """W[rows, rows]."""
        return self.matrix[rows][:, rows].toarray()

    def product(self, right: np.ndarray, columns: np.ndarray | None = None) -> np.ndarray:
        """W[:, columns] @ right."""
        chosen = self.matrix if columns is None else self.matrix[columns].T
        return chosen @ right
