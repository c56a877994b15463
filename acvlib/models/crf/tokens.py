"""Tokens of labelled sentences, end to end, and the sums over their label sequences."""

from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...inference.smoothing import factors, smooth, transition_counts


def starts_of(lengths: Any) -> np.ndarray:
    """Where each of the sequences put end to end begins, and their end, (N + 1,)."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=int)])


def portions(sizes: np.ndarray, limit: int) -> list[slice]:
    """Slices of consecutive items, each of about `limit` in the sum of the items' sizes."""
    begins = np.cumsum(sizes) - sizes
    cuts = np.flatnonzero(np.diff(begins // limit)) + 1
    return [slice(a, b) for a, b in pairwise([0, *cuts, len(sizes)])]


class Tokens:
    """matrix (n_tokens, n_attributes), tags (n_tokens,), offset (n_tokens, K), starts (N + 1,).

    The score of a label is the weights of a token's attributes for it, and its offset: -inf rules
    it out. The matrix may be sparse.
    """

    def __init__(self, matrix: Any, tags: np.ndarray, offset: np.ndarray, starts: np.ndarray):
        self.matrix = matrix
        self.tags = tags
        self.offset = offset
        self.starts = starts
        self.lengths = np.diff(starts)

    def __len__(self) -> int:
        return len(self.tags)

    @property
    def n_labels(self) -> int:
        """K."""
        return self.offset.shape[1]

    @cached_property
    def links(self) -> np.ndarray:
        """The tokens that another one of their sentence follows."""
        followed = np.ones(len(self), bool)
        followed[self.starts[1:] - 1] = False
        return np.flatnonzero(followed)

    @cached_property
    def moves(self) -> tuple[np.ndarray, np.ndarray]:
        """The tags of `links` and of the tokens after them."""
        return self.tags[self.links], self.tags[self.links + 1]

    @cached_property
    def sentence_of(self) -> np.ndarray:
        """The sentence of each token, (n_tokens,)."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    def rows(self, sentences: np.ndarray) -> np.ndarray:
        """The numbers of the tokens of the sentences, one sentence after the other."""
        lengths = self.lengths[sentences]
        starts = starts_of(lengths)
        return np.repeat(self.starts[sentences] - starts[:-1], lengths) + np.arange(starts[-1])

    def take(self, sentences: np.ndarray) -> "Tokens":
        """The tokens of the numbered sentences, each as often as it is named."""
        rows = self.rows(sentences)
        starts = starts_of(self.lengths[sentences])
        return Tokens(self.matrix[rows], self.tags[rows], self.offset[rows], starts)


class FeatureParams(NamedTuple):
    """Of attributes, states (n_attributes, K), and transitions (K, K); 0 where there is none."""

    states: np.ndarray
    transitions: np.ndarray


def joined(states: np.ndarray, transitions: np.ndarray) -> np.ndarray:
    """All pairs of a name and a label: attributes x labels, then labels x labels."""
    return np.concatenate([np.ravel(states), np.ravel(transitions)])


class Paths:
    """The label sequences of some tokens at some weights.

    values (N,): log sum exp(scores of all that are not ruled out) - score of the labels.
    Derivatives are by all pairs of a name and a label, as `joined` has them.
    """

    def __init__(self, tokens: Tokens, params: FeatureParams):
        self.tokens = tokens
        scores = tokens.matrix @ params.states + tokens.offset
        labelled = scores[np.arange(len(tokens)), tokens.tags]
        labelled[tokens.links] += params.transitions[tokens.moves]
        none = np.zeros(tokens.n_labels)
        self.smoothed = smooth(factors(scores), tokens.starts, none, params.transitions, none)
        self.values = self.smoothed.log_z - np.add.reduceat(labelled, tokens.starts[:-1])

    def gradients(self, coefficients: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        """sum_n coefficients_n dvalues_n over sentences bounds[o]:bounds[o + 1], (n, n_pairs).

        Where the matrix is sparse, n is 1.
        """
        tokens = self.tokens
        excess = self.smoothed.gamma.copy()
        excess[np.arange(len(tokens)), tokens.tags] -= 1.0
        excess *= coefficients[tokens.sentence_of][:, None]
        if len(bounds) == 2:
            states = (tokens.matrix.T @ excess)[None]
        else:
            each = tokens.matrix[:, :, None] * excess[:, None]
            states = np.add.reduceat(each, tokens.starts[bounds[:-1]])
        moves = transition_counts(self.smoothed, tokens.starts)
        np.subtract.at(moves, (tokens.sentence_of[tokens.links], *tokens.moves), 1.0)
        moves = np.add.reduceat(coefficients[:, None, None] * moves, bounds[:-1])
        n = len(moves)
        return np.hstack([states.reshape(n, -1), moves.reshape(n, -1)])

    def gradient(self, coefficients: np.ndarray) -> np.ndarray:
        """sum_n coefficients_n dvalues_n, (n_pairs,)."""
        return self.gradients(coefficients, np.array([0, len(coefficients)]))[0]
