"""Rows of probabilities in log ratios to their last entry: values, and derivatives of expected counts."""

import autograd.numpy as np
import numpy as onp


def probabilities(log_ratios):
    """Rows of probabilities (n, K) from log ratios to the last entry, (n, K - 1)."""
    return np.exp(log_probabilities(log_ratios))


def log_probabilities(log_ratios):
    """Their logarithms (n, K), finite however unlikely an entry is."""
    full = np.concatenate([log_ratios, onp.zeros((len(log_ratios), 1))], axis=1)
    shifted = full - np.max(full, axis=1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))


def log_ratios(weights):
    """Log ratios (n, K - 1) of rows of positive weights (n, K)."""
    logs = onp.log(weights)
    return (logs - logs[:, -1:])[:, :-1]


def score(counts, p):
    """Gradient (n, K - 1) of sum_k counts_k log p_k in the log ratios; leading axes may be added to counts."""
    return (counts - counts.sum(axis=-1, keepdims=True) * p)[..., :-1]


def tangent(direction, p):
    """Derivative (..., n, K) of log p along a direction (..., n, K - 1) of the log ratios."""
    full = onp.concatenate([direction, onp.zeros((*direction.shape[:-1], 1))], axis=-1)
    return full - (full * p).sum(axis=-1, keepdims=True)


def curvature(direction, counts, p):
    """Minus the Hessian of sum_k counts_k log p_k times a direction, (..., n, K - 1)."""
    return (counts.sum(axis=-1, keepdims=True) * p * tangent(direction, p))[..., :-1]


def information(counts, p):
    """The same as matrices, (n, K - 1, K - 1)."""
    q = p[:, :-1]
    return counts.sum(axis=1)[:, None, None] * (
        q[:, :, None] * onp.eye(q.shape[1]) - q[:, :, None] * q[:, None, :]
    )
