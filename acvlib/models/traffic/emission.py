"""Counts that are Poisson(rate of the day), plus a negative-binomial excess while an event lasts.

    state 0: x ~ Poisson(rate);   state 1: x = background + e,  e ~ NegBinomial(a, b / (1 + b))

Tables over classes of equal (count, day): log-densities, and the derivatives of state 1's as
posterior moments of the excess e given x. The last axis of every table is the lane, one parameter
vector each: sums run over excesses, SIMD over lanes. Written by hand as autograd takes 7 to 40
times as long.
Source: Ihler et al. (2006); Ghosh et al. (2020), Appendix L.1; moments after Louis (1982).
"""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numba import njit
from scipy.special import expit, gammaln

from ...inference.two_state import FASTMATH, N_PARAMS, TO0

A, B = 7, 8  # places of log a and log b, after the log rates and before the stay logits
WIDTH = 12  # of tables of all parameters: with a spare place, which vectors of four need
LARGE = 1e200
STEEP = 1e13  # of eight terms in a row, the last is below 1e104 times the first


@dataclass(frozen=True)
class CountClasses:
    """The distinct (count, day) pairs: of_site (T,), counts (n_classes,), days (n_classes,)."""

    of_site: np.ndarray
    counts: np.ndarray
    days: np.ndarray

    def __len__(self):
        return len(self.counts)

    @classmethod
    def of(cls, counts: np.ndarray, day: np.ndarray) -> "CountClasses":
        """Number the pairs of a series."""
        pairs = np.stack([day, counts])
        (days, counts), of_site = np.unique(pairs, axis=1, return_inverse=True)
        return cls(of_site.ravel().astype(np.int32), counts.copy(), days.copy())

    @cached_property
    def of_day(self) -> np.ndarray:
        """(7, n_classes): 1 where a class is of a day."""
        return (self.days == np.arange(A)[:, None]).astype(float)

    @cached_property
    def places(self) -> np.ndarray:
        """Numbers (n_classes, 3) of the parameters that a class has to do with."""
        places = np.tile([0, A, B], (len(self), 1))
        places[:, 0] = self.days
        return places


class Emission:
    """Log-densities of the classes and their derivatives, for params (L, 11).

    log_density (2, n_classes, L) of both states; n_moments as in `emission_tables`: the densities
    need none, the gradient 2, the Hessian all 6.
    """

    def __init__(self, classes: CountClasses, params: np.ndarray, n_moments: int = 6):
        rates = np.exp(params[:, :A].T)
        b = np.exp(params[:, B])
        self.classes = classes
        self.a = np.exp(params[:, A])
        self.tilt = b / (1.0 + b)
        self.rate = rates[classes.days]
        self.log_density, self.moments = emission_tables(
            rates, self.a, b, classes.counts, classes.days, n_moments
        )

    @cached_property
    def quiet_score(self) -> np.ndarray:
        """Derivative (n_classes, L) of log p(x | 0) in the log rate."""
        return self.classes.counts[:, None] - self.rate

    @cached_property
    def ratio_score(self) -> np.ndarray:
        """Gradient (3, n_classes, L) of log(p(x | 1) / p(x | 0)) in log rate, log a, log b."""
        excess, digamma = self.moments[:2]
        growth = self.a * (digamma + np.log(self.tilt))
        shrink = self.a * (1.0 - self.tilt) - self.tilt * excess
        return np.stack([-excess, growth, shrink])

    def score_tables(self) -> np.ndarray:
        """`quiet_score` and `ratio_score` of one lane in all parameters, (2, n_classes, WIDTH)."""
        local = np.zeros((2, len(self.classes), 3))
        local[0, :, 0] = self.quiet_score[:, 0]
        local[1] = self.ratio_score[:, :, 0].T
        tables = np.zeros((2, len(self.classes), WIDTH))
        np.put_along_axis(tables, self.classes.places[None], local, 2)
        return tables

    def gradient(self, total: np.ndarray, event: np.ndarray) -> np.ndarray:
        """Expected gradient (9, L); total, event (n_classes, L): weights, and those in state 1."""
        changed = event * self.ratio_score
        of_rates = self.classes.of_day @ (total * self.quiet_score + changed[0])
        return np.concatenate([of_rates, changed[1:].sum(axis=1)])

    def hessian(self, total: np.ndarray, event: np.ndarray) -> np.ndarray:
        """Expected Hessian (9, 9, L) of the log-densities."""
        curvature = event * self._ratio_curvature()
        curvature[0, 0] -= total * self.rate
        by_day = self.classes.of_day @ curvature
        hessian = np.zeros((TO0, TO0, event.shape[1]))
        days = np.arange(A)
        hessian[days, days] = by_day[0, 0]
        hessian[A:, :A] = by_day[0, 1:]
        hessian[:A, A:] = by_day[0, 1:].swapaxes(0, 1)
        hessian[A:, A:] = by_day[1:, 1:].sum(axis=2)
        return hessian

    def _ratio_curvature(self):
        """Second derivatives (3, 3, n_classes, L) that belong to `ratio_score`."""
        excess, digamma, square, product, digamma_square, trigamma = self.moments
        a = self.a
        tilt = self.tilt
        variance = square - excess**2
        covariance = product - excess * digamma
        spread = trigamma + digamma_square - digamma**2
        rate_a = -a * covariance
        rate_b = tilt * variance
        a_a = self.ratio_score[1] + a**2 * spread
        a_b = a * (1.0 - tilt) + tilt * rate_a
        b_b = tilt * rate_b - (a + excess) * tilt * (1.0 - tilt)
        return np.array([[variance, rate_a, rate_b], [rate_a, a_a, a_b], [rate_b, a_b, b_b]])


