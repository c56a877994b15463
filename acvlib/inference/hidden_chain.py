"""What all hidden Markov models share: weighted potentials and the loss of left-out time steps."""

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from ..checks import check_kind, real_or_box
from ..folds import weights as fold_weights
from ..folds.folds import Sites
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
    log_density, log_initial, log_transition = _checked(log_density, log_initial, log_transition)
    check_kind("scheme", scheme, Callable)
    n_sites = len(log_density)
    check(weights, n_sites)
    weights = real_or_box("weights", weights)
    steps = np.arange(n_sites)
    factor = scheme(weights, np.stack([steps[:-1], steps[1:]], axis=1))
    first = (steps == 0)[:, None] * log_initial
    node = factor.observation[:, None] * log_density + factor.latent[:, None] * first
    return node, factor.edge[:, None, None] * log_transition


def heldout_loss(
    log_density: np.ndarray, log_initial: np.ndarray, log_transition: np.ndarray, fold: np.ndarray
) -> np.ndarray:
    """-log sum_k P(z_t = k | x outside the fold) p(x_t | k), for each t of the fold."""
    log_chain = _checked(log_density, log_initial, log_transition)
    log_density = log_chain[0]
    fold = Sites.of([fold], len(log_density)).sites
    weights = fold_weights(len(log_density), fold)
    node, edge = potentials(keep_latents, weights, *log_chain)
    gamma, _ = chain.marginals(node, edge)
    return -logsumexp(log_density[fold], b=gamma[fold], axis=1)


def _checked(log_density, log_initial, log_transition):
    """All as finite floats, or autograd's boxes; ValueError for shapes that do not go together."""
    density = real_or_box("log_density", log_density, 2)
    initial = real_or_box("log_initial", log_initial)
    transition = real_or_box("log_transition", log_transition)
    k = density.shape[1]
    if not density.size or initial.shape != (k,) or transition.shape != (k, k):
        shapes = f"{density.shape}, {initial.shape} and {transition.shape}"
        raise ValueError(f"a hidden chain has shapes (T, K), (K,) and (K, K); got {shapes}")
    return density, initial, transition
