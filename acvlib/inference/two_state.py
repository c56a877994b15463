"""Smoothing of a two-state chain whose emissions fall into few classes, and its tangent.

Why this and `two_state_lanes` stand beside `smoothing`: for the traffic chapter's 1,000 folds the
general kernel takes 6 times as long, and lanes written for any number of states 2.5 times. Tested
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
