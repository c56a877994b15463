"""x_t | z_t = k, u_t ~ Bernoulli(1 / (1 + exp(-eta))) or Poisson(exp(eta)), eta = W_k [u_t, 1].

A row: W_k (R, q) by rows, of (inputs - centre) / scale, then of a 1.

Source: Ashwood et al. (2022), Mice alternate between discrete strategies, Nature Neuroscience 25.
"""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from ....declared import OneOf, Whole, declared
from ..frames import Frames, check_codes, local_means
from .base import Emission, in_rows, normal, numpy_of
from .units import Width


class GLMParams(NamedTuple):
    """weights (K, R, q): those of the inputs, then the intercept, in the units of the data."""

    weights: np.ndarray


@declared
@dataclass(frozen=True, repr=False)
class GLM(Emission):
    """Weights ~ Normal(0, weight_sd^2), with which a state that inputs part stays finite.

    n_inputs: how many last columns of a sequence are inputs; centre, scale (n_inputs,): by default
    means and sds of the inputs, so that no unit matters.
    """

    family: Annotated[str, OneOf("bernoulli", "poisson")] = "bernoulli"
    n_inputs: Annotated[int, Whole(0)] = 0
    weight_sd: Width = 10.0
    centre: tuple[float, ...] | None = field(default=None, repr=False)
    scale: tuple[float, ...] | None = field(default=None, repr=False)
    priors = {"weight_sd": (10.0, np.inf)}

    def settled(self, x: np.ndarray, inputs: np.ndarray, weights: np.ndarray):
        if self.scale is not None:
            return self
        whole = np.isfinite(inputs).all(axis=1)
        centre = np.zeros(self.n_inputs)
        scale = np.ones(self.n_inputs)
        if self.n_inputs and weights[whole].sum() > 0.0:
            centre = np.average(inputs[whole], axis=0, weights=weights[whole])
            squares = np.average((inputs[whole] - centre) ** 2, axis=0, weights=weights[whole])
            scale = np.where(squares > 0.0, np.sqrt(squares), 1.0)
        return replace(self, centre=tuple(centre.tolist()), scale=tuple(scale.tolist()))

    def prepared(self, x: np.ndarray):
        check_codes(x, 2 if self.family == "bernoulli" else None)
        return x

    def prepared_inputs(self, inputs: np.ndarray):
        return (inputs - np.array(self.centre)) / np.array(self.scale)

    def state_size(self, n_channels: int):
        return n_channels * (self.n_inputs + 1)

    def unpack(self, rows: np.ndarray, n_channels: int):
        return GLMParams(rows.reshape(len(rows), n_channels, -1) @ self._to_units())

    def pack(self, named: Any):
        return in_rows(named.weights @ np.linalg.inv(self._to_units()))

    def _to_units(self):
        """The matrix (q, q) that takes weights of scaled inputs to those of inputs."""
        scale = np.array(self.scale)
        change = np.diag(np.append(1.0 / scale, 1.0))
        change[:-1, -1] = -np.array(self.centre) / scale
        return change

    def minus_log_prior(self, rows: Any):
        value, slopes = normal(rows, 0.0, self.weight_sd**-2)
        return value.sum(axis=-1), slopes

    def log_density(self, row: Any, frames: Frames):
        xp = numpy_of(row)
        eta = self._eta(row, frames)
        if self.family == "bernoulli":
            terms = frames.x * eta - xp.logaddexp(0.0, eta)
        else:
            terms = frames.x * eta - xp.exp(eta) - gammaln(frames.x + 1.0)
        return xp.sum(terms, axis=1)

    def score_factors(self, rows: np.ndarray, k: int, frames: Frames):
        return [(frames.x - self._mean(rows[k], frames), frames.design)]

    information = Emission.by_complex_step

    def features(self, frames: Frames):
        """Around a frame, the scores of one regression for all."""
        everyone = np.zeros(len(frames.x), int)
        pooled = self.start(frames, everyone, 1)
        return local_means(self.scores(pooled, 0, frames), frames.starts)

    def _eta(self, row, frames):
        weights = row.reshape((frames.n_channels, -1))
        return numpy_of(row).dot(frames.design, weights.T)

    def _mean(self, row, frames):
        eta = self._eta(row, frames)
        return 0.5 + 0.5 * np.tanh(0.5 * eta) if self.family == "bernoulli" else np.exp(eta)
