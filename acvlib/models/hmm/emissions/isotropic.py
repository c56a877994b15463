"""Normal(mean_k(lags), sigma^2 I): one log sigma, shared by all states and channels."""

import autograd.numpy as anp
import numpy as np

from .pairs import Layer, Pairs
from .prior import Prior

LOG_2PI = np.log(2.0 * np.pi)


def prior(mean: np.ndarray, sd: float, variance_prior: tuple[float, float]) -> Prior:
    """Weights ~ Normal(mean, sd^2), mean (E - 1,); sigma^2 ~ InverseGamma of shape and scale."""
    is_log_sd = np.arange(len(mean) + 1) == 0
    precision = np.where(is_log_sd, 0.0, sd**-2.0)
    return Prior(is_log_sd, np.concatenate([[0.0], mean]), precision, *variance_prior)


class IsotropicPoint:
    """Log-densities (M, K) at some parameters; residuals: (M, R) in each state."""

    def __init__(self, shared, states, frames, residuals: list):
        n_channels = frames.x.shape[1]
        log_sd = shared[0]
        self.shared = shared
        self.states = states
        self.frames = frames
        self.residuals = residuals
        self.precision = anp.exp(-2.0 * log_sd)
        self.squares = anp.stack([anp.einsum("mr,mr->m", one, one) for one in residuals], axis=1)
        density = -0.5 * self.precision * self.squares - n_channels * (log_sd + 0.5 * LOG_2PI)
        self.log_density = density * frames.observed[:, None]

    def layers(self, k, rows, signal) -> list[Layer]:
        """The `Layer`s of state k, given d log p / d mean (n, R) of frames `rows`."""
        raise NotImplementedError

    def scores(self, k: int, rows: np.ndarray) -> tuple[np.ndarray, list[Layer]]:
        """d log p of frames `rows` in state k."""
        by_log_sd = self.precision * self.squares[rows, k] - self.frames.x.shape[1]
        return by_log_sd[:, None], self.layers(k, rows, self.precision * self.residuals[k][rows])

    def by_log_sd(self, pairs: Pairs) -> float:
        """Minus the second derivative of sum_p mass_p log p in log sigma."""
        return 2.0 * self.precision * (pairs.mass @ self.squares[pairs.frame, pairs.state])
