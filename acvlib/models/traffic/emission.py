"""Counts that are Poisson(rate of the day), plus a negative-binomial excess while an event lasts.

    state 0: x ~ Poisson(rate);   state 1: x = background + e,  e ~ NegBinomial(shape, b / (1 + b))

Tables over classes of equal (count, day): log-densities, and the derivatives of state 1's as
posterior moments of the excess e given x. No gamma functions: the densities run by recurrence over
counts. The last axis of every table is the lane, one parameter vector each: sums run over counts,
SIMD over lanes. Written by hand as autograd takes 7 to 40 times as long.
Source: Ihler et al. (2006); Ghosh et al. (2020), Appendix L.1; moments after Louis (1982).
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from ...inference.two_state import FASTMATH, WIDTH

N_PARAMS = 11
A, B, TO0 = 7, 8, 9  # places of log a, log b and the first stay logit; before them the log rates
TINY = 1e-200  # a sum of scaled products below this is taken again from logarithms
_jit = njit(cache=True, nogil=True, error_model="numpy", fastmath=FASTMATH)


@dataclass(frozen=True)
class CountClasses:
    """The distinct (count, day) pairs: of_site (T,), counts (n_classes,), days (n_classes,)."""

    of_site: np.ndarray
    counts: np.ndarray
    days: np.ndarray

    @classmethod
    def of(cls, counts: np.ndarray, day: np.ndarray) -> "CountClasses":
        """Number the pairs of a series."""
        pairs, of_site = np.unique(np.stack([day, counts]), axis=1, return_inverse=True)
        return cls(of_site.ravel().astype(np.int32), pairs[1].copy(), pairs[0].copy())


class Emission:
    """Log-densities of the classes and their derivatives, for params (L, 11).

    log_density (2, n_classes, L), peak (n_classes, L) its maximum over the states; score0
    (n_classes, L) in log rate and score1 (3, n_classes, L) in log rate, log a, log b.
    """

    def __init__(self, classes: CountClasses, params: np.ndarray):
        rates, a, b = np.exp(params[:, :A]).T.copy(), np.exp(params[:, A]), np.exp(params[:, B])
        self.classes, self.a, self.tilt = classes, a, b / (1.0 + b)
        self.log_density, self.moments = emission_tables(rates, a, b, classes.counts, classes.days)
        self.peak = self.log_density.max(axis=0)
        self.of_day = (classes.days == np.arange(A)[:, None]).astype(float)
        self.rate = rates[classes.days]
        excess, digamma = self.moments[:2]
        self.score0 = classes.counts[:, None] - self.rate
        self.growth = a * (digamma + np.log(self.tilt))
        shrink = a * (1.0 - self.tilt) - self.tilt * excess
        self.score1 = np.stack([self.score0 - excess, self.growth, shrink])

    def scaled(self, lane: int) -> np.ndarray:
        """The log-densities of a lane, (n_classes, 2), each class with maximum 0."""
        return (self.log_density[:, :, lane] - self.peak[:, lane]).T.copy()

    @property
    def places(self) -> np.ndarray:
        """Numbers (n_classes, 3) of the parameters that a class has to do with."""
        n = len(self.classes.days)
        return np.stack([self.classes.days, np.full(n, A), np.full(n, B)], axis=1)

    def score_tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Gradients (n_classes, WIDTH) of log p(x | 0) and log(p(x | 1) / p(x | 0)), one lane."""
        quiet, ratio = np.zeros((2, len(self.classes.counts), WIDTH))
        quiet[:, :A] = (self.of_day * self.score0[:, 0]).T
        ratio[:, :A] = (self.of_day * (self.score1[0] - self.score0)[:, 0]).T
        ratio[:, A:TO0] = self.score1[1:, :, 0].T
        return quiet, ratio

    def gradient(self, total: np.ndarray, event: np.ndarray) -> np.ndarray:
        """Expected gradient (11, L); total, event (n_classes, L): weights, and those in state 1."""
        gradient = np.zeros((N_PARAMS, event.shape[1]))
        gradient[:A] = self.of_day @ ((total - event) * self.score0 + event * self.score1[0])
        gradient[A:TO0] = (event * self.score1[1:]).sum(axis=1)
        return gradient

    def hessian(self, total: np.ndarray, event: np.ndarray) -> np.ndarray:
        """Expected Hessian (11, 11, L) of the log-densities."""
        excess, digamma, square, product, digamma_square, trigamma = self.moments
        variance = square - excess**2
        covariance = product - excess * digamma
        a, tilt = self.a, self.tilt
        rate_b = tilt * variance
        a_a = self.growth + a**2 * (trigamma + digamma_square - digamma**2)
        a_b = a * (1.0 - tilt) - a * tilt * covariance
        b_b = tilt * rate_b - (a + excess) * tilt * (1.0 - tilt)
        hessian = np.zeros((N_PARAMS, N_PARAMS, event.shape[1]))
        days = np.arange(A)
        hessian[days, days] = self.of_day @ (event * variance - total * self.rate)
        hessian[:A, A] = hessian[A, :A] = self.of_day @ (-a * covariance * event)
        hessian[:A, B] = hessian[B, :A] = self.of_day @ (event * rate_b)
        hessian[A, A] = (event * a_a).sum(axis=0)
        hessian[A, B] = hessian[B, A] = (event * a_b).sum(axis=0)
        hessian[B, B] = (event * b_b).sum(axis=0)
        return hessian


