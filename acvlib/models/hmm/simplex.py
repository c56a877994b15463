"""Rows of probabilities as log ratios to their last entry: values, and derivatives of counts."""

import autograd.numpy as anp
import numpy as np


def log_probabilities(log_ratios: np.ndarray) -> np.ndarray:
    """Log probabilities (n, K) from (n, K - 1), finite however unlikely; differentiable."""
    full = anp.concatenate([log_ratios, np.zeros((len(log_ratios), 1))], axis=1)
    shifted = full - anp.max(full, axis=1, keepdims=True)
    return shifted - anp.log(anp.sum(anp.exp(shifted), axis=1, keepdims=True))


def log_ratios(weights: np.ndarray) -> np.ndarray:
    """Log ratios (n, K - 1) of rows of positive weights (n, K)."""
    logs = np.log(weights)
    return (logs - logs[:, -1:])[:, :-1]


def score(counts: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Gradient (..., n, K - 1) of sum_k counts_k log p_k in the log ratios."""
    return (counts - counts.sum(axis=-1, keepdims=True) * p)[..., :-1]


def tangent(direction: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Derivative (..., n, K) of log p along a direction (..., n, K - 1) of the log ratios."""
    full = np.zeros((*direction.shape[:-1], p.shape[-1]))
    full[..., :-1] = direction
    return full - (full * p).sum(axis=-1, keepdims=True)


def information(counts: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Minus the Hessian of sum_k counts_k log p_k, a matrix for each row: (n, K - 1, K - 1)."""
    q = p[:, :-1]
    covariance = q[:, :, None] * (np.eye(q.shape[1]) - q[:, None, :])
    return counts.sum(axis=1)[:, None, None] * covariance
