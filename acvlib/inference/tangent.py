"""How posteriors of a chain move with its potentials, compiled: products of log Z's Hessian.

With S the change of a sequence's score, which is `field` (M, K) at its tokens and `move` (K, K) at
its links,

    d P(z_t = k) = P(z_t = k) (E[S | z_t = k] - E[S]),

and E[S | z_t = k] is a sum over what comes up to t, by a forward pass, and what follows, by a
backward pass, on the chain of posteriors: `filtered`, `ahead`, `transition` of
`inference.smoothing`.
"""

import numpy as np
from numba import njit

_jit = njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"}
)


@_jit
def tangent(posterior, starts, coefficients, field, move):
    """(coefficient_n d gamma (M, K), sum_n coefficient_n d(expected links) (K, K))."""
    gamma, filtered, ahead, transition = posterior
    K = len(transition)
    both = transition * move
    into = transition.T.copy()
    both_into = both.T.copy()
    out = np.empty(gamma.shape)
    longest = np.diff(starts).max()
    after = np.empty((longest, K))  # the expected change from a token on, given its tag
    before = np.empty((longest, K))  # up to it
    later = np.zeros(K)
    links = np.zeros((K, K))
    pairs = np.zeros((K, K))
    for n in range(len(starts) - 1):
        first = starts[n]
        length = starts[n + 1] - first
        c = coefficients[n]
        _backward(gamma, filtered, ahead, first, length, into, both_into, field, after)
        _forward(filtered, first, length, transition, both, field, before)
        mean = 0.0
        last = first + length - 1
        for k in range(K):
            mean += gamma[last, k] * before[length - 1, k]
        for i in range(length):
            t = first + i
            for k in range(K):
                excess = before[i, k] + after[i, k] - field[t, k] - mean
                out[t, k] = c * gamma[t, k] * excess
            if i == 0:
                continue
            for k in range(K):
                later[k] = ahead[t, k] * after[i, k]
            for j in range(K):
                share = c * filtered[t - 1, j]
                excess = before[i - 1, j] - mean
                for k in range(K):
                    links[j, k] += share * (excess * ahead[t, k] + later[k])
                    pairs[j, k] += share * ahead[t, k]
    return out, transition * links + both * pairs


@_jit
def _backward(gamma, filtered, ahead, first, length, into, both_into, field, after):
    K = gamma.shape[1]
    total = np.empty(K)
    for i in range(length - 1, -1, -1):
        t = first + i
        for k in range(K):
            total[k] = 0.0
        for j in range(K if i < length - 1 else 0):
            weight = ahead[t + 1, j]
            moved = weight * after[i + 1, j]
            for k in range(K):
                total[k] += into[j, k] * moved + both_into[j, k] * weight
        for k in range(K):
            share = gamma[t, k]
            after[i, k] = field[t, k]
            if share > 0.0:
                after[i, k] += total[k] * filtered[t, k] / share


@_jit
def _forward(filtered, first, length, transition, both, field, before):
    K = filtered.shape[1]
    total = np.empty(K)
    reach = np.empty(K)
    for i in range(length):
        t = first + i
        for k in range(K):
            total[k] = 0.0
            reach[k] = 0.0
        for j in range(K if i > 0 else 0):
            weight = filtered[t - 1, j]
            moved = weight * before[i - 1, j]
            for k in range(K):
                total[k] += transition[j, k] * moved + both[j, k] * weight
                reach[k] += transition[j, k] * weight
        for k in range(K):
            before[i, k] = field[t, k]
            if reach[k] > 0.0:
                before[i, k] += total[k] / reach[k]


@_jit
def link_variances(posterior, starts, coefficients):
    """sum_n coefficient_n sum_t P (1 - P) of each link, (K, K), P(z_t = j, z_t+1 = k)."""
    _, filtered, ahead, transition = posterior
    K = len(transition)
    out = np.zeros((K, K))
    for n in range(len(starts) - 1):
        for t in range(starts[n] + 1, starts[n + 1]):
            for j in range(K):
                for k in range(K):
                    p = filtered[t - 1, j] * transition[j, k] * ahead[t, k]
                    out[j, k] += coefficients[n] * p * (1.0 - p)
    return out


@_jit
def responses(posterior, places, tags):
    """How one sentence's posteriors move with a tag's score at each of some places.

    (len(places), T K + K^2): covariances of that tag's presence with all features.
    """
    gamma = posterior[0]
    length, K = gamma.shape
    starts = np.array([0, length])
    one = np.ones(1)
    still = np.zeros((K, K))
    field = np.zeros((length, K))
    out = np.empty((len(places), length * K + K * K))
    for i in range(len(places)):
        field[places[i], tags[i]] = 1.0
        excess, moves = tangent(posterior, starts, one, field, still)
        out[i, : length * K] = excess.ravel()
        out[i, length * K :] = moves.ravel()
        field[places[i], tags[i]] = 0.0
    return out
