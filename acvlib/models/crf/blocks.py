"""Sums over the tag sequences of all sentences, with sentences of one length side by side.

A step from token to token is then one product of matrices (K, K) (K, lanes): of 15,000 or 200,000
tokens with 9 tags a gradient takes a third of its time by `inference.smoothing`, which goes
sentence by sentence.
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

    free (D,): where these stand among the pairs of `Tokens.observed`.
    A block is (sentences, their emission factors (T, K, lanes)).
    """

    def __init__(self, tokens: Tokens, free: np.ndarray):
        density = factors(tokens.offset)
        emitted = tokens.offset[np.arange(len(tokens)), tokens.tags]
        self.level = np.add.reduceat(density.log_scale - emitted, tokens.starts[:-1])
        self.n_moves = tokens.lengths - 1
        self.observed = tokens.observed[:, free]
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


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"})
def _sums(factors, weights, start, transition, end):
    """Log Z and expected features of a block in one vector (1 + D,).

    Loops stand where NumPy would broadcast: they compile in a quarter of the time.
    """
    n_places, n_tags, lanes = factors.shape
    into = transition.T.copy()
    alpha = np.empty(factors.shape)  # of columns with sum 1
    norm = np.zeros((n_places, lanes))
    log_z = 0.0
    for t in range(n_places):
        now = alpha[t]
        if t > 0:
            np.dot(into, alpha[t - 1], now)
        for j in range(n_tags):
            for lane in range(lanes):
                before = now[j, lane] if t > 0 else start[j]
                now[j, lane] = before * factors[t, j, lane]
                norm[t, lane] += now[j, lane]
        for lane in range(lanes):
            log_z += weights[lane] * np.log(norm[t, lane])
        for j in range(n_tags):
            for lane in range(lanes):
                now[j, lane] /= norm[t, lane]
    beta = np.empty((n_tags, lanes))
    mass = np.dot(end, alpha[-1])
    for lane in range(lanes):
        log_z += weights[lane] * np.log(mass[lane])
        for j in range(n_tags):
            beta[j, lane] = end[j] * weights[lane] / mass[lane]
    out = np.zeros(1 + 2 * n_tags + n_tags * n_tags)
    out[0] = log_z
    links = np.zeros((n_tags, n_tags))
    product = np.empty((n_tags, n_tags))
    onward = np.empty((n_tags, lanes))
    _dot_rows(alpha[-1], beta, out[len(out) - n_tags :])
    for t in range(n_places - 1, 0, -1):
        for j in range(n_tags):
            for lane in range(lanes):
                beta[j, lane] *= factors[t, j, lane] / norm[t, lane]
        np.dot(alpha[t - 1], beta.T, product)
        for i in range(n_tags):
            for j in range(n_tags):
                links[i, j] += product[i, j]
        np.dot(transition, beta, onward)
        beta, onward = onward, beta
    _dot_rows(alpha[0], beta, out[1 : 1 + n_tags])
    for i in range(n_tags):
        for j in range(n_tags):
            out[1 + n_tags + i * n_tags + j] = links[i, j] * transition[i, j]
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _dot_rows(left, right, out):
    for j in range(len(left)):
        for lane in range(left.shape[1]):
            out[j] += left[j, lane] * right[j, lane]
