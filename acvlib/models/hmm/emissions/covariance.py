"""x_t | z_t = k ~ Normal(mean_k, C_k), C_k of each state, or tied: one C for all.

With C^-1 = P P', P lower triangular, and z = P'(x - mean): log p = sum_i log P_ii - |z|^2 / 2.
Parameters of a row: P by rows, with -log P_ii in place of P_ii, then mean (R,).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import autograd.numpy as anp
import numpy as np

from .gaussian import LOG_2PI, Standardised
from .priors import LogSd, Normal, Prior


class CovarianceParams(NamedTuple):
    """mean (K, R), covariance (K, R, R), or (R, R) if tied."""

    mean: np.ndarray
    covariance: np.ndarray


class Triangle(NamedTuple):
    """Entries of a lower triangle, row by row: row, column, is_diagonal (n,); places (n, R R)."""

    row: np.ndarray
    column: np.ndarray
    is_diagonal: np.ndarray
    places: np.ndarray


@lru_cache
def triangle(n_channels: int) -> Triangle:
    """That of P (R, R)."""
    row, column = np.tril_indices(n_channels)
    places = np.eye(n_channels**2)[row * n_channels + column]
    return Triangle(row, column, row == column, places)


@dataclass(frozen=True, repr=False)
class FullGaussian(Standardised):
    """p(C) ~ |C|^-(shape + 1) exp(-scale tr C^-1), an inverse Wishart law; see `Standardised`."""

    tied: bool = False

    @property
    def n_shared(self):
        return len(triangle(len(self.scale)).row) if self.tied else 0

    def state_shape(self, n_channels):
        own = 0 if self.tied else len(triangle(n_channels).row)
        return 1, own + n_channels

    def unpack(self, states, n_channels) -> CovarianceParams:
        scale = np.array(self.scale)
        mean = np.array(self.centre) + scale * states[:, -n_channels:]
        rows = states[:1] if self.tied else states
        factors = anp.stack([_factor(row[:-n_channels], n_channels) for row in rows])
        inverse = anp.linalg.inv(factors)
        covariance = anp.matmul(anp.transpose(inverse, (0, 2, 1)), inverse) * np.outer(scale, scale)
        return CovarianceParams(mean, covariance[0] if self.tied else covariance)

    def pack(self, named: CovarianceParams) -> np.ndarray:
        mean = (named.mean - np.array(self.centre)) / self.scale
        return self._packed(mean, named.covariance / np.outer(self.scale, self.scale))

    def _packed(self, mean, covariance):
        factors = np.linalg.cholesky(np.linalg.inv(covariance))
        at = triangle(mean.shape[1])
        entries = factors[..., at.row, at.column]
        entries[..., at.is_diagonal] = -np.log(entries[..., at.is_diagonal])
        return np.append(entries, mean) if self.tied else np.hstack([entries, mean]).ravel()

    def prior(self, n_states, n_channels):
        shape, scale = self.variance_prior
        at = triangle(n_channels)
        n_own = n_states * self.state_shape(n_channels)[1]
        own = self.n_shared + np.arange(n_own).reshape(n_states, -1)
        entries = np.arange(self.n_shared)[None] if self.tied else own[:, :-n_channels]
        parts = [
            (Normal(0.0, self.mean_scale**-2), own[:, -n_channels:]),
            (LogSd(shape, scale), entries[:, at.is_diagonal]),
            (Normal(0.0, 2.0 * scale), entries[:, ~at.is_diagonal]),
        ]
        return Prior(tuple((law, places.reshape(-1, 1)) for law, places in parts))

    def log_density(self, state, frames):
        n = frames.n_channels
        gap = frames.x - state[-n:]
        z = anp.dot(gap, _factor(state[:-n], n))
        logs = anp.sum(state[:-n][triangle(n).is_diagonal]) + np.sum(np.log(self.scale))
        return -0.5 * anp.einsum("mr,mr->m", z, z) - logs - 0.5 * n * LOG_2PI

    def scores(self, state, frames):
        n = frames.n_channels
        at = triangle(n)
        factor = _factor(state[:-n], n)
        gap = frames.x - state[-n:]
        z = gap @ factor
        by_entry = -gap[:, at.row] * z[:, at.column] * _slope(factor, at) - at.is_diagonal
        return np.hstack([by_entry, z @ factor.T])

    def information(self, state, frames, mass):
        n = frames.n_channels
        at = triangle(n)
        factor = _factor(state[:-n], n)
        slope = _slope(factor, at)
        gap = frames.x - state[-n:]
        total = mass @ gap
        squares = (mass[:, None] * gap).T @ gap
        same_column = at.column[:, None] == at.column
        by_entries = same_column * squares[np.ix_(at.row, at.row)] * np.outer(slope, slope)
        bend = at.is_diagonal * -slope * (squares @ factor)[at.row, at.column]
        in_row = np.arange(n)[:, None] == at.row
        cross = factor[:, at.column] * total[at.row] + in_row * (total @ factor)[at.column]
        by_mean = mass.sum() * factor @ factor.T
        cross *= -slope
        return np.block([[by_entries + np.diag(bend), cross.T], [cross, by_mean]])

    def maximise(self, states, frames, mass):
        """The M-step: means given covariances, then these given means."""
        n = frames.n_channels
        total = mass.sum(axis=0)[:, None, None]
        factors = np.stack([_factor(row[:-n], n) for row in states])
        precision = factors @ factors.swapaxes(1, 2)
        pull = precision @ (mass.T @ frames.x)[:, :, None]
        mean = np.linalg.solve(total * precision + np.eye(n) / self.mean_scale**2, pull)[:, :, 0]
        squares = np.empty((len(mean), n, n))
        for k, own in enumerate(mass.T):
            gap = frames.x - mean[k]
            squares[k] = (own[:, None] * gap).T @ gap
        if self.tied:
            squares, total = squares.sum(axis=0), total.sum()
        shape, scale = self.variance_prior
        covariance = (squares + 2.0 * scale * np.eye(n)) / (total + 2.0 * (shape + 1.0))
        return self._packed(mean, covariance)

    def mean(self, state, frames):
        return self.unpack(state[None], frames.n_channels).mean

    def draw(self, state, frames, rng):
        n = frames.n_channels
        mean, covariance = self.unpack(state[None], n)
        return rng.multivariate_normal(mean[0], covariance.reshape(n, n), len(frames.x))


def _factor(entries: Any, n_channels: int) -> Any:
    """P (R, R) of its parameters; differentiable."""
    at = triangle(n_channels)
    values = anp.where(at.is_diagonal, anp.exp(-entries * at.is_diagonal), entries)
    return anp.reshape(anp.dot(values, at.places), (n_channels, n_channels))


def _slope(factor, at):
    """d P_ij / d its parameter."""
    return np.where(at.is_diagonal, -factor[at.row, at.column], 1.0)
