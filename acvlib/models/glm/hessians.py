"""The Hessian of a regression with q linear predictors: one matrix for those that are coupled."""

from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag

from ...checks import one_line
from ...solvers.inverse import DenseHessian, invert
from .columns import Columns
from .sums import by_rows

TILE = 256  # rows whose leverages are computed together


class Hessian:
    """A' diag(M_1, ..., M_t) A, a matrix of standard params for each set of predictors.

    Coupled predictors are one set, others one each; sets of one ridge share a matrix.
    """

    __repr__ = one_line
    __array_ufunc__ = None  # numpy leaves `rows @ hessian` to us

    def __init__(self, columns: Columns, gram: np.ndarray, ridge: np.ndarray):
        """gram (B, B) is common to all sets; ridge (t, B), of the standard params."""
        sizes = ridge.sum(axis=1)  # sets differ in one penalty, if at all
        _, first, self.which = np.unique(sizes, return_index=True, return_inverse=True)
        self.parts = [DenseHessian(gram + np.diag(ridge[row])) for row in first]
        self.columns = columns
        self.gram = gram
        self.ridge = ridge
        self.shape = (ridge.size, ridge.size)

    def __array__(self, dtype=None, copy=None):
        whole = block_diag(*[self.parts[number].matrix for number in self.which])
        whole = self.columns.gradient(self.columns.gradient(whole).T)
        return whole.astype(dtype or float)

    def __matmul__(self, columns):
        return (np.transpose(columns) @ self).T

    def __rmatmul__(self, rows):
        return self.columns.gradient(self.multiply(self.columns.inward(rows)))

    def multiply(self, rows: np.ndarray) -> np.ndarray:
        """diag(M) times each of rows (..., D) of standard params."""
        return self.each(lambda part, few: few @ part, rows)

    def solve(self, columns: np.ndarray) -> np.ndarray:
        """H^-1 columns, (D,) or (D, n). Raises IndefiniteHessian."""
        rows = self.columns.standard_gradient(columns.T)
        return self.columns.outward(self.each(lambda part, few: part.solve(few.T).T, rows)).T

    def each(self, function: Callable, rows: np.ndarray) -> np.ndarray:
        """function(matrix, its part of rows (..., D)), put together again."""
        if len(self.which) == 1:
            return function(self.parts[0], rows)
        blocks = rows.reshape(-1, *self.ridge.shape)
        out = np.empty_like(blocks)
        for number, part in enumerate(self.parts):
            few = blocks[:, self.which == number]
            solved = function(part, few.reshape(-1, few.shape[-1]))
            out[:, self.which == number] = solved.reshape(few.shape)
        return out.reshape(rows.shape)

    @cached_property
    def indefinite(self) -> bool:
        """Whether one of the matrices is."""
        return any(part.indefinite for part in self.parts)

    @property
    def conditioned(self) -> bool:
        """Whether each matrix is far from singular."""
        return all(part.conditioned for part in self.parts)

    @property
    def least_share(self) -> float:
        """The least eigenvalue of a matrix, over its largest."""
        values = np.array([np.linalg.eigvalsh(part.matrix) for part in self.parts])
        return (values[:, 0] / values[:, -1]).min()

    def damped(self, damping: float) -> "Hessian":
        """H + damping I, of the params of x."""
        if not damping:
            return self
        identity = np.kron(np.eye(self.coupled), self.columns.identity())
        return Hessian(self.columns, self.gram + damping * identity, self.ridge)

    def less(self, gram: np.ndarray) -> "Hessian":
        """H without a fold's gram."""
        return Hessian(self.columns, self.gram - gram, self.ridge)

    @property
    def coupled(self) -> int:
        """How many predictors are one set."""
        return self.ridge.shape[1] // self.columns.standard.shape[1]

    @cached_property
    def inverses(self) -> list[np.ndarray]:
        """M^-1 of each distinct matrix, even where it is ill-conditioned."""
        return [invert(part.matrix) for part in self.parts]

    def leverages(self, z: np.ndarray) -> np.ndarray:
        """`leverages` of each row; the largest ones of uncoupled predictors."""
        return np.max([leverages(inverse, z) for inverse in self.inverses], axis=0)


def leverages(inverse: np.ndarray, z: np.ndarray) -> np.ndarray:
    """(I (x) z_n)' M^-1 (I (x) z_n) of each row, (n, k, k), M (k D', k D')."""
    dim = z.shape[1]
    k = len(inverse) // dim

    def of_rows(rows):
        solved = z[rows] @ inverse.reshape(k, dim, k * dim)
        return np.einsum("inje,ne->nij", solved.reshape(k, -1, k, dim), z[rows])

    return by_rows(of_rows, len(z), TILE)
