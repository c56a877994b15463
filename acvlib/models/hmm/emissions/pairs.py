"""Active pairs sorted by state, so that all frames of a state go through one matrix product."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit

MANY = 8  # directions from which on a matrix of scores is worth its memory


@dataclass(frozen=True)
class Pairs:
    """What an emission needs of P active pairs (frame, state).

    frame, state (P,); observed (P,): u, the weight of the frame's log-density in the potentials; mass (P,):
    the expected count w u P(state | x) of the pair, w the sequence's weight. rough: whether first derivatives may
    be taken in single precision. contested (P,): whether the frame has another active pair; where it has none its state
    is certain, no direction moves that, and first derivatives are neither needed nor given. None: all are.
    """

    frame: np.ndarray
    state: np.ndarray
    observed: np.ndarray
    mass: np.ndarray
    rough: bool = False
    contested: np.ndarray | None = None

    @cached_property
    def groups(self):
        """(state, its pairs) for each state that has some."""
        order = np.argsort(self.state, kind="stable")
        states, first = np.unique(self.state[order], return_index=True)
        return list(zip(states.tolist(), np.split(order, first[1:]), strict=True))

    @cached_property
    def contested_groups(self):
        """As `groups`, of contested pairs alone."""
        if self.contested is None:
            return self.groups
        kept = ((k, rows[self.contested[rows]]) for k, rows in self.groups)
        return [(k, rows) for k, rows in kept if rows.size]

    def cast(self, x):
        """x (n, m) in the precision that first derivatives are taken in."""
        return _single(x) if self.rough else x


@njit(cache=True, nogil=True, fastmath=True)
def row_products(u, e, out, rows):
    """out[rows[n], b] += sum_r u[n, b, r] e[n, r]."""
    for n in range(u.shape[0]):
        for b in range(u.shape[1]):
            total = 0.0
            for r in range(u.shape[2]):
                total += u[n, b, r] * e[n, r]
            out[rows[n], b] += total


@njit(cache=True, nogil=True)
def _single(x):
    """x (n, m) in single precision, 0 where it would be a subnormal number, which processors multiply slowly."""
    out = np.zeros(x.shape, np.float32)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if abs(x[i, j]) > 1e-30:
                out[i, j] = x[i, j]
    return out
