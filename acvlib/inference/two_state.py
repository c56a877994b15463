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
CHUNK = 256  # steps whose products are summed together
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


@njit(cache=True, nogil=True, error_model="numpy", fastmath={*FASTMATH, "reassoc"})
def _add_products(x, spread, outer, linear):
    """Adds a chunk's sum of (spread_0 + spread_1) x x' to the lower half of `outer`;
    that of spread_k x to `linear`."""
    for i in range(WIDTH):
        for j in range(i + 1):
            total = 0.0
            for b in range(CHUNK):
                total += (spread[0, b] + spread[1, b]) * x[i, b] * x[j, b]
            outer[i, j] += total
        for k in range(2):
            total = 0.0
            for b in range(CHUNK):
                total += spread[k, b] * x[i, b]
            linear[k, i] += total


@_jit
def score_variance(classes, weights, log_emission, transition, ratio_score):
    """Var(score | x), (WIDTH - 1, WIDTH - 1).

    ratio_score (n_classes, WIDTH): gradient of log(emission 1 / emission 0). The variance is a sum
    over the steps of a reversed martingale, z_0 first: step t reveals z_t given z_t-1 = j and the
    future, with variance spread_j (x + e_j)(x + e_j)', where x is the tangent of the backward
    log-odds and e_0 = -1, e_1 = 1 at the logit of P(j -> j).
    """
    n, to0, to1 = len(classes), WIDTH - 3, WIDTH - 2
    filtered, inverse_norm = np.empty((n + 1, 2)), np.empty(n)
    filter_forward(classes, weights, log_emission, transition, filtered, inverse_norm)
    emission = np.exp(log_emission)
    stay0, leave0 = transition[0]
    leave1, stay1 = transition[1]
    beta0, beta1, x = 1.0, 1.0, np.zeros(WIDTH)
    steps, spread = np.zeros((WIDTH, CHUNK)), np.zeros((2, CHUNK))
    outer, linear = np.zeros((WIDTH, WIDTH)), np.zeros((2, WIDTH))
    for t in range(n - 1, -1, -1):
        c, w, b = classes[t], weights[t], t % CHUNK
        v0 = _power(emission, log_emission, c, 0, w) * beta0 * inverse_norm[t]
        v1 = _power(emission, log_emission, c, 1, w) * beta1 * inverse_norm[t]
        beta0, beta1 = stay0 * v0 + leave0 * v1, leave1 * v0 + stay1 * v1
        enter, remain = leave0 * v1 / beta0, stay1 * v1 / beta1  # P(z_t = 1 | z_t-1, future)
        spread[0, b] = filtered[t, 0] * stay0 * v0 * enter
        spread[1, b] = filtered[t, 1] * leave1 * v0 * remain
        for i in range(WIDTH):
            x[i] += w * ratio_score[c, i]
            steps[i, b] = x[i]
            x[i] *= remain - enter
        steps[WIDTH - 1, b] = 1.0  # the spare place sums the spreads themselves
        x[to0] += enter - leave0
        x[to1] += remain - stay1
        if b == 0:
            _add_products(steps, spread, outer, linear)
            spread[:] = 0.0
    variance = outer + outer.T - np.diag(np.diag(outer))
    for sign, at, part in ((-1.0, to0, linear[0]), (1.0, to1, linear[1])):
        variance[at] += sign * part
        variance[:, at] += sign * part
        variance[at, at] += part[-1]
    x[to0] -= stay0
    x[to1] += stay1
    variance += filtered[0, 0] * beta0 * filtered[0, 1] * beta1 * np.outer(x, x)
    return variance[:-1, :-1]


