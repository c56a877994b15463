"""Smoothing of a two-state chain whose emissions fall into few classes: 32 folds as lanes.

Why this stands beside `smoothing`: of the traffic chapter's 1,000 folds the general kernel takes 6
times as long.

Site t = 1..T has a class, whose emissions are a row of a small table; an unobserved site 0 has the
stationary law. Both states' probabilities are kept: 1 - P has no digits where P is nearly 1. The
variance of the score is a sum over the steps of a reversed martingale: step t reveals z_t given
z_t-1 = j and the future, with variance s_j (x + e_j)(x + e_j)', where x is the tangent of the
backward log-odds and e_0 = -1, e_1 = 1 at the logit of P(j -> j).

The lanes' forward pass is kept where blocks of sites start, and recomputed in cache. What changes
along a lane lives in flat arrays, as parts of one array provably do not overlap, and table entries
are read before they are selected: only so do the loops over lanes vectorise.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

N_LANES = 32
BLOCK = 256  # sites whose messages stay in cache
N_PARAMS = 11  # the emissions', then those of the chain:
TO0, TO1 = 9, 10  # logit P(0 -> 0), logit P(1 -> 1)
RESCALE = 16  # sites whose normalisers are multiplied before one logarithm is taken

FASTMATH = {"contract", "nsz", "arcp"}  # nothing that assumes finite numbers or reorders sums
jit = njit(cache=True, nogil=True, error_model="numpy", fastmath=FASTMATH)
_inline = njit(inline="always", error_model="numpy", fastmath=FASTMATH)

# Offsets in a flat state, of one value a lane each.
_P0, _P1, _STAY0, _LEAVE0, _LEAVE1, _STAY1 = range(0, 6 * N_LANES, N_LANES)
_PRODUCT, _BETA0, _BETA1, _LOG_Z, _MOVES, _TOTAL = range(6 * N_LANES, 12 * N_LANES, N_LANES)


class Chains(NamedTuple):
    """B = `N_LANES` folds of one series; each has its own emissions and transitions."""

    classes: np.ndarray  # (T,)
    keep: np.ndarray  # (T, B): False where a fold leaves the site out
    emission: np.ndarray  # (2, n_classes, B), with maximum 1 in each class
    transition: np.ndarray  # (2, 2, B)


class Smoothed(NamedTuple):
    """Posteriors of B folds."""

    log_z: np.ndarray  # (B,)
    event: np.ndarray  # (n_classes, B): sums of P(z_t = 1 | x) over the kept sites of a class
    statistics: np.ndarray  # (4, B): P(z_0 = 1), P(z_T = 1), moves 0 -> 1, sum_t<T P(z_t = 1)
    density: Any = None  # p(x_t | kept) of left-out sites, as emissions scale
    variance: Any = None  # (N_PARAMS, N_PARAMS, B): of the score, where that is handed in


def smooth(
    chains: Chains,
    score: tuple[np.ndarray, np.ndarray] | None = None,
    left_out: tuple[np.ndarray, np.ndarray] | None = None,
) -> Smoothed:
    """Smooth the folds.

    score, for the variance: gradient (3, n_classes, B) of log(emission 1 / emission 0), and its
    parameters' numbers (n_classes, 3).
    left_out, for densities: sites, those of fold b, sorted, in sites[ends[b] : ends[b + 1]]; ends.
    """
    score = (np.empty((3, 0, 0)), np.empty((0, 3), int)) if score is None else score
    sites = (np.empty(0, int), np.zeros(N_LANES + 1, int)) if left_out is None else left_out
    begin = np.zeros((12, N_LANES))
    leave = chains.transition[[0, 1], [1, 0]]
    begin[:2] = leave[::-1] / leave.sum(axis=0)
    begin[2:6] = chains.transition.reshape(4, N_LANES)
    begin[6:9] = 1.0
    state, last, event, density, x, steps = _sweep(*chains, begin.ravel(), *sites, *score)
    beta1, log_z, moves, total = state.reshape(begin.shape)[8:]
    first = begin[1] * beta1
    statistics = np.stack([first, last, moves, total + first - last])
    x[TO0] -= chains.transition[0, 0]  # what z_0 adds, by the stationary law
    x[TO1] += chains.transition[1, 1]
    lower = np.tri(N_PARAMS, dtype=bool)[..., None]
    variance = np.where(lower, steps, steps.swapaxes(0, 1)) + first * (1.0 - first) * x[:, None] * x
    return Smoothed(log_z, event, statistics, density, variance)


@jit
def _sweep(
    classes: np.ndarray,
    keep: np.ndarray,
    emission: np.ndarray,
    transition: np.ndarray,
    begin: np.ndarray,
    sites: np.ndarray,
    ends: np.ndarray,
    score: np.ndarray,
    places: np.ndarray,
):
    """Forward and back through blocks of sites."""
    state = begin.copy()  # arrays made here do not overlap, as the compiler knows
    work = np.empty((BLOCK, 4 * N_LANES))
    event = np.zeros((emission.shape[1], N_LANES))
    density = np.empty(len(sites))
    x = np.zeros((N_PARAMS, N_LANES))
    variance = np.zeros((N_PARAMS, N_PARAMS, N_LANES))
    starts = np.arange(0, len(classes), BLOCK)
    before = np.empty((len(starts), 2 * N_LANES))
    for k in range(len(starts)):
        before[k] = state[: 2 * N_LANES]
        span = starts[k], min(starts[k] + BLOCK, len(classes))
        _forward(classes, keep, emission, state, work, span, True)
    last = state[_P1 : _P1 + N_LANES].copy()
    unread = ends[1:].copy()
    for k in range(len(starts) - 1, -1, -1):
        span = starts[k], min(starts[k] + BLOCK, len(classes))
        state[: 2 * N_LANES] = before[k]
        _forward(classes, keep, emission, state, work, span, False)
        _backward(classes, keep, state, work, event, span)
        _read(classes, emission, state, work, span, sites, ends, unread, density)
        if score.size > 0:
            x, steps = _reveal(classes, keep, score, places, transition, work, x, span)
            variance += steps
    return state, last, event, density, x, variance


@_inline
def _forward(classes, keep, emission, state, work, span, with_log_z):
    """Fills `work` with P(z_t-1 | x_1..t-1) and with emissions over their normaliser."""
    for t in range(span[0], span[1]):
        c = classes[t]
        row = t - span[0]
        for b in range(N_LANES):
            e0 = emission[0, c, b]
            e1 = emission[1, c, b]
            e0 = e0 if keep[t, b] else 1.0
            e1 = e1 if keep[t, b] else 1.0
            p0 = state[_P0 + b]
            p1 = state[_P1 + b]
            u0 = e0 * (state[_STAY0 + b] * p0 + state[_LEAVE1 + b] * p1)
            u1 = e1 * (state[_LEAVE0 + b] * p0 + state[_STAY1 + b] * p1)
            inverse = 1.0 / (u0 + u1)
            work[row, b] = p0
            work[row, N_LANES + b] = p1
            work[row, 2 * N_LANES + b] = e0 * inverse
            work[row, 3 * N_LANES + b] = e1 * inverse
            state[_P0 + b] = u0 * inverse
            state[_P1 + b] = u1 * inverse
            if with_log_z:
                state[_PRODUCT + b] *= u0 + u1
        if with_log_z and (t + 1 == len(classes) or t % RESCALE == 0):
            for b in range(N_LANES):
                state[_LOG_Z + b] += np.log(state[_PRODUCT + b])
                state[_PRODUCT + b] = 1.0


@_inline
def _backward(classes, keep, state, work, event, span):
    """Turns emissions in `work` into P(x_t..T | z_t) / P(x_t..T | x_1..t-1); adds statistics."""
    for t in range(span[1] - 1, span[0] - 1, -1):
        c = classes[t]
        row = t - span[0]
        for b in range(N_LANES):
            v0 = work[row, 2 * N_LANES + b] * state[_BETA0 + b]
            v1 = work[row, 3 * N_LANES + b] * state[_BETA1 + b]
            entered = work[row, b] * state[_LEAVE0 + b] * v1
            gamma = entered + work[row, N_LANES + b] * state[_STAY1 + b] * v1
            work[row, 2 * N_LANES + b] = v0
            work[row, 3 * N_LANES + b] = v1
            event[c, b] += gamma if keep[t, b] else 0.0
            state[_MOVES + b] += entered
            state[_TOTAL + b] += gamma
            state[_BETA0 + b] = state[_STAY0 + b] * v0 + state[_LEAVE0 + b] * v1
            state[_BETA1 + b] = state[_LEAVE1 + b] * v0 + state[_STAY1 + b] * v1


@jit
def _read(classes, emission, state, work, span, sites, ends, unread, density):
    """Densities of the left-out sites of a block; those below unread[b] are of earlier blocks."""
    for b in range(N_LANES):
        while unread[b] > ends[b] and sites[unread[b] - 1] >= span[0]:
            unread[b] -= 1
            t = sites[unread[b]]
            c = classes[t]
            row = t - span[0]
            reach = work[row, b] * state[_LEAVE0 + b] + work[row, N_LANES + b] * state[_STAY1 + b]
            gamma = reach * work[row, 3 * N_LANES + b]
            density[unread[b]] = (1.0 - gamma) * emission[0, c, b] + gamma * emission[1, c, b]


@jit
def _reveal(classes, keep, score, places, transition, work, x, span):
    """Backward through a block: the tangent before it, and the sum of its steps' variances.

    Of symmetric matrices what is not above the diagonal. `n` is no constant and all arrays are made
    here, as loops over lanes otherwise do not vectorise.
    """
    n = x.shape[1]
    x = x.copy()
    variance = np.zeros((N_PARAMS, N_PARAMS, n))
    scaled = np.empty((N_PARAMS, n))
    spread0 = np.empty(n)
    spread1 = np.empty(n)
    enter = np.empty(n)
    remain = np.empty(n)
    for t in range(span[1] - 1, span[0] - 1, -1):
        c = classes[t]
        row = t - span[0]
        for b in range(n):
            v0 = work[row, 2 * n + b]
            v1 = work[row, 3 * n + b]
            beta0 = transition[0, 0, b] * v0 + transition[0, 1, b] * v1
            beta1 = transition[1, 0, b] * v0 + transition[1, 1, b] * v1
            enter[b] = transition[0, 1, b] * v1 / beta0  # P(z_t = 1 | z_t-1 = 0, future)
            remain[b] = transition[1, 1, b] * v1 / beta1
            spread0[b] = work[row, b] * beta0 * enter[b] * (1.0 - enter[b])
            spread1[b] = work[row, n + b] * beta1 * remain[b] * (1.0 - remain[b])
        for k in range(3):
            for b in range(n):
                x[places[c, k], b] += keep[t, b] * score[k, c, b]
        for i in range(N_PARAMS):
            for b in range(n):
                scaled[i, b] = (spread0[b] + spread1[b]) * x[i, b]
        for b in range(n):
            scaled[TO0, b] -= spread0[b]
            scaled[TO1, b] += spread1[b]
            variance[TO0, TO0, b] -= spread0[b] * (x[TO0, b] - 1.0)
            variance[TO1, TO0, b] -= spread0[b] * x[TO1, b]
            variance[TO1, TO1, b] += spread1[b] * (x[TO1, b] + 1.0)
        for i in range(N_PARAMS):
            for j in range(i + 1):
                for b in range(n):
                    variance[i, j, b] += scaled[i, b] * x[j, b]
        for i in range(N_PARAMS):
            for b in range(n):
                x[i, b] *= remain[b] - enter[b]
        for b in range(n):
            x[TO0, b] += enter[b] - transition[0, 1, b]
            x[TO1, b] += remain[b] - transition[1, 1, b]
    return x, variance
