"""First derivatives of the log-densities of pairs (frame, state), state by state.

The score of a pair in a matrix (o, i) of weights is signal (o,) times inputs (i,), a `Layer`: the
gradient is one matrix product a state, and so are products with many directions.
"""

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


class StatePairs(NamedTuple):
    """The n pairs of a state: their numbers among all pairs, frames, and how often expected."""

    state: int
    numbers: np.ndarray
    frames: np.ndarray
    mass: np.ndarray


def by_state(frame, state, mass):
    """`StatePairs` of each state that has some, of pairs (P,)."""
    groups = []
    for k in np.unique(state):
        numbers = np.flatnonzero(state == k)
        groups.append(StatePairs(k, numbers, frame[numbers], mass[numbers]))
    return groups


def gradient(point, mass):
    """sum_t mass_tk d log p(x_t | k), (K, e); mass (M, K), 0 at missing frames."""
    return np.stack([point.gradient(k, own) for k, own in enumerate(mass.T)])


class Scores:
    """d log p of chosen pairs, as products; 0 for all others."""

    def __init__(self, point, groups, chosen, rough):
        self.point = point
        self.n_pairs = len(chosen)
        self.parts = []
        for group in groups:
            own = chosen[group.numbers]
            if own.any():
                layers = point.layers(group.state, group.frames[own])
                self.parts.append((group.state, group.numbers[own], StateScores(layers, rough)))

    def along(self, states):
        """d log p along B directions (B, K, e): (P, B)."""
        out = np.zeros((self.n_pairs, len(states)))
        for k, numbers, scores in self.parts:
            out[numbers] = scores.along(states[:, k])
        return out

    def adjoint(self, coefficients):
        """sum_p coefficients[p, b] d log p, (B, K, e); coefficients (P, B)."""
        out = np.zeros((coefficients.shape[1], *self.point.states.shape))
        for k, numbers, scores in self.parts:
            out[:, k] = scores.adjoint(coefficients[numbers])
        return out


class StateScores:
    """d log p of n frames in one state by its e parameters, given in layers.

    A few directions go through the layers; many through a matrix, which is made for each call, or,
    if rough, once and in single precision.
    """

    def __init__(self, layers, rough=False):
        self.layers = layers
        self.rough = rough

    def along(self, directions):
        """(n, B) of directions (B, e)."""
        if len(directions) >= MANY:
            matrix, directions = self._operands(directions)
            return matrix @ directions.T
        out = 0.0
        first = 0
        for signal, inputs in self.layers:
            n, n_outputs = signal.shape
            n_inputs = inputs.shape[1]
            last = first + n_outputs * n_inputs
            weights = directions[:, first:last].reshape(-1, n_inputs)
            moved = (inputs @ weights.T).reshape(n, -1, n_outputs)
            out = out + (moved @ signal[:, :, None])[:, :, 0]
            first = last
        return out

    def adjoint(self, coefficients):
        """Sums (B, e) of scores times coefficients (n, B)."""
        n, n_directions = coefficients.shape
        if n_directions >= MANY:
            matrix, coefficients = self._operands(coefficients)
            return coefficients.T @ matrix
        sums = []
        for signal, inputs in self.layers:
            spread = coefficients[:, :, None] * signal[:, None, :]
            total = spread.reshape(n, n_directions * signal.shape[1]).T @ inputs
            sums.append(total.reshape(n_directions, -1))
        return np.concatenate(sums, axis=1)

    def _operands(self, x):
        """The matrix of scores (n, e) and x, in the precision of their product."""
        return (self._rough_matrix, _single(x)) if self.rough else (self._matrix(), x)

    @cached_property
    def _rough_matrix(self):
        return _single(self._matrix())

    def _matrix(self):
        parts = []
        for signal, inputs in self.layers:
            product = signal[:, :, None] * inputs[:, None, :]
            parts.append(product.reshape(len(signal), -1))
        return np.concatenate(parts, axis=1)


def _single(x):
    single = x.astype(np.float32)
    single[np.abs(single) < SUBNORMAL] = 0.0
    return single
