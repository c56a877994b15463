"""Pairs (frame, state) by state, and the first derivatives of their log-densities.

The score of a pair in a matrix (o, i) of weights is signal (o,) times inputs (i,), a `Layer`: the
gradient is one matrix product a state, and so are products with many directions.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

NEGLIGIBLE = 1e-25  # an expected count that no sum of scores would show
MANY = 8  # directions from which on matrices of scores pay
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


def gradient(point: Any, mass: np.ndarray) -> np.ndarray:
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

    A few directions go through the layers; many through matrices (n, n_shared + d) of scores, which
    are made for each call, or, if rough, once and in single precision.
    """

    def __init__(self, point, pairs: Pairs, chosen: np.ndarray, rough: bool):
        self.point = point
        self.n_pairs = len(pairs.frame)
        self.rough = rough
        kept = [(k, rows[chosen[rows]]) for k, rows in pairs.groups]
        self.groups = [(k, rows) for k, rows in kept if rows.size]
        self._layers = [point.scores(k, pairs.frame[rows]) for k, rows in self.groups]

    @cached_property
    def _kept(self):
        return [_single(_matrix(parts)) for parts in self._layers]

    def _matrices(self):
        return self._kept if self.rough else (_matrix(parts) for parts in self._layers)

    def _cast(self, x):
        return _single(x) if self.rough else x

    def along(self, shared: np.ndarray, states: np.ndarray) -> np.ndarray:
        """d log p along B directions (B, n_shared) and (B, K, d): (P, B)."""
        out = np.zeros((self.n_pairs, len(shared)))
        if len(shared) < MANY:
            for (k, rows), parts in zip(self.groups, self._layers, strict=True):
                out[rows] = _through_layers(parts, shared, states[:, k])
            return out
        for (k, rows), matrix in zip(self.groups, self._matrices(), strict=True):
            direction = np.concatenate([shared, states[:, k]], axis=1)
            out[rows] = matrix @ self._cast(direction).T
        return out

    def adjoint(self, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """sum_p coefficients[p, b] d log p, (B, n_shared) and (B, K, d); coefficients (P, B)."""
        n_directions = coefficients.shape[1]
        n_shared = len(self.point.shared)
        shared = np.zeros((n_directions, n_shared))
        states = np.zeros((n_directions, *self.point.states.shape))
        if n_directions < MANY:
            for (k, rows), parts in zip(self.groups, self._layers, strict=True):
                by_shared, states[:, k] = _back_through_layers(parts, coefficients[rows])
                shared += by_shared
            return shared, states
        for (k, rows), matrix in zip(self.groups, self._matrices(), strict=True):
            total = self._cast(coefficients[rows]).T @ matrix
            shared += total[:, :n_shared]
            states[:, k] = total[:, n_shared:]
        return shared, states


def _matrix(scores):
    by_shared, layers = scores
    products = [signal[:, :, None] * inputs[:, None, :] for signal, inputs in layers]
    return np.column_stack([by_shared, *(part.reshape(len(part), -1) for part in products)])


def _through_layers(scores, shared, directions):
    """Scores of n pairs along directions (B, n_shared) and (B, d), (n, B)."""
    by_shared, layers = scores
    out = by_shared @ shared.T
    first = 0
    for signal, inputs in layers:
        n_outputs, n_inputs = signal.shape[1], inputs.shape[1]
        last = first + n_outputs * n_inputs
        weights = directions[:, first:last].reshape(-1, n_inputs)
        moved = (inputs @ weights.T).reshape(len(signal), -1, n_outputs)
        out += np.matmul(moved, signal[:, :, None])[:, :, 0]
        first = last
    return out


def _back_through_layers(scores, coefficients):
    """Sums of scores times coefficients (n, B): (B, n_shared) and (B, d)."""
    by_shared, layers = scores
    n, n_directions = coefficients.shape
    sums = []
    for signal, inputs in layers:
        spread = (coefficients[:, :, None] * signal[:, None, :]).reshape(n, -1)
        sums.append((spread.T @ inputs).reshape(n_directions, -1))
    return coefficients.T @ by_shared, np.concatenate(sums, axis=1)


def _single(x):
    single = x.astype(np.float32)
    single[np.abs(single) < SUBNORMAL] = 0.0
    return single
