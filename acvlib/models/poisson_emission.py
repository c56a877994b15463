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
def _log_poisson(rates, top):
    """Log pmf of counts top, ..., 0 for each day."""
    table = np.empty((len(rates), top + 1))
    for d in range(len(rates)):
        table[d, top] = -rates[d]
        for x in range(1, top + 1):
            table[d, top - x] = table[d, top - x + 1] + np.log(rates[d] / x)
    return table


@_jit
def _excess_tables(shape, b, top):
    """Log pmf, D and D' of excesses 0, ..., top."""
    log_pmf, digamma, trigamma = np.zeros(top + 1), np.zeros(top + 1), np.zeros(top + 1)
    log_pmf[0] = shape * np.log(b / (1.0 + b))
    for e in range(1, top + 1):
        last = shape + e - 1.0
        log_pmf[e] = log_pmf[e - 1] + np.log(last / (e * (1.0 + b)))
        digamma[e] = digamma[e - 1] + 1.0 / last
        trigamma[e] = trigamma[e - 1] - 1.0 / (last * last)
    return log_pmf, digamma, trigamma


@_jit
def _scaled(log_table):
    """exp(row - its maximum) and the maxima, row by row."""
    peak = np.empty(len(log_table))
    scaled = np.empty_like(log_table)
    for d in range(len(log_table)):
        peak[d] = log_table[d].max()
        scaled[d] = np.exp(log_table[d] - peak[d])
    return scaled, peak


@_jit
def _weigh(excess, poisson, log_excess, log_poisson, d, x, posterior):
    """Fills posterior[e] with p(e) p(x - e), rescaled, e = 0..x; returns their sum and the log scale taken out.

    Products of the scaled tables are fast; where all of them are tiny, for a count far from every rate, the
    logarithms are summed instead.
    """
    total, shift = 0.0, poisson.shape[1] - 1 - x
    for e in range(x + 1):
        posterior[e] = excess[e] * poisson[d, shift + e]
        total += posterior[e]
    if total > 1e-200:
        return total, 0.0
    for e in range(x + 1):
        posterior[e] = log_excess[e] + log_poisson[d, shift + e]
    peak = posterior[: x + 1].max()
    total = 0.0
    for e in range(x + 1):
        posterior[e] = np.exp(posterior[e] - peak)
        total += posterior[e]
    return total, peak


@_jit
def log_density(rates, shape, b, counts, days):
    """log p(x | z = 0), log p(x | z = 1) of each class: shape (2, n_classes)."""
    top = counts.max()
    log_poisson, (log_excess, _, _) = _log_poisson(rates, top), _excess_tables(shape, b, top)
    poisson, poisson_peak = _scaled(log_poisson)
    excess_peak = log_excess.max()
    excess, posterior = np.exp(log_excess - excess_peak), np.empty(top + 1)
    table = np.empty((2, len(counts)))
    for c in range(len(counts)):
        x, d = counts[c], days[c]
        total, scale = _weigh(excess, poisson, log_excess, log_poisson, d, x, posterior)
        table[0, c] = log_poisson[d, top - x]
        table[1, c] = np.log(total) + (poisson_peak[d] + excess_peak if scale == 0.0 else scale)
    return table


@_jit
def excess_moments(rates, shape, b, counts, days):
    """Posterior means of the excess statistics (see N_MOMENTS) given x, of every class: (N_MOMENTS, n_classes)."""
    top = counts.max()
    log_poisson, (log_excess, digamma, trigamma) = _log_poisson(rates, top), _excess_tables(shape, b, top)
    poisson, _ = _scaled(log_poisson)
    excess, posterior = np.exp(log_excess - log_excess.max()), np.empty(top + 1)
    moments = np.empty((N_MOMENTS, len(counts)))
    for c in range(len(counts)):
        total, _ = _weigh(excess, poisson, log_excess, log_poisson, days[c], counts[c], posterior)
        m0 = m1 = m2 = m3 = m4 = m5 = 0.0  # one pass, six sums: independent, so that none waits for another
        for e in range(counts[c] + 1):
            p, d = posterior[e], digamma[e]
            m0 += p * e
            m1 += p * d
            m2 += p * e * e
            m3 += p * e * d
            m4 += p * d * d
            m5 += p * trigamma[e]
        moments[0, c], moments[1, c], moments[2, c] = m0 / total, m1 / total, m2 / total
        moments[3, c], moments[4, c], moments[5, c] = m3 / total, m4 / total, m5 / total
    return moments
