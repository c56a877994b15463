"""Responses given inputs: x_t | z_t = k, u_t ~ Bernoulli(1 / (1 + exp(-eta))) or Poisson(exp(eta)).

Source: Ashwood et al. (2022), Mice alternate between discrete strategies, Nature Neuroscience 25.
"""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from ....declared import OneOf, Whole, declared
from ....trials import NoFiniteOptimum, separated
from ..frames import Frames
from .base import Emission, in_rows, normal, numpy_of
from .counts import check_codes, local_means
from .units import Width

EXTREME = 15.0  # scores up to which nothing is separated: no loss below 3e-7
RARE = 1e-6  # expected counts of frames that states at infinity do not show


class GLMParams(NamedTuple):
    """weights (K, R, q): those of the inputs, then the intercept, in the units of the data."""

    weights: np.ndarray


@declared
@dataclass(frozen=True, repr=False)
class GLM(Emission):
    """A row: W_k (R, q) by rows, of (inputs - centre) / scale, then of a 1; eta = W_k [u_t, 1].

    Weights ~ Normal(0, weight_sd^2), with which a state that inputs part stays finite.

    n_inputs: how many last columns of a sequence are inputs; centre, scale (n_inputs,): by default
    means and sds of the inputs where nothing is missing, so that no unit matters.
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
        whole = np.isfinite(np.column_stack([x, inputs])).all(axis=1)
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
        return GLMParams(
            numpy_of(rows).dot(rows.reshape((len(rows), n_channels, -1)), self._to_units())
        )

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

    def extreme(self, rows: np.ndarray, frames: Frames):
        if self.weight_sd < np.inf:
            return super().extreme(rows, frames)
        reach = abs(frames.design).max(axis=0)
        sizes = abs(rows).reshape(*rows.shape[:-1], -1, len(reach)) @ reach
        return (sizes > EXTREME).any(axis=(-2, -1))

    def check_optimum(self, rows: np.ndarray, expected: Any):
        """Where inputs part what a state shows, which no likelihood stops at."""
        if self.weight_sd < np.inf:
            return
        for k, (frames, mass) in enumerate(expected):
            counted = frames.rows(np.flatnonzero(mass > RARE))
            free = 2.0 * counted.x - 1.0 if self.family == "bernoulli" else -1.0 * (counted.x == 0)
            gains = free * self._eta(rows[k], counted)
            for channel in np.flatnonzero((gains > EXTREME).any(axis=0)):
                if separated(counted.design, free[:, channel]):
                    raise NoFiniteOptimum(
                        f"the {self.family} likelihood has no finite maximum: inputs separate "
                        f"channel {channel} in state {k} (fitted scores up to "
                        f"{gains[:, channel].max():.3g}). Give weight_sd a finite value"
                    )

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
