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
from . import isotropic
from .isotropic import IsotropicPoint
from .pairs import Layer, Pairs
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
        mean = np.zeros(n_states * self.state_shape(n_channels)[1])
        return isotropic.prior(mean, self.weight_sd, self.variance_prior)

    def start(self, frames: Frames, labels: np.ndarray, n_states: int) -> np.ndarray:
        """A small random inner layer, and ridge regressions of each state's frames on it."""
        rng = np.random.default_rng(0)
        n_channels = frames.x.shape[1]
        n_inputs = frames.design.shape[1]
        scale = 0.3 / (frames.design[:, :-1].std() * np.sqrt(n_inputs))
        states = np.zeros((n_states, self.state_shape(n_channels)[1]))
        inner, outer = self.weights(states, n_channels)
        inner = rng.normal(0.0, scale, inner.shape)
        squares = 0.0
        for k in range(n_states):
            rows = np.flatnonzero((labels == k) & frames.observed)
            x = frames.x[rows]
            h = np.column_stack([np.tanh(frames.design[rows] @ inner[k].T), np.ones(len(rows))])
            gram = h.T @ h + 0.01 * np.eye(h.shape[1])
            outer[k] = np.linalg.solve(gram, h.T @ x).T
            squares += ((x - h @ outer[k].T) ** 2).sum()
        variance = squares / (frames.observed.sum() * n_channels) + 1e-4
        return self.pack(NetworkParams(np.sqrt(variance), inner, outer))

    def at(self, shared: np.ndarray, states: np.ndarray, frames: Frames) -> "NetworkPoint":
        """Values and derivatives at these parameters."""
        return NetworkPoint(self, shared, states, frames)


class NetworkPoint(IsotropicPoint):
    """Log-densities (M, K) at some parameters, and their derivatives."""

    def __init__(self, emission, shared, states, frames):
        self.emission = emission
        self.inner, self.outer = emission.weights(states, frames.x.shape[1])
        ones = np.ones((len(frames.x), 1))
        self.hidden = [
            anp.concatenate([anp.tanh(anp.dot(frames.design, inner.T)), ones], axis=1)
            for inner in self.inner
        ]
        layers = zip(self.hidden, self.outer, strict=True)
        residuals = [frames.x - anp.dot(hidden, outer.T) for hidden, outer in layers]
        super().__init__(shared, states, frames, residuals)

    def layers(self, k: int, rows: np.ndarray, signal: np.ndarray) -> list[Layer]:
        """The inner layer, by what is carried back to it, and the outer one."""
        h = self.hidden[k][rows]
        back = (signal @ self.outer[k, :, :-1]) * (1.0 - h[:, :-1] ** 2)
        return [Layer(back, self.frames.design[rows]), Layer(signal, h)]

    def information(self, pairs: Pairs) -> "NetworkInformation":
        """Minus the second derivatives of sum_p mass_p log p."""
        return NetworkInformation(self, pairs)


