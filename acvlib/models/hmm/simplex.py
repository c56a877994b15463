"""Rows of probabilities as log ratios to their last entry: values, and derivatives of counts."""

import autograd.numpy as anp
import numpy as np


def log_probabilities(log_ratios):
    """Log probabilities (n, K) from (n, K - 1), finite however unlikely; differentiable."""
    zeros = np.zeros((len(log_ratios), 1))
    full = anp.concatenate([log_ratios, zeros], axis=1)
    largest = anp.max(full, axis=1, keepdims=True)
    shifted = full - largest
    total = anp.sum(anp.exp(shifted), axis=1, keepdims=True)
    return shifted - anp.log(total)


def log_ratios(weights):
    """Log ratios (n, K - 1) of rows of positive weights (n, K)."""
    logs = np.log(weights)
    last = logs[:, -1:]
    return logs[:, :-1] - last


def score(counts, p):
    """Gradient (..., n, K - 1) of sum_k counts_k log p_k in the log ratios."""
    total = counts.sum(axis=-1, keepdims=True)
    gradient = counts - total * p
    return gradient[..., :-1]


def tangent(direction, p):
    """Derivative (..., n, K) of log p along a direction (..., n, K - 1) of the log ratios."""
    full = np.zeros((*direction.shape[:-1], p.shape[-1]))
    full[..., :-1] = direction
    mean = (full * p).sum(axis=-1, keepdims=True)
    return full - mean


def information(counts, p):
    """Minus the Hessian of sum_k counts_k log p_k, a matrix for each row: (n, K - 1, K - 1)."""
    matrices = []
    for total, row in zip(counts.sum(axis=1), p, strict=True):
        q = row[:-1]
        covariance = np.diag(q) - np.outer(q, q)
        matrices.append(total * covariance)
    return np.array(matrices)
