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
    """Weighted (node (T, K), edge (T - 1, K, K)) of a chain, by a scheme of `acvlib.weighting`.

    Shapes: weights (T,), log_density (T, K), log_initial (K,), log_transition (K, K).
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
    """-log sum_k P(z_t = k | x outside the fold) p(x_t | k), for each t of the fold."""
    weights = fold_weights(len(log_density), fold)
    node, edge = potentials(keep_latents, weights, log_density, log_initial, log_transition)
    gamma, _ = chain.marginals(node, edge)
    return -logsumexp(log_density[fold], b=gamma[fold], axis=1)
