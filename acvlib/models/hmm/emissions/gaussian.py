"""x_t | z_t = k ~ Normal(mean_k, diag(sd_k^2)), and what all normal emissions share.

Parameters of a state: mean (R,), then log sd (R,).
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.linalg import solve

from ....checks import LARGEST, check_whole, real_array, real_number
from .scores import Layer

LOG_2PI = np.log(2.0 * np.pi)
FLAT = (-1.0, 0.0)  # the `variance_prior` that says nothing


@dataclass(frozen=True)
class Prior:
    """Independent priors of the parameters (E,) of an emission.

    Where `is_log_sd`, a parameter is log sd with sd^2 ~ InverseGamma(shape, scale), which keeps a
    state from collapsing onto a point, and `precision` is 0; elsewhere Normal(mean, 1 / precision).
    """

    is_log_sd: np.ndarray
    mean: np.ndarray
    precision: np.ndarray
    shape: float
    scale: float

    def minus_log(self, params: np.ndarray) -> float:
        """Minus the log density, up to a constant; differentiable."""
        gap = params - self.mean
        log_sd = params[self.is_log_sd]
        variances = 2.0 * (self.shape + 1.0) * log_sd + self.scale * anp.exp(-2.0 * log_sd)
        return 0.5 * anp.sum(self.precision * gap**2) + anp.sum(variances)

    def derivatives(self, params: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and diagonal Hessian of `minus_log`, both (E,)."""
        gradient = self.precision * (params - self.mean)
        hessian = self.precision.copy()
        tail = 2.0 * self.scale * np.exp(-2.0 * params[self.is_log_sd])
        gradient[self.is_log_sd] = 2.0 * (self.shape + 1.0) - tail
        hessian[self.is_log_sd] = 2.0 * tail
        return gradient, hessian


class GaussianParams(NamedTuple):
    """mean (K, R), sd (K, R)."""

    mean: np.ndarray
    sd: np.ndarray


@dataclass(frozen=True)
class Gaussian:
    """Means ~ Normal(0, mean_scale^2), variances ~ InverseGamma by `variance_prior`, of scaled x.

    That is (x - centre) / scale, so that data of any offset and unit give the same fit. Where None,
    the model takes the median and the interquartile range over 1.349 of what it observes.
    """

    mean_scale: float = 100.0
    variance_prior: tuple[float, float] = (1.0, 0.01)
    centre: tuple[float, ...] | None = field(default=None, repr=False)
    scale: tuple[float, ...] | None = field(default=None, repr=False)
    order = 0
    n_shared = 0

    def __post_init__(self):
        settle(self, "mean_scale")
        if self.centre is None and self.scale is None:
            return
        centre, scale = real_array("centre and scale", [self.centre, self.scale], 2)
        if (scale < 1.0 / LARGEST).any():
            raise ValueError(f"scale {scale} must be above {1.0 / LARGEST}")
        object.__setattr__(self, "centre", tuple(centre.tolist()))
        object.__setattr__(self, "scale", tuple(scale.tolist()))

    def in_units_of(self, sequences):
        """The emission with centre and scale of the observed frames, unless it has some."""
        x = np.concatenate(sequences)
        if self.centre is not None and len(self.centre) != x.shape[1]:
            raise ValueError(f"centre {self.centre} must have {x.shape[1]} entries, as x has")
        if self.centre is not None:
            return self
        low, centre, high = np.nanquantile(x, [0.25, 0.5, 0.75], axis=0)
        scale = (high - low) / 1.349  # the sd, where x is normal
        scale = np.where(scale > 0.0, scale, np.nanmax(x, axis=0) - np.nanmin(x, axis=0))
        return replace(self, centre=tuple(centre.tolist()), scale=tuple(scale.tolist()))

    def standardised(self, x):
        """(x - centre) / scale."""
        return (x - np.array(self.centre)) / np.array(self.scale)

    def state_shape(self, n_channels):
        """(1, 2 R)."""
        return 1, 2 * n_channels

    def unpack(self, states, n_channels) -> GaussianParams:
        scale = np.array(self.scale)
        mean = np.array(self.centre) + scale * states[:, :n_channels]
        return GaussianParams(mean, scale * anp.exp(states[:, n_channels:]))

    def pack(self, named: GaussianParams) -> np.ndarray:
        mean = (named.mean - np.array(self.centre)) / self.scale
        return _states(mean, named.sd / self.scale)

    def prior(self, n_states, n_channels):
        of_state = np.repeat([False, True], n_channels)
        is_log_sd = np.tile(of_state, n_states)
        precision = np.where(is_log_sd, 0.0, self.mean_scale**-2.0)
        return Prior(is_log_sd, np.zeros(len(is_log_sd)), precision, *self.variance_prior)

    def start(self, frames, labels, n_states):
        seen = frames.x[frames.observed]
        states = labels[frames.observed]
        least = 0.05 * seen.std(axis=0) + 1e-3
        mean = np.empty((n_states, frames.n_channels))
        spread = np.empty_like(mean)
        for k in range(n_states):
            group = seen[states == k]
            mean[k] = np.clip(group.mean(axis=0), -self.mean_scale, self.mean_scale)
            spread[k] = np.sqrt(((group - mean[k]) ** 2).mean(axis=0))
        return _states(mean, spread + least)

    def maximise(self, states, frames, mass):
        """The M-step: means given sds, then sds given means (Meng and Rubin 1993)."""
        sd = np.exp(states[:, frames.n_channels :])
        total = mass.sum(axis=0)[:, None]
        ridge = (sd / self.mean_scale) ** 2
        mean = mass.T @ frames.x / (total + ridge)
        squares = np.empty_like(mean)
        for k, own in enumerate(mass.T):
            squares[k] = own @ (frames.x - mean[k]) ** 2
        variance = likeliest_variance(squares, total, self.variance_prior)
        return _states(mean, np.sqrt(variance))

    def at(self, states, frames):
        return GaussianPoint(self, states, frames)


