"""Sums over the tag sequences of all sentences, with sentences of like length side by side.

A step from token to token is then one product of matrices (K, K) (K, lanes): twice as fast as the
kernel of `inference.smoothing`, which goes sentence by sentence, on 200,000 tokens with 9 tags.
Sentences of a block end together; the tokens before the shorter ones begin are padding.
"""

import numpy as np
from numba import njit

from ...parallel import in_blas_threads, one_blas_thread, pieces

LANES = 64  # sentences side by side: their messages stay in the cache
GROUPS = 8  # of blocks, for threads: fixed, so that results do not depend on their number
LARGE = 1e150  # a product of normalisers whose logarithm is due


class Block:
    """Sentences side by side, longest first; scaled (n_tokens, K): emission factors.

    factors (T, K, lanes); begun (T,): how many sentences have begun at a place.
    """

    def __init__(self, sentences: np.ndarray, scaled: np.ndarray, starts: np.ndarray):
        lengths = starts[sentences + 1] - starts[sentences]
        places = np.arange(lengths[0])
        self.sentences = sentences
        self.begun = np.searchsorted(-lengths, places - lengths[0], side="right")
        self.factors = np.ones((lengths[0], scaled.shape[1], len(sentences)))
        for lane, (n, length) in enumerate(zip(sentences, lengths, strict=True)):
            self.factors[lengths[0] - length :, :, lane] = scaled[starts[n] : starts[n + 1]]


def side_by_side(scaled: np.ndarray, starts: np.ndarray) -> list[Block]:
    """Sort sentences into blocks."""
    order = np.argsort(-np.diff(starts), kind="stable")
    return [Block(order[lanes], scaled, starts) for lanes in pieces(len(order), LANES)]


def block_sums(
    blocks: list[Block], weights: np.ndarray, potentials: list[np.ndarray], threads: bool = True
) -> tuple[float, np.ndarray]:
    """(sum_n weights_n log Z_n of the scaled factors, sum_n weights_n E[features] (D,)).

    potentials: exponentials of start, transitions and end; threads: whether to use them.
    """

    def of_group(group):
        parts = [_sums(b.factors, b.begun, weights[b.sentences], *potentials) for b in group]
        return sum(part[0] for part in parts), sum(part[1] for part in parts)

    groups = [blocks[i::GROUPS] for i in range(min(GROUPS, len(blocks)))]
    if threads:
        parts = in_blas_threads(of_group, groups)
    else:
        with one_blas_thread:
            parts = [of_group(group) for group in groups]
    return sum(part[0] for part in parts), sum(part[1] for part in parts)


_jit = njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"}
)


@_jit
def _sums(factors, begun, weights, start, transition, end):
    n, k, lanes = factors.shape
    alpha, norm = np.empty(factors.shape), np.empty((n, lanes))
    _forward(factors, begun, start, transition, alpha, norm)
    first, last, beta = np.zeros(k), np.zeros(k), np.empty((k, lanes))
    log_z, begin = 0.0, 0
    for b in range(lanes):
        while begun[begin] <= b:
            begin += 1
        product, mass = 1.0, 0.0
        for t in range(begin, n):
            product *= norm[t, b]
            if product > LARGE:
                log_z -= weights[b] * np.log(product)
                product = 1.0
        for j in range(k):
            mass += alpha[n - 1, j, b] * end[j]
        log_z += weights[b] * np.log(mass / product)
        for j in range(k):
            beta[j, b] = weights[b] * end[j] / mass
            last[j] += beta[j, b] * alpha[n - 1, j, b]
    links = _backward(factors, begun, transition, alpha, norm, beta, first)
    return log_z, np.concatenate((first, (links * transition).ravel(), last))


@_jit
def _forward(factors, begun, start, transition, alpha, norm):
    """Fills alpha (T, K, lanes), scaled to columns of sum 1, and norm (T, lanes), by what."""
    n, k, lanes = factors.shape
    into = transition.T.copy()
    for t in range(n):
        now, e, scale = alpha[t], factors[t], norm[t]
        if t > 0:
            np.dot(into, alpha[t - 1], now)
        for j in range(k):
            now[j, begun[t - 1] if t > 0 else 0 :] = start[j]  # padding too, where it does no harm
        scale[:] = 0.0
        for j in range(k):
            row, e_row = now[j], e[j]
            for b in range(lanes):
                row[b] *= e_row[b]
            for b in range(lanes):
                scale[b] += row[b]
        for b in range(lanes):
            scale[b] = 1.0 / scale[b]
        for j in range(k):
            row = now[j]
            for b in range(lanes):
                row[b] *= scale[b]


@_jit
def _backward(factors, begun, transition, alpha, norm, beta, first):
    """Expected links, less their factor; takes beta to first tokens and adds their marginals."""
    n, k, lanes = factors.shape
    links, met, ahead = np.zeros((k, k)), np.empty((k, k)), np.empty((k, lanes))
    for t in range(n - 1, -1, -1):
        going = begun[t - 1] if t > 0 else 0  # sentences with a token before
        for j in range(k):
            for b in range(going, begun[t]):
                first[j] += beta[j, b] * alpha[t, j, b]
        if t == 0:
            break
        e, scale = factors[t], norm[t]
        for j in range(k):
            row, source, e_row = ahead[j], beta[j], e[j]
            for b in range(lanes):
                row[b] = source[b] * e_row[b] * scale[b]
            row[going:] = 0.0
        np.dot(transition, ahead, beta)
        np.dot(alpha[t - 1], ahead.T, met)
        links += met
    return links
