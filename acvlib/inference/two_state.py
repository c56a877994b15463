"""Smoothing of a two-state chain whose emissions fall into few classes: one chain, or many folds.

Why this stands beside `smoothing`: for the traffic chapter's 1,000 folds the general kernel takes 6
times as long as the lanes below, and lanes written for any number of states 2.5 times. Tested
against `chain` and against enumeration.

Site t = 1..T has a class c_t, whose emissions are a row of a small table, and a weight w_t: it
contributes w_t log_emission[c_t] (scheme A, Ghosh et al. 2020, Eq. 9). The chain is stationary: an
unobserved site 0 with the stationary law comes before the first. `transition` (2, 2) is given
whole, and filtered probabilities of both states are kept: 1 - P has no digits where P is nearly 1.

`statistics` are P(z_0 = 1), P(z_T = 1), the expected moves 0 -> 1, and the sum of P(z_t = 1) over
t = 0..T-1. Tangents are `WIDTH` long: the emissions' parameters, logit P(0 -> 0), logit P(1 -> 1)
and a spare place.
"""

import numpy as np
from numba import njit

WIDTH = 12  # a constant length lets the compiler unroll the innermost loops
RESCALE = 16  # sites whose normalisers are multiplied before one logarithm is taken
N_LANES = 32
BLOCK = (
    2048  # sites of a block of lanes: its forward pass stays in cache until the backward pass comes
)

FASTMATH = {"contract", "nsz", "arcp"}  # nothing that assumes finite numbers or reorders sums
_jit = njit(cache=True, nogil=True, error_model="numpy", fastmath=FASTMATH)
_inline = njit(inline="always", error_model="numpy", fastmath=FASTMATH)


@_jit
def _power(emission, log_emission, c, k, weight):
    """exp(w * log_emission[c, k]), without the exponential where w is 0 or 1."""
    if weight == 1.0:
        return emission[c, k]
    if weight == 0.0:
        return 1.0
    return np.exp(weight * log_emission[c, k])


@_jit
def filter_forward(classes, weights, log_emission, transition, filtered, inverse_norm):
    """log Z; fills filtered (T + 1, 2) with P(z_t | x_1..t) and inverse_norm (T,).

    `log_emission` (n_classes, 2) must have row maximum 0, so that a normaliser never overflows.
    """
    emission = np.exp(log_emission)
    stay0, leave0 = transition[0]
    leave1, stay1 = transition[1]
    p0, p1 = leave1 / (leave0 + leave1), leave0 / (leave0 + leave1)
    filtered[0, 0], filtered[0, 1] = p0, p1
    log_z, product = 0.0, 1.0
    for t in range(len(classes)):
        c, w = classes[t], weights[t]
        u0 = _power(emission, log_emission, c, 0, w) * (stay0 * p0 + leave1 * p1)
        u1 = _power(emission, log_emission, c, 1, w) * (leave0 * p0 + stay1 * p1)
        inverse = 1.0 / (u0 + u1)
        p0, p1 = u0 * inverse, u1 * inverse
        filtered[t + 1, 0], filtered[t + 1, 1], inverse_norm[t] = p0, p1, inverse
        product *= u0 + u1
        if t % RESCALE == 0 or product < 1e-100:
            log_z += np.log(product)
            product = 1.0
    return log_z + np.log(product)


@_jit
def smooth(classes, weights, log_emission, transition):
    """(log Z, event (n_classes,), statistics (4,)); event: sums of w_t P(z_t = 1 | x) by class."""
    n = len(classes)
    filtered, inverse_norm = np.empty((n + 1, 2)), np.empty(n)
    log_z = filter_forward(classes, weights, log_emission, transition, filtered, inverse_norm)
    emission, event = np.exp(log_emission), np.zeros(len(log_emission))
    stay0, leave0 = transition[0]
    leave1, stay1 = transition[1]
    beta0, beta1, moves, total = 1.0, 1.0, 0.0, 0.0
    for t in range(n - 1, -1, -1):
        c, w = classes[t], weights[t]
        event[c] += w * filtered[t + 1, 1] * beta1
        v0 = _power(emission, log_emission, c, 0, w) * beta0 * inverse_norm[t]
        v1 = _power(emission, log_emission, c, 1, w) * beta1 * inverse_norm[t]
        moves += filtered[t, 0] * leave0 * v1
        beta0, beta1 = stay0 * v0 + leave0 * v1, leave1 * v0 + stay1 * v1
        total += filtered[t, 1] * beta1
    return log_z, event, np.array([filtered[0, 1] * beta1, filtered[n, 1], moves, total])