def _states(mean, sd):
    return np.hstack([mean, np.log(sd)]).ravel()


class GaussianPoint:
    """Log-densities (M, K) at some parameters; scaled: (x - mean) / sd (M, R) in each state.

    x, mean and sd are standardised.
    """

    def __init__(self, emission, states, frames):
        self.emission = emission
        self.states = states
        self.mean = states[:, : frames.n_channels]
        self.sd = anp.exp(states[:, frames.n_channels :])
        both = zip(self.mean, self.sd, strict=True)
        self.scaled = [(frames.x - mean) / sd for mean, sd in both]
        log_sds = anp.sum(states[:, frames.n_channels :], axis=1) + np.sum(np.log(emission.scale))
        self.log_density = log_density(sums_of_squares(self.scaled), log_sds, frames)

    def layers(self, k, frames):
        scaled = self.scaled[k][frames]
        ones = np.ones((len(frames), 1))
        return [Layer(ones, scaled / self.sd[k]), Layer(ones, scaled**2 - 1.0)]

    def mean_of(self, k):
        return self._named.mean[k]

    def draw(self, k, frames, rng):
        return rng.normal(self._named.mean[k], self._named.sd[k], (len(frames), self.mean.shape[1]))

    @property
    def _named(self):
        return self.emission.unpack(self.states, self.mean.shape[1])

    def information(self, groups):
        return GaussianInformation(self, groups)


class GaussianInformation:
    """matrices (K, 2, 2, R): of mean and log sd, for each state and channel."""

    def __init__(self, point, groups):
        n_states, n_channels = point.mean.shape
        self.matrices = np.zeros((n_states, 2, 2, n_channels))
        for k, _, frames, mass in groups:
            sd = point.sd[k]
            scaled = point.scaled[k][frames]
            by_mean = mass.sum() / sd**2
            cross = 2.0 * (mass @ scaled) / sd
            by_log_sd = 2.0 * (mass @ scaled**2)
            self.matrices[k] = [[by_mean, cross], [cross, by_log_sd]]

    def multiply(self, states):
        n_states, _, _, n_channels = self.matrices.shape
        parts = states.reshape(-1, n_states, 2, n_channels)
        moved = np.einsum("kijr,bkjr->bkir", self.matrices, parts)
        return moved.reshape(states.shape)

    def blocks(self):
        """Nothing shared, and (K, 2 R, 2 R) without `cross`, so that it is positive definite."""
        diagonal = np.einsum("kiir->kir", self.matrices)
        rows = diagonal.reshape(len(diagonal), 1, -1)
        return np.zeros((0, 0)), rows * np.eye(rows.shape[2])


def log_density(squares, log_sds, frames):
    """(M, K) from scaled squares (M, K) and sums of log sds over channels; 0 where missing."""
    constant = 0.5 * LOG_2PI * frames.n_channels
    density = -0.5 * squares - log_sds - constant
    return density * frames.observed[:, None]


def sums_of_squares(residuals):
    """(M, K) from residuals (M, R) of each state."""
    sums = [anp.einsum("mr,mr->m", one, one) for one in residuals]
    return anp.stack(sums, axis=1)


def settle(emission, sd, **counts):
    """Set an sd by name, `variance_prior`, and counts, given the least, to what was checked."""
    found = {name: check_whole(name, getattr(emission, name), counts[name]) for name in counts}
    width = getattr(emission, sd)
    found[sd] = width if width == np.inf else real_number(sd, width, above=1.0 / LARGEST)
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


def ridge_regression(x, design, mass, ridge, pull=0.0):
    """Weights (R, q) of rows x (n, R) on design (n, q), and their weighted sum of squares."""
    weighted = mass[:, None] * design
    gram = weighted.T @ design + ridge * np.eye(design.shape[1])
    solved = solve(gram, weighted.T @ x + pull, assume_a="pos")
    squares = (x - design @ solved) ** 2
    return solved.T, mass @ squares.sum(axis=1)


def isotropic_prior(mean, sd, variance_prior):
    """Weights ~ Normal(mean, sd^2), mean (E - 1,); sigma^2 ~ InverseGamma of shape and scale."""
    is_log_sd = np.arange(len(mean) + 1) == 0
    precision = np.where(is_log_sd, 0.0, sd**-2.0)
    return Prior(is_log_sd, np.append(0.0, mean), precision, *variance_prior)


class IsotropicPoint:
    """Log-densities (M, K) with one log sigma, the first parameter; residuals: (M, R) a state.

    A subclass has `mean_layers(k, frames, signal)`: the `Layer`s of state k but that of log sigma,
    given d log p / d mean (n, R).
    """

    def __init__(self, states, frames, residuals):
        log_sd = states[0, 0]
        self.states = states
        self.frames = frames
        self.residuals = residuals
        self.precision = anp.exp(-2.0 * log_sd)
        self.squares = sums_of_squares(residuals)
        log_sds = frames.n_channels * log_sd
        self.log_density = log_density(self.precision * self.squares, log_sds, frames)

    def layers(self, k, frames):
        by_log_sd = self.precision * self.squares[frames, k] - self.frames.n_channels
        signal = self.precision * self.residuals[k][frames]
        ones = np.ones((len(frames), 1))
        return [Layer(by_log_sd[:, None], ones), *self.mean_layers(k, frames, signal)]

    def mean_of(self, k):
        return self.frames.x - self.residuals[k]

    def draw(self, k, frames, rng):
        return rng.normal(self.mean_of(k)[frames], self.precision**-0.5)
