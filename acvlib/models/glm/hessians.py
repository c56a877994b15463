"""A regression at one point, and its Hessian: a matrix for each set of coupled predictors.

    M = sum_n w_n s_n C_n (x) z_n z_n' + diag(ridge),    H = A' (I (x) M) A

Several targets have the same M each; the predictors of classes are one set.
"""

from functools import cached_property
from typing import Any

import numpy as np

from ...parallel import in_blas_threads, one_blas_thread, pieces
from ...solvers.inverse import DenseFolds, DenseHessian, FoldSolver
from .columns import Columns

ROWS = 1024  # rows that are handled alone
AT_ONCE = 2**20  # coefficients that a thread has in memory
TILE = 256  # rows whose leverages are computed together


class Hessian(DenseHessian):
    """H (D, D) of params of x; `matrix` is M (B, B)."""

    def __init__(self, columns: Columns, matrix: np.ndarray, n_params: int):
        super().__init__(matrix)
        self.columns = columns
        self.shape = (n_params, n_params)

    def __array__(self, dtype=None, copy=None):
        whole = np.kron(np.eye(self.shape[0] // len(self.matrix)), self.matrix)
        whole = self.columns.gradient(self.columns.gradient(whole).T)
        return whole.astype(dtype or float)

    def __matmul__(self, columns):
        return (np.transpose(columns) @ self).T

    def __rmatmul__(self, rows):
        standard = self.columns.inward(rows)
        products = super().__rmatmul__(standard.reshape(-1, len(self.matrix)))
        return self.columns.gradient(products.reshape(standard.shape))

    def solve(self, columns: np.ndarray) -> np.ndarray:
        """H^-1 columns, (D,) or (D, n). Raises IndefiniteHessian."""
        rows = self.columns.standard_gradient(columns.T)
        solved = super().solve(rows.reshape(-1, len(self.matrix)).T).T
        return self.columns.outward(solved.reshape(rows.shape)).T

    def damped(self, damping: float) -> "Hessian":
        """H + damping I, of the params of x."""
        if not damping:
            return self
        added = damping * self.columns.identity(len(self.matrix))
        return Hessian(self.columns, self.matrix + added, self.shape[0])


class Point:
    """What follows from params (D,): linear predictors eta (q, n), and derivatives in them."""

    def __init__(self, model: Any, params: np.ndarray):
        self.model = model
        self.params = params.copy()
        self.standard = model.columns.inward(params)
        with one_blas_thread:
            self.eta = model.predictors(self.standard)

    @cached_property
    def slope(self) -> np.ndarray:
        """(q, n) the losses' derivatives in eta, times the sample weights."""
        model = self.model
        return model.family.slope(self.eta, model.responses) * model.sample_weight

    @cached_property
    def curvature(self) -> np.ndarray:
        """(n, k, k) their second derivatives in coupled predictors, times the same."""
        model = self.model
        curvature = model.family.curvatures(self.eta, model.responses)
        return curvature * model.sample_weight[:, None, None]

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """That of the losses, in standard params (D,)."""
        with one_blas_thread:
            return ((self.slope * weights) @ self.model.columns.standard).ravel()

    def hessian(self, weights: np.ndarray) -> Hessian:
        """H at site weights (n,)."""
        model = self.model
        curvature = self.curvature * model.balanced_weights(weights)[:, None, None]
        ridge = np.diag(model.standard_ridge(weights @ model.sample_weight))
        matrix = gram(model.columns.standard, curvature) + ridge
        return Hessian(model.columns, matrix, model.n_params)

    @cached_property
    def whole(self) -> Hessian:
        """H at weights 1."""
        return self.hessian(np.ones(self.model.n_sites))


class OwnHessians(FoldSolver):
    """A matrix M (n_folds, B, B) for each fold, to which damping is added."""

    def __init__(self, columns: Columns, matrices: np.ndarray, damping: float):
        if damping:
            matrices = matrices + damping * columns.identity(matrices.shape[1])
        self.columns = columns
        self.folds = DenseFolds(matrices)

    @property
    def indefinite(self) -> np.ndarray:
        """(n_folds,)."""
        return self.folds.indefinite

    def solve(self, vectors: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """H(w_o)^-1 times one vector a fold."""
        return self._each(self.folds.solve, vectors, rows)

    def descend(self, vectors: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """|H(w_o)|^-1 times one vector a fold."""
        return self._each(self.folds.descend, vectors, rows)

    def _each(self, solve, vectors, rows):
        standard = self.columns.standard_gradient(vectors)
        sets = standard.reshape(len(vectors), -1, self.folds.matrices.shape[1])
        solved = [solve(sets[:, number], rows) for number in range(sets.shape[1])]
        return self.columns.outward(np.stack(solved, axis=1).reshape(vectors.shape))


def leverages(inverse: np.ndarray, z: np.ndarray) -> np.ndarray:
    """(I (x) z_n)' M^-1 (I (x) z_n) of each row, (n, k, k), M (k D', k D')."""
    dim = z.shape[1]
    k = len(inverse) // dim

    def of_rows(rows: slice):
        solved = z[rows] @ inverse.reshape(k, dim, k * dim)
        return np.einsum("inje,ne->nij", solved.reshape(k, -1, k, dim), z[rows])

    return np.concatenate(in_blas_threads(of_rows, pieces(len(z), TILE)))


def gram(z: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """sum_n C_n (x) z_n z_n' of curvature (n, k, k), half of it computed, in at most 16 parts."""
    k = curvature.shape[1]
    dim = z.shape[1]

    def of_rows(rows: slice):
        total = np.empty((k, dim, k, dim))
        for i in range(k):
            root = z[rows] * np.sqrt(np.maximum(curvature[rows, i, i, None], 0.0))
            total[i, :, i] = root.T @ root
            weighted = z[rows][:, None, :] * curvature[rows, i, :i, None]
            product = z[rows].T @ weighted.reshape(len(root), i * dim)
            total[i, :, :i] = product.reshape(dim, i, dim)
            total[:i, :, i] = total[i, :, :i].transpose(1, 0, 2)
        return total.reshape(k * dim, k * dim)

    size = max(ROWS, -(-len(z) // 16))
    if len(z) <= size:  # in less time than asking for threads takes
        return of_rows(slice(None))
    return np.sum(in_blas_threads(of_rows, pieces(len(z), size)), axis=0)


def own_scores(model: Any, params: np.ndarray, sites: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """eta (q, n) of sites (n,), the first sizes[0] at params[0] (D,) and so on."""
    theta = model.columns.inward(params).reshape(len(params), model.n_outputs, -1)
    fold = np.repeat(np.arange(len(sizes)), sizes)

    def of_rows(rows: slice):
        z = model.columns.standard[span(sites[rows])]
        return np.einsum("nqd,nd->nq", theta[span(fold[rows])], z)

    tiles = pieces(len(sites), max(16, AT_ONCE // model.n_params))
    return np.concatenate(in_blas_threads(of_rows, tiles)).T + model.offset[sites]


def span(rows: np.ndarray) -> np.ndarray | slice:
    """The rows as a slice, which copies nothing, where they follow one another."""
    if len(rows) and (np.diff(rows) == 1).all():
        return slice(rows[0], rows[0] + len(rows))
    return rows
