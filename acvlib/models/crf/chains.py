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
    def _blocks(self):
        return side_by_side(self.density.scaled, self.starts)

    def sums(self, params, weights, run=in_blas_threads):
        """(sum_n weights_n log Z_n, sum_n weights_n E[features] (D,)), shared out by `run`."""
        parts = split(params, self.n_tags)
        if max(np.ptp(part) for part in parts) > SPREAD:
            log_z, features = self.each(params)
            return weights @ log_z, weights @ features
        tops = [part.max() for part in parts]
        potentials = [np.exp(part - top) for part, top in zip(parts, tops, strict=True)]
        log_z, features = block_sums(self._blocks, weights, potentials, run)
        scale = np.add.reduceat(self.density.log_scale, self.starts[:-1])
        scale += tops[0] + (self.lengths - 1) * tops[1] + tops[2]
        return log_z + weights @ scale, features

    def covariance(self, params, weights):
        """sum_n weights_n Cov(features), (D, D): the Hessian of sum_n weights_n log Z_n."""

        def of_piece(rows):
            chains = self.take(np.arange(rows.start, rows.stop))
            everything = np.array([0, len(chains)])
            return chains.covariances(params, weights[rows], everything)[0]

        return sum(in_blas_threads(of_piece, portions(self.lengths, PIECE)))

    def covariances(self, params, weights, bounds):
        """The same of sentences bounds[o]:bounds[o + 1], for each o, (n, D, D)."""
        smoothed = self.smooth(params)
        return covariances(smoothed[1:5], self._features(smoothed), self.starts, weights, bounds)


class OwnChains(NamedTuple):
    """The chains in folds' own terms: of fold o those numbered bounds[o] ... bounds[o + 1] - 1.

    sentence (N,): which one each chain is; labels: where sites are tokens, the row among the
    chains' tokens and the tag of each omitted site.
    """

    chains: Chains
    sentence: np.ndarray
    bounds: np.ndarray
    labels: tuple = ()

    def covariances(self, params):
        """sum Cov(features) over the chains of each fold, (n_folds, D, D)."""
        return self.chains.covariances(params, np.ones(len(self.chains)), self.bounds)

    def smooth(self, params):
        """(log Z (N,), P(z_t = k) (M, K)) at params (D,), or a row for each fold."""
        if params.ndim == 1:
            smoothed = self.chains.smooth(params)
            return smoothed.log_z, smoothed.gamma
        log_z = []
        gamma = []
        numbers = np.arange(len(self.chains))
        for point, own in zip(params, np.split(numbers, self.bounds[1:-1]), strict=True):
            smoothed = self.chains.take(own).smooth(point)
            log_z.append(smoothed.log_z)
            gamma.append(smoothed.gamma)
        return np.concatenate(log_z), np.concatenate(gamma)
