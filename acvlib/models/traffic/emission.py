"""Counts that are Poisson(rate of the day), plus a negative-binomial excess while an event lasts.

    state 0: x ~ Poisson(rate);   state 1: x = background + e,  e ~ NegBinomial(a, b / (1 + b))

Tables over classes of equal (count, day): log-densities, and the derivatives of state 1's as
posterior moments of the excess e given x. The last axis of every table is the lane, one parameter
vector each: sums run over excesses, SIMD over lanes. Written by hand as autograd takes 7 to 40
times as long.
Source: Ihler et al. (2006); Ghosh et al. (2020), Appendix L.1; moments after Louis (1982).
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy.special import gammaln

from ...inference.two_state import FASTMATH, WIDTH

N_PARAMS = 11
A, B, TO0 = 7, 8, 9  # places of log a, log b and the first stay logit; before them the log rates
LARGE = 1e200
_jit = njit(cache=True, nogil=True, error_model="numpy", fastmath=FASTMATH)


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


class Emission:
    """Log-densities of the classes and their derivatives, for params (L, 11).

    log_density (2, n_classes, L) of both states; quiet_score (n_classes, L), of state 0 in the log
    rate; ratio_score (3, n_classes, L), of state 1 less state 0 in log rate, log a, log b.
    """

    def __init__(self, classes: CountClasses, params: np.ndarray):
        rates = np.exp(params[:, :A].T)
        b = np.exp(params[:, B])
        self.classes = classes
        self.a = np.exp(params[:, A])
        self.tilt = b / (1.0 + b)
        self.log_density, self.moments = emission_tables(
            rates, self.a, b, classes.counts, classes.days
        )
        self.of_day = (classes.days == np.arange(A)[:, None]).astype(float)
        self.rate = rates[classes.days]
        excess, digamma = self.moments[:2]
        self.quiet_score = classes.counts[:, None] - self.rate
        growth = self.a * (digamma + np.log(self.tilt))
        shrink = self.a * (1.0 - self.tilt) - self.tilt * excess
        self.ratio_score = np.stack([-excess, growth, shrink])

    @property
    def places(self) -> np.ndarray:
        """Numbers (n_classes, 3) of the parameters that a class has to do with."""
        places = np.tile([0, A, B], (len(self.classes), 1))
        places[:, 0] = self.classes.days
        return places

    def score_tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Gradients (n_classes, WIDTH) of log p(x | 0) and log(p(x | 1) / p(x | 0)), one lane."""
        quiet = np.zeros((len(self.classes), WIDTH))
        quiet[:, :A] = (self.of_day * self.quiet_score[:, 0]).T
        ratio = np.zeros((len(self.classes), WIDTH))
        np.put_along_axis(ratio, self.places, self.ratio_score[:, :, 0].T, 1)
        return quiet, ratio

    def gradient(self, total: np.ndarray, event: np.ndarray) -> np.ndarray:
        """Expected gradient (9, L); total, event (n_classes, L): weights, and those in state 1."""
        changed = event * self.ratio_score
        of_rates = self.of_day @ (total * self.quiet_score + changed[0])
        return np.concatenate([of_rates, changed[1:].sum(axis=1)])

    def hessian(self, total: np.ndarray, event: np.ndarray) -> np.ndarray:
        """Expected Hessian (9, 9, L) of the log-densities."""
        excess, digamma, square, product, digamma_square, trigamma = self.moments
        a = self.a
        tilt = self.tilt
        variance = square - excess**2
        covariance = product - excess * digamma
        curvature = trigamma + digamma_square - digamma**2
        a_a = self.ratio_score[1] + a**2 * curvature
        a_b = a * (1.0 - tilt) - a * tilt * covariance
        b_b = tilt**2 * variance - (a + excess) * tilt * (1.0 - tilt)
        hessian = np.zeros((TO0, TO0, event.shape[1]))
        days = np.arange(A)
        hessian[days, days] = self.of_day @ (event * variance - total * self.rate)
        hessian[:A, A] = self.of_day @ (-a * covariance * event)
        hessian[:A, B] = self.of_day @ (tilt * variance * event)
        hessian[A, B] = (event * a_b).sum(axis=0)
        hessian += hessian.swapaxes(0, 1) * (1.0 - np.eye(TO0)[:, :, None])
        hessian[A, A] = (event * a_a).sum(axis=0)
        hessian[B, B] = (event * b_b).sum(axis=0)
        return hessian


def emission_tables(
    rates: np.ndarray, a: np.ndarray, b: np.ndarray, counts: np.ndarray, days: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(log p(x | z) (2, n_classes, L), moments (6, n_classes, L)) for rates (7, L), a, b (L,).

    moments: means given x of e, D, e^2, e D, D^2 and D', where
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
    log_ratio, moments = _over_excesses(growth, statistics, counts, 1.0 / rate)
    quiet = counts[:, None] * np.log(rate) - rate - gammaln(counts + 1.0)[:, None]
    event = quiet + a * np.log(b / (1.0 + b)) + log_ratio
    return np.stack([quiet, event]), moments


@_jit
def _over_excesses(growth, statistics, counts, duration):
    """(log of p(x | 1) over its term e = 0, means of statistics (6, top + 1, L) given x).

    growth (top + 1, L): p(e + 1) / p(e); duration (n_classes, L): 1 / rate.
    """
    n_lanes = growth.shape[1]
    log_ratio = np.zeros(duration.shape)
    means = np.zeros((len(statistics), *duration.shape))
    posterior = np.empty(growth.shape)
    for c in range(len(counts)):
        term = np.ones(n_lanes)
        total = np.zeros(n_lanes)
        for e in range(counts[c] + 1):
            for b in range(n_lanes):
                posterior[e, b] = term[b]
                total[b] += term[b]
                term[b] *= growth[e, b] * duration[c, b] * (counts[c] - e)
            if e % 8 == 0:
                _rescale(posterior[: e + 1], total, term, log_ratio[c])
        log_ratio[c] += np.log(total)
        for e in range(counts[c] + 1):
            for i in range(len(statistics)):
                for b in range(n_lanes):
                    means[i, c, b] += posterior[e, b] * statistics[i, e, b]
        for i in range(len(statistics)):
            means[i, c] /= total
    return log_ratio, means


@_jit
def _rescale(posterior, total, term, log_scale):
    """Divides what was summed by the next term, where that is large."""
    for b in range(len(term)):
        if term[b] > LARGE:
            log_scale[b] += np.log(term[b])
            posterior[:, b] /= term[b]
            total[b] /= term[b]
            term[b] = 1.0