@_jit
def smooth_tangent(
    classes, weights, log_emission, transition, observed, quiet_score, ratio_score, contrast
):
    """Smoothing and its derivatives: (event, statistics, d event, d statistics, cross).

    quiet_score and ratio_score (n_classes, WIDTH): gradients of log emission 0, and of the
    logarithm of the ratio of both emissions, whose values are contrast (n_classes,).
    cross (T, WIDTH): d2 log Z / dw_t dparams, 0 where t is not `observed` (T,).
    Source: Louis (1982), by the tangents of the forward and of the backward log-odds.
    """
    n, to0, to1 = len(classes), WIDTH - 3, WIDTH - 2
    filtered, inverse_norm = np.empty((n + 1, 2)), np.empty(n)
    filter_forward(classes, weights, log_emission, transition, filtered, inverse_norm)
    stay0, leave0 = transition[0]
    leave1, stay1 = transition[1]
    tangent, x = np.empty((n + 1, WIDTH)), np.zeros(WIDTH)  # first of the forward log-odds
    x[to0], x[to1] = -stay0, stay1
    tangent[0] = x
    for t in range(n):
        c, p0, p1 = classes[t], filtered[t, 0], filtered[t, 1]
        inverse = 1.0 / ((stay0 * p0 + leave1 * p1) * (leave0 * p0 + stay1 * p1))
        slope = (stay1 - leave0) * p0 * p1 * inverse
        for i in range(WIDTH):
            x[i] *= slope
        x[to0] -= p0 * stay0 * leave0 * inverse
        x[to1] += p1 * stay1 * leave1 * inverse
        for i in range(WIDTH):
            x[i] += weights[t] * ratio_score[c, i]
            tangent[t + 1, i] = x[i]
    emission, beta0, beta1 = np.exp(log_emission), 1.0, 1.0
    event, d_event = np.zeros(len(emission)), np.zeros((len(emission), WIDTH))
    statistics, d_statistics = np.zeros(4), np.zeros((4, WIDTH))
    d_moves, d_total = d_statistics[2], d_statistics[3]
    x[:] = 0.0  # of the backward log-odds
    for t in range(n - 1, -1, -1):
        c, w, p0, p1 = classes[t], weights[t], filtered[t, 0], filtered[t, 1]
        gamma = filtered[t + 1, 1] * beta1
        spread = gamma * filtered[t + 1, 0] * beta0
        quiet = p0 * leave0 / (p0 * leave0 + p1 * stay1)  # P(z_t-1 = 0 | z_t = 1, past)
        moved = gamma * quiet * (1.0 - quiet)
        event[c] += w * gamma
        statistics[2] += gamma * quiet
        for i in range(WIDTH):
            own = quiet_score[c, i] + gamma * ratio_score[c, i]
            d = spread * (tangent[t + 1, i] + x[i])
            d_event[c, i] += w * d
            d_moves[i] += quiet * d - moved * tangent[t, i]
            d_total[i] += d
            tangent[t + 1, i] = own + contrast[c] * d if observed[t] else 0.0
            if t == n - 1:
                d_statistics[1, i] = d
            x[i] += w * ratio_score[c, i]
        d_moves[to0] -= moved * stay0
        d_moves[to1] -= moved * leave1
        statistics[3] += gamma
        v0 = _power(emission, log_emission, c, 0, w) * beta0 * inverse_norm[t]
        v1 = _power(emission, log_emission, c, 1, w) * beta1 * inverse_norm[t]
        beta0, beta1 = stay0 * v0 + leave0 * v1, leave1 * v0 + stay1 * v1
        enter, remain = leave0 * v1 / beta0, stay1 * v1 / beta1  # P(z_t = 1 | z_t-1, future)
        for i in range(WIDTH):
            x[i] *= remain - enter
        x[to0] += enter - leave0
        x[to1] += remain - stay1
    statistics[0], statistics[1] = filtered[0, 1] * beta1, filtered[n, 1]
    d_statistics[0] = statistics[0] * filtered[0, 0] * beta0 * (tangent[0] + x)
    statistics[3] += statistics[0] - statistics[1]
    d_total += d_statistics[0] - d_statistics[1]
    return event, statistics, d_event, d_statistics, tangent[1:]


