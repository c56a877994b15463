"""The priors of the time-varying Poisson model, in the coordinates of `PoissonTraffic`."""

from dataclasses import dataclass

import autograd.numpy as anp
import numpy as np
from scipy.special import expit


@dataclass(frozen=True)
class TrafficPrior:
    """Hyperparameters; the defaults are flat or nearly so.

    Gamma(shape, rate) on the base rate and on the excess's shape a and rate b; Dirichlet
    concentration of the seven day effects / 7; Beta(stay, leave) for P(0 -> 0) and P(1 -> 1).
    Source: Ihler et al. (2006); Ghosh et al. (2020), Appendix L.1.
    """

    base_rate: tuple = (1.0, 0.01)
    day_concentration: float = 1.0
    excess_shape: tuple = (1.0, 0.01)
    excess_rate: tuple = (1.0, 0.01)
    stay_quiet: tuple = (1.0, 1.0)
    stay_event: tuple = (1.0, 1.0)

    def __post_init__(self):
        for name, value in vars(self).items():
            if not np.all(np.asarray(value) > 0):
                raise ValueError(f"TrafficPrior: {name} = {value} must be positive")

    def negative_log_density(self, params: np.ndarray) -> np.ndarray:
        """-log p(constrained params) up to a constant, for each row of params (..., 11)."""
        log_rates = params[..., :7]
        logits = params[..., 9:]
        log_base = anp.log(anp.mean(anp.exp(log_rates), axis=-1))
        log_gammas = anp.stack([log_base, params[..., 7], params[..., 8]], axis=-1)
        shape, rate, stay, leave = self._pseudo_counts()
        gammas = rate * anp.exp(log_gammas) - shape * log_gammas
        betas = stay * anp.logaddexp(0.0, -logits) + leave * anp.logaddexp(0.0, logits)
        log_effects = anp.sum(log_rates, axis=-1) - 7.0 * log_base
        days = -(self.day_concentration - 1.0) * log_effects
        return days + anp.sum(gammas, axis=-1) + anp.sum(betas, axis=-1)

    def gradient(self, params: np.ndarray) -> np.ndarray:
        """Gradient of `negative_log_density`, (..., 11)."""
        shape, rate, stay, leave = self._pseudo_counts()
        share, pull, _ = self._base(params)
        days = pull * share - (self.day_concentration - 1.0)
        excess = rate[1:] * np.exp(params[..., 7:9]) - shape[1:]
        p = expit(params[..., 9:])
        return np.concatenate([days, excess, leave * p - stay * (1.0 - p)], axis=-1)

    def hessian(self, params: np.ndarray) -> np.ndarray:
        """Hessian of `negative_log_density`, (..., 11, 11)."""
        _, rate, stay, leave = self._pseudo_counts()
        share, pull, slope = self._base(params)
        excess = rate[1:] * np.exp(params[..., 7:9])
        p = expit(params[..., 9:])
        betas = (stay + leave) * p * (1.0 - p)
        diagonal = np.concatenate([pull * share, excess, betas], axis=-1)
        hessian = diagonal[..., None] * np.eye(11)
        bend = (slope - pull) * share
        hessian[..., :7, :7] += bend[..., :, None] * share[..., None, :]
        return hessian

    def _base(self, params):
        """(share of each day's rate in all (..., 7), derivative in log base rate, its slope)."""
        rates = np.exp(params[..., :7])
        slope = self.base_rate[1] * rates.mean(axis=-1, keepdims=True)
        pull = slope - (self.base_rate[0] - 1.0) + 7.0 * (self.day_concentration - 1.0)
        return rates / rates.sum(axis=-1, keepdims=True), pull, slope

    def _pseudo_counts(self):
        """(shape - 1, rate) (3,) of the Gamma priors, (stay - 1, leave - 1) (2,) of the Betas."""
        shape, rate = np.array([self.base_rate, self.excess_shape, self.excess_rate]).T
        stay, leave = np.array([self.stay_quiet, self.stay_event]).T - 1.0
        return shape - 1.0, rate, stay, leave
