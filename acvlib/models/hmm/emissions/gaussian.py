"""x_t | z_t = k ~ Normal(mean_k, diag(sd_k^2)): a variance for each state and channel.

Parameters: means (K, R), then log sds (K, R).
"""

from dataclasses import dataclass
from typing import NamedTuple

import autograd.numpy as np
import numpy as onp


class GaussianParams(NamedTuple):
    """mean (K, R), sd (K, R)."""

    mean: onp.ndarray
    sd: onp.ndarray


@dataclass(frozen=True)
class Gaussian:
    """Priors Normal(0, mean_scale^2) on means, InverseGamma (`variance_prior`: shape, scale) on variances.

    The latter keeps a state from collapsing onto a point.
    """

    mean_scale: float = 100.0
    variance_prior: tuple = (1.0, 0.01)
    order = 0
    n_shared = 0

    def n_params(self, n_states, n_channels):
        return 2 * n_states * n_channels

    def state_params(self, n_states, n_channels):
        """Places of each state's parameters, (K, 1, 2 R)."""
        places = onp.arange(2 * n_states * n_channels).reshape(2, n_states, n_channels)
        return places.transpose(1, 0, 2).reshape(n_states, 1, -1)

    def unpack(self, params, n_states, n_channels):
        """Named parameters."""
        mean, log_sd = params.reshape(2, n_states, n_channels)
        return GaussianParams(mean, np.exp(log_sd))

    def log_densities(self, params, frames, n_states):
        """log p(x_t | z_t = k), (M, K), zero where missing; differentiable."""
        mean, log_sd = np.reshape(params, (2, n_states, -1))
        scaled = (frames.x[:, None, :] - mean) * np.exp(-log_sd)
        density = -0.5 * np.sum(scaled**2, axis=2) - np.sum(log_sd, axis=1)
        return (density - 0.5 * frames.x.shape[1] * onp.log(2 * onp.pi)) * frames.observed[:, None]

    def minus_log_prior(self, params, n_states, n_channels):
        """Up to a constant; differentiable."""
        shape, scale = self.variance_prior
        mean, log_sd = np.reshape(params, (2, -1))
        variance = np.sum(2.0 * (shape + 1.0) * log_sd + scale * np.exp(-2.0 * log_sd))
        return variance + 0.5 * np.sum((mean / self.mean_scale) ** 2)

    def prior_derivatives(self, params, n_states, n_channels):
        """Gradient and diagonal Hessian of `minus_log_prior`, both (E,)."""
        shape, scale = self.variance_prior
        mean, log_sd = params.reshape(2, -1)
        tail = 2.0 * scale * onp.exp(-2.0 * log_sd)
        gradient = onp.concatenate([mean / self.mean_scale**2, 2.0 * (shape + 1.0) - tail])
        return gradient, onp.concatenate([onp.full(mean.size, self.mean_scale**-2.0), 2.0 * tail])

    def at(self, params, frames, n_states):
        """Values and derivatives at these parameters."""
        return GaussianPoint(self, params, frames, n_states)

    def start(self, frames, labels, n_states):
        """Parameters (E,) fitted to frames with known states."""
        seen, labels = frames.x[frames.observed], labels[frames.observed]
        groups = [seen[labels == k] for k in range(n_states)]
        sd = onp.array([group.std(axis=0) for group in groups]) + 0.05 * seen.std(axis=0) + 1e-3
        return onp.concatenate(
            [onp.ravel([group.mean(axis=0) for group in groups]), onp.log(sd).ravel()]
        )

    def maximise(self, params, frames, mass):
        """The M-step: means given sds, then sds given means (Meng and Rubin 1993)."""
        variance = onp.exp(2.0 * params.reshape(2, mass.shape[1], -1)[1])
        total = mass.sum(axis=0)[:, None]
        mean = mass.T @ frames.x / (total + variance / self.mean_scale**2)
        squares = onp.array([mass[:, k] @ (frames.x - mean[k]) ** 2 for k in range(len(mean))])
        shape, scale = self.variance_prior
        variance = (squares + 2.0 * scale) / (total + 2.0 * (shape + 1.0))
        return onp.concatenate([mean.ravel(), 0.5 * onp.log(variance).ravel()])