@_jit
def _log_poisson(rates, top):
    """Log pmf of counts top, ..., 0 for each day: (7, top + 1, L)."""
    table = np.empty((len(rates), top + 1, rates.shape[1]))
    for d in range(len(rates)):
        table[d, top] = -rates[d]
        for x in range(1, top + 1):
            table[d, top - x] = table[d, top - x + 1] + np.log(rates[d] / x)
    return table


@_jit
def _log_excess(shape, b, top):
    """Log pmf of excesses 0, ..., top: (top + 1, L)."""
    table = np.empty((top + 1, len(shape)))
    table[0] = shape * np.log(b / (1.0 + b))
    for e in range(1, top + 1):
        table[e] = table[e - 1] + np.log((shape + e - 1.0) / (e * (1.0 + b)))
    return table


@_jit
def _polygamma_rises(shape, top):
    """D and D' of excesses 0, ..., top: each (top + 1, L)."""
    digamma, trigamma = np.zeros((top + 1, len(shape))), np.zeros((top + 1, len(shape)))
    for e in range(1, top + 1):
        last = shape + e - 1.0
        digamma[e] = digamma[e - 1] + 1.0 / last
        trigamma[e] = trigamma[e - 1] - 1.0 / (last * last)
    return digamma, trigamma


@_jit
def _scaled(log_table):
    """exp(log_table (n, L) - its maximum in each lane), and the maxima (L,)."""
    peak = log_table[0].copy()
    for row in log_table[1:]:
        peak = np.maximum(peak, row)
    return np.exp(log_table - peak), peak


@_jit
def _weigh_logs(log_poisson, log_excess, posterior, b):
    """As `_weigh` in one lane, from logarithms: returns the sum and the log scale taken out."""
    n = len(log_poisson)
    for e in range(n):
        posterior[e, b] = log_excess[e, b] + log_poisson[e, b]
    peak = posterior[:n, b].max()
    total = 0.0
    for e in range(n):
        posterior[e, b] = np.exp(posterior[e, b] - peak)
        total += posterior[e, b]
    return total, peak


@_jit
def _weigh(poisson, excess, posterior, total):
    """Fills posterior[e] with p(e) p(x - e), rescaled, and total (L,) with their sums."""
    total[:] = 0.0
    for e in range(len(poisson)):
        for b in range(len(total)):
            posterior[e, b] = excess[e, b] * poisson[e, b]
            total[b] += posterior[e, b]


@_jit
def _add_moments(posterior, digamma, trigamma, n, moments):
    """Sums over excesses 0, ..., n - 1 of e, D, e^2, e D, D^2 and D', weighed by the posterior."""
    moments[:] = 0.0
    for e in range(n):
        for b in range(moments.shape[1]):
            p, d = posterior[e, b], digamma[e, b]
            moments[0, b] += p * e
            moments[1, b] += p * d
            moments[2, b] += p * e * e
            moments[3, b] += p * e * d
            moments[4, b] += p * d * d
            moments[5, b] += p * trigamma[e, b]


@_jit
def emission_tables(rates, shape, b, counts, days):
    """(log p(x | z) (2, n_classes, L), moments (6, n_classes, L)) for rates (7, L), shape, b (L,).

    moments: means given x of e, D, e^2, e D, D^2 and D', where
    D = digamma(shape + e) - digamma(shape) and D' is its derivative.
    """
    top, lanes = counts.max(), len(shape)
    log_poisson, log_excess = _log_poisson(rates, top), _log_excess(shape, b, top)
    digamma, trigamma = _polygamma_rises(shape, top)
    excess, excess_peak = _scaled(log_excess)
    poisson, peak = np.empty_like(log_poisson), np.empty_like(rates)
    for d in range(len(rates)):
        poisson[d], poisson_peak = _scaled(log_poisson[d])
        peak[d] = poisson_peak + excess_peak
    posterior, total, sums = np.empty_like(excess), np.empty(lanes), np.empty((6, lanes))
    table, moments = np.empty((2, len(counts), lanes)), np.empty((6, len(counts), lanes))
    for c in range(len(counts)):
        d, first, n = days[c], top - counts[c], counts[c] + 1
        _weigh(poisson[d, first:], excess, posterior, total)
        table[0, c] = log_poisson[d, first]
        for lane in range(lanes):
            scale = peak[d, lane]
            if not total[lane] > TINY:
                total[lane], scale = _weigh_logs(
                    log_poisson[d, first:], log_excess, posterior, lane
                )
            table[1, c, lane] = np.log(total[lane]) + scale
        _add_moments(posterior, digamma, trigamma, n, sums)
        moments[:, c] = sums / total
    return table, moments
