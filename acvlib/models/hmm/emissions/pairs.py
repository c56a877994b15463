"""Pairs (frame, state) by state, and the first derivatives of their log-densities.

The score of a pair in a matrix (o, i) of weights is signal (o,) times inputs (i,), a `Layer`: the
gradient is one matrix product a state, and so are products with many directions.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

NEGLIGIBLE = 1e-25  # an expected count that no sum of scores would show
SUBNORMAL = 1e-30  # single precision below this is multiplied slowly


class Layer(NamedTuple):
    """Scores of n pairs in a matrix (o, i) of weights: signal (n, o) (x) inputs (n, i)."""

    signal: np.ndarray
    inputs: np.ndarray


@dataclass(frozen=True)
class Pairs:
    """P pairs: frame, state (P,), and mass (P,), how often each is expected."""

    frame: np.ndarray
    state: np.ndarray
    mass: np.ndarray

    @cached_property
    def groups(self) -> list[tuple[int, np.ndarray]]:
        """(state, its pairs) for each state that has some."""
        order = np.argsort(self.state, kind="stable")
        states, first = np.unique(self.state[order], return_index=True)
        return list(zip(states.tolist(), np.split(order, first[1:]), strict=True))


def gradient(point, mass: np.ndarray) -> np.ndarray:
    """sum_tk mass_tk d log p(x_t | k) / dparams, (E,); mass (M, K), 0 at missing frames."""
    shared = np.zeros(len(point.shared))
    states = np.zeros(point.states.shape)
    for k, own in enumerate(mass.T):
        rows = np.flatnonzero(own > NEGLIGIBLE)
        weight = own[rows]
        by_shared, layers = point.scores(k, rows)
        shared += weight @ by_shared
        sums = [(weight[:, None] * signal).T @ inputs for signal, inputs in layers]
        states[k] = np.concatenate([total.ravel() for total in sums])
    return np.concatenate([shared, states.ravel()])


class Scores:
    """d log p of chosen pairs, as products; 0 for all others.

    rough: in single precision and kept, for many products; else they are made for each.
    """

    def __init__(self, point, pairs: Pairs, chosen: np.ndarray, rough: bool):
        self.point = point
        self.frame = pairs.frame
        self.rough = rough
        kept = [(k, rows[chosen[rows]]) for k, rows in pairs.groups]
        self.groups = [(k, rows) for k, rows in kept if rows.size]

    @cached_property
    def _kept(self):
        return [_single(self._matrix(k, rows)) for k, rows in self.groups]

    def _matrices(self):
        """(state, its pairs, their scores (n, n_shared + d)) one after another."""
        for i, (k, rows) in enumerate(self.groups):
            yield k, rows, self._kept[i] if self.rough else self._matrix(k, rows)

    def _matrix(self, k, rows):
        by_shared, layers = self.point.scores(k, self.frame[rows])
        products = [signal[:, :, None] * inputs[:, None, :] for signal, inputs in layers]
        return np.column_stack([by_shared, *(part.reshape(len(rows), -1) for part in products)])

    def along(self, shared: np.ndarray, states: np.ndarray) -> np.ndarray:
        """d log p along B directions (B, n_shared) and (B, K, d): (P, B)."""
        out = np.zeros((len(self.frame), len(shared)))
        for k, rows, matrix in self._matrices():
            direction = np.concatenate([shared, states[:, k]], axis=1)
            out[rows] = matrix @ self._cast(direction).T
        return out

    def adjoint(self, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """sum_p coefficients[p, b] d log p, (B, n_shared) and (B, K, d); coefficients (P, B)."""
        n_shared = len(self.point.shared)
        shared = np.zeros((coefficients.shape[1], n_shared))
        states = np.zeros((coefficients.shape[1], *self.point.states.shape))
        for k, rows, matrix in self._matrices():
            total = self._cast(coefficients[rows]).T @ matrix
            shared += total[:, :n_shared]
            states[:, k] = total[:, n_shared:]
        return shared, states

    def _cast(self, x):
        return _single(x) if self.rough else x


def _single(x):
    single = x.astype(np.float32)
    single[np.abs(single) < SUBNORMAL] = 0.0
    return single
