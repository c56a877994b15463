"""Label sequences of tokens at some weights: log Z, and its first and second derivatives."""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ...inference.smoothing import factors, smooth, transition_counts
from ...inference.tangent import tangent
from .tokens import Tokens


class FeatureParams(NamedTuple):
    """states (n_attributes, K) and transitions (K, K): weights, 0 where the model has none."""

    states: np.ndarray
    transitions: np.ndarray


def joined(states: np.ndarray, transitions: np.ndarray) -> np.ndarray:
    """All pairs of a name and a label: attributes x labels, then labels x labels."""
    return np.concatenate([np.ravel(states), np.ravel(transitions)])


class Paths:
    """The label sequences of some tokens, all of them or those of known labels.

    values (N,): log sum exp(scores of all that agree with what is known) - score of the labels.
    Derivatives are by all pairs of a name and a label, as `joined` has them.
    """

    def __init__(self, tokens: Tokens, parts: FeatureParams, known: np.ndarray | None = None):
        self.tokens = tokens
        scores = tokens.matrix @ parts.states + tokens.offset
        own = scores[np.arange(len(tokens)), tokens.tags]
        own[tokens.links] += parts.transitions[tokens.moves]
        if known is not None:
            with np.errstate(divide="ignore"):
                scores = scores + np.log(known)
        none = np.zeros(scores.shape[1])
        density = factors(scores)
        self.smoothed = smooth(density, tokens.starts, none, parts.transitions, none)
        self.values = self.smoothed.log_z - np.add.reduceat(own, tokens.starts[:-1])

    def gradients(self, coefficients: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        """sum_n coefficients_n dvalues_n over sentences bounds[o]:bounds[o + 1], (n, n_pairs)."""
        tokens = self.tokens
        own_tags = (np.arange(len(tokens)), tokens.tags)
        excess = self.smoothed.gamma.copy()
        excess[own_tags] -= 1.0
        excess *= coefficients[tokens.sentence_of][:, None]
        states = self._by_group(bounds) @ excess
        moves = transition_counts(self.smoothed, tokens.starts)
        np.subtract.at(moves, (tokens.sentence_of[tokens.links], *tokens.moves), 1.0)
        moves *= coefficients[:, None, None]
        moves = np.add.reduceat(moves, bounds[:-1])
        n = len(moves)
        return np.hstack([states.reshape(n, -1), moves.reshape(n, -1)])

    def _by_group(self, bounds):
        """The transposed matrix with rows of their own for each group's tokens."""
        tokens = self.tokens
        if len(bounds) == 2:
            return tokens.transposed
        matrix = csr_array(tokens.matrix)
        n_attributes = matrix.shape[1]
        group = np.repeat(np.arange(len(bounds) - 1), np.diff(tokens.starts[bounds]))
        first = np.repeat(n_attributes * group, np.diff(matrix.indptr))
        shape = (len(tokens), n_attributes * (len(bounds) - 1))
        return csr_array((matrix.data, matrix.indices + first, matrix.indptr), shape).T

    def gradient(self, coefficients: np.ndarray) -> np.ndarray:
        """sum_n coefficients_n dvalues_n, (n_pairs,)."""
        return self.gradients(coefficients, np.array([0, len(coefficients)]))[0]

    def multiply(self, coefficients: np.ndarray, parts: FeatureParams) -> np.ndarray:
        """sum_n coefficients_n d2values_n times the vector of these parts, (n_pairs,)."""
        field = self.tokens.matrix @ parts.states
        posterior = self.smoothed[1:]
        starts = self.tokens.starts
        excess, moves = tangent(posterior, starts, coefficients, field, parts.transitions)
        return joined(self.tokens.transposed @ excess, moves)

    def variances(self, coefficients: np.ndarray) -> np.ndarray:
        """The diagonal of the same, but for covariances between tokens, (n_pairs,)."""
        gamma, filtered, ahead, transition = self.smoothed[1:5]
        each = coefficients[self.tokens.sentence_of][:, None]
        states = self.tokens.squared @ (each * gamma * (1.0 - gamma))
        moves = np.empty_like(transition)
        for j, row in enumerate(transition):
            pairs = filtered[:-1, j, None] * row * ahead[1:]
            if self.smoothed.pairs is not None:
                pairs = self.smoothed.pairs[1:, j]
            moves[j] = (each[1:] * pairs * (1.0 - pairs)).sum(axis=0)
        return joined(states, moves)
