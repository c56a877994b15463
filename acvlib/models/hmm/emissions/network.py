"""x_t | z_t = k ~ Normal(B1_k tanh(B0_k y_t + b0_k) + b1_k, sigma^2 I), y_t the lags.

Parameters: log sigma, then for each state [B0_k, b0_k] (H, p R + 1) and [B1_k, b1_k] (R, H + 1).

Source: Ghosh et al. (2020), Eq. 18.
"""

from dataclasses import dataclass
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np

from ....parallel import pieces
from ..sequences import Frames
from . import normal
from .pairs import Layer
from .prior import Prior

AT_ONCE = 32  # directions, each of which takes several arrays (n, R)


class NetworkParams(NamedTuple):
    """sd: sigma; inner (K, H, p R + 1): [B0, b0]; outer (K, R, H + 1): [B1, b1]."""

    sd: float
    inner: np.ndarray
    outer: np.ndarray


@dataclass(frozen=True)
class NeuralAutoRegression:
    """A network of one hidden layer for each state; every weight ~ Normal(0, weight_sd^2).

    sigma^2 ~ InverseGamma(shape, scale) of `variance_prior`.
    """

    order: int = 1
    n_hidden: int = 12
    weight_sd: float = 1.0
    variance_prior: tuple[float, float] = (1.0, 0.01)
    n_shared = 1

    def state_shape(self, n_channels: int) -> tuple[int, int]:
        """(1, d)."""
        n_inner = self.n_hidden * (self.order * n_channels + 1)
        return 1, n_inner + n_channels * (self.n_hidden + 1)

    def unpack(self, shared: np.ndarray, states: np.ndarray, n_channels: int) -> NetworkParams:
        """Named parameters."""
        return NetworkParams(anp.exp(shared[0]), *self.weights(states, n_channels))

    def pack(self, named: NetworkParams) -> np.ndarray:
        """The params (E,) of named ones."""
        inner = named.inner.reshape(len(named.inner), -1)
        outer = named.outer.reshape(len(named.outer), -1)
        states = np.concatenate([inner, outer], axis=1)
        return np.concatenate([[np.log(named.sd)], states.ravel()])

    def weights(self, states: np.ndarray, n_channels: int) -> tuple[np.ndarray, np.ndarray]:
        """Inner (..., H, p R + 1) and outer (..., R, H + 1) weights of states (..., d)."""
        n_inputs = self.order * n_channels + 1
        cut = self.n_hidden * n_inputs
        leading = states.shape[:-1]
        inner = anp.reshape(states[..., :cut], (*leading, self.n_hidden, n_inputs))
        outer = anp.reshape(states[..., cut:], (*leading, n_channels, self.n_hidden + 1))
        return inner, outer

    def prior(self, n_states: int, n_channels: int) -> Prior:
        """The prior of all params (E,)."""
        _, size = self.state_shape(n_channels)
        mean = np.zeros(n_states * size)
        return normal.isotropic_prior(mean, self.weight_sd, self.variance_prior)

    def start(self, frames: Frames, labels: np.ndarray, n_states: int) -> np.ndarray:
        """A small random inner layer, and ridge regressions of each state's frames on it."""
        rng = np.random.default_rng(0)
        n_channels = frames.n_channels
        n_inputs = frames.design.shape[1]
        scale = 0.3 / (frames.design[:, :-1].std() * np.sqrt(n_inputs))
        inner = rng.normal(0.0, scale, (n_states, self.n_hidden, n_inputs))
        outer = np.empty((n_states, n_channels, self.n_hidden + 1))
        squares = 0.0
        for k in range(n_states):
            rows = np.flatnonzero((labels == k) & frames.observed)
            x = frames.x[rows]
            h = _hidden(frames.design[rows], inner[k])
            gram = h.T @ h + 0.01 * np.eye(h.shape[1])
            outer[k] = np.linalg.solve(gram, h.T @ x).T
            residuals = x - h @ outer[k].T
            squares += (residuals**2).sum()
        variance = squares / (frames.observed.sum() * n_channels) + 1e-4
        return self.pack(NetworkParams(np.sqrt(variance), inner, outer))

    def at(self, shared: np.ndarray, states: np.ndarray, frames: Frames) -> "NetworkPoint":
        """Values and derivatives at these parameters."""
        return NetworkPoint(self, shared, states, frames)


def _hidden(design, inner):
    """The hidden layer of one state, and a 1: (n, H + 1)."""
    h = anp.tanh(anp.dot(design, inner.T))
    return anp.concatenate([h, np.ones((len(design), 1))], axis=1)


