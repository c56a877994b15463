"""The prior of an emission: normal on its weights, inverse gamma on its variances."""

from dataclasses import dataclass

import autograd.numpy as anp
import numpy as np


@dataclass(frozen=True)
class Prior:
    """Independent priors of the parameters (E,) of an emission.

    Where `is_log_sd`, a parameter is log sd with sd^2 ~ InverseGamma(shape, scale), which keeps a
    state from collapsing onto a point; elsewhere it is Normal(mean, 1 / precision).
    """

    is_log_sd: np.ndarray
    mean: np.ndarray
    precision: np.ndarray
    shape: float
    scale: float

    def minus_log(self, params: np.ndarray) -> float:
        """Minus the log density, up to a constant; differentiable."""
        is_weight = ~self.is_log_sd
        gap = params[is_weight] - self.mean[is_weight]
        squares = anp.sum(self.precision[is_weight] * gap**2)
        log_sd = params[self.is_log_sd]
        tail = self.scale * anp.exp(-2.0 * log_sd)
        variances = 2.0 * (self.shape + 1.0) * log_sd + tail
        return 0.5 * squares + anp.sum(variances)

    def derivatives(self, params: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and diagonal Hessian of `minus_log`, both (E,)."""
        gradient = self.precision * (params - self.mean)
        hessian = self.precision.copy()
        log_sd = params[self.is_log_sd]
        tail = 2.0 * self.scale * np.exp(-2.0 * log_sd)
        gradient[self.is_log_sd] = 2.0 * (self.shape + 1.0) - tail
        hessian[self.is_log_sd] = 2.0 * tail
        return gradient, hessian
