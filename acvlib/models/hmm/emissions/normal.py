"""What normal emissions share; `IsotropicPoint` has one log sigma for all states and channels."""

import autograd.numpy as anp
import numpy as np
from scipy.linalg import solve

from .prior import Prior

LOG_2PI = np.log(2.0 * np.pi)


def log_density(squares, log_sds, frames):
    """(M, K) from scaled squares (M, K) and sums of log sds over channels; 0 where missing."""
    constant = 0.5 * LOG_2PI * frames.n_channels
    density = -0.5 * squares - log_sds - constant
    return density * frames.observed[:, None]


def sums_of_squares(residuals):
    """(M, K) from residuals (M, R) of each state."""
    sums = [anp.einsum("mr,mr->m", one, one) for one in residuals]
    return anp.stack(sums, axis=1)


def likeliest_variance(squares, count, variance_prior):
    """The variance with the highest posterior density, given a sum of `count` squares."""
    shape, scale = variance_prior
    return (squares + 2.0 * scale) / (count + 2.0 * (shape + 1.0))


def ridge_regression(x, design, mass, ridge, pull=0.0):
    """Weights (R, q) of rows x (n, R) on design (n, q), and their weighted sum of squares."""
    weighted = mass[:, None] * design
    gram = weighted.T @ design + ridge * np.eye(design.shape[1])
    solved = solve(gram, weighted.T @ x + pull, assume_a="pos")
    squares = (x - design @ solved) ** 2
    return solved.T, mass @ squares.sum(axis=1)


def isotropic_prior(mean, sd, variance_prior):
    """Weights ~ Normal(mean, sd^2), mean (E - 1,); sigma^2 ~ InverseGamma of shape and scale."""
    is_log_sd = np.arange(len(mean) + 1) == 0
    precision = np.where(is_log_sd, 0.0, sd**-2.0)
    means = np.concatenate([[0.0], mean])
    return Prior(is_log_sd, means, precision, *variance_prior)


class IsotropicPoint:
    """Log-densities (M, K) at some parameters; residuals: (M, R) in each state.

    A subclass has `layers(k, rows, signal)`: the `Layer`s of state k, given d log p / d mean (n, R)
    of frames `rows`.
    """

    def __init__(self, shared, states, frames, residuals):
        log_sd = shared[0]
        self.shared = shared
        self.states = states
        self.frames = frames
        self.residuals = residuals
        self.precision = anp.exp(-2.0 * log_sd)
        self.squares = sums_of_squares(residuals)
        log_sds = frames.n_channels * log_sd
        self.log_density = log_density(self.precision * self.squares, log_sds, frames)

    def scores(self, k, rows):
        by_log_sd = self.precision * self.squares[rows, k] - self.frames.n_channels
        signal = self.precision * self.residuals[k][rows]
        return by_log_sd[:, None], self.layers(k, rows, signal)

    def by_log_sd(self, pairs):
        """Minus the second derivative of sum_p mass_p log p in log sigma."""
        squares = self.squares[pairs.frame, pairs.state]
        return 2.0 * self.precision * (pairs.mass @ squares)
