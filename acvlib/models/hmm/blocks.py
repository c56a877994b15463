"""Block-diagonal matrices: the complete-data information, which preconditions the Hessian."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve


@dataclass(frozen=True)
class Block:
    """A positive definite matrix (d, d), repeated on the diagonal at `place`, (r d) parameters."""

    place: slice
    matrix: np.ndarray

    @cached_property
    def _factor(self):
        return cho_factor(self.matrix, lower=True)

    @cached_property
    def _inverse(self):
        return cho_solve(self._factor, np.eye(len(self.matrix)))

    def solve(self, vectors):
        """matrix^-1 times this block's part of vectors (B, D): (B, r d)."""
        own = vectors[:, self.place]
        rows = own.reshape(-1, len(self.matrix))
        few = len(rows) < len(self.matrix)  # too few to pay for an inverse
        solved = cho_solve(self._factor, rows.T).T if few else rows @ self._inverse
        return solved.reshape(own.shape)


def in_a_row(parts):
    """`Block`s one after another, of parts (matrices (n, d, d), how often each is repeated)."""
    blocks = []
    start = 0
    for matrices, repeats in parts:
        for matrix in matrices:
            stop = start + repeats * len(matrix)
            if stop > start:
                blocks.append(Block(slice(start, stop), matrix))
            start = stop
    return blocks


def solve_blocks(blocks, vectors):
    """The inverse of all blocks, which cover all parameters, times vectors (B, D)."""
    out = np.empty_like(vectors)
    for block in blocks:
        out[:, block.place] = block.solve(vectors)
    return out


def without(blocks, less, share):
    """The blocks that lose more than a share of a diagonal entry with `less`, after that loss."""
    changed = []
    for block, own in zip(blocks, less, strict=True):
        if (np.diag(own.matrix) > share * np.diag(block.matrix)).any():
            changed.append(Block(block.place, block.matrix - own.matrix))
    return changed
