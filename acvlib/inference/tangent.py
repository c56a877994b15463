"""How posteriors of hidden states move with the scores of states and moves: second derivatives.

By a complex step through the passes of `smoothing`: its square is lost to rounding, so that the
derivative is exact to rounding, at little more than the time of a recursion of its own.
"""

from itertools import pairwise

import numpy as np

from . import chain
from .smoothing import passes

STEP = 1e-20
TINY = np.finfo(float).tiny  # in place of the probability 0


def tangent(
    posterior: tuple[np.ndarray, ...],
    starts: np.ndarray,
    coefficients: np.ndarray,
    field: np.ndarray,
    move: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """(coefficient_n d gamma (M, K), sum_n coefficient_n d(expected moves) (K, K)).

    posterior: gamma, filtered, ahead, transition and pairs, which may be left out, of
    `smoothing.Smoothed`, N sequences in M rows; where there are pairs, by them alone, and slower;
    field (M, K) and move (K, K): the change of all scores.
    """
    if posterior[-1] is not None and len(posterior) == 5:
        return _by_pairs(posterior, starts, coefficients, field, move)
    gamma, filtered, ahead, transition = stepped(posterior[:4], starts, field, move)
    each = np.repeat(coefficients, np.diff(starts))[:, None]
    moves = transition * (filtered[:-1].T @ (each * ahead)[1:])
    return each * gamma.imag / STEP, moves.imag / STEP


def _by_pairs(posterior, starts, coefficients, field, move):
    gamma = posterior[0]
    pairs = posterior[4]
    d_gamma = np.empty_like(gamma)
    d_moves = np.zeros_like(move)
    for n, (first, stop) in enumerate(pairwise(starts)):
        own = slice(first, stop)
        edges = np.broadcast_to(move, (stop - first - 1, *move.shape))
        nodes, links = chain._tangent_of(gamma[own], pairs[first + 1 : stop], field[own], edges)
        d_gamma[own] = coefficients[n] * nodes
        d_moves += coefficients[n] * links.sum(axis=0)
    return d_gamma, d_moves


def stepped(
    posterior: tuple[np.ndarray, ...], starts: np.ndarray, field: np.ndarray, move: np.ndarray
) -> tuple[np.ndarray, ...]:
    """The posterior after an imaginary step: what moves is the imaginary part, over STEP."""
    gamma, filtered, ahead, transition = posterior
    last = starts[1:] - 1
    alone = last[np.diff(starts) == 1]
    # factors of the same posteriors, without potentials of starts and ends
    node = filtered * ahead / np.maximum(gamma, TINY)
    node[last] = ahead[last]
    node[starts[:-1]] = filtered[starts[:-1]]
    node[alone] = gamma[alone]
    transition = transition * (1.0 + 1j * STEP * move)
    moved = passes(node * (1.0 + 1j * STEP * field), starts, transition)
    return *moved[:3], transition
