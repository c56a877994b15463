"""Tokens of labelled sentences, end to end, and the sums over their label sequences."""

from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy.sparse import csr_array, hstack

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
    def sentence_of(self) -> np.ndarray:
        """The sentence of each token, (n_tokens,)."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @cached_property
    def observed(self) -> csr_array:
        """What each sentence has of each pair that `joined` has, sparse (N, n_pairs)."""
        matrix = csr_array(self.matrix)
        k = self.n_labels
        tag = np.repeat(self.tags, np.diff(matrix.indptr))
        shape = len(self.lengths), k * matrix.shape[1]
        ends = matrix.indptr[self.starts]
        states = csr_array((matrix.data, k * matrix.indices + tag, ends), shape)
        links = np.flatnonzero(np.diff(self.sentence_of) == 0)
        moves = self.sentence_of[links], k * self.tags[links] + self.tags[links + 1]
        return hstack([states, csr_array((np.ones(len(links)), moves), (shape[0], k * k))], "csr")

    def take(self, sentences: np.ndarray) -> "Tokens":
        """The tokens of the numbered sentences, each as often as it is named."""
        lengths = self.lengths[sentences]
        starts = starts_of(lengths)
        rows = np.repeat(self.starts[sentences] - starts[:-1], lengths) + np.arange(starts[-1])
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
        none = np.zeros(tokens.n_labels)
        self.smoothed = smooth(factors(scores), tokens.starts, none, params.transitions, none)
        given = tokens.offset[np.arange(len(tokens)), tokens.tags]
        labelled = np.add.reduceat(given, tokens.starts[:-1]) + tokens.observed @ joined(*params)
        self.values = self.smoothed.log_z - labelled

    def gradients(self, coefficients: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        """sum_n coefficients_n dvalues_n over sentences bounds[o]:bounds[o + 1], (n, n_pairs).

        Where the matrix is sparse, n is 1.
        """
        tokens = self.tokens
        gamma = coefficients[tokens.sentence_of][:, None] * self.smoothed.gamma
        if len(bounds) == 2:
            states = tokens.matrix.T @ gamma
        else:
            each = tokens.matrix[:, :, None] * gamma[:, None]
            states = np.add.reduceat(each, tokens.starts[bounds[:-1]])
        moves = transition_counts(self.smoothed, tokens.starts)
        moves = np.add.reduceat(coefficients[:, None, None] * moves, bounds[:-1])
        n = len(moves)
        expected = np.hstack([states.reshape(n, -1), moves.reshape(n, -1)])
        of_folds = csr_array((coefficients, np.arange(len(coefficients)), bounds))
        return expected - (of_folds @ tokens.observed).toarray()

    def gradient(self, coefficients: np.ndarray) -> np.ndarray:
        """sum_n coefficients_n dvalues_n, (n_pairs,)."""
        return self.gradients(coefficients, np.array([0, len(coefficients)]))[0]

    def covariances(self, weights: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        """sum_n weights_n Cov(features) over sentences bounds[o]:bounds[o + 1], (n, D, D).

        Features are numbered like params of a chain without attributes: first tag (K,),
        transitions (K, K), last tag (K,). Two that stand at different places meet in a forward
        pass: with phi_t the features up to token t, without the last tag,

        past_t[j] = P(z_t = j | x_1..t) E[phi_t | z_t = j, x_1..t]    moves on as `filtered` does;
        E[1(z_t-1 = i, z_t = j) phi_t-1 | x] = past_t-1[i] transition[i, j] ahead[t, j].
        """
        tokens = self.tokens
        starts = tokens.starts
        first = self.smoothed.gamma[starts[:-1]]
        links = transition_counts(self.smoothed, starts)
        last = self.smoothed.gamma[starts[1:] - 1]
        means = np.hstack([first, links.reshape(len(links), -1), last])
        k = tokens.n_labels
        n_features = means.shape[1]
        inner = n_features - k  # features that are not the last tag
        if self.smoothed.pairs is not None:
            met, ends = _far_meetings(self.smoothed, starts, weights, bounds)
        else:
            filtered, ahead, transition = self.smoothed[2:5]
            weighted = weights[tokens.sentence_of][:, None] * ahead
            longest = tokens.lengths.max()
            met, ends = _meetings(filtered, weighted, transition, starts, weights, bounds, longest)
            met = transition[..., None] * met.reshape(-1, k, k, inner).swapaxes(1, 2)
        out = np.zeros((len(met), n_features, n_features))
        out[:, k:inner, :inner] = met.reshape(len(out), k * k, inner)
        out[:, inner:, :inner] = ends
        out += out.swapaxes(1, 2).copy()
        for fold, rows in zip(out, map(slice, bounds[:-1], bounds[1:]), strict=True):
            some = weights[rows, None] * means[rows]
            fold -= some.T @ means[rows]
            fold[np.diag_indices(n_features)] += some.sum(axis=0)
        return out


def _far_meetings(smoothed, starts, weights, bounds):
    """Sums of `_meetings`, times the transitions (K, K, D), where products of these underflow.

    Of P(z_t-1, z_t | x) alone: given z_t, what lies before it does not depend on what follows.
    """
    gamma, pairs = smoothed.gamma, smoothed.pairs
    k = gamma.shape[1]
    before = np.divide(pairs, gamma[:, None], np.zeros(pairs.shape), where=gamma[:, None] > 0.0)
    met = np.zeros((len(bounds) - 1, k, k, k + k * k))
    ends = np.zeros((len(met), k, k + k * k))
    fold = np.repeat(np.arange(len(met)), np.diff(bounds))
    for o, first, stop, weight in zip(fold, starts[:-1], starts[1:], weights, strict=True):
        past = np.eye(k, k + k * k)  # E[phi_t | z_t, x]
        for t in range(first + 1, stop):
            met[o] += weight * pairs[t, :, :, None] * past[:, None]
            past = before[t].T @ past
            np.einsum("jij->ij", past[:, k:].reshape(k, k, k))[...] += before[t]
        ends[o] += weight * gamma[stop - 1, :, None] * past
    return met, ends


_jit = njit(cache=True, nogil=True, error_model="numpy")


@_jit
def _meetings(filtered, ahead, transition, starts, weights, bounds, longest):
    """Sums over sentences of a fold: ahead_t past_t-1 (K, K D) and the last past (K, D).

    ahead has the weights in it.
    """
    k = len(transition)
    inner = k + k * k
    past = np.empty((longest, k, inner))
    met = np.zeros((len(bounds) - 1, k, k * inner))
    ends = np.zeros((len(bounds) - 1, k, inner))
    links = np.empty((k, k * inner))
    for o in range(len(met)):
        for n in range(bounds[o], bounds[o + 1]):
            first = starts[n]
            length = starts[n + 1] - first
            _fill_past(filtered[first : first + length], transition, past)
            if length > 1:
                before = past[: length - 1].reshape(length - 1, k * inner)
                np.dot(ahead[first + 1 : first + length].T, before, links)
                _add(met[o].ravel(), 1.0, links.ravel())
            _add(ends[o].ravel(), weights[n], past[length - 1].ravel())
    return met, ends


@_jit
def _add(total, factor, values):
    """Adds in a loop: compiling a broadcast sum takes two seconds."""
    for i in range(len(total)):
        total[i] += factor * values[i]


@_jit
def _fill_past(filtered, transition, past):
    """Fills past (T, K, K + K^2)."""
    k = len(transition)
    into = transition.T.copy()
    past[0] = 0.0
    for j in range(k):
        past[0, j, j] = filtered[0, j]
    for t in range(1, len(filtered)):
        np.dot(into, past[t - 1], past[t])
        before = filtered[t - 1]
        for j in range(k):
            predicted = 0.0
            for i in range(k):
                predicted += before[i] * into[j, i]
            scale = filtered[t, j] / predicted
            row = past[t, j]
            for d in range(len(row)):
                row[d] *= scale
            for i in range(k):
                row[k + i * k + j] += scale * before[i] * into[j, i]