def emission_tables(
    rates: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    counts: np.ndarray,
    days: np.ndarray,
    n_moments: int = 6,
) -> tuple[np.ndarray, np.ndarray]:
    """(log p(x | z) (2, n_classes, L), moments (6, n_classes, L)) for rates (7, L), a, b (L,).

    moments: the first of the means given x of e, D, e^2, e D, D^2 and D', where
    D = digamma(a + e) - digamma(a) and D' is its derivative.
    """
    excess = np.arange(counts.max() + 1.0)[:, None] + np.zeros(len(a))
    digamma = np.zeros(excess.shape)
    trigamma = np.zeros(excess.shape)
    last = a + excess[:-1]
    digamma[1:] = np.cumsum(1.0 / last, axis=0)
    trigamma[1:] = -np.cumsum(1.0 / last**2, axis=0)
    statistics = np.stack([excess, digamma, excess**2, excess * digamma, digamma**2, trigamma])
    growth = (a + excess) / ((excess + 1.0) * (1.0 + b))
    rate = rates[days]
    over_excesses = _over_excesses(len(a))
    steepest = (growth.max(axis=0) / rates.min(axis=0)).max() * counts.max()
    period = 8 if steepest < STEEP else 1
    log_ratio, moments = over_excesses(growth, statistics[:n_moments], counts, 1.0 / rate, period)
    quiet = counts[:, None] * np.log(rate) - rate - gammaln(counts + 1.0)[:, None]
    event = quiet + a * np.log(b / (1.0 + b)) + log_ratio
    return np.stack([quiet, event]), moments


