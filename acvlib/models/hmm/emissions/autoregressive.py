"""x_t | z_t = k ~ Normal(sum_m B_k^m x_t-m + b_k, sigma^2 I): Ghosh et al. (2020), Eq. 17.

Parameters: log sigma, then W_k = [B_k^1 ... B_k^p, b_k] (R, q), q = p R + 1, for each state.
"""

from dataclasses import dataclass
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.linalg import solve

from .base import Emission
from .gaussian import LOG_2PI, likeliest_variance, settle
from .priors import LogSd, Normal, Prior

FARTHEST = 1e4  # from 0, in spreads of a channel, where regressions on its values lose their digits
NEGLIGIBLE = 1e-14  # a posterior that no M-step would show


class Isotropic(Emission):
    """An emission with log sigma as its first parameter, of data as they are.

    A subclass has `mean`, differentiable, and `layers`.
    """

    n_shared = 1

    def settled(self, sequences):
        x = np.concatenate(sequences)
        spread = np.nanmax(x, axis=0) - np.nanmin(x, axis=0)
        distance = np.nanmin(abs(x), axis=0) / spread
        channel = distance.argmax()
        if distance[channel] > FARTHEST:
            far = f"{distance[channel]:.3g} times its range from 0"
            raise ValueError(f"channel {channel} lies {far}: subtract its mean")
        return self

    def layers(self, state, frames, signal):
        """Pairs (signal (n, o), inputs (n, i)) for each matrix (o, i) of weights, in their order.

        Their outer products are the scores in the matrix, given d log p / d mean (n, R).
        """
        raise NotImplementedError

    def log_density(self, state, frames):
        residual = frames.x - self.mean(state, frames)
        squares = anp.einsum("nr,nr->n", residual, residual)
        constant = frames.n_channels * (state[0] + 0.5 * LOG_2PI)
        return -0.5 * anp.exp(-2.0 * state[0]) * squares - constant

    def scores(self, state, frames):
        scores = []
        for signal, inputs in self._all_layers(state, frames):
            product = signal[:, :, None] * inputs[:, None, :]
            scores.append(product.reshape(len(signal), signal.shape[1] * inputs.shape[1]))
        return np.hstack(scores)

    def gradient(self, state, frames, mass):
        sums = []
        for signal, inputs in self._all_layers(state, frames):
            sums.append(((mass[:, None] * signal).T @ inputs).ravel())
        return np.concatenate(sums)

    def _all_layers(self, state, frames):
        """That of log sigma, then `layers`."""
        residual = frames.x - self.mean(state, frames)
        signal = np.exp(-2.0 * state[0]) * residual
        by_log_sd = np.einsum("nr,nr->n", signal, residual) - frames.n_channels
        ones = np.ones((len(residual), 1))
        return [(by_log_sd[:, None], ones), *self.layers(state, frames, signal)]

    def draw(self, state, frames, rng):
        return rng.normal(self.mean(state, frames), np.exp(state[0]))


def ridge_regression(x, design, mass, ridge, pull=0.0):
    """Weights (R, q) of rows x (n, R) on design (n, q), and their weighted sum of squares."""
    weighted = mass[:, None] * design
    gram = weighted.T @ design + ridge * np.eye(design.shape[1])
    solved = solve(gram, weighted.T @ x + pull, assume_a="pos")
    squares = (x - design @ solved) ** 2
    return solved.T, mass @ squares.sum(axis=1)


def isotropic_prior(mean, sd, variance_prior):
    """Weights ~ Normal(mean, sd^2), mean (E - 1,); sigma^2 ~ InverseGamma of shape and scale."""
    places = np.arange(len(mean) + 1)[:, None]
    weights = Normal(mean[:, None], sd**-2), places[1:]
    return Prior(((LogSd(*variance_prior), places[:1]), weights))


class AutoRegressionParams(NamedTuple):
    """sd: sigma; coefficients (K, p, R, R): B_k^m; intercept (K, R): b_k."""

    sd: float
    coefficients: np.ndarray
    intercept: np.ndarray


