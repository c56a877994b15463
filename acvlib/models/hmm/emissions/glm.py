"""x_t | z_t = k, u_t ~ Bernoulli(1 / (1 + exp(-eta))) or Poisson(exp(eta)), eta = W_k [u_t, 1].

Parameters of a state: W_k (R, q) by rows, q inputs and, unless it is left out, an intercept.

Source: Ashwood et al. (2022), Mice alternate between discrete strategies, Nature Neuroscience 25.
"""

from dataclasses import dataclass
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.linalg import block_diag
from scipy.special import expit, gammaln

from ....checks import LARGEST, check_choice, check_whole, real_number
from ..sequences import check_codes, local_means
from .base import Emission
from .priors import Normal, Prior

FAMILIES = ("bernoulli", "poisson")


class GLMParams(NamedTuple):
    """weights (K, R, q): those of the inputs, then the intercept."""

    weights: np.ndarray


@dataclass(frozen=True, repr=False)
class GLM(Emission):
    """Weights ~ Normal(0, weight_sd^2), with which a state that inputs part stays finite.

    n_inputs: how many last columns of a sequence are inputs.
    """

    family: str = "bernoulli"
    n_inputs: int = 0
    intercept: bool = True
    weight_sd: float = 2.0

    def __post_init__(self):
        check_choice("family", self.family, FAMILIES)
        if self.intercept not in (True, False):
            raise ValueError(f"intercept = {self.intercept!r:.60}: must be True or False")
        check_whole("n_inputs", self.n_inputs, 0 if self.intercept else 1)
        weight_sd = real_number("weight_sd", self.weight_sd, above=1.0 / LARGEST)
        object.__setattr__(self, "weight_sd", weight_sd)

    def prepared(self, x):
        check_codes(x, 2 if self.family == "bernoulli" else None)
        return x

    def state_shape(self, n_channels):
        return 1, n_channels * (self.n_inputs + self.intercept)

    def unpack(self, states, n_channels) -> GLMParams:
        return GLMParams(anp.reshape(states, (len(states), n_channels, -1)))

    def pack(self, named: GLMParams) -> np.ndarray:
        return np.ravel(named.weights)

    def prior(self, n_states, n_channels):
        places = np.arange(n_states * self.state_shape(n_channels)[1])[:, None]
        return Prior(((Normal(0.0, self.weight_sd**-2), places),))

    def log_density(self, state, frames):
        eta = self._eta(state, frames)
        if self.family == "bernoulli":
            terms = frames.x * eta - anp.logaddexp(0.0, eta)
        else:
            terms = frames.x * eta - anp.exp(eta) - gammaln(frames.x + 1.0)
        return anp.sum(terms, axis=1)

    def scores(self, state, frames):
        residual = frames.x - self._mean(state, frames)
        rows = residual[:, :, None] * self._design(frames)[:, None, :]
        return rows.reshape(len(rows), -1)

    def information(self, state, frames, mass):
        design = self._design(frames)
        mean = self._mean(state, frames)
        variance = mean * (1.0 - mean) if self.family == "bernoulli" else mean
        blocks = [(design.T * (mass * own)) @ design for own in variance.T]
        return block_diag(*blocks)

    def features(self, frames):
        """Around a frame, the scores of one regression for all."""
        everyone = np.zeros(len(frames.x), int)
        pooled = self.start(frames, everyone, 1)
        return local_means(self.scores(pooled, frames), frames.starts)

    def mean(self, state, frames):
        return self._mean(state, frames)

    def draw(self, state, frames, rng):
        mean = self._mean(state, frames)
        return rng.poisson(mean) if self.family == "poisson" else rng.random(mean.shape) < mean

    def _design(self, frames):
        return frames.design if self.intercept else frames.design[:, :-1]

    def _eta(self, state, frames):
        weights = anp.reshape(state, (frames.n_channels, -1))
        return anp.dot(self._design(frames), weights.T)

    def _mean(self, state, frames):
        eta = self._eta(state, frames)
        return expit(eta) if self.family == "bernoulli" else np.exp(eta)
