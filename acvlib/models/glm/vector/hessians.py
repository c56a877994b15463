"""Hessians of a model with q linear predictors: (q, D') coordinates, one row a predictor."""

from functools import cached_property

import numpy as np

from ....solvers.inverse import DenseHessian, invert
from ..sums import by_rows, row_sums


class JointHessian(DenseHessian):
    """One dense matrix (q D', q D')."""

    @property
    def trace(self) -> float:
        """The sum of its eigenvalues."""
        return np.trace(self.matrix)

    def less(self, gram: np.ndarray) -> "JointHessian":
        """H - gram."""
        return JointHessian(self.matrix - gram)

    def times_inverse(self, rows: np.ndarray) -> np.ndarray:
        """rows (n, D) @ H^-1."""
        return self.solve(rows.T).T

    def products_solved(self, factor: np.ndarray, x: np.ndarray) -> np.ndarray:
        """H^-1 (factor_n (x) x_n), factor (n, q)."""
        products = factor[:, :, None] * x[:, None, :]
        return self.times_inverse(products.reshape(len(x), -1))

    def leverages(self, x: np.ndarray) -> np.ndarray:
        """(I (x) x_n)' H^-1 (I (x) x_n) of each row, (n, q, q)."""
        dim = x.shape[1]
        q = len(self.matrix) // dim
        inverse = invert(self.matrix) if self.inverse is None else self.inverse
        inverse = inverse.reshape(q, dim, q, dim)

        def of_rows(rows):
            block = x[rows]
            out = np.empty((len(block), q, q))
            for i in range(q):
                along = block @ inverse[i, :, : i + 1].reshape(dim, -1)
                products = along.reshape(len(block), i + 1, dim) @ block[:, :, None]
                out[:, i, : i + 1] = products[..., 0]
                out[:, : i + 1, i] = out[:, i, : i + 1]
            return out

        return by_rows(of_rows, len(x), 256)


class TargetHessian:
    """One matrix (D', D') a target: what they share, plus the penalty of each on its diagonal."""

    indefinite = False
    __array_ufunc__ = None  # numpy leaves `rows @ hessian` to us

    def __init__(self, gram: np.ndarray, penalty: np.ndarray):
        self.gram = gram
        self.penalty = penalty  # (q, D')
        self.shape = (penalty.size, penalty.size)

    def __array__(self, dtype=None, copy=None):
        q, dim = self.penalty.shape
        blocks = np.einsum("ij,ab->iajb", np.eye(q), self.gram).reshape(self.shape)
        return (blocks + np.diag(self.penalty.ravel())).astype(dtype or float)

    def __matmul__(self, columns):
        return (np.transpose(columns) @ self).T

    def __rmatmul__(self, rows):
        blocks = np.reshape(rows, (*np.shape(rows)[:-1], *self.penalty.shape))
        return (blocks @ self.gram + blocks * self.penalty).reshape(np.shape(rows))

    @property
    def trace(self) -> float:
        """The sum of its eigenvalues."""
        return len(self.penalty) * np.trace(self.gram) + self.penalty.sum()

    def less(self, gram: np.ndarray) -> "TargetHessian":
        """H - gram."""
        return TargetHessian(self.gram - gram, self.penalty)

    def damped(self, damping: float) -> "TargetHessian":
        """H + damping I."""
        return TargetHessian(self.gram, self.penalty + damping) if damping else self

    @cached_property
    def _parts(self):
        """(targets, matrix) of each penalty."""
        sizes = self.penalty[:, -1]
        targets = [np.flatnonzero(sizes == size) for size in np.unique(sizes)]
        diagonals = [np.diag(self.penalty[few[0]]) for few in targets]
        matrices = [DenseHessian(self.gram + diagonal) for diagonal in diagonals]
        return list(zip(targets, matrices, strict=True))

    def solve(self, columns: np.ndarray) -> np.ndarray:
        """H^-1 columns, (D,) or (D, n)."""
        return self.times_inverse(np.atleast_2d(columns.T)).T.reshape(columns.shape)

    def times_inverse(self, rows: np.ndarray) -> np.ndarray:
        """rows (n, D) @ H^-1."""
        blocks = rows.reshape(len(rows), *self.penalty.shape)
        out = np.empty_like(blocks)
        for targets, matrix in self._parts:
            few = blocks[:, targets].reshape(-1, len(self.gram))
            out[:, targets] = matrix.solve(few.T).T.reshape(len(rows), len(targets), -1)
        return out.reshape(rows.shape)

    def products_solved(self, factor: np.ndarray, x: np.ndarray) -> np.ndarray:
        """H^-1 (factor_n (x) x_n), factor (n, q): one solve for targets of one penalty."""
        out = np.empty((len(x), *self.penalty.shape))
        for targets, matrix in self._parts:
            solved = matrix.solve(x.T).T
            out[:, targets] = factor[:, targets, None] * solved[:, None, :]
        return out.reshape(len(x), -1)

    def leverages(self, x: np.ndarray) -> np.ndarray:
        """x_n' H_k^-1 x_n of each row and target, (n, q)."""
        out = np.empty((len(x), len(self.penalty)))
        for targets, matrix in self._parts:
            out[:, targets] = row_sums(matrix.solve(x.T).T, x)[:, None]
        return out
