"""Covariances of the features of tag sequences, compiled: the Hessian of log Z.

Two features that stand at different places meet in a forward pass. With phi_t the features up to
token t, without the last tag, and `filtered`, `ahead`, `transition` as in `inference.smoothing`,

    past_t[j] = P(z_t = j | x_1..t) E[phi_t | z_t = j, x_1..t]    moves on as `filtered` does;
    E[1(z_t-1 = i, z_t = j) phi_t-1 | x] = past_t-1[i] transition[i, j] ahead[t, j].

Features are numbered like parameters: first tag (K,), transitions (K, K), last tag (K,).
"""

import numpy as np
from numba import njit

TINY = np.finfo(float).tiny  # where a tag is forbidden, in place of 0

_jit = njit(cache=True, nogil=True, error_model="numpy")


@_jit
def covariances(posterior, features, starts, weights, bounds):
    """sum_n weights_n Cov(features) over sentences bounds[o]:bounds[o + 1], for each o, (n, D, D).

    posterior: (gamma, filtered, ahead, transition); features (N, D): their means.
    """
    gamma, filtered, ahead, transition = posterior
    k = len(transition)
    inner = features.shape[1] - k  # features that are not the last tag
    past = np.empty((np.diff(starts).max(), k, inner))
    met = np.empty((k, k * inner))
    out = np.zeros((len(bounds) - 1, inner + k, inner + k))
    for o in range(len(out)):
        met[:] = 0.0
        for n in range(bounds[o], bounds[o + 1]):
            tokens = slice(starts[n], starts[n + 1])
            last = starts[n + 1] - 1
            _fill_past(filtered[tokens], transition, past)
            _add_links(weights[n] * ahead[tokens], past, met)
            share = weights[n] * gamma[last] / np.maximum(filtered[last], TINY)
            out[o, inner:, :inner] += share.reshape(-1, 1) * past[last - starts[n]]
        for j in range(k):
            by_link = met[j].reshape(k, inner)
            for i in range(k):
                out[o, k + i * k + j, :inner] = transition[i, j] * by_link[i]
        rows = slice(bounds[o], bounds[o + 1])
        _finish(features[rows], weights[rows], out[o])
    return out


@_jit
def _fill_past(filtered, transition, past):
    """Fills past (T, K, K + K^2)."""
    k = len(transition)
    into = transition.T.copy()
    mass = np.empty(k)
    past[0] = 0.0
    for j in range(k):
        past[0, j, j] = filtered[0, j]
    for t in range(1, len(filtered)):
        np.dot(into, past[t - 1], past[t])
        for j in range(k):
            total = 0.0
            for i in range(k):
                mass[i] = filtered[t - 1, i] * transition[i, j]
                total += mass[i]
            scale = filtered[t, j] / total
            for d in range(past.shape[2]):
                past[t, j, d] *= scale
            for i in range(k):
                past[t, j, k + i * k + j] += scale * mass[i]


@_jit
def _add_links(ahead, past, met):
    """Adds sum_t ahead_t past_t-1' to met (K, K (K + K^2))."""
    n_links = len(ahead) - 1
    if n_links:
        before = past[:n_links].reshape(n_links, met.shape[1])
        met += np.dot(ahead[1:].T, before)


@_jit
def _finish(features, weights, out):
    """Takes products of one order to covariances, in place."""
    weighted = weights.reshape(-1, 1) * features
    out += out.T.copy() - np.dot(weighted.T, features)
    means = weighted.sum(axis=0)
    for c in range(len(means)):
        out[c, c] += means[c]
