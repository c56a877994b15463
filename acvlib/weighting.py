"""How a site's weight enters a structured model: the weights of its three kinds of factors.

A scheme maps site weights w (n_sites,) and the sites that each edge joins (n_edges, 2) to `FactorWeights`.
Weight 1 everywhere gives the model itself; weight 0 leaves the site out. Ghosh et al. (2020), section 3.
"""

from typing import NamedTuple

import autograd.numpy as np


class FactorWeights(NamedTuple):
    """Multipliers of the log-factors: observation (n_sites,), latent (n_sites,), edge (n_edges,)."""

    observation: np.ndarray
    latent: np.ndarray
    edge: np.ndarray


def keep_latents(weights, edges):
    """Scheme A (Eq. 4, 9): a site loses its observation and keeps its latent state and its edges."""
    return FactorWeights(weights, np.ones(len(weights)), np.ones(len(edges)))


def drop_latents(weights, edges):
    """Scheme B (Eq. 5, 10): a site loses observation, latent factor and edges; an edge weighs w_s * w_t."""
    return FactorWeights(weights, weights, weights[edges[:, 0]] * weights[edges[:, 1]])
