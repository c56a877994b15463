"""Smoothing of many hidden Markov chains of different lengths, scaled instead of in logarithms.

Sequences stand end to end: log_density (M, K) over all their M frames, sequence n is starts[n]:starts[n+1].
They share log_initial (K,) and log_transition (K, K), which weights do not touch (Ghosh et al. 2020, Eq. 9).

The forward pass scales each row of densities by its largest entry. The backward pass goes from posterior to
posterior, gamma_{t-1}(j) = alpha_{t-1}(j) sum_k A_jk gamma_t(k) / predicted_t(k), and has no beta that could
overflow. A path that underflows is lost to one that jumps, as long as no jump is nearly impossible: chains with
log A_jk < `UNLIKELY` somewhere are summed in logarithms by `chain` instead, which is exact and slower.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from . import chain

UNLIKELY = -460.0  # log 1e-200: underflow, at 1e-308, then hides a share of at most 1e-100

_jit = njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp", "reassoc"}
)


class Smoothed(NamedTuple):
    """log_z (N,); gamma, filtered, predicted (M, K): P(z_t | all), P(z_t | x_1..t), P(z_t | x_1..t-1)."""

    log_z: np.ndarray
    gamma: np.ndarray
    filtered: np.ndarray
    predicted: np.ndarray


def smooth(log_density, starts, log_initial, log_transition):
    """The `Smoothed` posteriors of all sequences; inputs must be finite."""
    if log_transition.min() < UNLIKELY:
        return _smooth_in_logarithms(log_density, starts, log_initial, log_transition)
    return Smoothed(*_smooth(log_density, starts, log_initial, np.exp(log_transition)))


@_jit
def _filter_row(log_density, prior, log_prior, filtered):
    """log p(x_t | x_1..t-1); fills filtered with P(z_t | x_1..t). A first row has its prior in logarithms."""
    top, norm = -np.inf, 0.0
    for k in range(len(filtered)):
        filtered[k] = log_density[k] + log_prior[k]
        top = max(top, filtered[k])
    for k in range(len(filtered)):
        gap = filtered[k] - top
        filtered[k] = prior[k] * np.exp(gap) if gap > -745.0 else 0.0
        norm += filtered[k]
    for k in range(len(filtered)):
        filtered[k] /= norm
    return top + np.log(norm)


@_jit
def _smooth(log_density, starts, log_initial, transition):
    n, k = log_density.shape
    log_z = np.zeros(len(starts) - 1)
    gamma, filtered, predicted = np.empty((n, k)), np.empty((n, k)), np.empty((n, k))
    one, zero, ratio = np.ones(k), np.zeros(k), np.empty(k)
    backward = transition.T.copy()
    for s in range(len(log_z)):
        for t in range(starts[s], starts[s + 1]):
            if t == starts[s]:
                predicted[t] = np.exp(log_initial)
                log_z[s] += _filter_row(log_density[t], one, log_initial, filtered[t])
                continue
            predicted[t] = 0.0
            for i in range(k):
                for j in range(k):
                    predicted[t, j] += filtered[t - 1, i] * transition[i, j]
            log_z[s] += _filter_row(log_density[t], predicted[t], zero, filtered[t])
        gamma[starts[s + 1] - 1] = filtered[starts[s + 1] - 1]
        for t in range(starts[s + 1] - 1, starts[s], -1):
            for j in range(k):
                ratio[j] = gamma[t, j] / predicted[t, j]
            gamma[t - 1] = 0.0
            for j in range(k):
                for i in range(k):
                    gamma[t - 1, i] += backward[j, i] * ratio[j]
            for i in range(k):
                gamma[t - 1, i] *= filtered[t - 1, i]
    return log_z, gamma, filtered, predicted


def _smooth_in_logarithms(log_density, starts, log_initial, log_transition):
    log_z, gamma = np.empty(len(starts) - 1), np.empty_like(log_density)
    filtered, predicted = np.empty_like(log_density), np.empty_like(log_density)
    for s, (a, b) in enumerate(zip(starts[:-1], starts[1:], strict=True)):
        node = log_density[a:b].copy()
        node[0] += log_initial
        edge = np.broadcast_to(log_transition, (b - a - 1, *log_transition.shape))
        log_z[s] = chain.log_partition(node, edge)
        gamma[a:b], _, log_filtered = chain._smooth(node, edge)
        filtered[a:b] = np.exp(log_filtered)
        predicted[a:b] = np.vstack(
            [np.exp(log_initial), filtered[a : b - 1] @ np.exp(log_transition)]
        )
    return Smoothed(log_z, gamma, filtered, predicted)


@_jit
def transition_counts(smoothed_gamma, filtered, predicted, starts, transition, weights):
    """sum_n w_n sum_t P(z_t-1 = j, z_t = k | x_n), (K, K)."""
    k = transition.shape[0]
    counts, ratio = np.zeros((k, k)), np.empty(k)
    for s in range(len(weights)):
        for t in range(starts[s] + 1, starts[s + 1]):
            for j in range(k):
                ratio[j] = weights[s] * smoothed_gamma[t, j] / predicted[t, j]
            for i in range(k):
                for j in range(k):
                    counts[i, j] += filtered[t - 1, i] * ratio[j]
    return counts * transition
