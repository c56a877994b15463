"""x_t | z_t = k ~ Normal(mean_k, diag(sd_k^2)): a variance for each state and channel.

Parameters of a state: mean (R,), then log sd (R,).
"""

from dataclasses import dataclass
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np

from . import normal
from .pairs import Layer
from .prior import Prior


class GaussianParams(NamedTuple):
    """mean (K, R), sd (K, R)."""

    mean: np.ndarray
    sd: np.ndarray


@dataclass(frozen=True)
class Gaussian:
    """Means ~ Normal(0, mean_scale^2), variances ~ InverseGamma by `variance_prior`."""

    mean_scale: float = 100.0
    variance_prior: tuple[float, float] = (1.0, 0.01)
    order = 0
    n_shared = 0

    def state_shape(self, n_channels):
        """(1, 2 R)."""
        return 1, 2 * n_channels

    def unpack(self, shared, states, n_channels) -> GaussianParams:
        mean = states[:, :n_channels]
        log_sd = states[:, n_channels:]
        return GaussianParams(mean, anp.exp(log_sd))

    def pack(self, named: GaussianParams) -> np.ndarray:
        states = np.concatenate([named.mean, np.log(named.sd)], axis=1)
        return states.ravel()

    def prior(self, n_states, n_channels):
        of_state = np.repeat([False, True], n_channels)
        is_log_sd = np.tile(of_state, n_states)
        mean = np.zeros(len(is_log_sd))
        precision = np.where(is_log_sd, 0.0, self.mean_scale**-2.0)
        return Prior(is_log_sd, mean, precision, *self.variance_prior)

    def start(self, frames, labels, n_states):
        seen = frames.x[frames.observed]
        states = labels[frames.observed]
        groups = [seen[states == k] for k in range(n_states)]
        mean = np.array([group.mean(axis=0) for group in groups])
        spread = np.array([group.std(axis=0) for group in groups])
        least = 0.05 * seen.std(axis=0) + 1e-3
        return self.pack(GaussianParams(mean, spread + least))

    def maximise(self, shared, states, frames, mass):
        """The M-step: means given sds, then sds given means (Meng and Rubin 1993)."""
        sd = self.unpack(shared, states, frames.n_channels).sd
        total = mass.sum(axis=0)[:, None]
        ridge = (sd / self.mean_scale) ** 2
        mean = mass.T @ frames.x / (total + ridge)
        squares = np.empty_like(mean)
        for k, own in enumerate(mass.T):
            squares[k] = own @ (frames.x - mean[k]) ** 2
        variance = normal.likeliest_variance(squares, total, self.variance_prior)
        return self.pack(GaussianParams(mean, np.sqrt(variance)))

    def at(self, shared, states, frames):
        return GaussianPoint(self, shared, states, frames)


class GaussianPoint:
    """Log-densities (M, K) at some parameters; scaled: (x - mean) / sd (M, R) in each state."""

    def __init__(self, emission, shared, states, frames):
        self.shared = shared
        self.states = states
        self.mean, self.sd = emission.unpack(shared, states, frames.n_channels)
        both = zip(self.mean, self.sd, strict=True)
        self.scaled = [(frames.x - mean) / sd for mean, sd in both]
        squares = normal.sums_of_squares(self.scaled)
        log_sds = anp.sum(states[:, frames.n_channels :], axis=1)
        self.log_density = normal.log_density(squares, log_sds, frames)

    def scores(self, k, rows):
        scaled = self.scaled[k][rows]
        ones = np.ones((len(rows), 1))
        by_mean = Layer(ones, scaled / self.sd[k])
        by_log_sd = Layer(ones, scaled**2 - 1.0)
        return np.zeros((len(rows), 0)), [by_mean, by_log_sd]

    def information(self, pairs):
        return GaussianInformation(self, pairs)


class GaussianInformation:
    """matrices (K, 2, 2, R): of mean and log sd, for each state and channel."""

    def __init__(self, point, pairs):
        n_states, n_channels = point.mean.shape
        self.matrices = np.zeros((n_states, 2, 2, n_channels))
        for k, frames, mass in pairs.by_state():
            sd = point.sd[k]
            scaled = point.scaled[k][frames]
            by_mean = mass.sum() / sd**2
            cross = 2.0 * (mass @ scaled) / sd
            by_log_sd = 2.0 * (mass @ scaled**2)
            self.matrices[k] = [[by_mean, cross], [cross, by_log_sd]]

    def multiply(self, shared, states):
        n_states, _, _, n_channels = self.matrices.shape
        parts = states.reshape(-1, n_states, 2, n_channels)
        moved = np.einsum("kijr,bkjr->bkir", self.matrices, parts)
        return shared, moved.reshape(states.shape)

    def blocks(self):
        """Nothing shared, and (K, 2 R, 2 R) without `cross`, so that it is positive definite."""
        diagonal = np.einsum("kiir->kir", self.matrices)
        rows = diagonal.reshape(len(diagonal), 1, -1)
        return np.zeros((0, 0)), rows * np.eye(rows.shape[2])
