"""Sums over the tag sequences of sentences: log Z, expected features and their covariance."""

from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ...inference.smoothing import Factors, smooth, transition_counts
from ...parallel import in_blas_threads
from .moments import covariances

PIECE = 4000  # tokens that one thread takes at a time: their messages stay in its cache


class CRFParams(NamedTuple):
    """start (K,), transitions (K, K) from row to column, end (K,): log-potentials."""

    start: np.ndarray
    transitions: np.ndarray
    end: np.ndarray


def split(params: np.ndarray, n_tags: int) -> CRFParams:
    """Name the parts of params (2 K + K^2,)."""
    start = params[:n_tags]
    transitions = params[n_tags:-n_tags].reshape(n_tags, n_tags)
    end = params[-n_tags:]
    return CRFParams(start, transitions, end)


def starts_of(lengths):
    """Where each of the sequences put end to end begins, and their end, (N + 1,)."""
    return np.concatenate([[0], np.cumsum(lengths)])


def portions(sizes, limit):
    """Slices of consecutive items, each of about `limit` in the sum of the items' sizes."""
    begins = np.cumsum(sizes) - sizes
    cuts = np.flatnonzero(np.diff(begins // limit)) + 1
    return [slice(a, b) for a, b in pairwise([0, *cuts, len(sizes)])]


class Chains:
    """Sentences end to end: `smoothing.factors` of their scores, and starts (N + 1,)."""

    def __init__(self, density: Factors, starts: np.ndarray):
        self.density = density
        self.starts = starts
        self.lengths = np.diff(starts)
        self.n_tags = density.scaled.shape[1]

    def __len__(self):
        return len(self.lengths)

    def tokens(self, sentences):
        """The numbers of the tokens of the sentences, one sentence after the other."""
        lengths = self.lengths[sentences]
        begins = np.cumsum(lengths) - lengths
        offsets = np.repeat(self.starts[sentences] - begins, lengths)
        return offsets + np.arange(len(offsets))

    def take(self, sentences, known=1.0):
        """Chains of the numbered sentences, each as often as it is named.

        known: factors of the emissions of their tokens (n_tokens, K), 0 to forbid a tag.
        """
        rows = self.tokens(sentences)
        density = Factors(self.density.scaled[rows] * known, self.density.log_scale[rows])
        return Chains(density, starts_of(self.lengths[sentences]))

    def smooth(self, params):
        """The `Smoothed` posteriors of all sentences."""
        return smooth(self.density, self.starts, *split(params, self.n_tags))

    def each(self, params):
        """(log Z (N,), E[features] (N, D)) of each sentence."""
        smoothed = self.smooth(params)
        return smoothed.log_z, self._features(smoothed)

    def _features(self, smoothed):
        first = smoothed.gamma[self.starts[:-1]]
        links = transition_counts(smoothed, self.starts)
        last = smoothed.gamma[self.starts[1:] - 1]
        return np.hstack([first, links.reshape(len(self), self.n_tags**2), last])

    @cached_property
    def _pieces(self):
        """(slice of the sentences, their chains) for each piece that a thread takes."""
        numbers = np.arange(len(self))
        parts = portions(self.lengths, PIECE)
        return [(part, self.take(numbers[part])) for part in parts]

    def sums(self, params, weights):
        """(sum_n weights_n log Z_n, sum_n weights_n E[features] (D,)), on threads."""

        def of_piece(piece):
            part, chains = piece
            log_z, features = chains.each(params)
            return weights[part] @ log_z, weights[part] @ features

        log_z, features = zip(*in_blas_threads(of_piece, self._pieces), strict=True)
        return sum(log_z), sum(features)

    def covariance(self, params, weights):
        """sum_n weights_n Cov(features), (D, D): the Hessian of sum_n weights_n log Z_n."""

        def of_piece(piece):
            part, chains = piece
            everything = np.array([0, len(chains)])
            return chains.covariances(params, weights[part], everything)[0]

        return sum(in_blas_threads(of_piece, self._pieces))

    def covariances(self, params, weights, bounds):
        """The same of sentences bounds[o]:bounds[o + 1], for each o, (n, D, D)."""
        smoothed = self.smooth(params)
        return covariances(smoothed[1:5], self._features(smoothed), self.starts, weights, bounds)
