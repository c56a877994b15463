"""Pairs (frame, state) by state, and the first derivatives of their log-densities.

The score of a pair in a matrix (o, i) of weights is signal (o,) times inputs (i,), a `Layer`: the
gradient is one matrix product a state, and so are products with many directions.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

NEGLIGIBLE = 1e-25  # an expected count that no sum of scores would show
MANY = 8  # directions from which on a matrix of scores pays
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
        return [(k, np.flatnonzero(self.state == k)) for k in np.unique(self.state)]

    def by_state(self):
        """(state, frames, mass) of the pairs of each state that has some."""
        for k, rows in self.groups:
            yield k, self.frame[rows], self.mass[rows]


def gradient(point, mass):
    """sum_tk mass_tk d log p(x_t | k) / dparams, (E,); mass (M, K), 0 at missing frames."""
    n_shared = len(point.shared)
    shared = np.zeros(n_shared)
    states = np.zeros(point.states.shape)
    for k, own in enumerate(mass.T):
        rows = np.flatnonzero(own > NEGLIGIBLE)
        if rows.size:
            total = _StateScores(point, k, rows).adjoint(own[rows, None])[0]
            shared += total[:n_shared]
            states[k] = total[n_shared:]
    return np.concatenate([shared, states.ravel()])


class Scores:
    """d log p of chosen pairs, as products; 0 for all others."""

    def __init__(self, point, pairs, chosen, rough):
        self.point = point
        self.n_pairs = len(pairs.frame)
        self.parts = []
        for k, rows in pairs.groups:
            own = rows[chosen[rows]]
            if own.size:
                self.parts.append((k, own, _StateScores(point, k, pairs.frame[own], rough)))

    def along(self, shared, states):
        """d log p along B directions (B, n_shared) and (B, K, d): (P, B)."""
        out = np.zeros((self.n_pairs, len(shared)))
        for k, rows, scores in self.parts:
            out[rows] = scores.along(np.concatenate([shared, states[:, k]], axis=1))
        return out

    def adjoint(self, coefficients):
        """sum_p coefficients[p, b] d log p, (B, n_shared) and (B, K, d); coefficients (P, B)."""
        n_directions = coefficients.shape[1]
        n_shared = len(self.point.shared)
        shared = np.zeros((n_directions, n_shared))
        states = np.zeros((n_directions, *self.point.states.shape))
        for k, rows, scores in self.parts:
            total = scores.adjoint(coefficients[rows])
            shared += total[:, :n_shared]
            states[:, k] = total[:, n_shared:]
        return shared, states


class _StateScores:
    """d log p of n frames in state k by the shared and its own parameters, (n, n_shared + d).

    A few directions go through the layers; many through a matrix, which is made for each call, or,
    if rough, once and in single precision.
    """

    def __init__(self, point, k, frames, rough=False):
        by_shared, layers = point.scores(k, frames)
        ones = np.ones((len(frames), 1))
        self.layers = [Layer(by_shared, ones), *layers]
        self.rough = rough

    def along(self, directions):
        """(n, B) of directions (B, n_shared + d)."""
        if len(directions) >= MANY:
            return self._matrix() @ self._cast(directions).T
        out = 0.0
        first = 0
        for signal, inputs in self.layers:
            n, n_outputs = signal.shape
            n_inputs = inputs.shape[1]
            last = first + n_outputs * n_inputs
            weights = directions[:, first:last].reshape(-1, n_inputs)
            moved = (inputs @ weights.T).reshape(n, len(directions), n_outputs)
            out = out + (moved @ signal[:, :, None])[:, :, 0]
            first = last
        return out

    def adjoint(self, coefficients):
        """Sums (B, n_shared + d) of scores times coefficients (n, B)."""
        n, n_directions = coefficients.shape
        if n_directions >= MANY:
            return self._cast(coefficients).T @ self._matrix()
        sums = []
        for signal, inputs in self.layers:
            spread = coefficients[:, :, None] * signal[:, None, :]
            total = spread.reshape(n, -1).T @ inputs
            sums.append(total.reshape(n_directions, -1))
        return np.concatenate(sums, axis=1)

    def _matrix(self):
        return self._rough_matrix if self.rough else self._new_matrix()

    @cached_property
    def _rough_matrix(self):
        return _single(self._new_matrix())

    def _new_matrix(self):
        products = [signal[:, :, None] * inputs[:, None, :] for signal, inputs in self.layers]
        return np.concatenate([part.reshape(len(part), -1) for part in products], axis=1)

    def _cast(self, x):
        return _single(x) if self.rough else x


def _single(x):
    single = x.astype(np.float32)
    single[np.abs(single) < SUBNORMAL] = 0.0
    return single