@dataclass(frozen=True, repr=False)
class AutoRegression(Isotropic):
    """Order p of the autoregression, and its priors; p = 0 is a Gaussian with one variance for all.

    B^1_k ~ MatrixNormal(I, I, I) as in Eq. 17; the other B^m_k have mean 0 (with mean I each, a
    model of order p would expect x_t near p times x_t-1) and b_k ~ Normal(0, I); all with their
    sd times coefficient_sd. sigma^2 ~ InverseGamma(shape, scale) of `variance_prior`.
    """

    order: int = 1
    coefficient_sd: float = 1.0
    variance_prior: tuple[float, float] = (1.0, 0.01)

    def __post_init__(self):
        settle(self, "coefficient_sd", order=0)

    def state_shape(self, n_channels):
        """(R, q): the rows of W_k."""
        return n_channels, self.order * n_channels + 1

    def unpack(self, states, n_channels) -> AutoRegressionParams:
        w = anp.reshape(states[:, 1:], (-1, *self.state_shape(n_channels)))
        lags = anp.reshape(w[:, :, :-1], (len(w), n_channels, self.order, n_channels))
        coefficients = lags.transpose((0, 2, 1, 3))
        return AutoRegressionParams(anp.exp(states[0, 0]), coefficients, w[:, :, -1])

    def pack(self, named: AutoRegressionParams) -> np.ndarray:
        n_states, _, n_channels, _ = named.coefficients.shape
        lags = named.coefficients.transpose(0, 2, 1, 3)
        rows = lags.reshape(n_states, n_channels, -1)
        w = np.dstack([rows, named.intercept])
        return np.append(np.log(named.sd), w)

    def prior(self, n_states, n_channels):
        mean = np.tile(self._prior_mean(n_channels).ravel(), n_states)
        return isotropic_prior(mean, self.coefficient_sd, self.variance_prior)

    def _prior_mean(self, n_channels):
        """[I, 0 ... 0] (R, q)."""
        shape = self.state_shape(n_channels)
        return np.eye(*shape) if self.order else np.zeros(shape)

    def start(self, frames, labels, n_states):
        mass = np.eye(n_states)[labels] * frames.observed[:, None]
        params = np.log([frames.x[frames.observed].std() + 1e-3])
        for _ in range(3):
            params = self.maximise(params[None], frames, mass)
        return params

    def maximise(self, states, frames, mass):
        """The M-step: W_k given sigma in closed form, then sigma given W (Meng and Rubin 1993)."""
        variance = np.exp(2.0 * states[0, 0])
        ridge = variance / self.coefficient_sd**2
        pull = ridge * self._prior_mean(frames.n_channels).T
        squares = 0.0
        w = []
        for own in mass.T:
            rows = np.flatnonzero(own > NEGLIGIBLE)
            x = frames.x[rows]
            found, error = ridge_regression(x, frames.design[rows], own[rows], ridge, pull)
            squares += error
            w.append(found)
        count = mass.sum() * frames.n_channels
        variance = likeliest_variance(squares, count, self.variance_prior)
        return np.append(0.5 * np.log(variance), w)

    def mean(self, state, frames):
        return anp.dot(frames.design, anp.reshape(state[1:], (frames.n_channels, -1)).T)

    def layers(self, state, frames, signal):
        """W_k alone."""
        return [(signal, frames.design)]

    def informations(self, states, pairs):
        return RegressionInformation(self, states, pairs)


class RegressionInformation:
    """Minus the second derivatives of sum_p mass_p log p, from sums over the frames of each state.

    With m = mass / sigma^2, z the regressors and e the residuals: gram (K, q, q) = sum m z z',
    cross (K, R q) = 2 sum m e z', by_log_sd (K,) = 2 sum m e'e.
    """

    def __init__(self, emission, states, pairs):
        n_states, size = states.shape
        q = pairs[0].frames.design.shape[1]
        self.gram = np.zeros((n_states, q, q))
        self.cross = np.zeros((n_states, size - 1))
        self.by_log_sd = np.zeros(n_states)
        for k, _, frames, mass in pairs:
            m = np.exp(-2.0 * states[k, 0]) * mass
            weighted = m[:, None] * frames.design
            residual = frames.x - emission.mean(states[k], frames)
            self.gram[k] = weighted.T @ frames.design
            self.cross[k] = 2.0 * (residual.T @ weighted).ravel()
            self.by_log_sd[k] = 2.0 * (m @ residual**2).sum()

    def multiply(self, states):
        out = np.empty_like(states)
        for k, gram in enumerate(self.gram):
            log_sd = states[:, k, :1]
            w = states[:, k, 1:]
            by_w = w.reshape(-1, len(gram)) @ gram
            out[:, k, 1:] = by_w.reshape(w.shape) + log_sd * self.cross[k]
            out[:, k, 0] = w @ self.cross[k] + log_sd[:, 0] * self.by_log_sd[k]
        return out

    def blocks(self):
        """That of log sigma, and of one row of each W_k."""
        return np.array([[self.by_log_sd.sum()]]), self.gram