@_jit
def cross_derivatives(
    classes, weights, log_emission, transition, observed, quiet_score, ratio_score, contrast
):
    """d2 log Z / dw_t dparams (T, WIDTH), 0 where t is not `observed` (T,).

    quiet_score and ratio_score (n_classes, WIDTH): gradients of log emission 0, and of the
    logarithm of the ratio of both emissions, whose values are contrast (n_classes,).
    Source: Louis (1982), by the tangents of the forward and of the backward log-odds.
    """
    n, to0, to1 = len(classes), WIDTH - 3, WIDTH - 2
    filtered, inverse_norm = np.empty((n + 1, 2)), np.empty(n)
    filter_forward(classes, weights, log_emission, transition, filtered, inverse_norm)
    stay0, leave0 = transition[0]
    leave1, stay1 = transition[1]
    forward, x = np.empty((n, WIDTH)), np.zeros(WIDTH)
    x[to0], x[to1] = -stay0, stay1
    for t in range(n):
        c, p0, p1 = classes[t], filtered[t, 0], filtered[t, 1]
        to_quiet, to_event = stay0 * p0 + leave1 * p1, leave0 * p0 + stay1 * p1
        inverse = 1.0 / (to_quiet * to_event)
        slope = (stay1 - leave0) * p0 * p1 * inverse
        for i in range(WIDTH):
            x[i] *= slope
        x[to0] -= p0 * stay0 * leave0 * inverse
        x[to1] += p1 * stay1 * leave1 * inverse
        for i in range(WIDTH):
            x[i] += weights[t] * ratio_score[c, i]
            forward[t, i] = x[i]
    emission, beta0, beta1 = np.exp(log_emission), 1.0, 1.0
    x[:] = 0.0
    for t in range(n - 1, -1, -1):
        c, w = classes[t], weights[t]
        event = filtered[t + 1, 1] * beta1
        moved = contrast[c] * event * filtered[t + 1, 0] * beta0
        for i in range(WIDTH):
            own = quiet_score[c, i] + event * ratio_score[c, i]
            forward[t, i] = own + moved * (forward[t, i] + x[i]) if observed[t] else 0.0
            x[i] += w * ratio_score[c, i]
        v0 = _power(emission, log_emission, c, 0, w) * beta0 * inverse_norm[t]
        v1 = _power(emission, log_emission, c, 1, w) * beta1 * inverse_norm[t]
        beta0, beta1 = stay0 * v0 + leave0 * v1, leave1 * v0 + stay1 * v1
        enter, remain = leave0 * v1 / beta0, stay1 * v1 / beta1  # P(z_t = 1 | z_t-1, future)
        for i in range(WIDTH):
            x[i] *= remain - enter
        x[to0] += enter - leave0
        x[to1] += remain - stay1
    return forward


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
def smooth_lanes(classes, observed, emission, transition, sites, ends, score):
    """(log Z (B,), event (n_classes, B), statistics (4, B), density) of B = N_LANES folds.

    Fold b leaves out sites[ends[b]:ends[b + 1]], beside those not `observed` (T,). emission
    (2, n_classes, B), with maximum 1 in each class, and transition (2, 2, B) are each fold's own.
    density (len(sites),), only if `score`, and the sites of a fold are sorted: p(x_t | kept
    observations) of each left-out site, in the scale of `emission`.
    """
    keep = np.empty((len(classes), N_LANES), np.bool_)
    for t in range(len(classes)):
        keep[t] = observed[t]
    for b in range(N_LANES):
        for i in range(ends[b], ends[b + 1]):
            keep[sites[i], b] = False
    state, work = np.zeros(12 * N_LANES), np.empty((BLOCK, 2 * N_LANES))
    density, cursor = np.empty(len(sites)), ends[1:].copy()
    event, statistics = np.zeros((emission.shape[1], N_LANES)), np.empty((4, N_LANES))
    for b in range(N_LANES):
        (stay0, leave0), (leave1, stay1) = transition[0, :, b], transition[1, :, b]
        state[_STAY0 + b], state[_LEAVE0 + b] = stay0, leave0
        state[_LEAVE1 + b], state[_STAY1 + b] = leave1, stay1
        state[_P0 + b], state[_P1 + b] = leave1 / (leave0 + leave1), leave0 / (leave0 + leave1)
        state[_PRODUCT + b] = state[_BETA0 + b] = state[_BETA1 + b] = 1.0
    statistics[0] = state[_P1 : _P1 + N_LANES]
    starts = np.arange(0, len(classes), BLOCK)
    before = np.empty((len(starts), 2 * N_LANES))  # filtered probabilities before every block
    for k in range(len(starts)):
        before[k] = state[: 2 * N_LANES]
        stop = min(starts[k] + BLOCK, len(classes))
        _forward(classes, keep, emission[0], emission[1], state, work, starts[k], stop, True)
    log_z = state[_LOG_Z : _LOG_Z + N_LANES] + np.log(state[_PRODUCT : _PRODUCT + N_LANES])
    statistics[1] = state[_P1 : _P1 + N_LANES]
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
