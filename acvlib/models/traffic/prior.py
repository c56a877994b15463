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
        log_base = anp.log(anp.mean(anp.exp(log_rates), axis=-1))
        days = -(self.day_concentration - 1.0) * (anp.sum(log_rates, axis=-1) - 7.0 * log_base)
        gammas = (
            self._gamma(self.base_rate, log_base)
            + self._gamma(self.excess_shape, params[..., 7])
            + self._gamma(self.excess_rate, params[..., 8])
        )
        quiet = self._beta(self.stay_quiet, params[..., 9])
        return days + gammas + quiet + self._beta(self.stay_event, params[..., 10])

    @staticmethod
    def _gamma(hyper, log_value):
        return -(hyper[0] - 1.0) * log_value + hyper[1] * anp.exp(log_value)

    @staticmethod
    def _beta(hyper, logit):
        stay, leave = anp.logaddexp(0.0, -logit), anp.logaddexp(0.0, logit)
        return (hyper[0] - 1.0) * stay + (hyper[1] - 1.0) * leave

    def gradient(self, params: np.ndarray) -> np.ndarray:
        """Gradient of `negative_log_density`, (..., 11)."""
        share, pull, _ = self._base(params)
        hyper = np.array([self.excess_shape, self.excess_rate])
        excess = hyper[:, 1] * np.exp(params[..., 7:9]) - (hyper[:, 0] - 1.0)
        days = pull * share - (self.day_concentration - 1.0)
        pseudo, stay = self._pseudo_counts(), expit(params[..., 9:])
        stays = pseudo[:, 1] * stay - pseudo[:, 0] * (1.0 - stay)
        return np.concatenate([days, excess, stays], axis=-1)

    def hessian(self, params: np.ndarray) -> np.ndarray:
        """Hessian of `negative_log_density`, (..., 11, 11)."""
        share, pull, slope = self._base(params)
        stay = expit(params[..., 9:])
        excess = np.array([self.excess_shape[1], self.excess_rate[1]]) * np.exp(params[..., 7:9])
        betas = self._pseudo_counts().sum(axis=1) * stay * (1.0 - stay)
        diagonal = np.concatenate([pull * share, excess, betas], axis=-1)
        hessian = diagonal[..., None] * np.eye(11)
        hessian[..., :7, :7] += ((slope - pull) * share)[..., :, None] * share[..., None, :]
        return hessian

    def _base(self, params):
        """(share of each day's rate in all (..., 7), derivative in log base rate, its slope)."""
        rates = np.exp(params[..., :7])
        slope = self.base_rate[1] * rates.mean(axis=-1, keepdims=True)
        pull = slope - (self.base_rate[0] - 1.0) + 7.0 * (self.day_concentration - 1.0)
        return rates / rates.sum(axis=-1, keepdims=True), pull, slope

    def _pseudo_counts(self):
        return np.array([self.stay_quiet, self.stay_event]) - 1.0