class GaussianPoint:
    """Log-densities (M, K) at some parameters, their weighted gradient, and their derivatives along directions."""

    def __init__(self, emission, params, frames, n_states):
        self.frames, self.log_density = frames, emission.log_densities(params, frames, n_states)
        self.mean, log_sd = params.reshape(2, n_states, -1)
        self.inverse_sd = onp.exp(-log_sd)

    def gradient(self, mass):
        """sum_tk mass_tk d log p(x_t | k) / dparams, (E,)."""
        total, first, second = (
            mass.sum(axis=0)[:, None],
            mass.T @ self.frames.x,
            mass.T @ self.frames.x**2,
        )
        centred = first - total * self.mean
        squares = second - 2.0 * self.mean * first + total * self.mean**2
        by_sd = squares * self.inverse_sd**2 - total
        return onp.concatenate([(centred * self.inverse_sd**2).ravel(), by_sd.ravel()])

    def linearise(self, pairs):
        """The derivatives at active pairs."""
        return LinearGaussian(self, pairs)


class LinearGaussian:
    """Products with first and second derivatives of the log-densities of P active pairs; directions are rows."""

    directions_at_once = 128  # more would only need more memory

    def __init__(self, point, pairs):
        self.pairs, self.inverse_sd = pairs, point.inverse_sd
        scaled = (point.frames.x[pairs.frame] - point.mean[pairs.state]) * point.inverse_sd[
            pairs.state
        ]
        by_mean, by_sd = scaled * point.inverse_sd[pairs.state], scaled**2 - 1.0
        self.score = (
            onp.stack([by_mean, by_sd], axis=1) * pairs.observed[:, None, None]
        )  # (P, 2, R)

    def _split(self, directions):
        """(B, 2, K, R)."""
        return directions.reshape(len(directions), 2, *self.inverse_sd.shape)

    def scores(self, directions):
        """d log p along each direction (B, E), times u: (P, B)."""
        moved, out = self._split(directions), onp.zeros((len(self.score), len(directions)))
        for k, rows in self.pairs.groups:
            out[rows] = onp.tensordot(self.score[rows], moved[:, :, k], axes=([1, 2], [1, 2]))
        return out

    def adjoint(self, coefficients):
        """sum_p coefficients[p, b] u_p d log p, (B, E)."""
        out = onp.zeros((coefficients.shape[1], 2 * self.inverse_sd.size))
        for k, rows in self.pairs.groups:
            self._split(out)[:, :, k] = onp.tensordot(
                coefficients[rows], self.score[rows], axes=(0, 0)
            )
        return out

    def _blocks(self, k, rows):
        """Minus the sum of second derivatives in (mean, log sd) of state k: (2, 2, R), diagonal in the channels."""
        by_mean, by_sd = self.score[rows].transpose(1, 0, 2)
        seen, mass = self.pairs.observed[rows], self.pairs.mass[rows]
        ratio = onp.divide(
            mass, seen, out=onp.zeros_like(mass), where=seen > 0
        )  # the scores hold u already
        total = self.pairs.mass[rows].sum()
        mean = total * self.inverse_sd[k] ** 2
        cross = 2.0 * ratio @ by_mean
        return onp.array([[mean, cross], [cross, 2.0 * (ratio @ by_sd + total)]])

    def curvature(self, directions):
        """Minus sum_p mass_p d2 log p times each direction, (B, E)."""
        out, moved = onp.zeros(directions.shape), self._split(directions)
        for k, rows in self.pairs.groups:
            self._split(out)[:, :, k] = onp.einsum(
                "ijr,bjr->bir", self._blocks(k, rows), moved[:, :, k]
            )
        return out

    def information(self):
        """(none shared: (0, 0); of each state's mean and log sd, (K, 2 R, 2 R)), without their covariance."""
        n_states, n_channels = self.inverse_sd.shape
        blocks = onp.zeros((n_states, 2 * n_channels, 2 * n_channels))
        for k, rows in self.pairs.groups:
            (mean, _), (_, sd) = self._blocks(k, rows)
            blocks[k] = onp.diag(onp.concatenate([mean, sd]))
        return onp.zeros((0, 0)), blocks
