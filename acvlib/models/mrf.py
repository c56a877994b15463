"""A hidden Markov random field with Poisson counts: hidden classes that neighbours tend to share.

log p(x, z) = sum_t log Poisson(x_t; rate[z_t]) + coupling * sum_edges 1{z_s = z_t} - log Z(coupling)
"""

from dataclasses import dataclass, field

import autograd.numpy as np
import numpy as onp
from autograd import grad
from scipy.special import gammaln, logsumexp

from .. import graph
from ..folds import weights as fold_weights
from ..weighting import check, drop_latents, keep_latents


@dataclass(frozen=True)
class HiddenMRF:
    """Maximum likelihood in D = K log rates (Ghosh et al. 2020, Appendix L.3).

    counts (n,): integers >= 0; edges (m, 2): each edge once; coupling: log-factor of an edge whose ends agree,
    2 beta in the paper's notation, whose double sum visits each edge twice. Z(coupling), and under scheme B
    Z(coupling, w), does not depend on the rates and is left out. States may be permuted without any change.
    """

    counts: onp.ndarray = field(repr=False)
    edges: onp.ndarray = field(repr=False)
    coupling: float
    n_states: int = 2
    scheme: callable = drop_latents

    def __post_init__(self):
        counts, edges = onp.asarray(self.counts), onp.asarray(self.edges, int)
        if counts.ndim != 1 or not (onp.isfinite(counts) & (counts >= 0) & (counts == onp.floor(counts))).all():
            raise ValueError("counts must be a 1-d array of whole numbers >= 0")
        if edges.ndim != 2 or edges.shape[1] != 2 or (edges[:, 0] == edges[:, 1]).any():
            raise ValueError(f"edges must be (m, 2) without self-loops; got shape {edges.shape}")
        if edges.size and (edges.min() < 0 or edges.max() >= len(counts)):
            raise ValueError(f"edges join sites 0 ... {len(counts) - 1}; found {edges.min()} ... {edges.max()}")
        if len(onp.unique(onp.sort(edges, axis=1), axis=0)) < len(edges):
            raise ValueError("an edge is listed more than once: list each edge once, in either direction")
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "edges", edges)

    @property
    def n_sites(self):
        return len(self.counts)

    def initial_params(self, rng=None):
        """Log rates at evenly spaced quantiles of the counts."""
        levels = (onp.arange(self.n_states) + 0.5) / self.n_states
        return onp.log(onp.quantile(self.counts, levels) + 0.5)

    def log_densities(self, params):
        """log p(x_t | z_t = k), (n, K)."""
        counts = self.counts[:, None]
        return counts * params - np.exp(params) - gammaln(counts + 1.0)

    def log_partition(self, scheme, weights, node):
        """log sum_z of the weighted factors, with observation potentials node (n, K)."""
        check(weights, self.n_sites)
        factor = scheme(weights, self.edges)
        edge = factor.edge[:, None, None] * (self.coupling * onp.eye(self.n_states))
        return graph.log_partition(factor.observation[:, None] * node, self.edges, edge)

    def objective(self, params, weights):
        """F = -log p(x; params, weights), up to log Z(coupling, w)."""
        return -self.log_partition(self.scheme, weights, self.log_densities(params))

    def heldout_loss(self, params, fold):
        """-log p(x_t | x outside the fold; params), on the full graph whatever the training scheme."""
        weights, density = fold_weights(self.n_sites, fold), self.log_densities(params)
        node = weights[:, None] * density
        everything = onp.ones(self.n_sites)
        gamma = grad(lambda potential: self.log_partition(keep_latents, everything, potential))(node)
        return -logsumexp(density[fold], b=gamma[fold], axis=1)
