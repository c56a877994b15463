"""A hidden Markov random field with Poisson counts: hidden classes that neighbours tend to share.

log p(x, z) = sum_t log Poisson(x_t; rate[z_t]) + coupling * sum_edges 1{z_s = z_t} - log Z(coupling)
"""

from dataclasses import dataclass, field
from functools import cached_property

import autograd.numpy as np
import numpy as onp
from scipy.special import gammaln, logsumexp

from ...folds import weights as fold_weights
from ...inference import graph
from ...weighting import check, drop_latents, keep_latents
from ..glm.separation import NoFiniteOptimum
from .derivatives import MRFFast

EMPTY = 1e-6  # expected sites or counts in a state at and below which its rate is not identified


class EmptyState(NoFiniteOptimum):
    """A state of the fitted field holds no site, or nothing but zeros: its log rate is not identified."""


@dataclass(frozen=True)
class HiddenMRF:
    """Maximum likelihood in D = K log rates (Ghosh et al. 2020, Appendix L.3, Eqs. 4 and 5).

    counts (n,): whole numbers >= 0; edges (m, 2): each edge once, none for independent sites; coupling: the
    log-factor of an edge whose ends agree, 2 beta in the paper's notation, whose double sum visits each edge
    twice. log Z(coupling), under scheme B log Z(coupling, w), does not depend on the rates and is left out.

    States may be permuted without any change of the model. `initial_params` are in ascending order and fits and
    refits continue from there, so that state 0 stays the low one; `numpy.sort` brings any params into that form.
    """

    counts: onp.ndarray = field(repr=False)
    edges: onp.ndarray = field(repr=False)
    coupling: float
    n_states: int = 2
    scheme: callable = drop_latents

    def __post_init__(self):
        object.__setattr__(self, "counts", _checked(self.counts, self.n_states))
        object.__setattr__(self, "edges", graph.check_edges(self.edges, len(self.counts)))
        if not onp.isfinite(self.coupling):
            raise ValueError(f"coupling = {self.coupling}: must be a finite number")

    @property
    def n_sites(self):
        return len(self.counts)

    @cached_property
    def elimination(self):
        """The order in which sites are summed out: one for all folds, as a fold only changes weights."""
        return graph.eliminate(self.n_sites, self.edges, self.n_states)

    @cached_property
    def fast(self):
        """The analytic derivatives that `curvature` uses in place of autograd's."""
        return MRFFast(self)

    def initial_params(self, rng=None):
        """Log rates at evenly spaced quantiles of the counts, each at least a tenth above the one before."""
        levels = (onp.arange(self.n_states) + 0.5) / self.n_states
        start = onp.log(onp.quantile(self.counts, levels) + 0.5)
        steps = 0.1 * onp.arange(self.n_states)
        return onp.maximum.accumulate(start - steps) + steps

    def log_densities(self, params):
        """log p(x_t | z_t = k), (n, K); differentiable."""
        counts = self.counts[:, None]
        return counts * params - np.exp(params) - gammaln(counts + 1.0)

    def potentials(self, density, factor):
        """Node (n, K) and edge (m, K, K) potentials from log densities (n, K) and `weighting.FactorWeights`."""
        agree = self.coupling * onp.eye(self.n_states)
        return factor.observation[:, None] * density, factor.edge[:, None, None] * agree

    def objective(self, params, weights):
        """F = -log p(x; params, weights), up to log Z(coupling, w)."""
        check(weights, self.n_sites)
        node, edge = self.potentials(self.log_densities(params), self.scheme(weights, self.edges))
        return -graph.log_partition(node, edge, self.elimination)

    def posterior(self, params):
        """p(z | x; params), of all sites, as a `graph.Posterior`."""
        factor = keep_latents(onp.ones(self.n_sites), self.edges)
        return graph.Posterior(
            *self.potentials(self.log_densities(params), factor), self.elimination
        )

    def heldout_loss(self, params, fold):
        """-log p(x_t | x outside the fold; params), on the full graph whatever the training scheme.

        A site's own latent state and its edges are then there, as when the count of a tract on the map is
        predicted from its neighbours'. Under scheme B this differs from log p(x; w) - log p(x; w_o), which
        scores a tract together with its place on the map.
        """
        density = self.log_densities(params)
        factor = keep_latents(fold_weights(self.n_sites, fold), self.edges)
        gamma = graph.marginals_at(*self.potentials(density, factor), self.elimination, fold)
        return -logsumexp(density[fold], b=gamma, axis=1)

    def check_optimum(self, params):
        """Raises EmptyState where a state of the fit holds no site, or only zeros."""
        gamma = self.posterior(params).marginals()[0]
        occupancy, total = gamma.sum(axis=0), gamma.T @ self.counts
        empty = onp.flatnonzero(onp.minimum(occupancy, total) <= EMPTY)
        if empty.size:
            k = empty[0]
            raise EmptyState(
                f"at coupling {self.coupling:g}, state {k} of the fit holds {occupancy[k]:.2g} expected sites with "
                f"{total[k]:.2g} counts: its log rate {params[k]:.3g} is not identified. Lower the coupling or "
                f"the number of states"
            )


def _checked(counts, n_states):
    """Counts as an array of floats; ValueError says what is wrong with them."""
    counts = onp.asarray(counts, float)
    if counts.ndim != 1:
        raise ValueError(f"counts must be 1-d, one count a site; got shape {counts.shape}")
    bad = onp.flatnonzero(~(onp.isfinite(counts) & (counts >= 0) & (counts == onp.floor(counts))))
    if bad.size:
        raise ValueError(
            f"count {counts[bad[0]]} of site {bad[0]}: counts must be whole numbers >= 0"
        )
    if not counts.any():
        raise ValueError(
            f"all {len(counts)} counts are 0: their rate is 0, and its logarithm not finite"
        )
    if not 1 <= n_states <= len(onp.unique(counts)):
        distinct = len(onp.unique(counts))
        raise ValueError(
            f"n_states = {n_states}: must be from 1 to the number of distinct counts, {distinct}"
        )
    return counts
