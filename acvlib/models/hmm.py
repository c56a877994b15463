"""A hidden Markov model with Gaussian emissions: K states, R channels, any time step left out.

z_1 ~ initial;  z_t | z_t-1 ~ transition;  x_t | z_t = k ~ Normal(mean_k, diag(sd_k^2))
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import autograd.numpy as np
import numpy as onp

from .. import chain
from ..weighting import keep_latents
from . import hidden_chain


class HMMParams(NamedTuple):
    """initial (K,), transition (K, K) with rows that sum to 1, mean (K, R), sd (K, R)."""

    initial: onp.ndarray
    transition: onp.ndarray
    mean: onp.ndarray
    sd: onp.ndarray


@dataclass(frozen=True)
class GaussianHMM:
    """MAP in D = (K - 1) + K (K - 1) + 2 K R unconstrained coordinates; sites are time steps.

    x (T, R) or (T,): a row of nan is a missing step, of base weight 0 and in no fold. params: log ratios to
    the last state of the initial and of each transition row, means, log sds. Priors: Dirichlet
    (`concentration`) on each row of probabilities, Normal(0, mean_scale^2) on means, InverseGamma
    (`variance_prior`: shape, scale) on variances, so that no state can collapse onto a point; the density of
    the constrained parameters is maximised (no Jacobian). States may be permuted without any change.
    """

    x: onp.ndarray = field(repr=False)
    n_states: int
    scheme: callable = keep_latents
    concentration: float = 1.1
    mean_scale: float = 100.0
    variance_prior: tuple = (1.0, 0.01)

    def __post_init__(self):
        x = onp.asarray(self.x, float)
        x = x[:, None] if x.ndim == 1 else x
        if x.ndim != 2 or len(x) < 2 or self.n_states < 1:
            raise ValueError(f"x must be (T, R) with T >= 2, and n_states >= 1; got {x.shape} and {self.n_states}")
        missing = onp.isnan(x)
        torn = onp.flatnonzero(missing.any(axis=1) & ~missing.all(axis=1))
        if torn.size or onp.isinf(x).any():
            raise ValueError(f"rows must be finite or wholly nan (missing); first bad row {(*torn, '(inf)')[0]}")
        if (~missing[:, 0]).sum() <= self.n_states:
            raise ValueError(f"{(~missing[:, 0]).sum()} observed steps cannot support {self.n_states} states")
        object.__setattr__(self, "x", x)

    @property
    def n_sites(self):
        return len(self.x)

    @cached_property
    def observed(self):
        """(T,) False where the step is missing."""
        return ~onp.isnan(self.x[:, 0])

    def unpack(self, params):
        """Named, constrained parameters."""
        k, shape = self.n_states, (self.n_states, self.x.shape[1])
        cuts = onp.cumsum([k - 1, k * (k - 1), k * shape[1]])
        initial, transition = _simplex(params[None, : cuts[0]])[0], params[cuts[0] : cuts[1]].reshape(k, k - 1)
        mean, log_sd = params[cuts[1] : cuts[2]].reshape(shape), params[cuts[2] :].reshape(shape)
        return HMMParams(initial, _simplex(transition), mean, np.exp(log_sd))

    def initial_params(self, rng=None):
        """K-means on the observed steps, sticky transitions; `rng` seeds K-means."""
        from sklearn.cluster import KMeans

        k, seen = self.n_states, self.x[self.observed]
        seed = 0 if rng is None else int(rng.integers(2**31))
        clusters = KMeans(k, n_init=4, random_state=seed).fit(seen)
        sd = onp.array([seen[clusters.labels_ == j].std(axis=0) for j in range(k)]) + 0.05 * seen.std(axis=0) + 1e-3
        sticky = onp.log(0.1 / k + 0.9 * onp.eye(k))
        rows = (sticky - sticky[:, -1:])[:, :-1]
        return onp.concatenate([onp.zeros(k - 1), rows.ravel(), clusters.cluster_centers_.ravel(), onp.log(sd).ravel()])

    def log_densities(self, params):
        """log p(x_t | z_t = k), (T, K), zero where missing; differentiable."""
        at = self.unpack(params)
        scaled = (onp.nan_to_num(self.x)[:, None, :] - at.mean) / at.sd
        density = -0.5 * np.sum(scaled**2, axis=2) - np.sum(np.log(at.sd), axis=1)
        return (density - 0.5 * self.x.shape[1] * onp.log(2 * onp.pi)) * self.observed[:, None]

    def log_chain(self, params):
        """(log initial (K,), log transition (K, K))."""
        at = self.unpack(params)
        return np.log(at.initial), np.log(at.transition)

    def objective(self, params, weights):
        """F = -log p(x; params, weights) - log p(params)."""
        densities = self.log_densities(params)
        node, edge = hidden_chain.potentials(self.scheme, weights, densities, *self.log_chain(params))
        return -chain.log_partition(node, edge) - self.log_prior(params)

    def log_prior(self, params):
        """log p(initial, transition, mean, sd^2) up to a constant."""
        at = self.unpack(params)
        shape, scale = self.variance_prior
        rows = (self.concentration - 1.0) * (np.sum(np.log(at.initial)) + np.sum(np.log(at.transition)))
        variance = np.sum(-2.0 * (shape + 1.0) * np.log(at.sd) - scale / at.sd**2)
        return rows - 0.5 * np.sum((at.mean / self.mean_scale) ** 2) + variance

    def heldout_loss(self, params, fold):
        """-log p(x_t | x outside the fold; params) for each t of the fold; latents are kept, as in scheme A."""
        return hidden_chain.heldout_loss(self.log_densities(params), *self.log_chain(params), fold)


def _simplex(log_ratios):
    """Rows of probabilities (n, K) from log ratios to the last entry, (n, K - 1)."""
    full = np.concatenate([log_ratios, onp.zeros((len(log_ratios), 1))], axis=1)
    shifted = np.exp(full - np.max(full, axis=1, keepdims=True))
    return shifted / np.sum(shifted, axis=1, keepdims=True)