class NetworkPoint(normal.IsotropicPoint):
    """Log-densities (M, K) at some parameters, and their derivatives."""

    def __init__(self, emission, shared, states, frames):
        self.emission = emission
        self.inner, self.outer = emission.weights(states, frames.n_channels)
        self.hidden = [_hidden(frames.design, inner) for inner in self.inner]
        residuals = []
        for h, outer in zip(self.hidden, self.outer, strict=True):
            residuals.append(frames.x - anp.dot(h, outer.T))
        super().__init__(shared, states, frames, residuals)

    def layers(self, k, rows, signal):
        """The inner layer, by what is carried back to it, and the outer one."""
        h = self.hidden[k][rows]
        slope = 1.0 - h[:, :-1] ** 2
        back = (signal @ self.outer[k, :, :-1]) * slope
        return [Layer(back, self.frames.design[rows]), Layer(signal, h)]

    def information(self, pairs):
        return NetworkInformation(self, pairs)


class NetworkInformation:
    """Minus the second derivatives of sum_p mass_p log p, by passes through the networks."""

    def __init__(self, point, pairs):
        self.point = point
        self.pairs = pairs
        self.by_log_sd = point.by_log_sd(pairs)

    def multiply(self, shared, states):
        n_directions = len(states)
        by_log_sd = self.by_log_sd * shared
        out = np.zeros_like(states)
        for k, passes in self._passes():
            for part in pieces(n_directions, AT_ONCE):
                weights = self.point.emission.weights(states[part, k], passes.n_channels)
                moved, by_inner, by_outer = passes.multiply(shared[part], *weights)
                by_log_sd[part, 0] += moved
                flat = [total.reshape(len(moved), -1) for total in (by_inner, by_outer)]
                out[part, k] = np.concatenate(flat, axis=1)
        return by_log_sd, out

    def blocks(self):
        """That of log sigma, and the Gauss-Newton matrix of each state's weights."""
        n_states, d = self.point.states.shape
        blocks = np.zeros((n_states, d, d))
        for k, passes in self._passes():
            blocks[k] = passes.gauss_newton()
        return np.array([[self.by_log_sd]]), blocks

    def _passes(self):
        """(state, its `_Passes`), one state after another."""
        for k, rows in self.pairs.groups:
            yield k, _Passes(self.point, k, self.pairs.frame[rows], self.pairs.mass[rows])


class _Passes:
    """The n pairs of one state on their way through its network.

    mass (n, 1): over sigma^2; inputs (n, p R + 1); h (n, H + 1): hidden layer; residual (n, R)
    outer (R, H); slope (n, H): of tanh; back (n, H): the residual carried back, before the slope
    """

    def __init__(self, point, k, frames, mass):
        self.mass = point.precision * mass[:, None]
        self.inputs = point.frames.design[frames]
        self.h = point.hidden[k][frames]
        self.residual = point.residuals[k][frames]
        self.outer = point.outer[k, :, :-1]
        self.slope = 1.0 - self.h[:, :-1] ** 2
        self.back = self.residual @ self.outer
        self.n_channels = len(self.outer)

    def multiply(self, log_sd, inner, outer):
        """The derivative of the gradient along B directions: by log sigma, and by both layers."""
        h_moved = (self.inputs @ inner.swapaxes(1, 2)) * self.slope
        residual_moved = -(self.h @ outer.swapaxes(1, 2)) - h_moved @ self.outer.T
        back_moved = self.residual @ outer[:, :, :-1] + residual_moved @ self.outer
        shrink = 2.0 * log_sd[:, :, None]
        bend = 2.0 * self.back * self.h[:, :-1]  # minus the derivative of back * slope by h
        by_inner = (shrink * self.back - back_moved) * self.slope + bend * h_moved
        by_outer = shrink * self.residual - residual_moved
        weighted = self.mass * self.residual
        inner_sum = (self.mass * by_inner).swapaxes(1, 2) @ self.inputs
        outer_sum = (self.mass * by_outer).swapaxes(1, 2) @ self.h
        outer_sum[:, :, :-1] -= weighted.T @ h_moved
        by_log_sd = -2.0 * np.einsum("bnr,nr->b", residual_moved, weighted)
        return by_log_sd, inner_sum, outer_sum

    def gauss_newton(self):
        """sum m D'D, D (R, d) = [B1 diag(slope) (x) inputs, I (x) h] the derivative of a mean."""
        n = len(self.h)
        root = np.sqrt(self.mass)
        inputs = root * self.inputs
        h = root * self.h
        n_outer, n_inner = self.outer.shape
        n_inputs = inputs.shape[1]
        jacobian = self.slope[:, :, None] * inputs[:, None, :]
        jacobian = jacobian.reshape(n, -1)
        between = np.kron(self.outer.T @ self.outer, np.ones((n_inputs, n_inputs)))
        gram = between * (jacobian.T @ jacobian)
        cross = (jacobian.T @ h).reshape(n_inner, n_inputs, 1, -1)
        cross = cross * self.outer.T[:, None, :, None]
        cross = cross.reshape(len(gram), -1)
        own = np.kron(np.eye(n_outer), h.T @ h)
        return np.block([[gram, cross], [cross.T, own]])
