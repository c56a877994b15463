"""x_t | z_t = k ~ Normal(B1_k tanh(B0_k y_t + b0_k) + b1_k, sigma^2 I), y_t the lags.

Parameters: log sigma, then for each state [B0_k, b0_k] (H, p R + 1) and [B1_k, b1_k] (R, H + 1).

Source: Ghosh et al. (2020), Eq. 18.
"""

from dataclasses import dataclass
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np

from .gaussian import settle
from .isotropic import Isotropic, IsotropicPoint, isotropic_prior, ridge_regression
from .scores import Layer


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

    def at(self, states, frames):
        return NetworkPoint(self, states, frames)


def _hidden(design, inner):
    """The hidden layer of one state, and a 1: (n, H + 1)."""
    h = anp.tanh(anp.dot(design, inner.T))
    return anp.concatenate([h, np.ones((len(design), 1))], axis=1)


class NetworkPoint(IsotropicPoint):
    """Log-densities (M, K) at some parameters, and their derivatives."""

    def __init__(self, emission, states, frames):
        self.emission = emission
        self.inner, self.outer = emission.weights(states, frames.n_channels)
        self.hidden = [_hidden(frames.design, inner) for inner in self.inner]
        means = [anp.dot(h, outer.T) for h, outer in zip(self.hidden, self.outer, strict=True)]
        super().__init__(states, frames, [frames.x - mean for mean in means])

    def mean_layers(self, k, frames, signal):
        """The inner layer, by what is carried back to it, and the outer one."""
        h = self.hidden[k][frames]
        units = h[:, :-1]
        back = signal @ self.outer[k, :, :-1]
        inner = Layer(back * (1.0 - units**2), self.frames.design[frames])
        return [inner, Layer(signal, h)]

    def information(self, groups):
        return NetworkInformation(self, groups)


class NetworkInformation:
    """Minus the second derivatives of sum_p mass_p log p, by passes through the networks."""

    def __init__(self, point, groups):
        self.shape = point.states.shape
        self.passes = {group.state: _Passes(point, group) for group in groups}

    def multiply(self, states):
        out = np.zeros_like(states)
        for k, passes in self.passes.items():
            out[:, k] = passes.multiply(states[:, k])
        return out

    def blocks(self):
        """That of log sigma, and the Gauss-Newton matrix of each state's weights."""
        n_states, size = self.shape
        blocks = np.zeros((n_states, size - 1, size - 1))
        by_log_sd = 0.0
        for k, passes in self.passes.items():
            blocks[k] = passes.gauss_newton()
            by_log_sd += passes.by_log_sd
        return np.array([[by_log_sd]]), blocks


class _Passes:
    """The n pairs of one state on their way through its network.

    mass (n, 1): over sigma^2; inputs (n, p R + 1); h (n, H + 1): hidden layer; residual (n, R)
    outer (R, H); units, slope (n, H): tanh and its slope; back (n, H): the residual carried back
    """

    def __init__(self, point, pairs):
        k, _, frames, mass = pairs
        self.weights = point.emission.weights
        self.mass = point.precision * mass[:, None]
        self.by_log_sd = 2.0 * (point.squares[frames, k] @ self.mass[:, 0])
        self.inputs = point.frames.design[frames]
        self.h = point.hidden[k][frames]
        self.units = self.h[:, :-1]
        self.slope = 1.0 - self.units**2
        self.residual = point.residuals[k][frames]
        self.outer = point.outer[k, :, :-1]
        self.back = self.residual @ self.outer

    def multiply(self, states):
        """The second derivatives times B directions (B, 1 + d): log sigma, inner and outer."""
        log_sd = states[:, :1]
        inner, outer = self.weights(states, len(self.outer))
        h_moved = self.inputs @ inner.swapaxes(1, 2)
        h_moved *= self.slope
        mean_moved = self.h @ outer.swapaxes(1, 2)
        mean_moved += h_moved @ self.outer.T
        back_moved = self.residual @ outer[:, :, :-1]
        back_moved -= mean_moved @ self.outer
        shrink = 2.0 * log_sd[:, :, None]
        bend = 2.0 * self.back * self.units  # minus the derivative of back * slope by h
        by_inner = (shrink * self.back - back_moved) * self.slope + bend * h_moved
        by_outer = shrink * self.residual + mean_moved
        weighted = self.mass * self.residual
        inner_sum = self._weighted(by_inner) @ self.inputs
        outer_sum = self._weighted(by_outer) @ self.h
        outer_sum[:, :, :-1] -= weighted.T @ h_moved
        by_log_sd = 2.0 * np.einsum("bnr,nr->b", mean_moved, weighted)[:, None]
        by_log_sd += self.by_log_sd * log_sd
        sums = [by_log_sd, inner_sum, outer_sum]
        return np.hstack([total.reshape(len(states), -1) for total in sums])

    def _weighted(self, signals):
        """(B, o, n) of signals (B, n, o)."""
        return (self.mass * signals).swapaxes(1, 2)

    def gauss_newton(self):
        """sum m D'D, D (R, d) = [B1 diag(slope) (x) inputs, I (x) h] the derivative of a mean."""
        root = np.sqrt(self.mass)
        h = root * self.h
        inputs = root * self.inputs
        n, n_inputs = inputs.shape
        jacobian = self.slope[:, :, None] * inputs[:, None, :]
        jacobian = jacobian.reshape(n, -1)
        outer = np.repeat(self.outer, n_inputs, axis=1)
        gram = (outer.T @ outer) * (jacobian.T @ jacobian)
        cross = outer.T[:, :, None] * (jacobian.T @ h)[:, None, :]
        cross = cross.reshape(len(gram), -1)
        own = np.kron(np.eye(len(outer)), h.T @ h)
        return np.block([[gram, cross], [cross.T, own]])
