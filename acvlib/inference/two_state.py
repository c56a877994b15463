"""Smoothing of a two-state chain whose emissions fall into few classes: one fold, or 32 as lanes.

Why this stands beside `smoothing`: for the traffic chapter's 1,000 folds the general kernel takes 6
times as long, and lanes written for any number of states 2.5 times; a single fold takes half as
long. Tested against `chain` and against enumeration.

Site t = 1..T has a class, whose emissions are a row of a small table; an unobserved site 0 has the
stationary law. Both states' probabilities are kept: 1 - P has no digits where P is nearly 1. The
variance of the score is a sum over the steps of a reversed martingale: step t reveals z_t given
z_t-1 = j and the future, with variance s_j (x + e_j)(x + e_j)', where x is the tangent of the
backward log-odds and e_0 = -1, e_1 = 1 at the logit of P(j -> j).
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from . import two_state_sweep as kernels
from .two_state_sweep import FASTMATH, N_LANES, WIDTH

_NO_SCORE = np.empty((0, 0, 0))


class Chains(NamedTuple):
    """B = 1 or `N_LANES` folds of one series; each has its own emissions and transitions."""

    classes: np.ndarray  # (T,)
    keep: np.ndarray  # (T, B): False where a fold leaves the site out
    emission: np.ndarray  # (2, n_classes, B), with maximum 1 in each class
    transition: np.ndarray  # (2, 2, B)
    starts: np.ndarray  # of blocks of a few hundred sites, and T


class Smoothed(NamedTuple):
    """Posteriors of B folds; messages of a single one."""

    log_z: np.ndarray  # (B,)
    event: np.ndarray  # (n_classes, B): sums of P(z_t = 1 | x) over the kept sites of a class
    statistics: np.ndarray  # (4, B): P(z_0 = 1), P(z_T = 1), moves 0 -> 1, sum_t<T P(z_t = 1)
    variance: np.ndarray | None = None  # (WIDTH - 1, WIDTH - 1, B): of the score
    messages: np.ndarray | None = None  # (T, 4): P(z_t-1 | past), P(x_t.. | z_t) / P(x_t.. | past)


def smooth(chains: Chains, score: tuple[np.ndarray, np.ndarray] | None = None) -> Smoothed:
    """Smooth the folds.

    score, for the variance: gradient (3, n_classes, B) of log(emission 1 / emission 0), and its
    parameters' numbers (n_classes, 3), the same throughout a block.
    """
    transition = chains.transition
    n_lanes = transition.shape[2]
    gradient, places = (_NO_SCORE, None) if score is None else score
    first_classes = chains.classes[chains.starts[:-1]]
    slots = kernels.slots_of(first_classes, places)
    begin = kernels.initial_state(transition)
    left_out = np.empty(0, int), np.zeros(n_lanes + 1, int)
    sweep = kernels.compiled_sweep(n_lanes, True)
    swept = sweep(*_arrays(chains), *left_out, gradient, slots, begin.ravel())
    state, last, event, _, x, variance, messages = swept
    beta1, log_z, moves, total = state.reshape(begin.shape)[8:12, :n_lanes]
    first = begin[1, :n_lanes] * beta1
    statistics = np.stack([first, last, moves, total + first - last])
    x[-2] -= transition[0, 0]
    x[-1] += transition[1, 1]
    variance += first * (1.0 - first) * x[:, None] * x
    return Smoothed(log_z, event, statistics, variance, messages)


def left_out_densities(chains: Chains, sites: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """p(x_t | kept observations), in the emissions' scale, for `N_LANES` folds.

    sites: the left-out ones, sorted, of fold b in sites[ends[b] : ends[b + 1]].
    """
    slots = np.empty((len(chains.starts) - 1, 0), int)
    begin = kernels.initial_state(chains.transition).ravel()
    sweep = kernels.compiled_sweep(N_LANES, False)
    return sweep(*_arrays(chains), sites, ends, _NO_SCORE, slots, begin)[3]


def _arrays(chains):
    return chains.classes, chains.keep, chains.emission, chains.starts


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FASTMATH)
def tangent(classes, weights, messages, transition, quiet, ratio, contrast):
    """d2 log Z / dw_t dparams (T, WIDTH), from the `Smoothed.messages` of a fold.

    quiet and ratio (n_classes, WIDTH): gradients of log emission 0, and of the logarithm of the
    ratio of both emissions, whose values are contrast (n_classes,); transition (2, 2).
    Source: Louis (1982), by the tangents of the forward and of the backward log-odds.
    """
    to0, to1 = range(WIDTH - 3, WIDTH - 1)
    stay0, leave0 = transition[0]
    leave1, stay1 = transition[1]
    cross = np.empty((len(classes), WIDTH))
    x = np.zeros(WIDTH)  # of the forward log-odds
    x[to0] = -stay0
    x[to1] = stay1
    for t in range(len(classes)):
        p0 = messages[t, 0]
        p1 = messages[t, 1]
        inverse = 1.0 / ((stay0 * p0 + leave1 * p1) * (leave0 * p0 + stay1 * p1))
        slope = (stay1 - leave0) * p0 * p1 * inverse
        for i in range(WIDTH):
            x[i] = slope * x[i] + weights[t] * ratio[classes[t], i]
        x[to0] -= p0 * stay0 * leave0 * inverse
        x[to1] += p1 * stay1 * leave1 * inverse
        for i in range(WIDTH):
            cross[t, i] = x[i]
    x[:] = 0.0  # of the backward log-odds
    for t in range(len(classes) - 1, -1, -1):
        c = classes[t]
        p0, p1, v0, v1 = messages[t]
        gamma = (leave0 * p0 + stay1 * p1) * v1
        spread = gamma * (stay0 * p0 + leave1 * p1) * v0
        enter = leave0 * v1 / (stay0 * v0 + leave0 * v1)
        remain = stay1 * v1 / (leave1 * v0 + stay1 * v1)
        for i in range(WIDTH):
            d_gamma = spread * (cross[t, i] + x[i])
            cross[t, i] = quiet[c, i] + gamma * ratio[c, i] + contrast[c] * d_gamma
            x[i] = (remain - enter) * (x[i] + weights[t] * ratio[c, i])
        x[to0] += enter - leave0
        x[to1] += remain - stay1
    return cross
