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
from .paths import Paths

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
    features = np.hstack([first, links.reshape(len(links), -1), last])
    return _covariances(*smoothed[2:5], features, starts, weights, bounds)


@_jit
def _covariances(filtered, ahead, transition, features, starts, weights, bounds):
    """The same of sentences with these posteriors; features (N, D): their means."""
    k = len(transition)
    n_features = features.shape[1]
    inner = n_features - k  # features that are not the last tag
    past = np.empty((np.diff(starts).max(), k, inner))
    met = np.empty((k, k * inner))
    out = np.zeros((len(bounds) - 1, n_features, n_features))
    for o in range(len(out)):
        sentences = range(bounds[o], bounds[o + 1])
        met[:] = 0.0
        for n in sentences:
            tokens = slice(starts[n], starts[n + 1])
            _fill_past(filtered[tokens], transition, past)
            _add_links(weights[n] * ahead[tokens], past, met)
            out[o, inner:, :inner] += weights[n] * past[starts[n + 1] - 1 - starts[n]]
        _place_links(met, transition, out[o])
        _finish(features, weights, sentences, out[o])
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


@_jit
def _add_links(ahead, past, met):
    """Adds sum_t ahead_t past_t-1' to met (K, K (K + K^2))."""
    n_links = len(ahead) - 1
    if n_links:
        before = past[:n_links].reshape(n_links, met.shape[1])
        met += np.dot(ahead[1:].T, before)


@_jit
def _place_links(met, transition, out):
    """Fills the rows of transitions (i, j) from what met at j."""
    k = len(transition)
    by_tags = met.reshape(k, k, -1)
    for i in range(k):
        for j in range(k):
            row = out[k + i * k + j]
            row[: len(by_tags[j, i])] = transition[i, j] * by_tags[j, i]


@_jit
def _finish(features, weights, sentences, out):
    """Takes products of one order to covariances, in place."""
    rows = slice(sentences.start, sentences.stop)
    weighted = weights[rows].reshape(-1, 1) * features[rows]
    means = weighted.sum(axis=0)
    out += out.T.copy() - np.dot(weighted.T, features[rows]) + np.diag(means)