# Many folds at once: one fold a SIMD lane, weights 0 and 1. All state of the lanes lives in one flat
# array, as parts of one array provably do not overlap, and table entries are read before they are
# selected: only so do the loops over lanes vectorise.

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


@_jit
def _reveal(emission0, emission1, keep, state, work, step):
    """One step back: fills spread_0, spread_1, remain - enter, enter and remain of every lane."""
    for b in range(N_LANES):
        e0, e1, kept = emission0[b], emission1[b], keep[b]
        p, inverse = work[b], work[N_LANES + b]
        v0 = (e0 if kept else 1.0) * state[_BETA0 + b] * inverse
        v1 = (e1 if kept else 1.0) * state[_BETA1 + b] * inverse
        beta0 = state[_STAY0 + b] * v0 + state[_LEAVE0 + b] * v1
        beta1 = state[_LEAVE1 + b] * v0 + state[_STAY1 + b] * v1
        enter, remain = state[_LEAVE0 + b] * v1 / beta0, state[_STAY1 + b] * v1 / beta1
        step[b] = (1.0 - p) * beta0 * enter * (1.0 - enter)
        step[N_LANES + b] = p * beta1 * remain * (1.0 - remain)
        step[2 * N_LANES + b] = remain - enter
        step[3 * N_LANES + b], step[4 * N_LANES + b] = enter, remain
        state[_BETA0 + b], state[_BETA1 + b] = beta0, beta1


@_jit
def _add_products(step, x, outer, linear):
    """Adds (spread_0 + spread_1) x x' to the lower half of `outer`, spread_k x to `linear`."""
    spread0, spread1 = step[:N_LANES], step[N_LANES : 2 * N_LANES]
    for i in range(WIDTH):
        x_i, linear0, linear1 = x[i], linear[0, i], linear[1, i]
        for b in range(N_LANES):
            linear0[b] += spread0[b] * x_i[b]
        for b in range(N_LANES):
            linear1[b] += spread1[b] * x_i[b]
        for j in range(i + 1 if i < WIDTH - 1 else 0):
            x_j, total = x[j], outer[i, j]
            for b in range(N_LANES):
                total[b] += (spread0[b] + spread1[b]) * x_i[b] * x_j[b]


@_jit
def _start(classes, observed, emission, transition, sites, ends):
    """What both kernels of lanes begin with.

    (keep (T, B): False where a site is left out, log Z (B,), statistics (4, B), their first two rows
    filled, starts of blocks, filtered probabilities before every block, state, work).
    """
    keep = np.empty((len(classes), N_LANES), np.bool_)
    for t in range(len(classes)):
        keep[t] = observed[t]
    for b in range(N_LANES):
        for i in range(ends[b], ends[b + 1]):
            keep[sites[i], b] = False
    state, work = np.zeros(12 * N_LANES), np.empty((BLOCK, 2 * N_LANES))
    for b in range(N_LANES):
        (stay0, leave0), (leave1, stay1) = transition[0, :, b], transition[1, :, b]
        state[_STAY0 + b], state[_LEAVE0 + b] = stay0, leave0
        state[_LEAVE1 + b], state[_STAY1 + b] = leave1, stay1
        state[_P0 + b], state[_P1 + b] = leave1 / (leave0 + leave1), leave0 / (leave0 + leave1)
        state[_PRODUCT + b] = state[_BETA0 + b] = state[_BETA1 + b] = 1.0
    statistics = np.zeros((4, N_LANES))
    statistics[0] = state[_P1 : _P1 + N_LANES]
    starts = np.arange(0, len(classes), BLOCK)
    before = np.empty((len(starts), 2 * N_LANES))
    for k in range(len(starts)):
        before[k] = state[: 2 * N_LANES]
        stop = min(starts[k] + BLOCK, len(classes))
        _forward(classes, keep, emission[0], emission[1], state, work, starts[k], stop, True)
    log_z = state[_LOG_Z : _LOG_Z + N_LANES] + np.log(state[_PRODUCT : _PRODUCT + N_LANES])
    statistics[1] = state[_P1 : _P1 + N_LANES]
    return keep, log_z, statistics, starts, before, state, work


