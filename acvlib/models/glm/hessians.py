"""Hessians of a regression with q linear predictors: (q, D') coordinates, one row a predictor."""

from functools import cached_property

import numpy as np

from ...checks import one_line
from ...solvers.inverse import DenseHessian, invert
from .sums import by_rows, row_sums

TILE = 256  # rows whose leverages are computed together


class JointHessian(DenseHessian):
    """One dense matrix (q D', q D')."""

    @cached_property
    def inverted(self) -> np.ndarray:
        """H^-1, even where it is ill-conditioned."""
        return invert(self.matrix)

    def less(self, gram: np.ndarray | float, ridge: np.ndarray) -> "JointHessian":
        """H - gram - diag(ridge (D,))."""
        return JointHessian(self.matrix - gram - np.diag(ridge))

    def _solved(self, x, q):
        """(H^-1 (e_i (x) x_n) (q, n, D), its products L_n (n, q, q) with the e_j (x) x_n)."""
        blocks = self.inverted.reshape(q, x.shape[1], len(self.matrix))
        solved = np.matmul(x, blocks)
        leverage = np.einsum("inje,ne->nij", solved.reshape(q, *x.shape[:1], q, x.shape[1]), x)
        return solved, leverage

    def leverages(self, x: np.ndarray, q: int) -> np.ndarray:
        """(I (x) x_n)' H^-1 (I (x) x_n) of each row, (n, q, q)."""
        return by_rows(lambda rows: self._solved(x[rows], q)[1], len(x), TILE)

    def without_sites(
        self,
        start: np.ndarray,
        x: np.ndarray,
        curvature: np.ndarray,
        rest: np.ndarray,
        factor: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(start - step, `leverages`, v' step), step = [H - C_n (x) x_n x_n']^-1 v, of each row.

        start (D,), or one a row; v = rest + factor (x) x_n, rest (D,), or one a row, factor (n, q);
        C (n, q, q). step = H^-1 (rest + length (x) x_n), length = factor + (I - C L)^-1 C
        (along + L factor), along = (I (x) x_n)' H^-1 rest, L the leverages.
        """
        q = curvature.shape[1]
        solved, leverage = self._solved(x, q)
        own = np.atleast_2d(rest @ self.inverted)
        along = np.einsum("nqd,nd->nq", own.reshape(len(own), q, x.shape[1]), x)
        bent = along + np.einsum("nij,nj->ni", leverage, factor)
        bent = np.einsum("nij,nj->ni", curvature, bent)
        left = np.eye(q) - curvature @ leverage
        length = factor + (bent / left[:, 0] if q == 1 else _solve(left, bent))
        moved = start - own
        for size, part in zip(length.T, solved, strict=True):
            part *= size[:, None]
            moved = np.subtract(moved, part, out=part)
        squares = row_sums(own, np.atleast_2d(rest)) + row_sums(factor + length, along)
        squares = squares + np.einsum("ni,nij,nj->n", factor, leverage, length)
        return moved, leverage, squares

    def spare(self, curvature: np.ndarray, leverage: np.ndarray) -> np.ndarray:
        """What share of H each site leaves at least, (n,); exactly for q = 1."""
        return 1.0 - np.einsum("nij,nji->n", curvature, leverage)

    def quadratic(self, x: np.ndarray, curvature: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """m_n' [H - C_n (x) x_n x_n'] m_n of moves (n, D)."""
        along = np.einsum("nqd,nd->nq", moves.reshape(len(x), -1, x.shape[1]), x)
        own = np.einsum("ni,nij,nj->n", along, curvature, along)
        return row_sums(moves @ self, moves) - own


def _solve(matrices, vectors):
    return np.linalg.solve(matrices, vectors[..., None])[..., 0]


class TargetHessian:
    """One matrix (D', D') a target: what they share, plus the penalty of each on its diagonal."""

    __repr__ = one_line
    __array_ufunc__ = None  # numpy leaves `rows @ hessian` to us

    def __init__(self, gram: np.ndarray, ridge: np.ndarray):
        self.gram = gram
        self.ridge = ridge  # (q, D')
        self.shape = (ridge.size, ridge.size)

    def __array__(self, dtype=None, copy=None):
        q, dim = self.ridge.shape
        blocks = np.einsum("ij,ab->iajb", np.eye(q), self.gram).reshape(self.shape)
        return (blocks + np.diag(self.ridge.ravel())).astype(dtype or float)

    def __matmul__(self, columns):
        return (np.transpose(columns) @ self).T

    def __rmatmul__(self, rows):
        blocks = np.reshape(rows, (*np.shape(rows)[:-1], *self.ridge.shape))
        return (blocks @ self.gram + blocks * self.ridge).reshape(np.shape(rows))

    def less(self, gram: np.ndarray | float, ridge: np.ndarray) -> "TargetHessian":
        """H - gram - diag(ridge (D,))."""
        return TargetHessian(self.gram - gram, self.ridge - ridge.reshape(self.ridge.shape))

    def damped(self, damping: float) -> "TargetHessian":
        """H + damping I."""
        return TargetHessian(self.gram, self.ridge + damping) if damping else self

    @cached_property
    def _parts(self):
        """(targets, matrix) of each ridge, which differ in the last column if anywhere."""
        last = self.ridge[:, -1]
        parts = [np.flatnonzero(last == size) for size in np.unique(last)]
        ridges = [np.diag(self.ridge[targets[0]]) for targets in parts]
        return [(own, JointHessian(self.gram + r)) for own, r in zip(parts, ridges, strict=True)]

    @property
    def indefinite(self) -> bool:
        """Whether one of the matrices is."""
        return any(matrix.indefinite for _, matrix in self._parts)

    def solve(self, columns: np.ndarray) -> np.ndarray:
        """H^-1 columns, (D,) or (D, n)."""
        rows = np.atleast_2d(columns.T)
        blocks = rows.reshape(len(rows), *self.ridge.shape)
        out = np.empty_like(blocks)
        for targets, matrix in self._parts:
            few = blocks[:, targets].reshape(-1, len(self.gram))
            out[:, targets] = matrix.solve(few.T).T.reshape(len(rows), len(targets), -1)
        return out.reshape(rows.shape).T.reshape(columns.shape)

    def leverages(self, x: np.ndarray, q: int) -> np.ndarray:
        """x_n' H_k^-1 x_n of each row and target, (n, q)."""
        out = np.empty((len(x), q))
        for targets, matrix in self._parts:
            out[:, targets] = row_sums(x @ matrix.inverted, x)[:, None]
        return out

    def without_sites(
        self,
        start: np.ndarray,
        x: np.ndarray,
        curvature: np.ndarray,
        rest: np.ndarray,
        factor: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As of a `JointHessian`, curvature (n,), target by target."""
        rest = rest.reshape(-1, *self.ridge.shape)
        start = start.reshape(-1, *self.ridge.shape)
        moved = np.empty((len(x), *self.ridge.shape))
        leverages = np.empty(moved.shape[:2])
        squares = np.zeros(len(x))
        for targets, matrix in self._parts:
            solved = x @ matrix.inverted
            leverage = row_sums(solved, x)
            own = rest[:, targets] @ matrix.inverted
            along = np.einsum("nqd,nd->nq", own, x)
            given = factor[:, targets]
            bent = (curvature / (1.0 - curvature * leverage))[:, None]
            length = given + bent * (along + leverage[:, None] * given)
            moved[:, targets] = start[:, targets] - own - length[:, :, None] * solved[:, None]
            leverages[:, targets] = leverage[:, None]
            squares += np.einsum("nqd,nqd->n", own, rest[:, targets])
            squares += row_sums(given + length, along) + leverage * row_sums(given, length)
        return moved.reshape(len(x), -1), leverages, squares

    def spare(self, curvature: np.ndarray, leverage: np.ndarray) -> np.ndarray:
        """What share of H each site leaves at least, (n,)."""
        return 1.0 - curvature * leverage.max(axis=1)

    def quadratic(self, x: np.ndarray, curvature: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """As of a `JointHessian`."""
        along = np.einsum("nqd,nd->nq", moves.reshape(len(x), *self.ridge.shape), x)
        return row_sums(moves @ self, moves) - curvature * row_sums(along, along)
