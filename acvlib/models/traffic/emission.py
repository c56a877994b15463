"""Counts that are Poisson(rate of the day), plus a negative-binomial excess while an event lasts.

    state 0: x ~ Poisson(rate);   state 1: x = background + e,  e ~ NegBinomial(a, b / (1 + b))

Tables over classes of equal (count, day): log-densities, and the scores of state 1's as posterior
means of the excess e given x and of D = digamma(a + e) - digamma(a). The last axis of every table
is the lane, one parameter vector each. Written by hand as autograd takes 7 to 40 times as long; of
complex parameters too, whose imaginary parts give second derivatives.
Priors are in the coordinates of `PoissonTraffic`.
Source: Ihler et al. (2006); Ghosh et al. (2020), Appendix L.1.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.special import gammaln

from ...checks import one_line
from ...declared import Positive, Real, declared
from ...inference.two_state import N_PARAMS, TO0, TO1, jit

A = 7  # place of log a, after seven log rates; log b and the chain's logits follow
WIDTH = 12  # of tables of all parameters: with a spare place, which vectors of four need
LARGE = 1e200
STEP = 1e-30


class CountClasses(NamedTuple):
    """The distinct (count, day) pairs: of_site (T,), counts (n_classes,), days (n_classes,)."""

    of_site: np.ndarray
    counts: np.ndarray
    days: np.ndarray

    @classmethod
    def of(cls, counts: np.ndarray, day: np.ndarray) -> "CountClasses":
        """Number the pairs of a series."""
        pairs = np.stack([day, counts])
        (days, counts), of_site = np.unique(pairs, axis=1, return_inverse=True)
        return cls(of_site.ravel().astype(np.int32), counts.copy(), days.copy())

    def sums(self, weights: np.ndarray) -> np.ndarray:
        """Weights (T,) of sites, summed over each class, (n_classes,)."""
        return np.bincount(self.of_site, weights, len(self.counts))


class CompleteData:
    """log p(x, z) of all classes at params (L, 11), and its expected derivatives.

    log_density (2, n_classes, L): log p(x | z); quiet_score (n_classes, L): slopes of the first in
    the log rate; ratio_score (3, n_classes, L): of log(p(x | 1) / p(x | 0)), in log rate, log a,
    log b; stay, leave, start (2, L): probabilities of the chain, start the law of z_0.

    Derivatives are of what is expected of the states: total, event (n_classes, L), the weights of
    the sites of a class, and of those in state 1; statistics (4, L), as in `two_state.Smoothed`.
    """

    def __init__(self, classes: CountClasses, params: np.ndarray):
        self.classes = classes
        self.params = params
        rate = np.exp(params[:, :A].T)[classes.days]
        a, b = np.exp(params[:, A:TO0].T)
        tilt = b / (1.0 + b)
        counts = classes.counts[:, None]
        excess = np.arange(counts.max() + 1.0)[:, None]
        growth = (a + excess) / ((excess + 1.0) * (1.0 + b))
        digamma = np.zeros_like(growth)
        digamma[1:] = np.cumsum(1.0 / (a + excess[:-1]), axis=0)
        log_ratio, e, d = _over_excesses(growth, digamma, classes.counts, 1.0 / rate)
        quiet = counts * np.log(rate) - rate - gammaln(counts + 1.0)
        self.log_density = np.stack([quiet, quiet + a * np.log(tilt) + log_ratio])
        self.quiet_score = counts - rate
        self.ratio_score = np.stack([-e, a * (d + np.log(tilt)), a * (1.0 - tilt) - tilt * e])
        self.stay = 1.0 / (1.0 + np.exp(-params[:, TO0:].T))
        self.leave = 1.0 / (1.0 + np.exp(params[:, TO0:].T))
        self.start = self.leave[::-1] / self.leave.sum(axis=0)

    @cached_property
    def peak(self) -> np.ndarray:
        """The larger log-density of each class, (n_classes, L)."""
        return self.log_density.max(axis=0)

    @cached_property
    def scaled(self) -> np.ndarray:
        """Densities (2, n_classes, L) over the larger one."""
        return np.exp(self.log_density - self.peak)

    @property
    def transition(self) -> np.ndarray:
        """(2, 2, L)."""
        return np.array([[self.stay[0], self.leave[0]], [self.leave[1], self.stay[1]]])

    @cached_property
    def places(self) -> np.ndarray:
        """Numbers (n_classes, 3) of the parameters that `ratio_score` is in."""
        return np.stack(np.broadcast_arrays(self.classes.days, A, A + 1), axis=1)

    def score_tables(self) -> np.ndarray:
        """`quiet_score` and `ratio_score` of one lane in all parameters, (2, n_classes, WIDTH)."""
        tables = np.zeros((2, len(self.classes.days), WIDTH))
        tables[0, np.arange(len(tables[0])), self.classes.days] = self.quiet_score[:, 0]
        np.put_along_axis(tables[1], self.places, self.ratio_score[:, :, 0].T, 1)
        return tables

    def gradient(
        self, total: Any, event: np.ndarray, statistics: np.ndarray, whole: float = 1.0
    ) -> np.ndarray:
        """Expected gradient (11, L); whole = 0, and total = 0, leave what is linear in the rest."""
        first, last, entered, in_event = statistics
        left = entered - (last - first)
        quiet = whole * len(self.classes.of_site) - in_event
        surplus = first - whole * self.start[1]
        to0 = quiet * self.leave[0] - entered - surplus * self.stay[0]
        to1 = in_event * self.leave[1] - left + surplus * self.stay[1]
        of_ratio = event * self.ratio_score
        is_day = self.classes.days == np.arange(A)[:, None]
        of_rates = is_day @ (total * self.quiet_score + of_ratio[0])
        return np.concatenate([of_rates, of_ratio[1:].sum(axis=1), [to0, to1]])

    def hessian(self, total: np.ndarray, event: np.ndarray, statistics: np.ndarray) -> np.ndarray:
        """Expected Hessian (11, 11, L), by complex steps in parameters that do not meet in it.

        All log rates move at once, as no class has two of them, and the chain's beside log a, b.
        """

        def slopes(*places: int) -> np.ndarray:
            way = 1j * STEP * np.isin(np.arange(N_PARAMS), places)
            moved = CompleteData(self.classes, self.params + way)
            return moved.gradient(total, event, statistics).imag / STEP

        hessian = np.zeros((N_PARAMS, *self.params.shape[::-1]))
        hessian[range(A), range(A)] = slopes(*range(A))[:A]
        for a, to in (A, TO0), (A + 1, TO1):
            column = slopes(a, to)
            hessian[:TO0, a] = hessian[a, :TO0] = column[:TO0]
            hessian[TO0:, to] = column[TO0:]
        return hessian


@jit
def _over_excesses(growth, digamma, counts, duration):
    """log of p(x | 1) over its term e = 0, means of e and of D given x, each (n_classes, L).

    growth (top + 1, L): p(e + 1) / p(e), but for the background's; duration: 1 / rate.
    """
    log_ratio = np.zeros_like(duration)
    mean_excess = np.zeros_like(duration)
    mean_digamma = np.zeros_like(duration)
    term = np.empty_like(growth[0])
    total = np.empty_like(term)
    for c in range(len(counts)):
        term[:] = 1.0
        total[:] = 1.0
        for e in range(1, counts[c] + 1):
            for b in range(len(term)):
                term[b] *= growth[e - 1, b] * duration[c, b] * (counts[c] - e + 1)
                total[b] += term[b]
                mean_excess[c, b] += e * term[b]
                mean_digamma[c, b] += digamma[e, b] * term[b]
            for b in range(len(term)):
                if term[b].real > LARGE:
                    log_ratio[c, b] += np.log(LARGE)
                    term[b] /= LARGE
                    total[b] /= LARGE
                    mean_excess[c, b] /= LARGE
                    mean_digamma[c, b] /= LARGE
        for b in range(len(term)):
            log_ratio[c, b] += np.log(total[b])
            mean_excess[c, b] /= total[b]
            mean_digamma[c, b] /= total[b]
    return log_ratio, mean_excess, mean_digamma


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