@cache
def _over_excesses(n_lanes):  # compiled for their number
    @njit(cache=True, nogil=True, error_model="numpy", fastmath=FASTMATH)
    def over_excesses(growth, statistics, counts, duration, period):
        """(log of p(x | 1) over its term e = 0, means of statistics (:, top + 1, L) given x).

        growth (top + 1, L): p(e + 1) / p(e); duration (n_classes, L): 1 / rate; period: how many
        terms from one look for large ones to the next.
        """
        log_ratio = np.zeros((len(counts), n_lanes))
        means = np.zeros((len(statistics), len(counts), n_lanes))
        posterior = np.empty((len(growth), n_lanes))
        term = np.empty(n_lanes)
        total = np.empty(n_lanes)
        for c in range(len(counts)):
            for b in range(n_lanes):
                term[b] = 1.0
                total[b] = 0.0
            for e in range(counts[c] + 1):
                for b in range(n_lanes):
                    posterior[e, b] = term[b]
                    total[b] += term[b]
                    term[b] *= growth[e, b] * duration[c, b] * (counts[c] - e)
                if e % period == 0:
                    _rescale(n_lanes, posterior, total, term, log_ratio, c, e)
            for b in range(n_lanes):
                log_ratio[c, b] += np.log(total[b])
            for i in range(len(statistics)):
                for e in range(counts[c] + 1):
                    for b in range(n_lanes):
                        means[i, c, b] += posterior[e, b] * statistics[i, e, b]
                for b in range(n_lanes):
                    means[i, c, b] /= total[b]
        return log_ratio, means

    return over_excesses


@njit(cache=True, nogil=True, error_model="numpy")
def _rescale(n_lanes, posterior, total, term, log_scale, c, last):
    """Divides what was summed, the terms up to the last, by the next, where that is large."""
    for b in range(n_lanes):
        if term[b] > LARGE:
            log_scale[c, b] += np.log(term[b])
            for e in range(last + 1):
                posterior[e, b] /= term[b]
            total[b] /= term[b]
            term[b] = 1.0


N_MOMENTS = 0, 2, 6  # of the excess, that derivatives of this order need


class CompleteData:
    """The chain at params (L, 11), with the summed weights total (n_classes, L) of the classes.

    scaled (2, n_classes, L): log-densities less their maximum in a class; log_scale (L,): what the
    maxima add to log p(x); transition (2, 2, L). What is expected comes in as `event` and
    `statistics` of `two_state.Smoothed`. order: of the highest derivative that is asked for.
    """

    def __init__(self, classes: CountClasses, params: np.ndarray, total: np.ndarray, order: int):
        self.emission = Emission(classes, params, N_MOMENTS[order])
        self.total = total
        self.n_moves = len(classes.of_site)
        log_density = self.emission.log_density
        self.peak = np.maximum(log_density[0], log_density[1])
        self.scaled = log_density - self.peak
        self.log_scale = (total * self.peak).sum(axis=0)
        logits = params[:, TO0:].T
        self.stay = expit(logits)
        self.leave = expit(-logits)
        self.transition = np.array([[self.stay[0], self.leave[0]], [self.leave[1], self.stay[1]]])
        log_leave = -np.logaddexp(0.0, logits)
        self.start = expit(log_leave[0] - log_leave[1])  # both may have underflowed

    def gradient(self, event: np.ndarray, statistics: np.ndarray) -> np.ndarray:
        """Expected gradient (11, L)."""
        first, last, entered, in_event = statistics
        left = entered - (last - first)
        quiet = self.n_moves - in_event
        surplus = first - self.start
        gradient = np.empty((N_PARAMS, len(first)))
        gradient[:TO0] = self.emission.gradient(self.total, event)
        gradient[-2] = quiet * self.leave[0] - entered - surplus * self.stay[0]
        gradient[-1] = in_event * self.leave[1] - left + surplus * self.stay[1]
        return gradient

    def hessian(self, event: np.ndarray, statistics: np.ndarray) -> np.ndarray:
        """Expected Hessian (11, 11, L)."""
        first, _, _, in_event = statistics
        quiet = self.n_moves - in_event
        surplus = first - self.start
        spread = self.stay * self.leave
        score = np.stack([-self.stay[0], self.stay[1]])  # of logit P(z_0 = 1)
        hessian = np.zeros((N_PARAMS, N_PARAMS, len(first)))
        hessian[:TO0, :TO0] = self.emission.hessian(self.total, event)
        hessian[TO0:, TO0:] = -self.start * (1.0 - self.start) * score[:, None] * score
        hessian[-2, -2] -= spread[0] * (quiet + surplus)
        hessian[-1, -1] -= spread[1] * (in_event - surplus)
        return hessian
