"""x_t | z_t = k ~ Normal(B1_k tanh(B0_k y_t + b0_k) + b1_k, sigma^2 I), y_t the lags.

Parameters: log sigma, then for each state [B0_k, b0_k] (H, p R + 1) and [B1_k, b1_k] (R, H + 1).

Source: Ghosh et al. (2020), Eq. 18.
"""

from dataclasses import dataclass
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np

from .autoregressive import Isotropic, isotropic_prior, ridge_regression
from .gaussian import settle


class NetworkParams(NamedTuple):
    """sd: sigma; inner (K, H, p R + 1): [B0, b0]; outer (K, R, H + 1): [B1, b1]."""

    sd: float
    inner: np.ndarray
    outer: np.ndarray


@dataclass(frozen=True)
class NeuralAutoRegression(Isotropic):
    """A network of one hidden layer for each state; every weight ~ Normal(0, weight_sd^2).

    sigma^2 ~ InverseGamma(shape, scale) of `variance_prior`.
    """

    order: int = 1
    n_hidden: int = 12
    weight_sd: float = 1.0
    variance_prior: tuple[float, float] = (1.0, 0.01)
    maximise = None  # has no closed form: `fit` climbs by L-BFGS

    def __post_init__(self):
        settle(self, "weight_sd", order=1, n_hidden=1)

    def state_shape(self, n_channels):
        """(1, d)."""
        n_inner = self.n_hidden * (self.order * n_channels + 1)
        n_outer = n_channels * (self.n_hidden + 1)
        return 1, n_inner + n_outer

    def unpack(self, states, n_channels) -> NetworkParams:
        return NetworkParams(anp.exp(states[0, 0]), *self.weights(states, n_channels))

    def pack(self, named: NetworkParams) -> np.ndarray:
        n_states = len(named.inner)
        inner = named.inner.reshape(n_states, -1)
        outer = named.outer.reshape(n_states, -1)
        return np.append(np.log(named.sd), np.hstack([inner, outer]))

    def weights(self, states, n_channels):
        """Inner (..., H, p R + 1) and outer (..., R, H + 1) weights of states (..., 1 + d)."""
        leading = states.shape[:-1]
        n_inputs = self.order * n_channels + 1
        cut = 1 + self.n_hidden * n_inputs
        inner = anp.reshape(states[..., 1:cut], (*leading, self.n_hidden, n_inputs))
        outer = anp.reshape(states[..., cut:], (*leading, n_channels, self.n_hidden + 1))
        return inner, outer

    def prior(self, n_states, n_channels):
        _, size = self.state_shape(n_channels)
        mean = np.zeros(n_states * size)
        return isotropic_prior(mean, self.weight_sd, self.variance_prior)

    def start(self, frames, labels, n_states):
        """A small random inner layer, and ridge regressions of each state's frames on it."""
        rng = np.random.default_rng(0)
        n_inputs = frames.design.shape[1]
        spread = frames.design[:, :-1].std()
        scale = 0.3 / (spread * np.sqrt(n_inputs))
        inner = rng.normal(0.0, scale, (n_states, self.n_hidden, n_inputs))
        outer = []
        squares = 0.0
        for k in range(n_states):
            rows = np.flatnonzero((labels == k) & frames.observed)
            x = frames.x[rows]
            h = _hidden(frames.design[rows], inner[k])
            found, error = ridge_regression(x, h, np.ones(len(rows)), 0.01)
            squares += error
            outer.append(found)
        count = frames.observed.sum() * frames.n_channels
        sd = np.sqrt(squares / count + 1e-4)
        return self.pack(NetworkParams(sd, inner, np.array(outer)))

    def mean(self, state, frames):
        inner, outer = self.weights(state, frames.n_channels)
        return anp.dot(_hidden(frames.design, inner), outer.T)

    def layers(self, state, frames, signal):
        """The inner layer, by what is carried back to it, and the outer one."""
        inner, outer = self.weights(state, frames.n_channels)
        h = _hidden(frames.design, inner)
        back = signal @ outer[:, :-1]
        return [(back * (1.0 - h[:, :-1] ** 2), frames.design), (signal, h)]

    def information(self, state, frames, mass):
        m = np.exp(-2.0 * state[0]) * mass
        residual = frames.x - self.mean(state, frames)
        cross = []
        for signal, inputs in self.layers(state, frames, residual):
            cross.append(2.0 * ((m[:, None] * signal).T @ inputs).ravel())
        by_log_sd = 2.0 * (m @ residual**2).sum()
        by_weights = self._by_weights(state, frames, residual, m)
        across = np.concatenate(cross)[None]
        return np.block([[by_log_sd, across], [across.T, by_weights]])

    def _by_weights(self, state, frames, residual, m):
        """sum_n m_n (D'D - sum_o residual_o d2 mean_o), D (R, d) the derivative of a mean."""
        inner, outer = self.weights(state, frames.n_channels)
        z = frames.design
        h = _hidden(z, inner)
        units = h[:, :-1]
        slope = 1.0 - units**2
        n_hidden, n_inputs = inner.shape
        moved = (slope[:, :, None] * z[:, None, :]).reshape(len(z), -1)  # units, by inner weights
        weighted = m[:, None] * moved
        outer = outer[:, :-1]
        gram = (weighted.T @ moved) * np.kron(outer.T @ outer, np.ones((n_inputs, n_inputs)))
        bend = 2.0 * m[:, None] * (residual @ outer) * units * slope
        for unit in range(n_hidden):
            own = slice(unit * n_inputs, (unit + 1) * n_inputs)
            gram[own, own] += (bend[:, unit, None] * z).T @ z
        across = (weighted.T @ h).reshape(n_hidden, n_inputs, 1, -1) * outer.T[:, None, :, None]
        left = (weighted.T @ residual).reshape(n_hidden, n_inputs, -1)
        for unit in range(n_hidden):
            across[unit, :, :, unit] -= left[unit]
        across = across.reshape(len(gram), -1)
        of_outer = np.kron(np.eye(len(outer)), (m[:, None] * h).T @ h)
        return np.block([[gram, across], [across.T, of_outer]])


def _hidden(design, inner):
    """The hidden layer of one state, and a 1: (n, H + 1)."""
    h = anp.tanh(anp.dot(design, inner.T))
    return anp.concatenate([h, np.ones((len(design), 1))], axis=1)
