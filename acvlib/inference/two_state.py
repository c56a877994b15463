"""Smoothing of a two-state hidden Markov chain whose emissions fall into few classes: the fast kernels.

A site t has a class c_t, and its emission log-densities are a row of a small table (n_classes, 2).
Sites are weighted by scheme A (Ghosh et al. 2020, Eq. 9): site t contributes w_t * log_emission[c_t].
The chain is stationary: an unobserved site 0 with the stationary law precedes the first site, so that
every site is reached by an ordinary transition. `transition` (2, 2) is given whole, because 1 - P(stay) loses
all digits where a state is hardly ever left.

`smooth` and `smooth_tangent` follow one chain with any weights; `lanes.py` follows many folds at once.
"""

import numpy as np
from numba import njit

RESCALE = 16  # sites whose normalisers are multiplied before one logarithm is taken
WIDTH = 12  # parameters, padded: a constant length lets the compiler unroll the innermost loops

FASTMATH = {"contract", "nsz", "arcp"}  # nothing that assumes finite numbers or reorders sums
_jit = njit(cache=True, nogil=True, error_model="numpy", fastmath=FASTMATH)


@_jit
def _potential(emission, log_emission, c, k, weight):
    """exp(w * log_emission[c, k]), without the exponential where w is 0 or 1."""
    if weight == 1.0:
        return emission[c, k]
    if weight == 0.0:
        return 1.0
    return np.exp(weight * log_emission[c, k])


@_jit
def filter_forward(classes, weights, log_emission, transition, filtered, inverse_norm):
    """log Z; fills filtered[t] = P(z_t = 1 | x_1..t), t = 0..T, and the inverse of each step's normaliser.

    `log_emission` must have row maximum 0, so that a normaliser never overflows.
    """
    emission = np.exp(log_emission)
    stay0, leave0, leave1, stay1 = (
        transition[0, 0],
        transition[0, 1],
        transition[1, 0],
        transition[1, 1],
    )
    p0, p1 = (
        leave1 / (leave0 + leave1),
        leave0 / (leave0 + leave1),
    )  # both, as 1 - p1 would lose digits
    filtered[0] = p1
    log_z, product = 0.0, 1.0
    for t in range(len(classes)):
        c, w = classes[t], weights[t]
        u0 = _potential(emission, log_emission, c, 0, w) * (stay0 * p0 + leave1 * p1)
        u1 = _potential(emission, log_emission, c, 1, w) * (leave0 * p0 + stay1 * p1)
        norm = u0 + u1
        inverse_norm[t] = 1.0 / norm
        p0, p1 = u0 * inverse_norm[t], u1 * inverse_norm[t]
        filtered[t + 1] = p1
        product *= norm
        if t % RESCALE == 0 or product < 1e-100:
            log_z += np.log(product)
            product = 1.0
    return log_z + np.log(product)


@_jit
def smooth(classes, weights, log_emission, transition):
    """(log Z, gamma, n01): P(z_t = 1 | x) for t = 0..T, and the expected number of moves 0 -> 1."""
    n = len(classes)
    emission = np.exp(log_emission)
    gamma, inverse_norm = np.empty(n + 1), np.empty(n)
    log_z = filter_forward(classes, weights, log_emission, transition, gamma, inverse_norm)
    stay0, leave0, leave1, stay1 = (
        transition[0, 0],
        transition[0, 1],
        transition[1, 0],
        transition[1, 1],
    )
    beta0, beta1, n01 = 1.0, 1.0, 0.0
    for t in range(n - 1, -1, -1):
        c, w = classes[t], weights[t]
        v0 = _potential(emission, log_emission, c, 0, w) * beta0 * inverse_norm[t]
        v1 = _potential(emission, log_emission, c, 1, w) * beta1 * inverse_norm[t]
        n01 += (1.0 - gamma[t]) * leave0 * v1  # gamma[t] still holds the filtered probability
        gamma[t + 1] *= beta1
        beta0, beta1 = stay0 * v0 + leave0 * v1, leave1 * v0 + stay1 * v1
    gamma[0] *= beta1
    return log_z, gamma, n01


