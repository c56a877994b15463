"""Two-state smoothing of many folds at once: one fold a SIMD lane, weights 0 and 1.

The recursions are those of `two_state.py`. `N_LANES` folds advance together through the sites; the
forward pass is kept at the start of every block of sites and recomputed from there, so that the working
set stays in cache. A fold's own parameters enter through its column of the emission table
(2, n_classes, N_LANES) and of `transition` (2, 2, N_LANES); `keep` (T, N_LANES) is False where a site is left out.

Two habits of the code serve the compiler: all lane state lives in one flat array (parts of one array
provably do not overlap), and table entries are read before they are selected (a select vectorises, a
conditional load does not).
"""

import numpy as np
from numba import njit

from .two_state import FASTMATH, RESCALE

N_LANES = 32
MAX_BLOCK = 288
N_LOCAL = 6  # tangent within a block: three class scores, the common factor of all others, two stay logits
_CARRIED, _TO0, _TO1 = 3, 4, 5

_P, _P0, _PRODUCT, _LOG_Z, _LEAVE0, _LEAVE1, _STAY0, _STAY1, _BETA0, _BETA1, _N01, _N1 = (
    N_LANES * row for row in range(12)
)
_NORM = N_LANES  # a row of `work` holds filtered probabilities, then inverse normalisers
_SPREAD, _LINEAR, _OUTER, _STEP, _END = (
    N_LANES * row for row in (6, 8, 20, 41, 45)
)  # rows of `local` after the tangent

_jit = njit(cache=True, nogil=True, error_model="numpy", fastmath=FASTMATH)
_inline = njit(inline="always", error_model="numpy", fastmath=FASTMATH)


