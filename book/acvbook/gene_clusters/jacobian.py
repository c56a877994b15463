"""The Jacobian of a two-stage estimating equation, [[A, 0], [B, C]].

A is block-diagonal, B is only multiplied with, C is dense. Eliminating A first leaves C as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.sparse.linalg import LinearOperator

from acvlib.solvers.inverse import FoldSolver


@dataclass(frozen=True)
class TwoStageJacobian:
    """blocks (n, q, q): the diagonal of A; coupling: B; last: C (m, m)."""

    __array_ufunc__ = None  # numpy leaves `rows @ jacobian` to us
    indefinite: ClassVar[bool] = False

    blocks: np.ndarray
    coupling: LinearOperator
    last: np.ndarray

    def __array__(self, dtype=None, copy=None):
        return np.eye(sum(self.coupling.shape)) @ self

    def __matmul__(self, columns):
        above, below = self._split(columns)
        by_block = above.reshape(*self.blocks.shape[:2], -1)
        across = (self.blocks @ by_block).reshape(above.shape)
        return np.concatenate([across, self.coupling @ above + self.last @ below])

    def __rmatmul__(self, rows):
        above, below = self._split(rows.T)
        by_block = above.reshape(*self.blocks.shape[:2], -1)
        across = (self.blocks.swapaxes(1, 2) @ by_block).reshape(above.shape)
        return np.concatenate([across + self.coupling.T @ below, self.last.T @ below]).T

    def solve(self, columns: np.ndarray) -> np.ndarray:
        """H^-1 columns, (D,) or (D, k)."""
        above, below = self._split(columns)
        by_block = above.reshape(*self.blocks.shape[:2], -1)
        above = np.linalg.solve(self.blocks, by_block).reshape(above.shape)
        below = np.linalg.solve(self.last, below - self.coupling @ above)
        return np.concatenate([above, below])

    def damped(self, damping: float) -> "TwoStageJacobian":
        """H + damping I."""
        blocks = self.blocks + damping * np.eye(self.blocks.shape[1])
        last = self.last + damping * np.eye(len(self.last))
        return TwoStageJacobian(blocks, self.coupling, last)

    def _split(self, columns):
        return np.split(columns, [self.coupling.shape[1]])


class FoldJacobians(FoldSolver):
    """The Jacobian of each fold."""

    def __init__(self, jacobians: Sequence[TwoStageJacobian]):
        self.jacobians = jacobians

    @property
    def indefinite(self) -> np.ndarray:
        """(n,) False."""
        return np.zeros(len(self.jacobians), bool)

    def solve(self, vectors: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """H(w_o)^-1 times one vector a fold."""
        rows = range(len(self.jacobians)) if rows is None else rows
        pairs = zip(rows, vectors, strict=True)
        return np.array([self.jacobians[row].solve(vector) for row, vector in pairs])
