"""Counts that are Poisson(rate of the day), plus a negative-binomial excess while an event lasts.

    state 0: x ~ Poisson(rate);   state 1: x = background + e,  e ~ NegBinomial(shape, b / (1 + b))

Tables over classes of equal (count, day): log-densities, and the derivatives of state 1's as posterior
moments of the excess e given x. No gamma functions: the densities run by recurrence over counts. The last
axis of every table is the lane, one parameter vector each: sums run over counts, SIMD over lanes.
Source: Ihler et al. (2006); Ghosh et al. (2020), Appendix L.1.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from ...inference.two_state import FASTMATH

N_MOMENTS = 6  # means of e, D, e^2, e D, D^2, D' given x; D = digamma(a + e) - digamma(a), D' its derivative
TINY = 1e-200  # a sum of scaled products below this is taken again from logarithms
_jit = njit(cache=True, nogil=True, error_model="numpy", fastmath=FASTMATH)


@dataclass(frozen=True)
class CountClasses:
    """The distinct (count, day) pairs of a series: of_site (T,), counts (n_classes,), days (n_classes,)."""

    of_site: np.ndarray
    counts: np.ndarray
    days: np.ndarray

    @classmethod
    def of(cls, counts, day):
        pairs, of_site = np.unique(np.stack([day, counts]), axis=1, return_inverse=True)
        return cls(of_site.ravel().astype(np.int32), pairs[1].copy(), pairs[0].copy())

    @property
    def score_at(self):
        """Positions in params of the scores of each class: log rate of its day, log a, log b."""
        n = len(self.days)
        return np.stack([self.days, np.full(n, 7), np.full(n, 8)], axis=1)


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
def _prepared(rates, shape, b, top):
    """Both laws' log tables, the same scaled, and the sum (7, L) of the logarithms that scaling took out."""
    log_poisson, log_excess = _log_poisson(rates, top), _log_excess(shape, b, top)
    excess, excess_peak = _scaled(log_excess)
    poisson, peak = np.empty_like(log_poisson), np.empty_like(rates)
    for d in range(len(rates)):
        poisson[d], poisson_peak = _scaled(log_poisson[d])
        peak[d] = poisson_peak + excess_peak
    return log_poisson, log_excess, poisson, excess, peak


@_jit
def _weigh(poisson, excess, posterior, total):
    """Fills posterior[e] with p(e) p(x - e), rescaled, and total (L,) with their sums; poisson[e] is p(x - e)."""
    total[:] = 0.0
    for e in range(len(poisson)):
        for b in range(len(total)):
            posterior[e, b] = excess[e, b] * poisson[e, b]
            total[b] += posterior[e, b]


@_jit
def _weigh_logs(log_poisson, log_excess, posterior, total, b):
    """As `_weigh` in lane b, from logarithms: for a count far from every rate; returns the log scale taken out."""
    n = len(log_poisson)
    for e in range(n):
        posterior[e, b] = log_excess[e, b] + log_poisson[e, b]
    peak = posterior[:n, b].max()
    total[b] = 0.0
    for e in range(n):
        posterior[e, b] = np.exp(posterior[e, b] - peak)
        total[b] += posterior[e, b]
    return peak


@_jit
def log_density(rates, shape, b, counts, days):
    """log p(x | z = 0), log p(x | z = 1) of each class and lane: (2, n_classes, L) for rates (7, L), shape, b (L,)."""
    top = counts.max()
    log_poisson, log_excess, poisson, excess, peak = _prepared(rates, shape, b, top)
    posterior, total = np.empty_like(excess), np.empty(len(shape))
    table = np.empty((2, len(counts), len(shape)))
    for c in range(len(counts)):
        d, first = days[c], top - counts[c]
        _weigh(poisson[d, first:], excess, posterior, total)
        table[0, c] = log_poisson[d, first]
        for lane in range(len(shape)):
            scale = peak[d, lane]
            if not total[lane] > TINY:
                scale = _weigh_logs(log_poisson[d, first:], log_excess, posterior, total, lane)
            table[1, c, lane] = np.log(total[lane]) + scale
    return table


@_jit
def _add_moments(posterior, digamma, trigamma, n, moments):
    """Adds the sums of the statistics of excesses 0, ..., n - 1 to moments (N_MOMENTS, L)."""
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
def excess_moments(rates, shape, b, counts, days):
    """Posterior means of the excess statistics (see N_MOMENTS) given x: (N_MOMENTS, n_classes, L)."""
    top = counts.max()
    log_poisson, log_excess, poisson, excess, _ = _prepared(rates, shape, b, top)
    digamma, trigamma = _polygamma_rises(shape, top)
    posterior, total = np.empty_like(excess), np.empty(len(shape))
    moments, sums = (
        np.empty((N_MOMENTS, len(counts), len(shape))),
        np.empty((N_MOMENTS, len(shape))),
    )
    for c in range(len(counts)):
        d, first = days[c], top - counts[c]
        _weigh(poisson[d, first:], excess, posterior, total)
        for lane in range(len(shape)):
            if not total[lane] > TINY:
                _weigh_logs(log_poisson[d, first:], log_excess, posterior, total, lane)
        sums[:] = 0.0
        _add_moments(posterior, digamma, trigamma, counts[c] + 1, sums)
        moments[:, c] = sums / total
    return moments
