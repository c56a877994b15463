"""x_t | z_t = k ~ Normal(mean_k, diag(sd_k^2)): a variance for each state and channel.

Parameters of a state: mean (R,), then log sd (R,).
"""

from dataclasses import dataclass
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np

from ..sequences import Frames
from .pairs import Layer, Pairs
from .prior import Prior

LOG_2PI = np.log(2.0 * np.pi)


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

    def state_shape(self, n_channels: int) -> tuple[int, int]:
        """(1, 2 R)."""
        return 1, 2 * n_channels

    def unpack(self, shared: np.ndarray, states: np.ndarray, n_channels: int) -> GaussianParams:
        """Named parameters."""
        mean, log_sd = anp.reshape(states, (-1, 2, n_channels)).transpose((1, 0, 2))
        return GaussianParams(mean, anp.exp(log_sd))

    def pack(self, named: GaussianParams) -> np.ndarray:
        """The params (E,) of named ones."""
        return np.concatenate([named.mean, np.log(named.sd)], axis=1).ravel()

    def prior(self, n_states: int, n_channels: int) -> Prior:
        """The prior of all params (E,)."""
        is_log_sd = np.tile(np.arange(2 * n_channels) >= n_channels, n_states)
        precision = np.where(is_log_sd, 0.0, self.mean_scale**-2.0)
        return Prior(is_log_sd, np.zeros(len(precision)), precision, *self.variance_prior)

    def start(self, frames: Frames, labels: np.ndarray, n_states: int) -> np.ndarray:
        """Params (E,) fitted to frames with known states."""
        seen = frames.x[frames.observed]
        groups = [seen[labels[frames.observed] == k] for k in range(n_states)]
        mean = np.array([group.mean(axis=0) for group in groups])
        spread = np.array([group.std(axis=0) for group in groups])
        return self.pack(GaussianParams(mean, spread + 0.05 * seen.std(axis=0) + 1e-3))

    def maximise(
        self, shared: np.ndarray, states: np.ndarray, frames: Frames, mass: np.ndarray
    ) -> np.ndarray:
        """The M-step: means given sds, then sds given means (Meng and Rubin 1993)."""
        _, sd = self.unpack(shared, states, frames.x.shape[1])
        total = mass.sum(axis=0)[:, None]
        mean = mass.T @ frames.x / (total + (sd / self.mean_scale) ** 2)
        squares = np.array([mass[:, k] @ (frames.x - mean[k]) ** 2 for k in range(len(mean))])
        shape, scale = self.variance_prior
        variance = (squares + 2.0 * scale) / (total + 2.0 * (shape + 1.0))
        return self.pack(GaussianParams(mean, np.sqrt(variance)))

    def at(self, shared: np.ndarray, states: np.ndarray, frames: Frames) -> "GaussianPoint":
        """Values and derivatives at these parameters."""
        return GaussianPoint(shared, states, frames)


class GaussianPoint:
    """Log-densities (M, K) at some parameters; scaled: (x - mean) / sd (M, R) in each state."""

    def __init__(self, shared, states, frames):
        n_channels = frames.x.shape[1]
        self.shared = shared
        self.states = states
        self.mean = states[:, :n_channels]
        log_sd = states[:, n_channels:]
        self.sd = anp.exp(log_sd)
        both = zip(self.mean, self.sd, strict=True)
        self.scaled = [(frames.x - mean) / sd for mean, sd in both]
        squares = anp.stack([anp.einsum("mr,mr->m", z, z) for z in self.scaled], axis=1)
        density = -0.5 * squares - anp.sum(log_sd, axis=1) - 0.5 * n_channels * LOG_2PI
        self.log_density = density * frames.observed[:, None]

    def scores(self, k: int, rows: np.ndarray) -> tuple[np.ndarray, list[Layer]]:
        """d log p of frames `rows` in state k."""
        scaled = self.scaled[k][rows]
        ones = np.ones((len(rows), 1))
        layers = [Layer(ones, scaled / self.sd[k]), Layer(ones, scaled**2 - 1.0)]
        return np.zeros((len(rows), 0)), layers

    def information(self, pairs: Pairs) -> "GaussianInformation":
        """Minus the second derivatives of sum_p mass_p log p."""
        return GaussianInformation(self, pairs)


class GaussianInformation:
    """Minus the second derivatives of sum_p mass_p log p: 2 x 2 for each state and channel.

    means, cross, log_sds (K, R): of two means, of a mean and a log sd, of two log sds.
    """

    def __init__(self, point, pairs):
        self.means, self.cross, self.log_sds = np.zeros((3, *point.mean.shape))
        for k, rows in pairs.groups:
            mass = pairs.mass[rows]
            scaled = point.scaled[k][pairs.frame[rows]]
            self.means[k] = mass.sum() / point.sd[k] ** 2
            self.cross[k] = 2.0 * (mass @ scaled) / point.sd[k]
            self.log_sds[k] = 2.0 * (mass @ scaled**2)

    def multiply(self, shared: np.ndarray, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Times B directions (B, 0) and (B, K, 2 R)."""
        mean, log_sd = np.split(states, 2, axis=2)
        by_mean = self.means * mean + self.cross * log_sd
        by_log_sd = self.cross * mean + self.log_sds * log_sd
        return shared, np.concatenate([by_mean, by_log_sd], axis=2)

    def blocks(self) -> tuple[np.ndarray, np.ndarray]:
        """Nothing shared, and (K, 2 R, 2 R) without `cross`, so that it is positive definite."""
        diagonal = np.concatenate([self.means, self.log_sds], axis=1)
        return np.zeros((0, 0)), diagonal[:, :, None] * np.eye(diagonal.shape[1])