@_jit
def smooth_tangent(classes, weights, log_emission, transition, ratio_score, score_at):
    """Smoothing and its derivative in the class scores and the two stay logits.

    ratio_score (n_classes, s): gradient of log(emission 1 / emission 0) in the s parameters that class c
    touches; score_at (n_classes, s): their positions in the parameter vector, whose last two entries are
    logit P(0 -> 0) and logit P(1 -> 1). Returns (log Z, gamma, n01, d gamma (T + 1, D), d n01 (D)).

    Source: Louis (1982), as the derivative of the log-odds of the forward and of the backward filter.
    """
    n, n_scores = len(classes), score_at.shape[1]
    to0, to1 = score_at.max() + 1, score_at.max() + 2
    emission = np.exp(log_emission)
    filtered, inverse_norm = np.empty(n + 1), np.empty(n)
    log_z = filter_forward(classes, weights, log_emission, transition, filtered, inverse_norm)
    stay0, leave0, leave1, stay1 = (
        transition[0, 0],
        transition[0, 1],
        transition[1, 0],
        transition[1, 1],
    )
    forward = np.empty((n + 1, WIDTH))  # d logit filtered[t], later d gamma[t]
    forward[0] = 0.0
    forward[0, to0], forward[0, to1] = -stay0, stay1
    for t in range(n):
        c, p = classes[t], filtered[t]
        q0, q = stay0 * (1.0 - p) + leave1 * p, leave0 * (1.0 - p) + stay1 * p
        spread = 1.0 / (q * q0)
        slope = (stay1 - leave0) * p * (1.0 - p) * spread
        for i in range(WIDTH):
            forward[t + 1, i] = slope * forward[t, i]
        forward[t + 1, to0] -= (1.0 - p) * stay0 * leave0 * spread
        forward[t + 1, to1] += p * stay1 * leave1 * spread
        for s in range(n_scores):
            forward[t + 1, score_at[c, s]] += weights[t] * ratio_score[c, s]
    gamma = np.empty(n + 1)
    n01, d_n01 = 0.0, np.zeros(WIDTH)
    beta0, beta1, backward = 1.0, 1.0, np.zeros(WIDTH)  # backward: d log(beta1 / beta0)
    for t in range(n - 1, -1, -1):
        c, w, p = classes[t], weights[t], filtered[t]
        v0 = _potential(emission, log_emission, c, 0, w) * beta0 * inverse_norm[t]
        v1 = _potential(emission, log_emission, c, 1, w) * beta1 * inverse_norm[t]
        q = leave0 * (1.0 - p) + stay1 * p
        g = filtered[t + 1] * beta1
        from0 = (1.0 - p) * leave0 / q  # P(z_t-1 = 0 | z_t = 1, past)
        moved = g * from0 * (1.0 - from0)
        for i in range(WIDTH):
            d = g * (1.0 - g) * (forward[t + 1, i] + backward[i])
            forward[t + 1, i] = d
            d_n01[i] += from0 * d - moved * forward[t, i]
        d_n01[to0] -= moved * stay0
        d_n01[to1] -= moved * leave1
        n01 += g * from0
        gamma[t + 1] = g
        beta0, beta1 = stay0 * v0 + leave0 * v1, leave1 * v0 + stay1 * v1
        enter, remain = leave0 * v1 / beta0, stay1 * v1 / beta1  # P(z_t = 1 | z_t-1, future)
        for s in range(n_scores):
            backward[score_at[c, s]] += w * ratio_score[c, s]
        for i in range(WIDTH):
            backward[i] *= remain - enter
        backward[to0] += enter - leave0
        backward[to1] += remain - stay1
    gamma[0] = filtered[0] * beta1
    for i in range(WIDTH):
        forward[0, i] = gamma[0] * (1.0 - gamma[0]) * (forward[0, i] + backward[i])
    return log_z, gamma, n01, forward, d_n01


@_jit
def class_sums(classes, weights, gamma, n_classes):
    """Sums over the sites of each class: w_t, and w_t P(z_t = 1 | x); shape (2, n_classes)."""
    sums = np.zeros((2, n_classes))
    for t in range(len(classes)):
        sums[0, classes[t]] += weights[t]
        sums[1, classes[t]] += weights[t] * gamma[t + 1]
    return sums


@_jit
def cross_derivatives(
    classes, weights, observed, gamma, d_gamma, contrast, score0, ratio_score, score_at
):
    """Turns rows 1..T of d_gamma into d2(-log Z) / dw_t dparams, in place; 0 where `observed` is False.

    contrast (n_classes,): log-density of state 1 minus that of state 0; score0 (n_classes, s): gradient of
    state 0's log-density at the positions `score_at`. Returns the class sums of w_t d gamma_t
    (n_classes, WIDTH) and the sum of d gamma_t over t = 0..T-1 (WIDTH,).
    """
    sums, total = np.zeros((len(contrast), WIDTH)), d_gamma[0] - d_gamma[-1]
    for t in range(len(classes)):
        c, w, factor = classes[t], weights[t], contrast[classes[t]] if observed[t] else 0.0
        for i in range(WIDTH):
            d = d_gamma[t + 1, i]
            total[i] += d
            sums[c, i] += w * d
            d_gamma[t + 1, i] = -factor * d
        if observed[t]:
            for s in range(score_at.shape[1]):
                d_gamma[t + 1, score_at[c, s]] -= score0[c, s] + gamma[t + 1] * ratio_score[c, s]
    return sums, total
