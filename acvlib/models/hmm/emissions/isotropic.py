"""Normal(mean_k(lags), sigma^2 I): what emissions with one variance for all states and channels share.

Their one shared parameter is log sigma.
"""

import autograd.numpy as anp
import numpy as np

from .pairs import Layer, Pairs
from .prior import Prior

LOG_2PI = np.log(2.0 * np.pi)


def squares(residuals: list) -> np.ndarray:
    """Sums of squares (M, K) of residuals (M, R) in each state; differentiable."""
    return anp.array([anp.einsum("mr,mr->m", one, one) for one in residuals]).T


def log_densities(squares: np.ndarray, log_sd: float, frames) -> np.ndarray:
    """log p (M, K), zero where missing; differentiable."""
    n_channels = frames.x.shape[1]
    density = -0.5 * squares * anp.exp(-2.0 * log_sd) - n_channels * (log_sd + 0.5 * LOG_2PI)
    return density * frames.observed[:, None]


def prior(mean: np.ndarray, sd: float, variance_prior: tuple[float, float]) -> Prior:
    """Weights ~ Normal(mean, sd^2), mean (E - 1,), and sigma^2 ~ InverseGamma of shape and scale."""
    is_log_sd = np.arange(len(mean) + 1) == 0
    precision = np.where(is_log_sd, 0.0, sd**-2.0)
    return Prior(is_log_sd, np.concatenate([[0.0], mean]), precision, *variance_prior)


class IsotropicPoint:
    """Log-densities (M, K) at some parameters; residuals: one (M, R) for each state."""

    n_shared = 1

    def __init__(self, shared: np.ndarray, states: np.ndarray, frames, residuals: list):
        self.states = states
        self.frames = frames
        self.residuals = residuals
        self.squares = squares(residuals)
        self.log_density = log_densities(self.squares, shared[0], frames)
        self.precision = np.exp(-2.0 * shared[0])

    def scores(self, k: int, rows: np.ndarray) -> tuple[np.ndarray, list[Layer]]:
        """d log p of frames `rows` in state k."""
        by_log_sd = self.precision * self.squares[rows, k] - self.frames.x.shape[1]
        return by_log_sd[:, None], self.layers(k, rows, self.precision * self.residuals[k][rows])

    def layers(self, k: int, rows: np.ndarray, signal: np.ndarray) -> list[Layer]:
        """The `Layer`s of state k, given d log p / d mean (n, R) of frames `rows`."""
        raise NotImplementedError

    def by_log_sd(self, pairs: Pairs) -> float:
        """Minus the second derivative of sum_p mass_p log p in log sigma."""
        return 2.0 * self.precision * (pairs.mass @ self.squares[pairs.frame, pairs.state])
