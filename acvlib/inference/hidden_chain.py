"""What all hidden Markov models share: weighted potentials and the loss of left-out time steps."""

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from ..folds import weights as fold_weights
from ..weighting import check, keep_latents
from . import chain


def potentials(
    scheme: Callable,
    weights: np.ndarray,
    log_density: np.ndarray,
    log_initial: np.ndarray,
    log_transition: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Weight log_density (T, K), log_initial (K,) and log_transition (K, K) by a scheme.

    Returns
    -------
    node (T, K) and edge (T - 1, K, K)
    """
    n_sites = len(log_density)
    check(weights, n_sites)
    steps = np.arange(n_sites)
    factor = scheme(weights, np.stack([steps[:-1], steps[1:]], axis=1))
    first = (steps == 0)[:, None] * log_initial
    node = factor.observation[:, None] * log_density + factor.latent[:, None] * first
    return node, factor.edge[:, None, None] * log_transition


def heldout_loss(
    log_density: np.ndarray, log_initial: np.ndarray, log_transition: np.ndarray, fold: np.ndarray
) -> np.ndarray:
    """-log p(x_t | x outside the fold) for t in the fold, (len(fold),).

    It is -log sum_k P(z_t = k | x outside the fold) p(x_t | z_t = k).
    """
    weights = fold_weights(len(log_density), fold)
    node, edge = potentials(keep_latents, weights, log_density, log_initial, log_transition)
    gamma, _ = chain.marginals(node, edge)
    return -logsumexp(log_density[fold], b=gamma[fold], axis=1)
