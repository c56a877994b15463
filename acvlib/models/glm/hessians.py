"""The Hessian of a regression, by one matrix of standard params for each set of coupled predictors.

    M = sum_n w_n s_n C_n (x) z_n z_n' + diag(ridge),    H = A' (I (x) M) A

Several targets have the same M each; the predictors of classes are one set.
"""

import numpy as np

from ...parallel import in_blas_threads, pieces
from ...solvers.inverse import DenseFolds, DenseHessian, FoldSolver
from .columns import Columns

ROWS = 1024  # rows that are handled alone
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

    def of_rows(rows):
        solved = z[rows] @ inverse.reshape(k, dim, k * dim)
        return np.einsum("inje,ne->nij", solved.reshape(k, -1, k, dim), z[rows])

    return np.concatenate(in_blas_threads(of_rows, pieces(len(z), TILE)))


def gram(z: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """sum_n C_n (x) z_n z_n' of curvature (n, k, k), half of it computed, in at most 16 parts."""
    k = curvature.shape[1]
    dim = z.shape[1]

    def of_rows(rows):
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


def span(rows: np.ndarray) -> np.ndarray | slice:
    """The rows as a slice, which copies nothing, where they follow one another."""
    if len(rows) and (np.diff(rows) == 1).all():
        return slice(rows[0], rows[0] + len(rows))
    return rows