def block_starts(groups):
    """Starts of blocks of at most MAX_BLOCK sites within which `groups` (T,) is constant, and T at the end."""
    edges = np.concatenate([[0], np.flatnonzero(np.diff(groups)) + 1, [len(groups)]])
    starts = [np.arange(a, b, MAX_BLOCK) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    return np.concatenate([*starts, [len(groups)]])


@_jit
def _initial_state(transition):
    state = np.zeros(12 * N_LANES)
    for b in range(N_LANES):
        state[_STAY0 + b], state[_STAY1 + b] = transition[0, 0, b], transition[1, 1, b]
        state[_LEAVE0 + b], state[_LEAVE1 + b] = transition[0, 1, b], transition[1, 0, b]
        state[_P + b] = state[_LEAVE0 + b] / (state[_LEAVE0 + b] + state[_LEAVE1 + b])
        state[_P0 + b] = state[_LEAVE1 + b] / (state[_LEAVE0 + b] + state[_LEAVE1 + b])
        state[_PRODUCT + b] = state[_BETA0 + b] = state[_BETA1 + b] = 1.0
    return state


@_inline
def _forward(classes, keep, emission0, emission1, state, work, start, stop, log_z):
    for t in range(start, stop):
        c, row = classes[t], t - start
        for b in range(N_LANES):
            e0, e1, kept = emission0[c, b], emission1[c, b], keep[t, b]
            p0, p = state[_P0 + b], state[_P + b]  # both, as 1 - p would lose digits
            u0 = (e0 if kept else 1.0) * (state[_STAY0 + b] * p0 + state[_LEAVE1 + b] * p)
            u1 = (e1 if kept else 1.0) * (state[_LEAVE0 + b] * p0 + state[_STAY1 + b] * p)
            inverse = 1.0 / (u0 + u1)
            work[row, b], work[row, _NORM + b] = p, inverse
            state[_P + b], state[_P0 + b] = u1 * inverse, u0 * inverse
            if log_z:
                state[_PRODUCT + b] *= u0 + u1
        if log_z and t % RESCALE == 0:
            for b in range(N_LANES):
                state[_LOG_Z + b] += np.log(state[_PRODUCT + b])
                state[_PRODUCT + b] = 1.0


@_jit
def _filter(classes, keep, emission, starts, state, work, with_log_z):
    """The forward pass: (log Z per lane, filtered probabilities before every block)."""
    checkpoint = np.empty((len(starts) - 1, 2 * N_LANES))
    for k in range(len(checkpoint)):
        checkpoint[k] = state[: 2 * N_LANES]
        _forward(
            classes,
            keep,
            emission[0],
            emission[1],
            state,
            work,
            starts[k],
            starts[k + 1],
            with_log_z,
        )
    log_z = np.empty(N_LANES)
    for b in range(N_LANES):
        log_z[b] = state[_LOG_Z + b] + np.log(state[_PRODUCT + b])
    return log_z, checkpoint


@_inline
def _backward(classes, keep, emission0, emission1, state, work, start, stop, statistics):
    """Replaces the filtered probabilities in `work` by smoothed ones; adds `statistics` of the moves to `state`."""
    for t in range(stop - 1, start - 1, -1):
        c, row = classes[t], t - start
        for b in range(N_LANES):
            e0, e1, kept = emission0[c, b], emission1[c, b], keep[t, b]
            p, inverse = work[row, b], work[row, _NORM + b]
            v0 = (e0 if kept else 1.0) * state[_BETA0 + b] * inverse
            v1 = (e1 if kept else 1.0) * state[_BETA1 + b] * inverse
            beta1 = state[_LEAVE1 + b] * v0 + state[_STAY1 + b] * v1
            work[row, b] = (state[_LEAVE0 + b] * (1.0 - p) + state[_STAY1 + b] * p) * v1
            if statistics:
                state[_N01 + b] += (1.0 - p) * state[_LEAVE0 + b] * v1
                state[_N1 + b] += p * beta1
            state[_BETA0 + b], state[_BETA1 + b] = (
                state[_STAY0 + b] * v0 + state[_LEAVE0 + b] * v1,
                beta1,
            )


@_inline
def _collect(classes, keep, work, class_sums, start, stop):
    for t in range(start, stop):
        c, row = classes[t], t - start
        for b in range(N_LANES):
            gamma, kept = work[row, b], keep[t, b]
            class_sums[c, b] += gamma if kept else 0.0


@_jit
def smooth_lanes(classes, keep, emission, transition, starts):
    """(log Z, class sums, statistics) of every lane.

    class_sums (n_classes, N_LANES): sum of P(z_t = 1 | x) over the kept sites of a class; statistics
    (4, N_LANES): P(z_0 = 1), P(z_T = 1), moves 0 -> 1, and the sum of P(z_t = 1) over t = 0..T-1.
    """
    state, work = _initial_state(transition), np.empty((MAX_BLOCK, 2 * N_LANES))
    class_sums, statistics = np.zeros((emission.shape[1], N_LANES)), np.empty((4, N_LANES))
    statistics[0] = state[:N_LANES]
    log_z, checkpoint = _filter(classes, keep, emission, starts, state, work, True)
    statistics[1] = state[:N_LANES]
    for k in range(len(checkpoint) - 1, -1, -1):
        start, stop = starts[k], starts[k + 1]
        state[: 2 * N_LANES] = checkpoint[k]
        _forward(classes, keep, emission[0], emission[1], state, work, start, stop, False)
        _backward(classes, keep, emission[0], emission[1], state, work, start, stop, True)
        _collect(classes, keep, work, class_sums, start, stop)
    statistics[0] *= state[_BETA1 : _BETA1 + N_LANES]
    statistics[2] = state[_N01 : _N01 + N_LANES]
    statistics[3] = state[_N1 : _N1 + N_LANES]
    return log_z, class_sums, statistics


@_inline
def _score(classes, work, emission0, emission1, sites, cursor, first, density, start, stop):
    """Densities of the left-out sites start..stop-1; a lane's `cursor` moves down its sorted sites to `first`."""
    for b in range(N_LANES):
        i = cursor[b]
        while i > first[b] and sites[i - 1] >= start:
            i -= 1
            c, gamma = classes[sites[i]], work[sites[i] - start, b]
            density[i] = (1.0 - gamma) * emission0[c, b] + gamma * emission1[c, b]
        cursor[b] = i


@_jit
def heldout_lanes(classes, keep, emission, transition, starts, sites, ends):
    """p(x_t | kept observations), in the scale of `emission`, of every left-out site, in the order of `sites`.

    sites: the left-out sites of all lanes one after another, sorted within a lane; ends (N_LANES + 1,): where
    each lane's begin and end. The logarithm is left to numpy, whose loop over an array is several times faster.
    """
    state, work = _initial_state(transition), np.empty((MAX_BLOCK, 2 * N_LANES))
    _, checkpoint = _filter(classes, keep, emission, starts, state, work, False)
    density, first, cursor = np.empty(len(sites)), ends[:-1], ends[1:].copy()
    for k in range(len(checkpoint) - 1, -1, -1):
        start, stop = starts[k], starts[k + 1]
        state[: 2 * N_LANES] = checkpoint[k]
        _forward(classes, keep, emission[0], emission[1], state, work, start, stop, False)
        _backward(classes, keep, emission[0], emission[1], state, work, start, stop, False)
        _score(classes, work, emission[0], emission[1], sites, cursor, first, density, start, stop)
    return density


@_inline
def _curvature(
    classes, keep, emission0, emission1, score0, score1, score2, state, work, local, start, stop
):
    """Backward through a block: adds each step's conditional variance of the score to `local`.

    Step t reveals z_t given z_t-1 = j and the future; its variance is spread_j (x + e_j)(x + e_j)' with x
    the tangent of the backward log-odds, e_0 = -1 at logit P(0 -> 0), e_1 = +1 at logit P(1 -> 1).
    """
    for t in range(stop - 1, start - 1, -1):
        c, row = classes[t], t - start
        for b in range(N_LANES):
            e0, e1, kept = emission0[c, b], emission1[c, b], keep[t, b]
            s0, s1, s2 = score0[c, b], score1[c, b], score2[c, b]
            p, inverse = work[row, b], work[row, _NORM + b]
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
                    local[_OUTER + k * N_LANES + b] += (
                        (spread0 + spread1) * x * local[j * N_LANES + b]
                    )
                    k += 1
        for b in range(N_LANES):
            enter, remain = local[_STEP + 2 * N_LANES + b], local[_STEP + 3 * N_LANES + b]
            for i in range(N_LOCAL):
                local[i * N_LANES + b] *= remain - enter
            local[_TO0 * N_LANES + b] += enter - state[_LEAVE0 + b]
            local[_TO1 * N_LANES + b] += remain - state[_STAY1 + b]


@_jit
def _load_local(tangent, touched, local):
    local[:] = 0.0
    for k in range(3):
        local[k * N_LANES : (k + 1) * N_LANES] = tangent[touched[k]]
    local[_CARRIED * N_LANES : _TO0 * N_LANES] = 1.0
    local[_TO0 * N_LANES : _TO1 * N_LANES] = tangent[-2]
    local[_TO1 * N_LANES : N_LOCAL * N_LANES] = tangent[-1]


@_jit
def _unload_local(tangent, touched, local, outer, linear):
    """Expands a block's local sums to all parameters: untouched ones moved by one common factor."""
    n_params = len(tangent)
    slot, basis = np.full(n_params, _CARRIED), tangent.copy()
    slot[-2], slot[-1] = _TO0, _TO1
    for k in range(3):
        slot[touched[k]] = k
    for i in range(n_params):
        if slot[i] != _CARRIED:
            basis[i] = 1.0
    for i in range(n_params):
        for b in range(N_LANES):
            si = slot[i]
            tangent[i, b] = basis[i, b] * local[si * N_LANES + b]
            linear[0, i, b] += basis[i, b] * local[_LINEAR + 2 * si * N_LANES + b]
            linear[1, i, b] += basis[i, b] * local[_LINEAR + (2 * si + 1) * N_LANES + b]
        for j in range(i + 1):
            hi, lo = max(slot[i], slot[j]), min(slot[i], slot[j])
            row = _OUTER + (hi * (hi + 1) // 2 + lo) * N_LANES
            for b in range(N_LANES):
                outer[i, j, b] += basis[i, b] * basis[j, b] * local[row + b]
    for j in range(2):
        linear[j, -1] += local[_SPREAD + j * N_LANES : _SPREAD + (j + 1) * N_LANES]


@_jit
def curvature_lanes(classes, keep, emission, transition, ratio_score, score_at, starts):
    """Parts of Var(score | x), lane by lane: (outer (D, D, B), lower triangle; linear (2, D + 1, B); tangent).

    The variance is a sum over the steps of a reversed martingale: z_0 first, then each z_t given z_t-1
    and the future (see `_curvature`). `outer` sums spread * x x', linear[j, :-1] sums spread_j * x,
    linear[j, -1] sums spread_j; `tangent` (D, B) is x at site 0. ratio_score (3, n_classes, B) and
    score_at (n_classes, 3) as in `two_state`; score_at must be the same throughout a block.
    """
    n_params = score_at.max() + 3
    state, work, local = (
        _initial_state(transition),
        np.empty((MAX_BLOCK, 2 * N_LANES)),
        np.empty(_END),
    )
    tangent, linear = np.zeros((n_params, N_LANES)), np.zeros((2, n_params + 1, N_LANES))
    outer = np.zeros((n_params, n_params, N_LANES))
    score0, score1, score2 = ratio_score[0], ratio_score[1], ratio_score[2]
    _, checkpoint = _filter(classes, keep, emission, starts, state, work, False)
    for k in range(len(checkpoint) - 1, -1, -1):
        start, stop = starts[k], starts[k + 1]
        touched = score_at[classes[start]]
        state[: 2 * N_LANES] = checkpoint[k]
        _forward(classes, keep, emission[0], emission[1], state, work, start, stop, False)
        _load_local(tangent, touched, local)
        _curvature(
            classes,
            keep,
            emission[0],
            emission[1],
            score0,
            score1,
            score2,
            state,
            work,
            local,
            start,
            stop,
        )
        _unload_local(tangent, touched, local, outer, linear)
    return outer, linear, tangent
