"""x_t | z_t = k ~ Normal(mean_kt, sigma^2 I): what emissions of one common variance share."""

import autograd.numpy as anp
import numpy as np
from scipy.linalg import solve

from .base import Emission
from .gaussian import LOG_2PI
from .priors import LogSd, Normal, Prior
from .scores import NEGLIGIBLE, Layer, StateScores

FARTHEST = 1e4  # from 0, in spreads of a channel, where regressions on its values lose their digits


class Isotropic(Emission):
    """An emission with log sigma as its first parameter, of data as they are."""

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

    def mean(self, state, frames):
        return frames.x - self.at(state[None], frames).residuals[0]

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


class IsotropicPoint:
    """Log-densities (M, K) with one log sigma, the first parameter; residuals: (M, R) a state.

    A subclass has `mean_layers(k, frames, signal)`: the `Layer`s of state k but that of log sigma,
    given d log p / d mean (n, R).
    """

    def __init__(self, states, frames, residuals):
        log_sd = states[0, 0]
        self.states = states
        self.frames = frames
        self.residuals = residuals
        self.precision = anp.exp(-2.0 * log_sd)
        self.squares = _sums_of_squares(residuals)
        constant = frames.n_channels * (log_sd + 0.5 * LOG_2PI)
        density = -0.5 * self.precision * self.squares - constant
        self.log_density = density * frames.observed[:, None]

    def gradient(self, k, mass):
        frames = np.flatnonzero(mass > NEGLIGIBLE)
        return StateScores(self.layers(k, frames)).adjoint(mass[frames, None])[0]

    def layers(self, k, frames):
        by_log_sd = self.precision * self.squares[frames, k] - self.frames.n_channels
        signal = self.precision * self.residuals[k][frames]
        ones = np.ones((len(frames), 1))
        return [Layer(by_log_sd[:, None], ones), *self.mean_layers(k, frames, signal)]


def _sums_of_squares(residuals):
    """(M, K) from residuals (M, R) of each state."""
    sums = [anp.einsum("mr,mr->m", one, one) for one in residuals]
    return anp.stack(sums, axis=1)
