"""Two-state smoothing of many folds at once: one fold a SIMD lane, weights 0 and 1.

The recursions are those of `two_state`; 32 folds take a third of the time that they take one by
one. The forward pass is kept at the start of every block of sites and recomputed
from there, so that the working set stays in cache. All state of the lanes lives in one flat array,
as parts of one array provably do not overlap, and table entries are read before they are selected:
only so do the loops over lanes vectorise.
"""

import numpy as np
from numba import njit

from .two_state import FASTMATH, RESCALE, WIDTH

N_LANES = 32
BLOCK = 256  # sites

_jit = njit(cache=True, nogil=True, error_model="numpy", fastmath=FASTMATH)
_inline = njit(inline="always", error_model="numpy", fastmath=FASTMATH)

_P0, _P1, _PRODUCT, _LOG_Z, _LEAVE0, _LEAVE1, _STAY0, _STAY1, _BETA0, _BETA1, _MOVES, _TOTAL = (
    N_LANES * row for row in range(12)
)


@_inline
def _forward(classes, keep, emission0, emission1, state, work, start, stop, with_log_z):
    """Fills row t of `work` with P(z_t-1 = 1 | x_1..t-1) and the inverse normalisers of t."""
    for t in range(start, stop):
        c, row = classes[t], t - start
        for b in range(N_LANES):
            e0, e1, kept = emission0[c, b], emission1[c, b], keep[t, b]
            p0, p1 = state[_P0 + b], state[_P1 + b]
            u0 = (e0 if kept else 1.0) * (state[_STAY0 + b] * p0 + state[_LEAVE1 + b] * p1)
            u1 = (e1 if kept else 1.0) * (state[_LEAVE0 + b] * p0 + state[_STAY1 + b] * p1)
            inverse = 1.0 / (u0 + u1)
            work[row, b], work[row, N_LANES + b] = p1, inverse
            state[_P0 + b], state[_P1 + b] = u0 * inverse, u1 * inverse
            if with_log_z:
                state[_PRODUCT + b] *= u0 + u1
        if with_log_z and t % RESCALE == 0:
            for b in range(N_LANES):
                state[_LOG_Z + b] += np.log(state[_PRODUCT + b])
                state[_PRODUCT + b] = 1.0


@_inline
def _backward(classes, keep, emission0, emission1, state, work, start, stop):
    """Replaces the filtered probabilities before site t in `work` by the smoothed ones at t."""
    for t in range(stop - 1, start - 1, -1):
        c, row = classes[t], t - start
        for b in range(N_LANES):
            e0, e1, kept = emission0[c, b], emission1[c, b], keep[t, b]
            p, inverse = work[row, b], work[row, N_LANES + b]
            v0 = (e0 if kept else 1.0) * state[_BETA0 + b] * inverse
            v1 = (e1 if kept else 1.0) * state[_BETA1 + b] * inverse
            beta1 = state[_LEAVE1 + b] * v0 + state[_STAY1 + b] * v1
            moved = (1.0 - p) * state[_LEAVE0 + b] * v1
            work[row, b] = moved + state[_STAY1 + b] * p * v1
            state[_MOVES + b] += moved
            state[_TOTAL + b] += p * beta1
            state[_BETA0 + b] = state[_STAY0 + b] * v0 + state[_LEAVE0 + b] * v1
            state[_BETA1 + b] = beta1


# The tangent within a block: three class scores, the common factor of all other scores, two logits;
# `local` holds it, then the sums of spread_j, of spread_j x, of spread x x', and four of one step.
_CARRIED, _TO0, _TO1, N_LOCAL = 3, 4, 5, 6
_SPREAD, _LINEAR, _OUTER, _STEP, _END = (N_LANES * row for row in (6, 8, 20, 41, 45))


