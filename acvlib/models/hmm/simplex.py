"""Rows of K probabilities, as log ratios to their last entry."""

from typing import Any

import autograd.numpy as anp
import numpy as np


def log_probabilities(log_ratios: Any) -> Any:
    """Log probabilities (n, K) from (n, K - 1), finite however unlikely; differentiable."""
    zeros = np.zeros((len(log_ratios), 1))
    full = anp.concatenate([log_ratios, zeros], axis=1)
    shifted = full - anp.max(full, axis=1, keepdims=True)
    return shifted - anp.log(anp.sum(anp.exp(shifted), axis=1, keepdims=True))


def log_ratios(weights: np.ndarray) -> np.ndarray:
    """Log ratios (n, K - 1) of rows of positive weights (n, K)."""
    logs = np.log(weights)
    return logs[:, :-1] - logs[:, -1:]


def score(counts: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Gradient (..., n, K - 1) of sum_k counts_k log p_k in the log ratios."""
    total = counts.sum(axis=-1, keepdims=True)
    return (counts - total * p)[..., :-1]


def information(total: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Minus the Hessians (n, K - 1, K - 1) of sum_k counts_k log p_k, by row sums of counts."""
    q = p[:, :-1]
    return total[:, None, None] * q[:, :, None] * (np.eye(q.shape[1]) - q[:, None, :])
