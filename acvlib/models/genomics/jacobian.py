"""The Jacobian of a two-stage estimating equation, [[A, 0], [B, C]]: A sparse, in blocks; B a linear operator; C dense.

Eliminating A first leaves C as it is, so that nothing fills in and B is needed in products alone.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lu_factor, lu_solve
from scipy.sparse import block_array, bsr_matrix, csc_matrix, eye_array
from scipy.sparse.linalg import LinearOperator, splu


@dataclass(frozen=True)
class TwoStageJacobian:
    """blocks (n, q, q) on the diagonal of A; coupling: B, as a LinearOperator; last: C (m, m)."""

    blocks: np.ndarray
    coupling: LinearOperator
    last: np.ndarray

    @property
    def first(self):
        """A, block-diagonal and sparse."""
        n, q = self.blocks.shape[:2]
        return bsr_matrix((self.blocks, np.arange(n), np.arange(n + 1)), shape=(n * q, n * q))

    def __matmul__(self, right):
        above, below = right[: self.coupling.shape[1]], right[self.coupling.shape[1] :]
        return np.concatenate([self.first @ above, self.coupling @ above + self.last @ below])

    @property
    def n_entries(self):
        """How many entries the blocks of A, B and C have."""
        return self.blocks.size + self.coupling.shape[0] * self.coupling.shape[1] + self.last.size

    def tocsc(self):
        """The whole matrix, sparse; B takes a product for each of its columns, so for small problems only."""
        coupling = csc_matrix(self.coupling @ np.eye(self.coupling.shape[1]))
        return block_array([[self.first, None], [coupling, csc_matrix(self.last)]], format="csc")

    def factorise(self, damping=0.0):
        """The `Elimination` of this matrix plus damping on its diagonal."""
        first = self.first.tocsc() + damping * eye_array(self.coupling.shape[1], format="csc")
        return Elimination(first, self.coupling, self.last + damping * np.eye(len(self.last)))


class Elimination:
    """One sparse LU of A and one of C: solves with the matrix, or with its transpose, for any right-hand sides."""

    def __init__(self, first, coupling, last):
        # blocks need no reordering, and A is close to positive definite: pivots on the diagonal
        self.first = splu(first, permc_spec="NATURAL", diag_pivot_thresh=0.0)
        self.coupling, self.last, self.cut = coupling, lu_factor(last), first.shape[0]

    def __call__(self, right):
        """matrix^-1 right, right (D,) or (D, k)."""
        above = self.first.solve(right[: self.cut])
        return np.concatenate(
            [above, lu_solve(self.last, right[self.cut :] - self.coupling @ above)]
        )

    def transposed(self, right):
        """matrix^-T right, right (D,) or (D, k)."""
        below = lu_solve(self.last, right[self.cut :], trans=1)
        return np.concatenate(
            [self.first.solve(right[: self.cut] - self.coupling.T @ below, "T"), below]
        )
