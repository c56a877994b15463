"""Sums over the tag sequences of all sentences, with sentences of like length side by side.

A step from token to token is then one product of matrices (K, K) (K, lanes): of 200,000 tokens with
9 tags a gradient is eight times as fast as by `inference.smoothing`, which goes sentence by
sentence. Sentences of a block end together; tokens before the shorter ones begin are padding.
"""

import numpy as np
from numba import njit

from ...inference.smoothing import factors
from ...parallel import in_blas_threads, pieces
from .tokens import Tokens

LANES = 64  # sentences side by side: their messages stay in the cache
GROUPS = 8  # of blocks, for threads: fixed, so that results do not depend on their number


class Blocks:
    """All sentences of a chain whose params are start (K,), transitions (K, K) and end (K,).

    A block is (sentences, where each begins, emission factors (T, K, lanes)), longest first.
    """

    def __init__(self, tokens: Tokens):
        density = factors(tokens.offset)
        emitted = tokens.offset[np.arange(len(tokens)), tokens.tags]
        self.level = np.add.reduceat(density.log_scale - emitted, tokens.starts[:-1])
        self.lengths = tokens.lengths
        self._count_features(tokens)
        longest_first = np.argsort(-self.lengths, kind="stable")
        self.blocks = []
        for lanes in pieces(len(self.lengths), LANES):
            sentences = longest_first[lanes]
            longest = self.lengths[sentences[0]]
            begins = longest - self.lengths[sentences]
            scaled = np.ones((longest, tokens.n_labels, len(sentences)))
            for lane, n in enumerate(sentences):
                rows = slice(tokens.starts[n], tokens.starts[n + 1])
                scaled[begins[lane] :, :, lane] = density.scaled[rows]
            self.blocks.append((sentences, begins, scaled))

    def _count_features(self, tokens):
        """The sentence and the number of every feature that the labels have."""
        k = tokens.n_labels
        before, after = tokens.moves
        every = np.arange(len(self.lengths))
        first = tokens.tags[tokens.starts[:-1]]
        last = tokens.tags[tokens.starts[1:] - 1]
        self.sentence = np.concatenate([every, tokens.sentence_of[tokens.links], every])
        self.feature = np.concatenate([first, k + k * before + after, k + k**2 + last])

    def sums(
        self, start: np.ndarray, transitions: np.ndarray, end: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """(sum_n weights_n (-log p(z_n | x_n)), its gradient (D,))."""
        parts = start, transitions, end
        tops = [part.max() for part in parts]
        potentials = [np.exp(part - top) for part, top in zip(parts, tops, strict=True)]

        def of_group(first: int):
            total = 0.0
            for sentences, begins, scaled in self.blocks[first::GROUPS]:
                total = total + _sums(scaled, begins, weights[sentences], *potentials)
            return total

        total = sum(in_blas_threads(of_group, range(min(GROUPS, len(self.blocks)))))
        params = np.concatenate([np.ravel(part) for part in parts])
        observed = np.bincount(self.feature, weights[self.sentence], len(params))
        level = self.level + tops[0] + (self.lengths - 1) * tops[1] + tops[2]
        return total[0] + weights @ level - observed @ params, total[1:] - observed


_jit = njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"}
)


@_jit
def _sums(factors, begins, weights, start, transition, end):
    """Log Z and expected features of a block in one vector (1 + D,)."""
    n_places, n_tags, lanes = factors.shape
    before = np.searchsorted(begins, np.arange(n_places + 1))  # lanes with a token before place t
    alpha = np.empty(factors.shape)
    norm = np.empty((n_places, lanes))
    _forward(factors, before, start, transition, alpha, norm)
    mass = np.dot(end, alpha[-1])
    log_z = np.dot(weights, np.log(mass) - np.log(norm).sum(axis=0))
    beta = np.outer(end, weights / mass)
    last = (alpha[-1] * beta).sum(axis=1)
    first = np.zeros(n_tags)
    links = _backward(factors, before, transition, alpha, norm, beta, first)
    return np.concatenate((np.array([log_z]), first, (links * transition).ravel(), last))


@_jit
def _forward(factors, before, start, transition, alpha, norm):
    """Fills alpha (T, K, lanes), scaled to columns of sum 1, and norm (T, lanes), by what."""
    into = transition.T.copy()
    for t in range(len(factors)):
        now = alpha[t]
        if t > 0:
            np.dot(into, alpha[t - 1], now)
        scale = norm[t]
        scale[:] = 0.0
        for j in range(len(start)):
            row = now[j]
            row[before[t] :] = start[j]  # padding too, where it does no harm
            factor = factors[t, j]
            for b in range(len(scale)):
                row[b] *= factor[b]
                scale[b] += row[b]
        for b in range(len(scale)):
            scale[b] = 1.0 / scale[b]
        for j in range(len(start)):
            row = now[j]
            for b in range(len(scale)):
                row[b] *= scale[b]
        scale[before[t + 1] :] = 1.0


@_jit
def _backward(factors, before, transition, alpha, norm, beta, first):
    """Expected links, less their factor; takes beta to first tokens and adds their marginals."""
    links = np.zeros(transition.shape)
    met = np.empty(transition.shape)
    ahead = np.empty(beta.shape)
    for t in range(len(factors) - 1, -1, -1):
        for b in range(before[t], before[t + 1]):
            first += beta[:, b] * alpha[t, :, b]
        if t == 0:
            break
        for j in range(len(first)):
            row = ahead[j]
            source = beta[j]
            factor = factors[t, j]
            scale = norm[t]
            for b in range(before[t]):
                row[b] = source[b] * factor[b] * scale[b]
            row[before[t] :] = 0.0
        np.dot(transition, ahead, beta)
        np.dot(alpha[t - 1], ahead.T, met)
        links += met
    return links
