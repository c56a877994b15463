"""The priors of the time-varying Poisson model, in the coordinates of `PoissonTraffic`."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

import autograd.numpy as anp
import numpy as np

from ...checks import one_line
from ...declared import Positive, Real, declared
from ...inference.two_state import N_PARAMS, TO0
from .emission import STEP, A

SUGGESTED_PRIOR = (
    "TrafficPrior((2.0, 0.1), 1.5, (2.0, 0.5), (2.0, 0.5), stay_quiet=(20.0, 2.0), "
    "stay_event=(4.0, 2.0))"
)


Gamma = Annotated[tuple, Real("2", least=0.0)]
Beta = Annotated[tuple, Real("2", above=0.0)]


@declared
@dataclass(frozen=True)
class TrafficPrior:
    """Hyperparameters; the defaults are flat or nearly so.

    Gamma(shape, rate), flat if (1, 0), on the base rate and the excess's a and b; Dirichlet
    concentration of the seven day effects / 7; Beta(stay, leave) for P(0 -> 0) and P(1 -> 1).
    Source: Ihler et al. (2006); Ghosh et al. (2020), Appendix L.1.
    """

    __repr__ = one_line
    base_rate: Gamma = (1.0, 0.01)
    day_concentration: Positive = 1.0
    excess_shape: Gamma = (1.0, 0.01)
    excess_rate: Gamma = (1.0, 0.01)
    stay_quiet: Beta = (1.0, 1.0)
    stay_event: Beta = (1.0, 1.0)

    def __post_init__(self):
        for name in vars(self).keys() - {"day_concentration"}:
            object.__setattr__(self, name, tuple(np.asarray(getattr(self, name)).tolist()))

    def negative_log_density(self, params: np.ndarray) -> np.ndarray:
        """-log p(constrained params) up to a constant, for each row of params (..., 11)."""
        linear, excess, visits, base_power = self._coefficients
        base = anp.mean(anp.exp(params[..., :A]), axis=-1)
        of_base = self.base_rate[1] * base + base_power * anp.log(base)
        of_stays = anp.logaddexp(0.0, params[..., TO0:]) @ visits
        return of_base + anp.exp(params[..., A:TO0]) @ excess + of_stays - params @ linear

    def gradient(self, params: np.ndarray) -> np.ndarray:
        """Gradient of `negative_log_density`, (..., 11), of complex params too."""
        linear, excess, visits, base_power = self._coefficients
        rates = np.exp(params[..., :A])
        total = rates.sum(axis=-1, keepdims=True)
        of_rates = (self.base_rate[1] * total / 7.0 + base_power) * rates / total
        of_stays = visits / (1.0 + np.exp(-params[..., TO0:]))
        of_excess = excess * np.exp(params[..., A:TO0])
        return np.concatenate([of_rates, of_excess, of_stays], axis=-1) - linear

    def hessian(self, params: np.ndarray) -> np.ndarray:
        """Hessian (11, 11) of `negative_log_density` at params (11,), by a complex step."""
        return self.gradient(params + 1j * STEP * np.eye(N_PARAMS)).imag / STEP

    @cached_property
    def _coefficients(self):
        """Of -params (11,), exp(log a, log b) (2,), log(1 + exp(logits)) (2,), log base rate."""
        shapes = [self.excess_shape[0], self.excess_rate[0]]
        stays = [self.stay_quiet[0], self.stay_event[0]]
        linear = np.array([self.day_concentration] * A + shapes + stays) - 1.0
        excess = np.array([self.excess_shape[1], self.excess_rate[1]])
        visits = np.array([sum(self.stay_quiet), sum(self.stay_event)]) - 2.0
        base_power = 7.0 * (self.day_concentration - 1.0) - (self.base_rate[0] - 1.0)
        return linear, excess, visits, base_power

    def defaults(self, params: np.ndarray) -> Iterator[tuple[str, tuple[np.ndarray, str]]]:
        """Each law that is a default: its name, its gradient (11,) and how to widen it."""
        flat = TrafficPrior((1.0, 0.0), 1.0, (1.0, 0.0), (1.0, 0.0))
        for name in ("base_rate", "excess_shape", "excess_rate"):
            law = getattr(self, name)
            if law == getattr(TrafficPrior, name):
                gradient = replace(flat, **{name: law}).gradient(params)
                wider = f"prior=TrafficPrior({name}={(law[0], law[1] / 10.0)})"
                yield f"{name} = {law}", (gradient, wider)
