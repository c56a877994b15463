"""Covariances of the features of tag sequences, compiled: the Hessian of log Z.

Two features that stand at different places meet in a forward pass. With phi_t the features up to
token t, without the last tag, and `filtered`, `ahead`, `transition` as in `inference.smoothing`,

    past_t[j] = P(z_t = j | x_1..t) E[phi_t | z_t = j, x_1..t]    moves on as `filtered` does;
    E[1(z_t-1 = i, z_t = j) phi_t-1 | x] = past_t-1[i] transition[i, j] ahead[t, j].

Features are numbered like parameters: first tag (K,), transitions (K, K), last tag (K,).
"""

import numpy as np
from numba import njit

_jit = njit(cache=True, nogil=True, error_model="numpy")


@_jit
def covariances(smoothed, features, starts, weights, bounds):
    """sum_n weights_n Cov(features) over sentences bounds[o]:bounds[o + 1], for each o, (n, D, D).

    smoothed: (filtered, ahead, gamma, transition); features (N, D): their means.
    """
    filtered, ahead, gamma, transition = smoothed
    k, dim = len(transition), features.shape[1]
    inner = dim - k  # features that are not the last tag
    past = np.empty((np.diff(starts).max(), k, inner))
    met, met_here = np.empty((k, k * inner)), np.empty((k, k * inner))
    products, weighted = np.empty((dim, dim)), weights.reshape(-1, 1) * features
    out = np.zeros((len(bounds) - 1, dim, dim))
    for o in range(len(out)):
        met[:] = 0.0
        for n in range(bounds[o], bounds[o + 1]):
            first, last = starts[n], starts[n + 1] - 1
            _fill_past(filtered[first : last + 1], transition, past)
            if last > first:
                later = weights[n] * ahead[first + 1 : last + 1]
                np.dot(later.T, past[: last - first].reshape(last - first, k * inner), met_here)
                met += met_here
            for j in range(k):
                if filtered[last, j] > 0.0:  # 0 forbids a tag
                    share = weights[n] * gamma[last, j] / filtered[last, j]
                    out[o, inner + j, :inner] += share * past[last - first, j]
        for i in range(k):
            for j in range(k):
                for d in range(inner):
                    out[o, k + i * k + j, d] = transition[i, j] * met[j, i * inner + d]
        rows = slice(bounds[o], bounds[o + 1])
        np.dot(weighted[rows].T, features[rows], products)
        for c in range(dim):
            for d in range(c + 1):
                out[o, c, d] += out[o, d, c] - products[c, d]
                out[o, d, c] = out[o, c, d]
            out[o, c, c] += weighted[rows, c].sum()
    return out


@_jit
def _fill_past(filtered, transition, past):
    """Fills past (T, K, K + K^2)."""
    k = len(transition)
    into, mass = transition.T.copy(), np.empty((k, k))
    past[0] = 0.0
    for j in range(k):
        past[0, j, j] = filtered[0, j]
    for t in range(1, len(filtered)):
        np.dot(into, past[t - 1], past[t])
        for j in range(k):
            total = 0.0
            for i in range(k):
                mass[j, i] = filtered[t - 1, i] * transition[i, j]
                total += mass[j, i]
            scale = filtered[t, j] / total
            for d in range(past.shape[2]):
                past[t, j, d] *= scale
            for i in range(k):
                past[t, j, k + i * k + j] += scale * mass[j, i]