@_jit
def smooth_lanes(classes, observed, emission, transition, sites, ends, score):
    """(log Z (B,), event (n_classes, B), statistics (4, B), density) of B = N_LANES folds.

    Fold b leaves out sites[ends[b]:ends[b + 1]], beside those not `observed` (T,). emission
    (2, n_classes, B), with maximum 1 in each class, and transition (2, 2, B) are each fold's own.
    density (len(sites),), only if `score`, and the sites of a fold are sorted: p(x_t | kept
    observations) of each left-out site, in the scale of `emission`.
    """
    keep, log_z, statistics, starts, before, state, work = _start(
        classes, observed, emission, transition, sites, ends
    )
    density, cursor = np.empty(len(sites)), ends[1:].copy()
    event = np.zeros((emission.shape[1], N_LANES))
    for k in range(len(starts) - 1, -1, -1):
        start, stop = starts[k], min(starts[k] + BLOCK, len(classes))
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


@_jit
def variance_lanes(classes, observed, emission, transition, sites, ends, ratio_score, places):
    """Var(score | x) of N_LANES folds, (WIDTH - 1, WIDTH - 1, B).

    ratio_score (n_classes, 3, B): gradient of log(emission 1 / emission 0) in the parameters numbered
    places (n_classes, 3). A sum over the steps of a reversed martingale, z_0 first: step t reveals z_t
    given z_t-1 = j and the future, with variance spread_j (x + e_j)(x + e_j)', where x is the tangent
    of the backward log-odds and e_0 = -1, e_1 = 1 at the logit of P(j -> j).
    """
    keep, _, statistics, starts, before, state, work = _start(
        classes, observed, emission, transition, sites, ends
    )
    to0, to1 = WIDTH - 3, WIDTH - 2
    outer, linear = np.zeros((WIDTH, WIDTH, N_LANES)), np.zeros((2, WIDTH, N_LANES))
    x, step = np.zeros((WIDTH, N_LANES)), np.empty(5 * N_LANES)
    x[WIDTH - 1] = 1.0  # the spare place sums the spreads themselves
    for k in range(len(starts) - 1, -1, -1):
        start, stop = starts[k], min(starts[k] + BLOCK, len(classes))
        state[: 2 * N_LANES] = before[k]
        _forward(classes, keep, emission[0], emission[1], state, work, start, stop, False)
        for t in range(stop - 1, start - 1, -1):
            c = classes[t]
            for i in range(3):
                row = x[places[c, i]]
                for b in range(N_LANES):
                    score, kept = ratio_score[c, i, b], keep[t, b]
                    row[b] += score if kept else 0.0
            _reveal(emission[0, c], emission[1, c], keep[t], state, work[t - start], step)
            _add_products(step, x, outer, linear)
            for i in range(WIDTH - 1):
                row = x[i]
                for b in range(N_LANES):
                    row[b] *= step[2 * N_LANES + b]
            for b in range(N_LANES):
                x[to0, b] += step[3 * N_LANES + b] - state[_LEAVE0 + b]
                x[to1, b] += step[4 * N_LANES + b] - state[_STAY1 + b]
    for b in range(N_LANES):
        x[to0, b] -= state[_STAY0 + b]
        x[to1, b] += state[_STAY1 + b]
        first = statistics[0, b] * state[_BETA1 + b]
        own = first * (1.0 - first)
        for i in range(WIDTH - 1):
            for j in range(i + 1):
                outer[i, j, b] += own * x[i, b] * x[j, b]
                outer[j, i, b] = outer[i, j, b]
        for j in range(WIDTH - 1):
            outer[to0, j, b] -= linear[0, j, b]
            outer[j, to0, b] -= linear[0, j, b]
            outer[to1, j, b] += linear[1, j, b]
            outer[j, to1, b] += linear[1, j, b]
        outer[to0, to0, b] += linear[0, WIDTH - 1, b]
        outer[to1, to1, b] += linear[1, WIDTH - 1, b]
    return outer[:-1, :-1]
