"""Normal(mean_k(lags), sigma^2 I): what emissions with one variance for all states and channels share.

Their one shared parameter is log sigma.
"""

import autograd.numpy as anp
import numpy as np

from .pairs import Layer, Pairs
from .prior import Prior

LOG_2PI = np.log(2.0 * np.pi)


def log_densities(residuals: list, log_sd: float, frames) -> np.ndarray:
    """log p (M, K) of residuals (M, R) in each state, zero where missing; differentiable."""
    squares = anp.array([anp.sum(residual**2, axis=1) for residual in residuals]).T
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
        self.log_density = log_densities(residuals, shared[0], frames)
        self.precision = np.exp(-2.0 * shared[0])

    def scores(self, k: int, rows: np.ndarray) -> tuple[np.ndarray, list[Layer]]:
        """d log p of frames `rows` in state k."""
        residual = self.residuals[k][rows]
        squares = self.precision * np.einsum("nr,nr->n", residual, residual)
        by_log_sd = squares - residual.shape[1]
        return by_log_sd[:, None], self.layers(k, rows, self.precision * residual)

    def layers(self, k: int, rows: np.ndarray, signal: np.ndarray) -> list[Layer]:
        """The `Layer`s of state k, given d log p / d mean (n, R) of frames `rows`."""
        raise NotImplementedError

    def by_log_sd(self, pairs: Pairs) -> float:
        """Minus the second derivative of sum_p mass_p log p in log sigma."""
        total = 0.0
        for k, rows in pairs.groups:
            residual = self.residuals[k][pairs.frame[rows]]
            total += pairs.mass[rows] @ np.einsum("nr,nr->n", residual, residual)
        return 2.0 * self.precision * total
