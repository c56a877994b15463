"""Sums over the tag sequences of sentences, compiled: what a linear-chain CRF is made of.

A sentence has scaled emission factors e (T, K) = exp(score - its largest); `Potentials` has the exponentials of start
(K,), transitions (K, K) and end (K,). Forward messages are scaled to sum to 1, so that nothing overflows; a factor
of 0 forbids a tag. Features of a sequence, in the order of the parameters (D = 2 K + K^2): its first tag, how often
it takes each transition, its last tag.
"""

import numpy as np
from numba import njit

_jit = njit(cache=True, nogil=True, error_model="numpy")
SMALL = 1e-150  # a product of normalisers whose logarithm is due


@_jit
def forward_backward(e, start, transition, end, alpha, beta, norm):
    """Fills alpha, beta (T, K) and norm (T,): alpha * beta are the marginals. Returns log Z of the scaled factors."""
    n, k = e.shape
    for t in range(n):
        for j in range(k):
            reach = start[j] if t == 0 else 0.0
            for i in range(k if t > 0 else 0):
                reach += alpha[t - 1, i] * transition[i, j]
            alpha[t, j] = reach * e[t, j]
        norm[t] = alpha[t].sum()
        alpha[t] /= norm[t]
    last = 0.0
    for j in range(k):
        last += alpha[n - 1, j] * end[j]
    beta[n - 1] = end / last
    for t in range(n - 1, 0, -1):
        for i in range(k):
            total = 0.0
            for j in range(k):
                total += transition[i, j] * (e[t, j] * beta[t, j] / norm[t])
            beta[t - 1, i] = total
    return np.log(norm[:n]).sum() + np.log(last)


@_jit
def expected_features(e, start, transition, end, own, alpha, beta, norm):
    """Fills own (D,) with E[features]; returns log Z."""
    n, k = e.shape
    log_z = forward_backward(e, start, transition, end, alpha, beta, norm)
    own[:] = 0.0
    links = own[k:-k].reshape(k, k)
    for t in range(1, n):
        for j in range(k):
            ahead = e[t, j] * beta[t, j] / norm[t]
            for i in range(k):
                links[i, j] += alpha[t - 1, i] * ahead
    links *= transition
    own[:k] = alpha[0] * beta[0]
    own[-k:] = alpha[n - 1] * beta[n - 1]
    return log_z


@_jit
def sums(e, starts, sentences, weights, start, transition, end):
    """(log Z of each of the numbered sentences, sum of weights * E[features] (D,))."""
    k, longest = len(start), np.diff(starts).max()
    alpha, beta, norm = np.empty((longest, k)), np.empty((longest, k)), np.empty(longest)
    own, total, log_z = np.empty(k * k + 2 * k), np.zeros(k * k + 2 * k), np.empty(len(sentences))
    for row, n in enumerate(sentences):
        factors = e[starts[n] : starts[n + 1]]
        log_z[row] = expected_features(factors, start, transition, end, own, alpha, beta, norm)
        total += weights[row] * own
    return log_z, total


@_jit
def each(e, starts, sentences, start, transition, end):
    """(log Z, E[features] (n, D)) of the numbered sentences, one row a sentence."""
    k, longest = len(start), np.diff(starts).max()
    alpha, beta, norm = np.empty((longest, k)), np.empty((longest, k)), np.empty(longest)
    features, log_z = np.empty((len(sentences), k * k + 2 * k)), np.empty(len(sentences))
    for row, n in enumerate(sentences):
        factors = e[starts[n] : starts[n + 1]]
        log_z[row] = expected_features(
            factors, start, transition, end, features[row], alpha, beta, norm
        )
    return log_z, features


@_jit
def node_marginals(e, starts, sentences, start, transition, end, out):
    """Fills the rows of out (n_tokens, K) of the numbered sentences with P(z_t = k)."""
    k, longest = len(start), np.diff(starts).max()
    alpha, beta, norm = np.empty((longest, k)), np.empty((longest, k)), np.empty(longest)
    for n in sentences:
        factors = e[starts[n] : starts[n + 1]]
        forward_backward(factors, start, transition, end, alpha, beta, norm)
        out[starts[n] : starts[n + 1]] = alpha[: len(factors)] * beta[: len(factors)]


@_jit
def _add_second_moment(e, start, transition, end, second, past, alpha, beta, norm):
    """Adds the part of E[features features'] whose two factors stand at different places, each pair once.

    past[j] = E[features up to t | z_t = j], by the recursion of a forward pass.
    """
    n, k = e.shape
    back, earlier = np.empty(k), np.empty(past.shape)
    past[:] = 0.0
    for j in range(k):
        past[j, j] = 1.0
    for t in range(1, n):
        earlier[:] = past
        for j in range(k):
            ahead, mass = e[t, j] * beta[t, j] / norm[t], 0.0
            for i in range(k):
                back[i] = alpha[t - 1, i] * transition[i, j]
                mass += back[i]
            past[j] = 0.0
            for i in range(k):
                share = back[i] / mass
                pair = back[i] * ahead
                row, old, new = second[k + i * k + j], earlier[i], past[j]
                for d in range(len(old)):
                    row[d] += pair * old[d]
                    new[d] += share * old[d]
                past[j, k + i * k + j] += share
    for j in range(k):
        second[k * k + k + j] += alpha[n - 1, j] * beta[n - 1, j] * past[j]


