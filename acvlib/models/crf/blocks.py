"""Sums over the tag sequences of all sentences, sentences of one length side by side.

A step from token to token is then a product of matrices (K, K) (K, lanes): 2.3 times faster than the general kernel
of `inference.smoothing` on 200,000 tokens with 9 tags. Messages are scaled as there.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from ...parallel import in_blas_threads, one_blas_thread

LANES = 64  # sentences side by side: their messages stay in the cache
PIECE = 20000  # tokens that a thread takes at a time
LARGE = 1e150  # a product of normalisers whose logarithm is due


class Blocks(NamedTuple):
    """Blocks of sentences of equal length.

    sentences: their numbers, block by block; cuts (n_blocks + 1,) where blocks begin among them; lengths (n_blocks,);
    factors: emission factors, of each block in the order (token, tag, sentence).
    """

    sentences: np.ndarray
    cuts: np.ndarray
    lengths: np.ndarray
    factors: np.ndarray


def side_by_side(scaled: np.ndarray, starts: np.ndarray) -> list[Blocks]:
    """Sort sentences into blocks, and these into pieces for threads; scaled (n_tokens, K): emission factors."""
    lengths = np.diff(starts)
    order = np.argsort(lengths, kind="stable")
    pieces, blocks, size = [], [], 0
    for same in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        for begin in range(0, len(same), LANES):
            blocks.append(same[begin : begin + LANES])
            size += len(blocks[-1]) * lengths[same[0]]
            if size > PIECE:
                pieces.append(blocks)
                blocks, size = [], 0
    return [_piece(blocks, scaled, starts) for blocks in [*pieces, blocks] if blocks]


def _piece(blocks, scaled, starts):
    sizes = [len(block) for block in blocks]
    lengths = np.array([starts[block[0] + 1] - starts[block[0]] for block in blocks])
    tokens = [starts[b] + np.arange(n)[:, None] for b, n in zip(blocks, lengths, strict=True)]
    factors = [scaled[rows].transpose(0, 2, 1).ravel() for rows in tokens]
    cuts = np.concatenate([[0], np.cumsum(sizes)])
    return Blocks(np.concatenate(blocks), cuts, lengths, np.concatenate(factors))


def block_sums(
    pieces: list[Blocks], weights: np.ndarray, potentials: list[np.ndarray], threads: bool = True
) -> tuple[float, np.ndarray]:
    """sum_n weights_n (log Z_n of the scaled factors, E[features] (D,)); potentials: exponentials of the params."""

    def of_piece(piece):
        blocks = (piece.cuts, piece.lengths, piece.factors)
        return _sums(*blocks, weights[piece.sentences], *potentials)

    if threads:
        parts = in_blas_threads(of_piece, pieces)
    else:
        with one_blas_thread:
            parts = [of_piece(piece) for piece in pieces]
    return sum(part[0] for part in parts), sum(part[1] for part in parts)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"})
def _sums(cuts, lengths, factors, weights, start, transition, end):
    k, widest = len(start), np.diff(cuts).max()
    longest = (lengths * np.diff(cuts)).max()
    alphas, norms = np.empty(longest * k), np.empty(longest)
    betas, aheads = np.empty(k * widest), np.empty(k * widest)
    first, links, last = np.zeros(k), np.zeros((k, k)), np.zeros(k)
    into, met = transition.T.copy(), np.empty((k, k))
    log_z, position = 0.0, 0
    for c in range(len(lengths)):
        n, lanes = lengths[c], cuts[c + 1] - cuts[c]
        size, norm = k * lanes, norms[: n * lanes].reshape(n, lanes)
        e = factors[position : position + n * size].reshape(n, size)
        position += n * size
        alpha = alphas[: n * size].reshape(n, k, lanes)
        beta, ahead = betas[:size].reshape(k, lanes), aheads[:size].reshape(k, lanes)
        for t in range(n):
            if t == 0:
                for j in range(k):
                    alpha[0, j] = start[j]
            else:
                np.dot(into, alpha[t - 1], alpha[t])
            _normalise(alpha[t], e[t], norm[t])
        for b in range(lanes):
            weight, product, mass = weights[cuts[c] + b], 1.0, 0.0
            for t in range(n):
                product *= norm[t, b]
                if product > LARGE:
                    log_z -= weight * np.log(product)
                    product = 1.0
            for j in range(k):
                mass += alpha[n - 1, j, b] * end[j]
            log_z += weight * np.log(mass / product)
            for j in range(k):
                beta[j, b] = weight * end[j] / mass
                last[j] += beta[j, b] * alpha[n - 1, j, b]
        for t in range(n - 1, 0, -1):
            e_here, norm_here = e[t], norm[t]
            for x in range(size):
                aheads[x] = betas[x] * e_here[x]
            for j in range(k):
                row = ahead[j]
                for b in range(lanes):
                    row[b] *= norm_here[b]
            np.dot(transition, ahead, beta)
            np.dot(alpha[t - 1], ahead.T, met)
            links += met
        for j in range(k):
            first[j] += (beta[j] * alpha[0, j]).sum()
    return log_z, np.concatenate((first, (links * transition).ravel(), last))


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"})
def _normalise(alpha, e, norm):
    """Multiplies alpha (K, lanes) by the factors e and divides it by its column sums; norm: one over these."""
    flat = alpha.reshape(-1)
    for x in range(len(flat)):
        flat[x] *= e[x]
    norm[:] = 0.0
    for j in range(len(alpha)):
        row = alpha[j]
        for b in range(len(norm)):
            norm[b] += row[b]
    for b in range(len(norm)):
        norm[b] = 1.0 / norm[b]
    for j in range(len(alpha)):
        row = alpha[j]
        for b in range(len(norm)):
            row[b] *= norm[b]
