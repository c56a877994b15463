"""x_t | z_t = k ~ Normal(B1_k tanh(B0_k y_t + b0_k) + b1_k, sigma^2 I), y_t the lags.

Parameters: log sigma, then for each state [B0_k, b0_k] (H, p R + 1) and [B1_k, b1_k] (R, H + 1).

Source: Ghosh et al. (2020), Eq. 18.
"""

from dataclasses import dataclass
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.linalg import block_diag

from .autoregressive import Isotropic, isotropic_prior, ridge_regression
from .gaussian import settle


class NetworkParams(NamedTuple):
    """sd: sigma; inner (K, H, p R + 1): [B0, b0]; outer (K, R, H + 1): [B1, b1]."""

    sd: float
    inner: np.ndarray
    outer: np.ndarray


@dataclass(frozen=True, repr=False)
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
        residual = frames.x - self.mean(state, frames)
        m = np.exp(-2.0 * state[0]) * mass
        information = self.definite_information(state, frames, mass)
        information[1:, 1:] -= self._bend(state, frames, m[:, None] * residual)
        sums = []
        for signal, inputs in self.layers(state, frames, residual):
            sums.append(((m[:, None] * signal).T @ inputs).ravel())
        information[0, 1:] = information[1:, 0] = 2.0 * np.concatenate(sums)
        return information

    def definite_information(self, state, frames, mass):
        """That of log sigma, and of the weights sum_t mass_t D'D, D (R, d) a mean's derivative."""
        m = np.exp(-2.0 * state[0]) * mass
        residual = frames.x - self.mean(state, frames)
        _, outer = self.weights(state, frames.n_channels)
        moved, h = self._moved(state, frames)
        n_hidden, n_inputs = moved.shape[1:]
        moved = moved.reshape(len(h), -1)
        weighted = m[:, None] * moved
        outer = np.repeat(outer[:, :-1], n_inputs, axis=1)
        gram = (outer.T @ outer) * (weighted.T @ moved)
        across = outer.T[:, :, None] * (weighted.T @ h)[:, None, :]
        across = across.reshape(len(gram), -1)
        of_outer = np.kron(np.eye(len(outer)), (m[:, None] * h).T @ h)
        by_log_sd = 2.0 * (m @ residual**2).sum()
        return block_diag(by_log_sd, np.block([[gram, across], [across.T, of_outer]]))

    def _bend(self, state, frames, residual):
        """sum_to residual_to d2 mean_to, (d, d)."""
        _, outer = self.weights(state, frames.n_channels)
        moved, h = self._moved(state, frames)
        back = -2.0 * (residual @ outer[:, :-1]) * h[:, :-1]
        _, n_hidden, n_inputs = moved.shape
        n_channels = len(outer)
        across = (residual.T @ moved.reshape(len(h), -1)).reshape(n_channels, n_hidden, n_inputs)
        bend = np.zeros((n_hidden * n_inputs + outer.size,) * 2)
        for unit in range(n_hidden):
            own = slice(unit * n_inputs, (unit + 1) * n_inputs)
            its_outer = n_hidden * n_inputs + unit + np.arange(n_channels) * outer.shape[1]
            bend[own, own] = (back[:, unit, None] * moved[:, unit]).T @ frames.design
            bend[its_outer, own] = across[:, unit]
            bend[own, its_outer] = across[:, unit].T
        return bend

    def _moved(self, state, frames):
        """The hidden units' derivatives by their inner weights (n, H, q), and the layer."""
        inner, _ = self.weights(state, frames.n_channels)
        h = _hidden(frames.design, inner)
        slope = 1.0 - h[:, :-1] ** 2
        return slope[:, :, None] * frames.design[:, None, :], h


def _hidden(design, inner):
    """The hidden layer of one state, and a 1: (n, H + 1)."""
    h = anp.tanh(anp.dot(design, inner.T))
    return anp.concatenate([h, np.ones((len(design), 1))], axis=1)
