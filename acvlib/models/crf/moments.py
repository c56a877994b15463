"""Covariances of the features of tag sequences, compiled: the Hessian of log Z.

Two features that stand at different places meet in a forward pass. With phi_t the features up to
token t, without the last tag, and `filtered`, `ahead`, `transition` as in `inference.smoothing`,

    past_t[j] = P(z_t = j | x_1..t) E[phi_t | z_t = j, x_1..t]    moves on as `filtered` does;
    E[1(z_t-1 = i, z_t = j) phi_t-1 | x] = past_t-1[i] transition[i, j] ahead[t, j].

Features are numbered like parameters: first tag (K,), transitions (K, K), last tag (K,).
"""

import numpy as np
from numba import njit

from ...inference.smoothing import transition_counts
from .tokens import Paths

_jit = njit(cache=True, nogil=True, error_model="numpy")


def covariances(paths: Paths, weights: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """sum_n weights_n Cov(features) over sentences bounds[o]:bounds[o + 1], for each o, (n, D, D).

    Starts and ends are in the scores of the tokens.
    """
    smoothed = paths.smoothed
    starts = paths.tokens.starts
    first = smoothed.gamma[starts[:-1]]
    links = transition_counts(smoothed, starts)
    last = smoothed.gamma[starts[1:] - 1]
    means = np.hstack([first, links.reshape(len(links), -1), last])
    return _covariances(*smoothed[2:5], means, starts, weights, bounds)


@_jit
def _covariances(filtered, ahead, transition, means, starts, weights, bounds):
    """The same of sentences with these posteriors and means (N, D) of the features."""
    k = len(transition)
    n_features = means.shape[1]
    inner = n_features - k  # features that are not the last tag
    past = np.empty((np.diff(starts).max(), k, inner))
    met = np.empty((k, k * inner))
    out = np.zeros((len(bounds) - 1, n_features, n_features))
    for o in range(len(out)):
        met[:] = 0.0
        for n in range(bounds[o], bounds[o + 1]):
            first = starts[n]
            length = starts[n + 1] - first
            _fill_past(filtered[first : first + length], transition, past)
            if length > 1:
                before = past[: length - 1].reshape(length - 1, k * inner)
                met += np.dot((weights[n] * ahead[first + 1 : first + length]).T, before)
            out[o, inner:, :inner] += weights[n] * past[length - 1]
        for j in range(k):
            from_tags = met[j].reshape(k, inner)
            for i in range(k):
                out[o, k + i * k + j, :inner] = transition[i, j] * from_tags[i]
        some = means[bounds[o] : bounds[o + 1]]
        weighted = weights[bounds[o] : bounds[o + 1]].reshape(-1, 1) * some
        out[o] += out[o].T.copy() - np.dot(weighted.T, some) + np.diag(weighted.sum(axis=0))
    return out


@_jit
def _fill_past(filtered, transition, past):
    """Fills past (T, K, K + K^2)."""
    k = len(transition)
    into = transition.T.copy()
    past[0] = 0.0
    for j in range(k):
        past[0, j, j] = filtered[0, j]
    for t in range(1, len(filtered)):
        np.dot(into, past[t - 1], past[t])
        before = filtered[t - 1]
        for j in range(k):
            predicted = 0.0
            for i in range(k):
                predicted += before[i] * into[j, i]
            scale = filtered[t, j] / predicted
            row = past[t, j]
            for d in range(len(row)):
                row[d] *= scale
            for i in range(k):
                row[k + i * k + j] += scale * before[i] * into[j, i]
