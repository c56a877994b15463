"""x_tr | z_t = k ~ Poisson(rate_kr), channels independent.

Parameters of a state: log rate (R,).
"""

from dataclasses import dataclass
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.special import gammaln

from ....checks import real_array
from ..sequences import check_codes, local_means
from .base import Emission
from .priors import LogRate, Prior


class PoissonParams(NamedTuple):
    """rate (K, R)."""

    rate: np.ndarray


@dataclass(frozen=True, repr=False)
class Poisson(Emission):
    """Rates ~ Gamma(shape, rate) of `rate_prior`; (1, 0) is flat, shapes above 1 keep them > 0."""

    rate_prior: tuple[float, float] = (1.1, 0.01)
    misses_channels = True

    def __post_init__(self):
        prior = real_array("rate_prior", self.rate_prior, 1)
        if prior.shape != (2,) or prior[0] < 1.0 or prior[1] < 0.0:
            raise ValueError(f"rate_prior {prior}: must be a shape from 1 and a rate from 0 on")
        object.__setattr__(self, "rate_prior", tuple(prior.tolist()))

    def prepared(self, x):
        check_codes(x)
        return x

    def state_shape(self, n_channels):
        return 1, n_channels

    def unpack(self, states, n_channels) -> PoissonParams:
        return PoissonParams(anp.exp(states))

    def pack(self, named: PoissonParams) -> np.ndarray:
        return np.log(named.rate).ravel()

    def prior(self, n_states, n_channels):
        places = np.arange(n_states * n_channels)[:, None]
        return Prior(((LogRate(*self.rate_prior), places),))

    def log_density(self, state, frames):
        linear = anp.dot(frames.x, state) - anp.dot(frames.seen, anp.exp(state))
        return linear - gammaln(frames.x + 1.0).sum(axis=1)

    def scores(self, state, frames):
        return frames.x - frames.seen * np.exp(state)

    def information(self, state, frames, mass):
        return np.diag((mass @ frames.seen) * np.exp(state))

    def features(self, frames):
        """Square roots, whose variance does not depend on the rate, with those around a frame."""
        roots = np.sqrt(frames.x)
        return np.hstack([roots, local_means(roots, frames.starts)])

    def maximise(self, states, frames, mass):
        shape, rate = self.rate_prior
        totals = mass.T @ frames.x + shape - 1.0
        return np.log(totals / (mass.T @ frames.seen + rate)).ravel()

    def mean(self, state, frames):
        return np.exp(state[None])

    def draw(self, state, frames, rng):
        return rng.poisson(np.exp(state), frames.x.shape)
