"""The priors of the time-varying Poisson model, in the coordinates of `PoissonTraffic`."""

from dataclasses import dataclass

import autograd.numpy as np
from scipy.special import expit


@dataclass(frozen=True)
class TrafficPrior:
    """Hyperparameters (Ihler et al. 2006; Ghosh et al. 2020, Appendix L.1); the defaults are flat or nearly so.

    Gamma(shape, rate) on the base rate and on the excess's shape a and rate b; Dirichlet concentration of
    the seven day effects / 7; Beta(stay, leave) counts for P(0 -> 0) and P(1 -> 1).
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

    def negative_log_density(self, params):
        """-log p(constrained params) up to a constant, for each row of params (..., 11), as in `PoissonTraffic`."""
        log_rates = params[..., :7]
        log_base = np.log(np.mean(np.exp(log_rates), axis=-1))
        days = -(self.day_concentration - 1.0) * (np.sum(log_rates, axis=-1) - 7.0 * log_base)
        gammas = (
            self._gamma(self.base_rate, log_base)
            + self._gamma(self.excess_shape, params[..., 7])
            + self._gamma(self.excess_rate, params[..., 8])
        )
        betas = self._beta(self.stay_quiet, params[..., 9]) + self._beta(
            self.stay_event, params[..., 10]
        )
        return days + gammas + betas

    @staticmethod
    def _gamma(hyper, log_value):
        return -(hyper[0] - 1.0) * log_value + hyper[1] * np.exp(log_value)

    @staticmethod
    def _beta(hyper, logit):
        return (hyper[0] - 1.0) * np.logaddexp(0.0, -logit) + (hyper[1] - 1.0) * np.logaddexp(
            0.0, logit
        )

    def gradient(self, params):
        """Gradient of `negative_log_density`, (..., 11)."""
        share, pull, _ = self._base(params)
        hyper, beta = np.array([self.excess_shape, self.excess_rate]), self._pseudo_counts()
        stay = expit(params[..., 9:])
        excess = hyper[:, 1] * np.exp(params[..., 7:9]) - (hyper[:, 0] - 1.0)
        days = pull * share - (self.day_concentration - 1.0)
        return np.concatenate(
            [days, excess, beta[:, 1] * stay - beta[:, 0] * (1.0 - stay)], axis=-1
        )

    def hessian(self, params):
        """Hessian of `negative_log_density`, (..., 11, 11)."""
        share, pull, slope = self._base(params)
        stay = expit(params[..., 9:])
        excess = np.array([self.excess_shape[1], self.excess_rate[1]]) * np.exp(params[..., 7:9])
        betas = self._pseudo_counts().sum(axis=1) * stay * (1.0 - stay)
        hessian = np.concatenate([pull * share, excess, betas], axis=-1)[..., None] * np.eye(11)
        hessian[..., :7, :7] += ((slope - pull) * share)[..., :, None] * share[..., None, :]
        return hessian

    def _base(self, params):
        """(share (..., 7) of each day's rate in their sum, derivative of the density in log base rate, its slope)."""
        rates = np.exp(params[..., :7])
        slope = self.base_rate[1] * rates.mean(axis=-1, keepdims=True)
        pull = slope - (self.base_rate[0] - 1.0) + 7.0 * (self.day_concentration - 1.0)
        return rates / rates.sum(axis=-1, keepdims=True), pull, slope

    def _pseudo_counts(self):
        return np.array([self.stay_quiet, self.stay_event]) - 1.0
