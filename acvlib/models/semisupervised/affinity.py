"""How alike two points are: an affinity W (p, p), symmetric, that is multiplied and never held.

`product(right, columns)` is W[:, columns] @ right (p, r), right (len(columns), r); of all columns
by default. `entries(rows)` is W[rows, rows], `subset(kept)` the affinity of some points alone.
"""

from typing import Any

import numpy as np
from joblib import delayed
from scipy.sparse import csr_matrix, issparse
from scipy.spatial.distance import cdist

from ...checks import check_whole, generator, one_line, real_array, real_number
from ...parallel import threads

BLOCK = 2**20  # entries: 8 MB, about a cache
FARTHEST = 1e9  # |x - mean|^2 / (2 sigma), which is rounded: W is wrong by 1e-7 of itself


class RBFAffinity:
    """W_ij = exp(-|x_i - x_j|^2 / (2 sigma)) for points (p, d); sigma in squared units.

    A product takes O(p^2 d) time and, besides O(p d), `block` entries of W at a time in a thread;
    threads as `joblib.parallel_config` says. Source: Zhu and Liu (2021), Example 1.
    """

    __repr__ = one_line

    def __init__(self, points: np.ndarray, sigma: float, block: int = BLOCK):
        self.points = _points("points", points)
        self.sigma = real_number("sigma", sigma, above=0.0)
        self.block = block
        self.n_points = len(self.points)
        self._left, self._right = _factors(self.points, self.sigma)

    def subset(self, kept: np.ndarray) -> "RBFAffinity":
        """The affinity of these points alone."""
        return RBFAffinity(self.points[kept], self.sigma, self.block)

    def entries(self, rows: np.ndarray) -> np.ndarray:
        """W[rows, rows]."""
        return _exp_of_product(self._left[rows], self._right[rows])

    def product(self, right: np.ndarray, columns: np.ndarray | None = None) -> np.ndarray:
        """W[:, columns] @ right."""
        chosen = self._right if columns is None else self._right[columns]

        def rows(left):
            return _exp_of_product(left, chosen) @ right

        n_blocks = 1 + self.n_points * len(chosen) // self.block
        blocks = np.array_split(self._left, n_blocks)
        return np.concatenate(threads()(delayed(rows)(block) for block in blocks))


def _points(name, points):
    points = real_array(name, points, 2)
    if not len(points):
        raise ValueError(f"{name} {points.shape}: there are none")
    points.setflags(write=False)
    return points


def _factors(points, sigma):
    """Two (p, d + 2): x_i x_j - |x_i|^2 / 2 - |x_j|^2 / 2 is one product, of scaled points."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = (points - points.mean(axis=0)) / np.sqrt(sigma)
        half = -0.5 * (scaled**2).sum(axis=1)
    if not half.min() > -FARTHEST:
        apart = f"points are {-half.min():.2g} sigma from their mean: no digit of W would be right"
        raise ValueError(f"{apart}. Drop outliers, or raise sigma = {sigma:g}")
    one = np.ones(len(points))
    left = np.column_stack([scaled, half, one])
    return left, np.column_stack([scaled, one, half])


def _exp_of_product(left, right):
    exponents = left @ right.T
    return np.exp(exponents, out=exponents)


class GraphAffinity:
    """A given symmetric W (p, p): an array, or scipy's sparse."""

    __repr__ = one_line

    def __init__(self, matrix: Any):
        numbers = matrix.data if issparse(matrix) else matrix
        given = real_array("an affinity", numbers, None if issparse(matrix) else 2, finite=False)
        self.matrix = csr_matrix(matrix if issparse(matrix) else given, dtype=float, copy=True)
        rows, columns = self.matrix.shape
        if rows != columns or not np.isfinite(self.matrix.data).all():
            raise ValueError(f"an affinity {self.matrix.shape} must be square and finite")
        self.n_points = rows
        _check_symmetric(self.matrix)

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


def _check_symmetric(matrix):
    gap = abs(matrix - matrix.T)
    if gap.max() > 1e-12 * abs(matrix).max():
        i, j = divmod(gap.argmax(), len(matrix.indptr) - 1)
        above = f"W[{i}, {j}] = {matrix[i, j]:g}"
        raise ValueError(f"not symmetric: {above} and W[{j}, {i}] = {matrix[j, i]:g}")


def median_square_distance(
    points: np.ndarray, rng: np.random.Generator, n_pairs: int = 10_000
) -> float:
    """The median of |x_i - x_j|^2 over random pairs: a `sigma` at which W is neither 0 nor 1."""
    points = _points("points", points)
    check_whole("n_pairs", n_pairs, 1)
    if len(points) < 2:
        raise ValueError("one point has no distance: pass two or more")
    first, second = generator(rng).integers(len(points), size=(2, n_pairs))
    gaps = points[first] - points[second]
    squares = (gaps**2).sum(axis=1)
    return float(np.median(squares[first != second]))


def kernel_form(
    points: np.ndarray, centres: np.ndarray, sigma: float
) -> tuple[np.ndarray, np.ndarray]:
    """(Phi (p, n), R (n, n)) of f(x) = sum_c theta_c k(x, c), R(theta) = |f|^2 in k's space.

    k is Gaussian; with fewer centres than points the form is Nystrom's.
    """
    points = _points("points", points)
    centres = _points("centres", centres)
    sigma = real_number("sigma", sigma, above=0.0)
    if points.shape[1] != centres.shape[1]:
        raise ValueError(f"points {points.shape} and centres {centres.shape} must be as wide")
    to_points = cdist(points, centres, "sqeuclidean")
    among = cdist(centres, centres, "sqeuclidean")
    return np.exp(to_points / (-2.0 * sigma)), np.exp(among / (-2.0 * sigma))
