"""Counts with a rate for each day of the week and a hidden on/off event that adds an excess.

    z_t | z_t-1 ~ P(stay);   x_t | z_t = 0 ~ Poisson(rate of the day);   z_t = 1 adds NegBin(a, b / (1 + b))

Source: Ihler et al. (2006); Ghosh et al. (2020), Appendix L.1.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import autograd.numpy as np
import numpy as onp

from ...inference import chain, hidden_chain
from ...weighting import keep_latents
from .derivatives import PoissonFast
from .emission import CountClasses
from .prior import TrafficPrior


class TrafficParams(NamedTuple):
    """rates (7,): counts per step on each day, Sunday first; excess_shape a, excess_rate b; stay (2,)."""

    rates: onp.ndarray
    excess_shape: float
    excess_rate: float
    stay: onp.ndarray

    @property
    def base_rate(self):
        """lambda_0, the mean rate of the week."""
        return np.mean(self.rates)

    @property
    def day_effect(self):
        """delta (7,), with mean 1: rates / lambda_0."""
        return self.rates / self.base_rate


@dataclass(frozen=True)
class PoissonTraffic:
    """The time-varying Poisson model; MAP in D = 11 unconstrained coordinates.

    counts (T,): integers >= 0, -1 where missing; day (T,): 0 ... 6. params: seven log rates, log a, log b, the
    logits of P(0 -> 0) and P(1 -> 1). The posterior density maximised is that of the constrained parameters
    (no Jacobian term). The chain starts from its stationary law, a function of `stay`, as in Ihler's
    program. A missing count is a site of base weight 0, and is in no fold. The log-normaliser Z(theta, w)
    is left out, as in Ghosh et al., Appendix D.
    """

    counts: onp.ndarray = field(repr=False)
    day: onp.ndarray = field(repr=False)
    scheme: callable = keep_latents
    prior: TrafficPrior = TrafficPrior()

    def __post_init__(self):
        counts, day = onp.asarray(self.counts), onp.asarray(self.day)
        if counts.ndim != 1 or counts.shape != day.shape or len(counts) < 2:
            raise ValueError(
                f"counts {counts.shape} and day {day.shape} must be 1-d, equally long, of two or more"
            )
        whole = onp.isfinite(counts) & (counts == onp.floor(counts))
        if not whole.all():
            raise ValueError(f"counts must be whole numbers; found {counts[~whole][:3]}")
        if (counts < -1).any():
            raise ValueError(
                f"counts must be >= 0, or -1 where missing; found {counts[counts < -1][:3]}"
            )
        if not (counts >= 0).any():
            raise ValueError("all counts are missing: nothing to fit")
        if not onp.isin(day, onp.arange(7)).all():
            raise ValueError(f"day must be 0 ... 6; found {day[~onp.isin(day, onp.arange(7))][:3]}")
        object.__setattr__(self, "counts", counts.astype(onp.int64))
        object.__setattr__(self, "day", day.astype(onp.int64))

    @property
    def n_sites(self):
        return len(self.counts)

    @cached_property
    def observed(self):
        """(T,) False where the count is missing."""
        return self.counts >= 0

    @cached_property
    def fast(self):
        """The numba fast paths, for scheme A; None for other schemes, which go through autograd."""
        return PoissonFast(self) if self.scheme is keep_latents else None

    def unpack(self, params):
        """Named, constrained parameters of params (11,)."""
        stay = 1.0 / (1.0 + np.exp(-params[9:]))
        return TrafficParams(np.exp(params[:7]), np.exp(params[7]), np.exp(params[8]), stay)

    def initial_params(self, rng=None):
        """Daily means for the rates, an excess of half the mean rate, events a tenth of the time.

        rng, if given, perturbs them by a tenth, so that several starts can be compared.
        """
        seen = self.counts[self.observed]
        of_day = [self.counts[self.observed & (self.day == d)] for d in range(7)]
        rates = onp.array([x.mean() if x.size else seen.mean() for x in of_day]) + 0.5
        start = onp.concatenate(
            [onp.log(0.9 * rates), onp.log([2.0, 4.0 / rates.mean()]), [4.5, 2.2]]
        )
        return start if rng is None else start + 0.1 * rng.standard_normal(11)

    def log_densities(self, params):
        """log p(x_t | z_t = k), shape (T, 2), zero where missing; differentiable."""
        classes = self.classes
        table = _log_density(self.unpack(params), classes.counts, classes.days)
        return table[classes.of_site] * self.observed[:, None]

    @cached_property
    def classes(self):
        """The distinct (count, day) pairs; a missing site is put with the count 0 of its day."""
        return CountClasses.of(onp.maximum(self.counts, 0), self.day)

    def log_chain(self, params):
        """(log initial (2,), log transition (2, 2)); the initial law is the stationary one."""
        stay, leave = -np.logaddexp(0.0, -params[9:]), -np.logaddexp(0.0, params[9:])
        initial = np.array([leave[1], leave[0]]) - np.logaddexp(leave[0], leave[1])
        return initial, np.array([[stay[0], leave[0]], [leave[1], stay[1]]])

    def check_optimum(self, params):
        """ValueError where a day was never observed and its prior is flat: its rate has no finite optimum."""
        unseen = onp.setdiff1d(onp.arange(7), self.day[self.observed])
        if unseen.size and self.prior.day_concentration <= 1.0:
            raise ValueError(
                f"no count of day {unseen[0]} (0 = Sunday) is observed, so its rate is not identified: take a longer "
                "series, or a prior with day_concentration > 1"
            )

    def objective(self, params, weights):
        """F = -log p(x; params, weights) - log p(params)."""
        densities = self.log_densities(params)
        node, edge = hidden_chain.potentials(
            self.scheme, weights, densities, *self.log_chain(params)
        )
        return -chain.log_partition(node, edge) - self.log_prior(params)

    def log_prior(self, params):
        """log p(constrained params) up to a constant."""
        return -self.prior.negative_log_density(params)

    def heldout_loss(self, params, fold):
        """-log p(x_t | x outside the fold; params) for each t of the fold; latents are kept, as in scheme A."""
        return hidden_chain.heldout_loss(self.log_densities(params), *self.log_chain(params), fold)


def _log_density(params, counts, days):
    """log p(x | z) of each class, (n_classes, 2), by a sum over the excess; differentiable."""
    from autograd.scipy.special import gammaln, logsumexp  # loads all of scipy.stats: not at import

    excess = onp.arange(counts.max() + 1)
    background = counts[:, None] - excess
    possible = background >= 0
    a, b = params.excess_shape, params.excess_rate
    log_excess = gammaln(a + excess) - gammaln(a) - gammaln(excess + 1.0)
    log_excess = log_excess + a * np.log(b / (1.0 + b)) - excess * np.log(1.0 + b)
    rates = params.rates[days][:, None]
    log_background = (
        np.maximum(background, 0) * np.log(rates) - rates - gammaln(np.maximum(background, 0) + 1.0)
    )
    event = logsumexp(np.where(possible, log_background + log_excess, -1e300), axis=1)
    return np.stack([log_background[:, 0], event], axis=1)