def block_starts(groups: np.ndarray, size: int = BLOCK) -> np.ndarray:
    """Starts of blocks of at most `size` sites with equal `groups` (T,), and T at the end."""
    edges = np.concatenate([[0], np.flatnonzero(np.diff(groups)) + 1, [len(groups)]])
    starts = [np.arange(a, b, size) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    return np.concatenate([*starts, [len(groups)]])


@_jit
def _start(classes, observed, emission, transition, sites, ends, starts):
    """What both kernels of lanes begin with.

    (keep (T, B): False where a site is left out, log Z (B,), statistics (4, B) with two rows set,
    filtered probabilities before every block, state, work).
    """
    keep = np.empty((len(classes), N_LANES), np.bool_)
    for t in range(len(classes)):
        seen = observed[t]
        for b in range(N_LANES):
            keep[t, b] = seen
    for b in range(N_LANES):
        for i in range(ends[b], ends[b + 1]):
            keep[sites[i], b] = False
    state = np.zeros(12 * N_LANES)
    work = np.empty((np.diff(starts).max(), 2 * N_LANES))
    for b in range(N_LANES):
        (stay0, leave0), (leave1, stay1) = transition[0, :, b], transition[1, :, b]
        state[_STAY0 + b], state[_LEAVE0 + b] = stay0, leave0
        state[_LEAVE1 + b], state[_STAY1 + b] = leave1, stay1
        state[_P0 + b], state[_P1 + b] = leave1 / (leave0 + leave1), leave0 / (leave0 + leave1)
        state[_PRODUCT + b] = state[_BETA0 + b] = state[_BETA1 + b] = 1.0
    statistics = np.zeros((4, N_LANES))
    statistics[0] = state[_P1 : _P1 + N_LANES]
    before = np.empty((len(starts) - 1, 2 * N_LANES))
    for k in range(len(before)):
        before[k] = state[: 2 * N_LANES]
        start, stop = starts[k], starts[k + 1]
        _forward(classes, keep, emission[0], emission[1], state, work, start, stop, True)
    log_z = state[_LOG_Z : _LOG_Z + N_LANES] + np.log(state[_PRODUCT : _PRODUCT + N_LANES])
    statistics[1] = state[_P1 : _P1 + N_LANES]
    return keep, log_z, statistics, before, state, work


@_jit
def smooth_lanes(classes, observed, emission, transition, sites, ends, starts, score):
    """(log Z (B,), event (n_classes, B), statistics (4, B), density) of B = N_LANES folds.

    Fold b leaves out sites[ends[b]:ends[b + 1]], beside those not `observed` (T,). emission
    (2, n_classes, B), with maximum 1 in each class, and transition (2, 2, B) are each fold's own.
    starts: of blocks of sites, as `block_starts` gives them.
    density (len(sites),), only if `score`, and the sites of a fold are sorted: p(x_t | kept
    observations) of each left-out site, in the scale of `emission`.
    """
    keep, log_z, statistics, before, state, work = _start(
        classes, observed, emission, transition, sites, ends, starts
    )
    density, cursor = np.empty(len(sites)), ends[1:].copy()
    event = np.zeros((emission.shape[1], N_LANES))
    for k in range(len(before) - 1, -1, -1):
        start, stop = starts[k], starts[k + 1]
        state[: 2 * N_LANES] = before[k]
        _forward(classes, keep, emission[0], emission[1], state, work, start, stop, False)
        _backward(classes, keep, emission[0], emission[1], state, work, start, stop)
        for t in range(start, stop):
            c, row = classes[t], t - start
            for b in range(N_LANES):
                gamma, kept = work[row, b], keep[t, b]
                event[c, b] += gamma if kept else 0.0
        for b in range(N_LANES if score else 0):
            while cursor[b] > ends[b] and sites[cursor[b] - 1] >= start:
                cursor[b] -= 1
                t = sites[cursor[b]]
                c, gamma = classes[t], work[t - start, b]
                density[cursor[b]] = (1.0 - gamma) * emission[0, c, b] + gamma * emission[1, c, b]
    statistics[0] *= state[_BETA1 : _BETA1 + N_LANES]
    statistics[2] = state[_MOVES : _MOVES + N_LANES]
    statistics[3] = state[_TOTAL : _TOTAL + N_LANES]
    return log_z, event, statistics, density


@_inline
def _reveal(classes, keep, emission0, emission1, score, state, work, local, start, stop):
    """Backward through a block: adds each step's conditional variance of the score to `local`."""
    score0, score1, score2 = score
    for t in range(stop - 1, start - 1, -1):
        c, row = classes[t], t - start
        for b in range(N_LANES):
            e0, e1, kept = emission0[c, b], emission1[c, b], keep[t, b]
            s0, s1, s2 = score0[c, b], score1[c, b], score2[c, b]
            p, inverse = work[row, b], work[row, N_LANES + b]
            v0 = (e0 if kept else 1.0) * state[_BETA0 + b] * inverse
            v1 = (e1 if kept else 1.0) * state[_BETA1 + b] * inverse
            beta0 = state[_STAY0 + b] * v0 + state[_LEAVE0 + b] * v1
            beta1 = state[_LEAVE1 + b] * v0 + state[_STAY1 + b] * v1
            enter, remain = state[_LEAVE0 + b] * v1 / beta0, state[_STAY1 + b] * v1 / beta1
            spread0 = (1.0 - p) * beta0 * enter * (1.0 - enter)
            spread1 = p * beta1 * remain * (1.0 - remain)
            local[b] += s0 if kept else 0.0
            local[N_LANES + b] += s1 if kept else 0.0
            local[2 * N_LANES + b] += s2 if kept else 0.0
            local[_SPREAD + b] += spread0
            local[_SPREAD + N_LANES + b] += spread1
            local[_STEP + b], local[_STEP + N_LANES + b] = spread0, spread1
            local[_STEP + 2 * N_LANES + b], local[_STEP + 3 * N_LANES + b] = enter, remain
            state[_BETA0 + b], state[_BETA1 + b] = beta0, beta1
        for b in range(N_LANES):
            spread0, spread1 = local[_STEP + b], local[_STEP + N_LANES + b]
            k = 0
            for i in range(N_LOCAL):
                x = local[i * N_LANES + b]
                local[_LINEAR + 2 * i * N_LANES + b] += spread0 * x
                local[_LINEAR + (2 * i + 1) * N_LANES + b] += spread1 * x
                for j in range(i + 1):
                    product = x * local[j * N_LANES + b]
                    local[_OUTER + k * N_LANES + b] += (spread0 + spread1) * product
                    k += 1
        for b in range(N_LANES):
            enter, remain = local[_STEP + 2 * N_LANES + b], local[_STEP + 3 * N_LANES + b]
            for i in range(N_LOCAL):
                local[i * N_LANES + b] *= remain - enter
            local[_TO0 * N_LANES + b] += enter - state[_LEAVE0 + b]
            local[_TO1 * N_LANES + b] += remain - state[_STAY1 + b]


@_jit
def _spread_out(x, slot, local, outer):
    """Adds a block's local sums to all parameters; those untouched moved by one common factor."""
    basis, n = x.copy(), len(x)  # x before the block, where a parameter has no slot of its own
    for i in range(n):
        if slot[i] != _CARRIED:
            basis[i] = 1.0
    for i in range(n):
        own, linear = slot[i] * N_LANES, _LINEAR + 2 * slot[i] * N_LANES
        for b in range(N_LANES):
            x[i, b] = basis[i, b] * local[own + b]
            outer[n - 2, i, b] -= basis[i, b] * local[linear + b]
            outer[n - 1, i, b] += basis[i, b] * local[linear + N_LANES + b]
            outer[i, n - 2, b] -= basis[i, b] * local[linear + b]
            outer[i, n - 1, b] += basis[i, b] * local[linear + N_LANES + b]
        for j in range(n):
            high, low = max(slot[i], slot[j]), min(slot[i], slot[j])
            row = _OUTER + (high * (high + 1) // 2 + low) * N_LANES
            for b in range(N_LANES):
                outer[i, j, b] += basis[i, b] * basis[j, b] * local[row + b]
    outer[n - 2, n - 2] += local[_SPREAD : _SPREAD + N_LANES]
    outer[n - 1, n - 1] += local[_SPREAD + N_LANES : _SPREAD + 2 * N_LANES]


@_jit
def variance_lanes(classes, observed, emission, transition, sites, ends, starts, score, places):
    """Var(score | x) of N_LANES folds, (D, D, B), D = WIDTH - 1; other arguments as above.

    score (3, n_classes, B): gradient of log(emission 1 / emission 0) in the parameters numbered
    places (n_classes, 3), which must be the same throughout a block.

    A sum over the steps of a reversed martingale, z_0 first: step t reveals z_t given z_t-1 = j and
    the future, with variance spread_j (x + e_j)(x + e_j)', where x is the tangent of the backward
    log-odds and e_0 = -1, e_1 = 1 at the logit of P(j -> j).
    """
    keep, _, statistics, before, state, work = _start(
        classes, observed, emission, transition, sites, ends, starts
    )
    n = WIDTH - 1
    x, outer, local = np.zeros((n, N_LANES)), np.zeros((n, n, N_LANES)), np.empty(_END)
    scores = score[0], score[1], score[2]
    for k in range(len(before) - 1, -1, -1):
        start, stop = starts[k], starts[k + 1]
        state[: 2 * N_LANES] = before[k]
        _forward(classes, keep, emission[0], emission[1], state, work, start, stop, False)
        slot = np.full(n, _CARRIED)
        slot[n - 2], slot[n - 1] = _TO0, _TO1
        local[:] = 0.0
        local[_CARRIED * N_LANES : _TO0 * N_LANES] = 1.0
        for i in range(3):
            slot[places[classes[start], i]] = i
        for i in range(n):
            if slot[i] != _CARRIED:
                local[slot[i] * N_LANES : (slot[i] + 1) * N_LANES] = x[i]
        _reveal(classes, keep, emission[0], emission[1], scores, state, work, local, start, stop)
        _spread_out(x, slot, local, outer)
    first = statistics[0] * state[_BETA1 : _BETA1 + N_LANES]
    x[n - 2] -= state[_STAY0 : _STAY0 + N_LANES]
    x[n - 1] += state[_STAY1 : _STAY1 + N_LANES]
    for i in range(n):
        for j in range(n):
            outer[i, j] += first * (1.0 - first) * x[i] * x[j]
    return outer
