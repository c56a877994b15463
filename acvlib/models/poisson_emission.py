"""Counts that are Poisson(rate of the day), plus a negative-binomial excess while an event lasts.

    state 0: x ~ Poisson(rate);   state 1: x = background + e,  e ~ NegBinomial(shape, b / (1 + b))

Tables over classes of equal (count, day): log-densities, and the derivatives of state 1's as posterior
moments of the excess e given x. No gamma functions: the densities run by recurrence over counts.
Source: Ihler et al. (2006); Ghosh et al. (2020), Appendix L.1.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from ..two_state import FASTMATH

N_MOMENTS = 6  # means of e, D, e^2, e D, D^2, D' given x; D = digamma(a + e) - digamma(a), D' its derivative
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
def _scaled_poisson(rates, top):
    """exp(log pmf - its maximum) of counts top, ..., 0 for each day, and the maxima."""
    pmf, peak = np.empty((len(rates), top + 1)), np.empty(len(rates))
    for d in range(len(rates)):
        log_pmf = -rates[d]
        pmf[d, top] = log_pmf
        for x in range(1, top + 1):
            log_pmf += np.log(rates[d] / x)
            pmf[d, top - x] = log_pmf
        peak[d] = pmf[d].max()
        pmf[d] = np.exp(pmf[d] - peak[d])
    return pmf, peak


@_jit
def _excess_tables(shape, b, top):
    """exp(log pmf - its maximum), that maximum, D and D' of excesses 0, ..., top."""
    pmf, digamma, trigamma = np.zeros(top + 1), np.zeros(top + 1), np.zeros(top + 1)
    pmf[0] = shape * np.log(b / (1.0 + b))
    for e in range(1, top + 1):
        last = shape + e - 1.0
        pmf[e] = pmf[e - 1] + np.log(last / (e * (1.0 + b)))
        digamma[e] = digamma[e - 1] + 1.0 / last
        trigamma[e] = trigamma[e - 1] - 1.0 / (last * last)
    peak = pmf.max()
    return np.exp(pmf - peak), peak, digamma, trigamma


@_jit
def log_density(rates, shape, b, counts, days):
    """log p(x | z = 0), log p(x | z = 1) of each class: shape (2, n_classes)."""
    top = counts.max()
    poisson, poisson_peak = _scaled_poisson(rates, top)
    excess, excess_peak, _, _ = _excess_tables(shape, b, top)
    table = np.empty((2, len(counts)))
    for c in range(len(counts)):
        x, d = counts[c], days[c]
        total, shift = 0.0, top - x
        for e in range(x + 1):
            total += excess[e] * poisson[d, shift + e]
        table[0, c] = np.log(max(poisson[d, shift], 1e-300)) + poisson_peak[d]
        table[1, c] = np.log(max(total, 1e-300)) + poisson_peak[d] + excess_peak
    return table


@_jit
def excess_moments(rates, shape, b, counts, days, n_moments):
    """Posterior means of the first `n_moments` of the excess statistics (see N_MOMENTS), (n_moments, n_classes)."""
    top = counts.max()
    poisson, _ = _scaled_poisson(rates, top)
    excess, _, digamma, trigamma = _excess_tables(shape, b, top)
    statistic = np.empty((N_MOMENTS, top + 1))
    for e in range(top + 1):
        statistic[0, e], statistic[1, e], statistic[2, e] = e, digamma[e], e * e
        statistic[3, e], statistic[4, e] = e * digamma[e], digamma[e] * digamma[e]
        statistic[5, e] = trigamma[e]
    moments = np.empty((n_moments, len(counts)))
    posterior = np.empty(top + 1)
    for c in range(len(counts)):
        x, d = counts[c], days[c]
        total = 0.0
        for e in range(x + 1):
            posterior[e] = excess[e] * poisson[d, top - x + e]
            total += posterior[e]
        for m in range(n_moments):
            mean = 0.0
            for e in range(x + 1):
                mean += posterior[e] * statistic[m, e]
            moments[m, c] = mean / max(total, 1e-300)
    return moments