@_jit
def covariance(e, starts, sentences, weights, start, transition, end):
    """sum of weights * Cov(features), (D, D): the Hessian of log Z in the parameters."""
    k, longest = len(start), np.diff(starts).max()
    dim = k * k + 2 * k
    alpha, beta, norm = np.empty((longest, k)), np.empty((longest, k)), np.empty(longest)
    own, past, second, total = (
        np.empty(dim),
        np.empty((k, dim)),
        np.empty((dim, dim)),
        np.zeros((dim, dim)),
    )
    for row, n in enumerate(sentences):
        factors, weight = e[starts[n] : starts[n + 1]], weights[row]
        expected_features(factors, start, transition, end, own, alpha, beta, norm)
        second[:] = 0.0
        _add_second_moment(factors, start, transition, end, second, past, alpha, beta, norm)
        for c in range(dim):
            for d in range(dim):
                total[c, d] += weight * (second[c, d] + second[d, c] - own[c] * own[d])
            total[c, c] += weight * own[c]
    return total


@_jit
def lane_sums(e, starts, sentences, start, transition, end):
    """(sum of log Z (B,), sum of E[features] (D, B)) over the sentences, for B parameters at once.

    start, end (K, B), transition (K, K, B): lane by lane what `sums` does, in loops that the processor takes whole.
    """
    k, lanes = start.shape
    longest = np.diff(starts).max()
    alpha, norm, beta = (
        np.empty((longest, k, lanes)),
        np.empty((longest, lanes)),
        np.empty((k, lanes)),
    )
    total, log_z = np.zeros((k * k + 2 * k, lanes)), np.zeros(lanes)
    first, links, last = total[:k], total[k:-k].reshape(k, k, lanes), total[-k:]
    for n in sentences:
        factors = e[starts[n] : starts[n + 1]]
        _lane_forward(factors, start, transition, alpha, norm)
        _lane_end(alpha[len(factors) - 1], end, beta, last, log_z)
        _lane_backward(factors, transition, alpha, norm, beta, links)
        for j in range(k):
            for b in range(lanes):
                first[j, b] += alpha[0, j, b] * beta[j, b]
        _add_logarithms(norm[: len(factors)], log_z)
    links *= transition
    return log_z, total


@_jit
def _lane_forward(e, start, transition, alpha, norm):
    n, k = e.shape
    lanes = start.shape[1]
    for t in range(n):
        norm[t] = 0.0
        for j in range(k):
            for b in range(lanes):
                alpha[t, j, b] = start[j, b] if t == 0 else 0.0
            for i in range(k if t > 0 else 0):
                for b in range(lanes):
                    alpha[t, j, b] += alpha[t - 1, i, b] * transition[i, j, b]
            for b in range(lanes):
                alpha[t, j, b] *= e[t, j]
                norm[t, b] += alpha[t, j, b]
        for j in range(k):
            for b in range(lanes):
                alpha[t, j, b] /= norm[t, b]


@_jit
def _lane_end(alpha, end, beta, last, log_z):
    """The last word: fills beta, adds its marginals to `last` and the logarithm of what remains to log_z."""
    k, lanes = end.shape
    mass = np.zeros(lanes)
    for j in range(k):
        for b in range(lanes):
            mass[b] += alpha[j, b] * end[j, b]
    log_z += np.log(mass)
    for j in range(k):
        for b in range(lanes):
            beta[j, b] = end[j, b] / mass[b]
            last[j, b] += alpha[j, b] * beta[j, b]


@_jit
def _lane_backward(e, transition, alpha, norm, beta, links):
    """Takes beta from the last word to the first, and adds pair marginals over transitions to `links`."""
    n, k = e.shape
    lanes = beta.shape[1]
    ahead = np.empty((k, lanes))
    for t in range(n - 1, 0, -1):
        for j in range(k):
            for b in range(lanes):
                ahead[j, b] = e[t, j] * beta[j, b] / norm[t, b]
        for i in range(k):
            for b in range(lanes):
                beta[i, b] = 0.0
            for j in range(k):
                for b in range(lanes):
                    links[i, j, b] += alpha[t - 1, i, b] * ahead[j, b]
                    beta[i, b] += transition[i, j, b] * ahead[j, b]


@_jit
def _add_logarithms(norm, log_z):
    """Adds sum_t log norm[t] to log_z, by few logarithms of products."""
    for b in range(len(log_z)):
        product = 1.0
        for t in range(len(norm)):
            product *= norm[t, b]
            if product < SMALL:
                log_z[b] += np.log(product)
                product = 1.0
        log_z[b] += np.log(product)


@_jit
def best_sequences(scores, starts, start, transition, end):
    """The most probable tags of every sentence, (n_tokens,): Viterbi, on scores and parameters as they are."""
    k, best = scores.shape[1], np.empty(len(scores), np.int64)
    came = np.empty((np.diff(starts).max(), k), np.int64)
    reach, ahead = np.empty(k), np.empty(k)
    for n in range(len(starts) - 1):
        first, last = starts[n], starts[n + 1] - 1
        reach[:] = start + scores[first]
        for t in range(first + 1, last + 1):
            for j in range(k):
                came[t - first, j] = np.argmax(reach + transition[:, j])
                ahead[j] = (
                    reach[came[t - first, j]] + transition[came[t - first, j], j] + scores[t, j]
                )
            reach[:] = ahead
        best[last] = np.argmax(reach + end)
        for t in range(last, first, -1):
            best[t - 1] = came[t - first, best[t]]
    return best
