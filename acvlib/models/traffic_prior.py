"""The priors of the time-varying Poisson model, in the coordinates of `PoissonTraffic`."""

from dataclasses import dataclass

import autograd.numpy as np


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
        """-log p(constrained params) up to a constant; params (11,), as in `PoissonTraffic`."""
        log_rates, stay_logit = params[:7], params[9:]
        log_base = np.log(np.mean(np.exp(log_rates)))
        days = -(self.day_concentration - 1.0) * np.sum(log_rates - log_base)
        gammas = (
            self._gamma(self.base_rate, log_base)
            + self._gamma(self.excess_shape, params[7])
            + self._gamma(self.excess_rate, params[8])
        )
        betas = self._beta(self.stay_quiet, stay_logit[0]) + self._beta(self.stay_event, stay_logit[1])
        return days + gammas + betas

    @staticmethod
    def _gamma(hyper, log_value):
        return -(hyper[0] - 1.0) * log_value + hyper[1] * np.exp(log_value)

    @staticmethod
    def _beta(hyper, logit):
        return (hyper[0] - 1.0) * np.logaddexp(0.0, -logit) + (hyper[1] - 1.0) * np.logaddexp(0.0, logit)

    def value_gradient_hessian(self, params):
        """The same, with gradient (D,) and Hessian (D, D) in closed form, for each row of params (n, 11)."""
        rates, excess = np.exp(params[:, :7]), np.exp(params[:, 7:9])
        share, base = rates / rates.sum(axis=1, keepdims=True), rates.mean(axis=1)
        concentration = self.day_concentration - 1.0
        pull = -(self.base_rate[0] - 1.0) + self.base_rate[1] * base + 7.0 * concentration
        hyper = np.array([self.excess_shape, self.excess_rate])
        beta = np.array([self.stay_quiet, self.stay_event]) - 1.0
        stay = 1.0 / (1.0 + np.exp(-params[:, 9:]))
        value = np.array([self.negative_log_density(p) for p in params])
        gradient = np.concatenate(
            [
                pull[:, None] * share - concentration,
                -(hyper[:, 0] - 1.0) + hyper[:, 1] * excess,
                beta[:, 1] * stay - beta[:, 0] * (1.0 - stay),
            ],
            axis=1,
        )
        diagonal = np.concatenate(
            [pull[:, None] * share, hyper[:, 1] * excess, beta.sum(axis=1) * stay * (1.0 - stay)], axis=1
        )
        hessian = diagonal[:, :, None] * np.eye(11)
        outer = share[:, :, None] * share[:, None, :]
        hessian[:, :7, :7] += (self.base_rate[1] * base - pull)[:, None, None] * outer
        return value, gradient, hessian