class NetworkInformation:
    """Minus the second derivatives of sum_p mass_p log p, by passes through the networks."""

    def __init__(self, point, pairs):
        self.point = point
        self.pairs = pairs
        self.by_log_sd = point.by_log_sd(pairs)

    def multiply(self, shared: np.ndarray, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Times B directions (B, 1) and (B, K, d)."""
        by_log_sd = self.by_log_sd * shared
        out = np.zeros_like(states)
        for k, rows in self.pairs.groups:
            here = _Passes(self.point, k, self.pairs.frame[rows], self.pairs.mass[rows])
            for part in pieces(len(states), AT_ONCE):
                inner, outer = self.point.emission.weights(states[part, k], here.residual.shape[1])
                moved, sums = here.multiply(shared[part], inner, outer)
                by_log_sd[part, 0] += moved
                out[part, k] = np.concatenate([total.reshape(len(inner), -1) for total in sums], 1)
        return by_log_sd, out

    def blocks(self) -> tuple[np.ndarray, np.ndarray]:
        """That of log sigma, and the Gauss-Newton matrix of each state's weights."""
        n_states, d = self.point.states.shape
        blocks = np.zeros((n_states, d, d))
        for k, rows in self.pairs.groups:
            here = _Passes(self.point, k, self.pairs.frame[rows], self.pairs.mass[rows])
            blocks[k] = here.gauss_newton()
        return np.array([[self.by_log_sd]]), blocks


class _Passes:
    """The n pairs of one state on their way through its network.

    mass (n, 1): over sigma^2; inputs (n, p R + 1); h (n, H + 1): hidden layer; residual (n, R)
    outer (R, H); slope (n, H): of tanh; back (n, H): the residual carried back, before the slope
    """

    def __init__(self, point, k, at, mass):
        self.mass = (point.precision * mass)[:, None]
        self.inputs = point.frames.design[at]
        self.h = point.hidden[k][at]
        self.residual = point.residuals[k][at]
        self.outer = point.outer[k, :, :-1]
        self.slope = 1.0 - self.h[:, :-1] ** 2
        self.back = self.residual @ self.outer

    def multiply(self, log_sd, inner, outer):
        """The derivative of the gradient along B directions: by log sigma, and by both layers."""
        slope = self.slope[:, None, :]
        h_moved = _through(self.inputs, inner) * slope
        residual_moved = -_through(self.h, outer) - _times(h_moved, self.outer.T)
        back_moved = _through(self.residual, outer[:, :, :-1].swapaxes(1, 2))
        back_moved = (back_moved + _times(residual_moved, self.outer)) * slope
        back_moved -= 2.0 * (self.back * self.h[:, :-1])[:, None, :] * h_moved
        shrink = 2.0 * log_sd
        by_inner = shrink * (self.back * self.slope)[:, None, :] - back_moved
        by_outer = shrink * self.residual[:, None, :] - residual_moved
        mass = self.mass[:, :, None]
        inner_sum = _back_through(mass * by_inner, self.inputs)
        outer_sum = _back_through(mass * by_outer, self.h)
        weighted = self.mass * self.residual
        outer_sum[:, :, :-1] -= _back_through(h_moved, weighted).swapaxes(1, 2)
        by_log_sd = -2.0 * np.einsum("nbr,nr->b", residual_moved, weighted)
        return by_log_sd, (inner_sum, outer_sum)

    def gauss_newton(self):
        """sum m D'D, D (R, d) = [B1 diag(slope) (x) inputs, I (x) h] the derivative of a mean."""
        root = np.sqrt(self.mass)
        inputs = root * self.inputs
        h = root * self.h
        n_outer, n_inner = self.outer.shape
        n_inputs = inputs.shape[1]
        size = n_inner * n_inputs
        jacobian = (self.slope[:, :, None] * inputs[:, None, :]).reshape(-1, size)
        gram = (jacobian.T @ jacobian).reshape(n_inner, n_inputs, n_inner, n_inputs)
        gram *= (self.outer.T @ self.outer)[:, None, :, None]
        cross = (jacobian.T @ h).reshape(n_inner, n_inputs, 1, -1)
        cross = (cross * self.outer.T[:, None, :, None]).reshape(size, -1)
        own = np.kron(np.eye(n_outer), h.T @ h)
        return np.block([[gram.reshape(size, size), cross], [cross.T, own]])


def _through(inputs, weights):
    """inputs (n, i) through weights (B, o, i): (n, B, o)."""
    n_directions, n_outputs, n_inputs = weights.shape
    flat = inputs @ weights.reshape(-1, n_inputs).T
    return flat.reshape(len(inputs), n_directions, n_outputs)


def _back_through(signals, inputs):
    """sum_n signals[n, b, o] inputs[n, i], (B, o, i)."""
    flat = signals.reshape(len(signals), -1).T @ inputs
    return flat.reshape(*signals.shape[1:], -1)


def _times(signals, matrix):
    """signals (n, B, o) @ matrix (o, i), as one product."""
    n, n_directions, n_outputs = signals.shape
    return (signals.reshape(-1, n_outputs) @ matrix).reshape(n, n_directions, -1)
