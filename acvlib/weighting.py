"""How a site's weight enters a structured model: the weights of its three kinds of factors.

A scheme maps site weights w (n_sites,) and the sites that each edge joins (n_edges, 2) to
`FactorWeights`. Weight 1 everywhere gives the model itself; weight 0 leaves the site out. Ghosh et
al. (2020), section 3.
"""

from typing import NamedTuple

import autograd.numpy as np
import numpy as onp
from autograd.tracer import getval


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


def hide_labels(weights, labels, n_labels):
    """Scheme C (Eq. 13): factors (n_sites, n_labels), 1 for a site's own label and 1 - w for the others.

    Weight 1 clamps the label and weight 0 sums it out. The factors are not logarithms, which would
    be infinite.
    """
    own = onp.eye(n_labels)[labels]
    return own + (1.0 - weights)[:, None] * (1.0 - own)


def check(weights, n_sites):
    """ValueError unless weights are n_sites finite numbers from 0 to 1; their derivatives pass untouched."""
    w = np.asarray(getval(weights))
    if w.shape != (n_sites,):
        raise ValueError(f"weights have shape {w.shape}, not ({n_sites},): one weight a site")
    if not (w.min() >= 0.0 and w.max() <= 1.0):  # also false for nan
        bad = int(np.flatnonzero(~((w >= 0.0) & (w <= 1.0)))[0])
        raise ValueError(
            f"weight {w[bad]} of site {bad} is outside [0, 1]: 1 keeps a site, 0 leaves it out"
        )
