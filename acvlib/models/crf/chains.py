"""All sentences of a CRF as scaled factors, and sums over their tag sequences on several threads."""

from typing import NamedTuple

import numpy as np

from ...parallel import in_threads
from . import kernels

PARTS = 8  # pieces of work of about equal size; fixed, so that results do not depend on the number of threads
SHORT = 4000  # tokens that are not worth a second thread
LANES = 16  # parameters handled together
SPREAD = 300.0  # nats between the largest and the smallest score or parameter: products of two stay in range


class CRFParams(NamedTuple):
    """start (K,), transitions (K, K) from row to column, end (K,): log-potentials."""

    start: np.ndarray
    transitions: np.ndarray
    end: np.ndarray


def split(params, n_tags):
    """Params (2 K + K^2, ...) as `CRFParams`, whatever axes follow."""
    links = params[n_tags:-n_tags].reshape(n_tags, n_tags, *params.shape[1:])
    return CRFParams(params[:n_tags], links, params[-n_tags:])


class Chains:
    """scores (n_tokens, K) of sentences that begin at starts (N + 1,), the last entry n_tokens.

    factor (n_tokens, K): multiplies the exponentials of the scores, 0 to forbid a tag.
    """

    def __init__(self, scores, starts, factor=1.0):
        largest = scores.max(axis=1)
        self.starts, self.n_tags, self.scores = starts, scores.shape[1], scores
        self.e = np.exp(scores - largest[:, None]) * factor
        self.shift, self.lengths = np.add.reduceat(largest, starts[:-1]), np.diff(starts)

    def scaled(self, params):
        """((start, transition, end), (lost a sentence, lost a transition)) of params (D,) or (D, lanes).

        The first are exponentials, each divided by its largest, and nan where params differ by more than SPREAD:
        all sums are nan then, so that a step that strays is not taken. The second is what dividing takes from log Z.
        """
        parts = split(params, self.n_tags)
        tops = [part.max(axis=_but_lanes(part, params)) for part in parts]
        spreads = [np.ptp(part, axis=_but_lanes(part, params)) for part in parts]
        scale = np.where(np.max(spreads, axis=0) > SPREAD, np.nan, 1.0)
        powers = [
            np.ascontiguousarray(np.exp(part - top) * scale)
            for part, top in zip(parts, tops, strict=True)
        ]
        return powers, (tops[0] + tops[2], tops[1])

    def log_partitions(self, log_z, lost, sentences):
        """log Z of the sentences from that of the scaled factors."""
        return log_z + self.shift[sentences] + lost[0] + (self.lengths[sentences] - 1) * lost[1]

    def sums(self, params, weights):
        """(log Z (N,), sum_n weights_n E[features] (D,)); log Z is 0 where the weight is."""
        powers, lost = self.scaled(params)
        sentences, log_z = np.flatnonzero(weights), np.zeros(len(self.lengths))
        parts = self._spread(
            lambda rows: kernels.sums(self.e, self.starts, rows, weights[rows], *powers), sentences
        )
        log_z[sentences] = self.log_partitions(
            np.concatenate([part[0] for part in parts]), lost, sentences
        )
        return log_z, np.sum([part[1] for part in parts], axis=0)

    def each(self, params, sentences):
        """(log Z (n,), E[features] (n, D)) of the numbered sentences."""
        powers, lost = self.scaled(params)
        parts = self._spread(
            lambda rows: kernels.each(self.e, self.starts, rows, *powers), sentences
        )
        log_z, features = (np.concatenate(part) for part in zip(*parts, strict=True))
        return self.log_partitions(log_z, lost, sentences), features

    def covariance(self, params, weights):
        """sum_n weights_n Cov(features), (D, D)."""
        powers, _ = self.scaled(params)
        sentences = np.flatnonzero(weights)
        parts = self._spread(
            lambda rows: kernels.covariance(self.e, self.starts, rows, weights[rows], *powers),
            sentences,
        )
        return np.sum(parts, axis=0)

    def marginals(self, params, sentences):
        """P(z_t = k) (n_tokens, K); rows of other sentences hold nothing of use."""
        powers, _ = self.scaled(params)
        out = np.empty_like(self.e)
        kernels.node_marginals(self.e, self.starts, sentences, *powers, out)
        return out

    def many_sums(self, params):
        """(sum of log Z (n,), sum of E[features] (n, D)) over all sentences for each row of params (n, D)."""
        blocks = [params[i : i + LANES] for i in range(0, len(params), LANES)]
        parts = in_threads(self._lane_block, blocks)
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))

    def _lane_block(self, params):
        filled = np.concatenate([params, np.repeat(params[-1:], LANES - len(params), axis=0)])
        powers, lost = self.scaled(filled.T)
        sentences = np.arange(len(self.lengths))
        log_z, features = kernels.lane_sums(self.e, self.starts, sentences, *powers)
        log_z += self.shift.sum() + len(sentences) * lost[0] + (self.lengths - 1).sum() * lost[1]
        return log_z[: len(params)], features.T[: len(params)]

    def _spread(self, function, sentences):
        """function(rows) for PARTS pieces of the sentences with about as many tokens each; one piece if short."""
        ends = np.cumsum(self.lengths[sentences])
        cuts = (
            np.searchsorted(ends, ends[-1] * np.arange(1, PARTS) / PARTS)
            if ends[-1] > SHORT
            else []
        )
        return in_threads(function, [rows for rows in np.split(sentences, cuts) if rows.size])


def _but_lanes(part, params):
    """The axes of a part of params (D,) or (D, lanes) that are not lanes."""
    return tuple(range(part.ndim - (params.ndim - 1)))
