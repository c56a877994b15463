"""Sums over the tag sequences of sentences: log Z, expected features and their covariance."""

from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ...inference.smoothing import Factors, smooth, transition_counts
from ...parallel import in_blas_threads
from .blocks import block_sums, side_by_side
from .moments import covariances

PIECE = 4000  # tokens that one thread takes at a time: their messages stay in its cache
SPREAD = 300.0  # nats between scores of a token, or params of a kind: products of two stay in range


class CRFParams(NamedTuple):
    """start (K,), transitions (K, K) from row to column, end (K,): log-potentials."""

    start: np.ndarray
    transitions: np.ndarray
    end: np.ndarray


def split(params: np.ndarray, n_tags: int) -> CRFParams:
    """Name the parts of params (2 K + K^2,)."""
    transitions = params[n_tags:-n_tags].reshape(n_tags, n_tags)
    return CRFParams(params[:n_tags], transitions, params[-n_tags:])


def portions(sizes: np.ndarray, limit: int) -> list[slice]:
    """Slices of consecutive items, each of about `limit` in the sum of the items' sizes."""
    begins = np.cumsum(sizes) - sizes
    cuts = np.flatnonzero(np.diff(begins // limit)) + 1
    bounds = [0, *cuts, len(sizes)]
    return [slice(a, b) for a, b in pairwise(bounds)]


class Chains:
    """Sentences end to end: their emission factors, and starts (N + 1,) as in `smoothing`."""

    def __init__(self, density: Factors, starts: np.ndarray):
        self.density = density  # `smoothing.factors` of the scores
        self.starts = starts
        self.lengths = np.diff(starts)
        self.n_tags = density.scaled.shape[1]

    def __len__(self):
        return len(self.lengths)

    def tokens(self, sentences):
        """The numbers of the tokens of the sentences, one sentence after the other."""
        lengths = self.lengths[sentences]
        begins = np.cumsum(lengths) - lengths
        return np.repeat(self.starts[sentences] - begins, lengths) + np.arange(lengths.sum())

    def take(self, sentences, known=1.0):
        """Chains of the numbered sentences, each as often as it is named.

        known: factors of the emissions of their tokens (n_tokens, K), 0 to forbid a tag.
        """
        sentences = np.arange(len(self))[sentences]
        rows = self.tokens(sentences)
        density = Factors(self.density.scaled[rows] * known, self.density.log_scale[rows])
        return Chains(density, np.concatenate([[0], np.cumsum(self.lengths[sentences])]))

    def smooth(self, params):
        """The `Smoothed` posteriors of all sentences."""
        return smooth(self.density, self.starts, *split(params, self.n_tags))

    def smooth_each(self, params, owner):
        """(log Z (N,), P(z_t = k) (M, K)) at params (D,), or at a row of params for each owner."""
        if params.ndim == 1:
            smoothed = self.smooth(params)
            return smoothed.log_z, smoothed.gamma
        found = [self.take(owner == n).smooth(point) for n, point in enumerate(params)]
        return np.concatenate([s.log_z for s in found]), np.concatenate([s.gamma for s in found])

    def each(self, params):
        """(log Z (N,), E[features] (N, D)) of each sentence."""
        smoothed = self.smooth(params)
        return smoothed.log_z, self._features(smoothed)

    def _features(self, smoothed):
        first = smoothed.gamma[self.starts[:-1]]
        links = transition_counts(smoothed, self.starts).reshape(len(self), self.n_tags**2)
        last = smoothed.gamma[self.starts[1:] - 1]
        return np.hstack([first, links, last])

    def sums(self, params, weights):
        """(sum_n weights_n log Z_n, sum_n weights_n E[features] (D,)) of a few sentences."""
        log_z, features = self.each(params)
        return weights @ log_z, weights @ features

    @cached_property
    def _blocks(self):
        return side_by_side(self.density.scaled, self.starts)

    def many_sums(self, params, weights, threads=True):
        """`sums` of many sentences; on threads, unless the caller has them already."""
        parts = split(params, self.n_tags)
        if max(np.ptp(part) for part in parts) > SPREAD:
            return self.sums(params, weights)
        tops = [part.max() for part in parts]
        potentials = [np.exp(part - top) for part, top in zip(parts, tops, strict=True)]
        log_z, features = block_sums(self._blocks, weights, potentials, threads)
        lost = np.add.reduceat(self.density.log_scale, self.starts[:-1])
        lost += tops[0] + (self.lengths - 1) * tops[1] + tops[2]
        return log_z + weights @ lost, features

    def covariance(self, params, weights):
        """sum_n weights_n Cov(features), (D, D): the Hessian of sum_n weights_n log Z_n."""

        def of_part(rows):
            chains = self.take(np.arange(rows.start, rows.stop))
            return chains.covariances(params, weights[rows], np.zeros(len(chains), int), 1)[0]

        return sum(in_blas_threads(of_part, portions(self.lengths, PIECE)))

    def covariances(self, params, weights, owner, n_owners):
        """The same of each owner's sentences, (n_owners, D, D); owner (N,): rising numbers."""
        s = self.smooth(params)
        bounds = np.searchsorted(owner, np.arange(n_owners + 1))
        posterior = (s.filtered, s.ahead, s.gamma, s.transition)
        return covariances(posterior, self._features(s), self.starts, weights, bounds)
