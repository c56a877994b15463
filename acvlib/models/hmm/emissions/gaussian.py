"""x_t | z_t = k ~ Normal(mean_k, diag(sd_k^2)), with one sd for all channels if spherical.

Parameters of a state: mean (R,), then log sd (R,) or (1,).
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np

from ....checks import LARGEST, check_whole, real_array, real_number
from .base import Emission
from .priors import LogSd, Normal, Prior

LOG_2PI = np.log(2.0 * np.pi)
FLAT = (-1.0, 0.0)  # the `variance_prior` that says nothing


@dataclass(frozen=True, repr=False)
class Standardised(Emission):
    """Means ~ Normal(0, mean_scale^2), variances ~ InverseGamma by `variance_prior`, of scaled x.

    That is (x - centre) / scale, so that data of any offset and unit give the same fit. Where None,
    the model takes the median and the interquartile range over 1.349 of what it observes. Flat,
    which is maximum likelihood: mean_scale = inf, variance_prior = (-1, 0).
    """

    mean_scale: float = 100.0
    variance_prior: tuple[float, float] = (1.0, 0.01)
    centre: tuple[float, ...] | None = field(default=None, repr=False)
    scale: tuple[float, ...] | None = field(default=None, repr=False)

    def __post_init__(self):
        settle(self, "mean_scale")
        if self.centre is None and self.scale is None:
            return
        centre, scale = real_array("centre and scale", [self.centre, self.scale], 2)
        if (scale < 1.0 / LARGEST).any():
            raise ValueError(f"scale {scale} must be above {1.0 / LARGEST}")
        object.__setattr__(self, "centre", tuple(centre.tolist()))
        object.__setattr__(self, "scale", tuple(scale.tolist()))

    def settled(self, sequences):
        """With centre and scale of the observed frames, unless it has some."""
        x = np.concatenate(sequences)
        if self.centre is not None and len(self.centre) != x.shape[1]:
            raise ValueError(f"centre {self.centre} must have {x.shape[1]} entries, as x has")
        if self.centre is not None:
            return self
        low, centre, high = np.nanquantile(x, [0.25, 0.5, 0.75], axis=0)
        scale = (high - low) / 1.349  # the sd, where x is normal
        scale = np.where(scale > 0.0, scale, np.nanmax(x, axis=0) - np.nanmin(x, axis=0))
        return replace(self, centre=tuple(centre.tolist()), scale=tuple(scale.tolist()))

    def prepared(self, x):
        """(x - centre) / scale."""
        return (x - np.array(self.centre)) / np.array(self.scale)


class GaussianParams(NamedTuple):
    """mean (K, R), sd (K, R), or (K, 1) if spherical."""

    mean: np.ndarray
    sd: np.ndarray


@dataclass(frozen=True, repr=False)
class Gaussian(Standardised):
    """Channels independent, each with an sd of its own, or all with one if spherical.

    A spherical one scales all channels alike, by the largest of their ranges: its sd has a unit.
    """

    spherical: bool = False
    misses_channels = True

    def settled(self, sequences):
        settled = super().settled(sequences)
        common = (max(settled.scale),) * len(settled.scale)
        return replace(settled, scale=common) if self.spherical else settled

    def state_shape(self, n_channels):
        return 1, n_channels + (1 if self.spherical else n_channels)

    def unpack(self, states, n_channels) -> GaussianParams:
        scale = np.array(self.scale)
        mean = np.array(self.centre) + scale * states[:, :n_channels]
        log_sd = states[:, n_channels:]
        return GaussianParams(mean, scale[: log_sd.shape[1]] * anp.exp(log_sd))

    def pack(self, named: GaussianParams) -> np.ndarray:
        mean = (named.mean - np.array(self.centre)) / self.scale
        return _states(mean, named.sd / np.array(self.scale)[: named.sd.shape[1]])

    def prior(self, n_states, n_channels):
        places = np.arange(n_states * self.state_shape(n_channels)[1]).reshape(n_states, -1)
        means = Normal(0.0, self.mean_scale**-2), places[:, :n_channels].reshape(-1, 1)
        sds = LogSd(*self.variance_prior), places[:, n_channels:].reshape(-1, 1)
        return Prior((means, sds))

    def log_density(self, state, frames):
        scaled, _ = self._scaled(state, frames)
        logs = state[frames.n_channels :] + np.log(self.scale) + 0.5 * LOG_2PI
        return -0.5 * anp.einsum("mr,mr->m", scaled, scaled) - anp.dot(frames.seen, logs)

    def scores(self, state, frames):
        scaled, precision = self._scaled(state, frames)
        scores = np.empty((len(scaled), len(state)))
        np.multiply(scaled, precision, out=scores[:, : frames.n_channels])
        scaled *= scaled
        scaled -= frames.seen
        scores[:, frames.n_channels :] = self._tied(scaled)
        return scores

    def gradient(self, state, frames, mass):
        scaled, precision = self._scaled(state, frames)
        by_mean = (mass @ scaled) * precision
        scaled *= scaled
        return np.append(by_mean, self._tied((mass @ scaled - mass @ frames.seen)[None]))

    def information(self, state, frames, mass):
        scaled, precision = self._scaled(state, frames)
        by_mean = (mass @ frames.seen) * precision**2
        cross = self._tied(np.diag(2.0 * (mass @ scaled) * precision))
        by_log_sd = self._tied(self._tied(np.diag(2.0 * (mass @ scaled**2))).T)
        return np.block([[np.diag(by_mean), cross], [cross.T, by_log_sd]])

    def mean(self, state, frames):
        return self.unpack(state[None], frames.n_channels).mean

    def draw(self, state, frames, rng):
        return rng.normal(*self.unpack(state[None], frames.n_channels), frames.x.shape)

    def _scaled(self, state, frames):
        """(x - mean) / sd (n, R), 0 where missing, and 1 / sd."""
        precision = anp.exp(-state[frames.n_channels :])
        scaled = frames.x - state[: frames.n_channels]
        scaled *= precision
        scaled *= frames.seen
        return scaled, precision

    def _tied(self, by_channel):
        """Derivatives by log sd (n, 1 or R), from those by each channel's own (n, R)."""
        return by_channel.sum(axis=1, keepdims=True) if self.spherical else by_channel

    def maximise(self, states, frames, mass):
        """The M-step: means given sds, then sds given means (Meng and Rubin 1993)."""
        sd = np.exp(states[:, frames.n_channels :])
        total = mass.T @ frames.seen
        mean = mass.T @ frames.x / (total + (sd / self.mean_scale) ** 2)
        squares = np.empty_like(mean)
        for k, own in enumerate(mass.T):
            squares[k] = own @ (frames.seen * (frames.x - mean[k])) ** 2
        variance = likeliest_variance(self._tied(squares), self._tied(total), self.variance_prior)
        return _states(mean, np.sqrt(variance))


def _states(mean, sd):
    return np.hstack([mean, np.log(sd)]).ravel()


def settle(emission, sd, **counts):
    """Set an sd by name, `variance_prior`, and counts, given the least, to what was checked."""
    found = {name: check_whole(name, getattr(emission, name), counts[name]) for name in counts}
    width = getattr(emission, sd)
    flat = isinstance(width, float) and width == np.inf
    found[sd] = width if flat else real_number(sd, width, above=1.0 / LARGEST)
    prior = real_array("variance_prior", emission.variance_prior, 1)
    if prior.shape != (2,) or (prior < FLAT).any():
        raise ValueError(f"variance_prior {prior}: must be shape and scale, from {FLAT}, flat, on")
    found["variance_prior"] = tuple(prior.tolist())
    for name, value in found.items():
        object.__setattr__(emission, name, value)


def likeliest_variance(squares, count, variance_prior):
    """The variance with the highest posterior density, given a sum of `count` squares."""
    shape, scale = variance_prior
    return (squares + 2.0 * scale) / (count + 2.0 * (shape + 1.0))
