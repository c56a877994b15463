"""Sums over the tag sequences of all sentences, with sentences of one length side by side.

A step from token to token is then one product of matrices (K, K) (K, lanes): of 15,000 or 200,000
tokens with 9 tags a gradient takes a third of its time by `inference.smoothing`, which goes
sentence by sentence.
"""

import numpy as np
from numba import njit
from scipy.sparse import csr_array

from ...inference.smoothing import factors
from ...parallel import in_blas_threads, pieces
from .tokens import Tokens

LANES = 64  # sentences side by side: their messages stay in the cache
GROUPS = 8  # of blocks, for threads: fixed, so that results do not depend on their number


class Blocks:
    """All sentences of a chain whose params are start (K,), transitions (K, K) and end (K,).

    A block is (sentences, their emission factors (T, K, lanes)).
    """

    def __init__(self, tokens: Tokens):
        density = factors(tokens.offset)
        emitted = tokens.offset[np.arange(len(tokens)), tokens.tags]
        self.level = np.add.reduceat(density.log_scale - emitted, tokens.starts[:-1])
        self.n_moves = tokens.lengths - 1
        self.observed = _features(tokens)
        self.blocks = []
        for length in np.unique(tokens.lengths):
            alike = np.flatnonzero(tokens.lengths == length)
            for lanes in pieces(len(alike), LANES):
                rows = tokens.starts[alike[lanes]] + np.arange(length)[:, None]
                scaled = np.ascontiguousarray(density.scaled[rows].swapaxes(1, 2))
                self.blocks.append((alike[lanes], scaled))

    def sums(
        self, start: np.ndarray, transitions: np.ndarray, end: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """(sum_n weights_n (-log p(z_n | x_n)), its gradient (D,))."""
        parts = start, transitions, end
        tops = [part.max() for part in parts]
        potentials = [np.exp(part - top) for part, top in zip(parts, tops, strict=True)]

        def of_group(first: int):
            blocks = self.blocks[first::GROUPS]
            return sum(_sums(scaled, weights[rows], *potentials) for rows, scaled in blocks)

        total = sum(in_blas_threads(of_group, range(min(GROUPS, len(self.blocks)))))
        params = np.concatenate([np.ravel(part) for part in parts])
        level = self.level + tops[0] + self.n_moves * tops[1] + tops[2] - self.observed @ params
        return total[0] + weights @ level, total[1:] - weights @ self.observed


def _features(tokens):
    """How often the labels of each sentence have each feature, sparse (N, D)."""
    k = tokens.n_labels
    before, after = tokens.moves
    every = np.arange(len(tokens.lengths))
    sentence = np.concatenate([every, tokens.sentence_of[tokens.links], every])
    last = tokens.tags[tokens.starts[1:] - 1]
    feature = [tokens.tags[tokens.starts[:-1]], k + k * before + after, k + k**2 + last]
    entries = np.ones(len(sentence)), (sentence, np.concatenate(feature))
    return csr_array(entries, shape=(len(every), k * (k + 2)))


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"})
def _sums(factors, weights, start, transition, end):
    """Log Z and expected features of a block in one vector (1 + D,)."""
    n_places, n_tags, lanes = factors.shape
    into = transition.T.copy()
    alpha = np.empty(factors.shape)  # of columns with sum 1
    norm = np.empty((n_places, lanes))
    for t in range(n_places):
        now = alpha[t]
        now[:] = start.reshape(-1, 1)
        if t > 0:
            np.dot(into, alpha[t - 1], now)
        now *= factors[t]
        norm[t] = now.sum(axis=0)
        now /= norm[t]
    mass = np.dot(end, alpha[-1])
    log_z = np.dot(weights, np.log(mass) + np.log(norm).sum(axis=0))
    beta = np.outer(end, weights / mass)
    last = (alpha[-1] * beta).sum(axis=1)
    links = np.zeros((n_tags, n_tags))
    for t in range(n_places - 1, 0, -1):
        beta *= factors[t] / norm[t]
        links += np.dot(alpha[t - 1], beta.T)
        beta = np.dot(transition, beta)
    first = (alpha[0] * beta).sum(axis=1)
    return np.concatenate((np.array([log_z]), first, (links * transition).ravel(), last))
