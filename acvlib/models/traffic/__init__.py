"""Counts with a rate for each day of the week and a hidden on/off event that adds an excess.

    z_t | z_t-1 ~ P(stay);   x_t | z_t = 0 ~ Poisson(rate of the day);
    x_t | z_t = 1 is that plus NegBin(a, b / (1 + b))

Source: Ihler et al. (2006); Ghosh et al. (2020), Appendix L.1.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import autograd.numpy as anp
import numpy as np

from ...declared import Is, Params, Real, Rng, declared
from ...derivatives import derivatives_of
from ...folds import Fold, Folds
from ...folds.folds import emptied
from ...inference import chain
from ...inference.two_state import N_PARAMS
from ...model import ModelDefaults
from ...trials import NoFiniteOptimum
from ...weighting import Weights, hide_labels, keep_latents
from .derivatives import TrafficDerivatives
from .emission import SUGGESTED_PRIOR, CountClasses, TrafficPrior

FAR = 12.0  # from the start: rates, odds or an excess e^12 times what the counts suggest
FLAT = 1e-9  # of the largest curvature, or of 1 in logarithms: what rounding leaves of none
MAX_COUNT = 10_000  # tables run over all counts: half a second for 32 folds with 400 such classes


class TrafficParams(NamedTuple):
    """rates (7,) per step on each day, Sunday first; excess_shape a, excess_rate b; stay (2,).

    The paper's lambda_0 is the mean of the rates, its delta the rates over that.
    """

    rates: np.ndarray
    excess_shape: float
    excess_rate: float
    stay: np.ndarray


@declared
@dataclass(frozen=True, eq=False, repr=False)
class PoissonTraffic(ModelDefaults):
    """The time-varying Poisson model; MAP in D = 11 unconstrained coordinates.

    Params are seven log rates, log a, log b, the logits of P(0 -> 0) and P(1 -> 1); the posterior
    density maximised is that of the constrained parameters (no Jacobian term). The chain starts
    from its stationary law, as in Ihler's program. A missing count is a site of base weight 0, and
    is in no fold. The log-normaliser Z(theta, w) is left out, as in Ghosh et al., Appendix D.

    Parameters
    ----------
    counts : (T,) whole numbers from 0 to `MAX_COUNT`, -1 where missing; beyond, take shorter steps
        or a larger unit
    day : (T,) 0 ... 6, 0 is Sunday; in the order of the counts, or with their index
    scheme : how weights enter, of `acvlib.weighting`
    prior : of the constrained parameters

    Raises
    ------
    ValueError : names the numbers that are none of these
    """

    sites = "steps"
    counts: Annotated[np.ndarray, Real("n", least=-1, most=MAX_COUNT, finite=False, whole=True)] = (
        field(repr=False)
    )
    day: Annotated[np.ndarray, Real("n", least=0, most=6, whole=True)] = field(repr=False)
    scheme: Callable = keep_latents
    prior: Annotated[TrafficPrior, Is()] = TrafficPrior()

    def __post_init__(self):
        if self.scheme is hide_labels:
            raise ValueError("scheme hides labels, which counts have not: give keep_latents")
        if len(self.counts) < 2 or not self.observed.any():
            seen = f"{self.observed.sum()} of {len(self.counts)} counts are observed"
            raise ValueError(f"{seen}: give two counts or more, not all -1, which is missing")

    @property
    def n_sites(self) -> int:
        return len(self.counts)

    @property
    def n_params(self) -> int:
        """D = 11."""
        return N_PARAMS

    @cached_property
    def observed(self) -> np.ndarray:
        """(T,) False where the count is missing."""
        return self.counts >= 0

    @cached_property
    def derivatives(self) -> TrafficDerivatives | None:
        """Compiled ones for scheme A; None for other schemes, which go through autograd."""
        return TrafficDerivatives(self) if self.scheme is keep_latents else None

    @declared
    def unpack(self, params: Params) -> TrafficParams:
        """Named, constrained parameters of params (11,)."""
        stay = anp.exp(-anp.logaddexp(0.0, -params[9:]))
        return TrafficParams(anp.exp(params[:7]), anp.exp(params[7]), anp.exp(params[8]), stay)

    def pack(self, named: TrafficParams) -> np.ndarray:
        """Params (11,) of named ones, all positive and stay below 1: the inverse of `unpack`."""
        excess = np.log([named.excess_shape, named.excess_rate])
        logits = np.log(named.stay) - np.log1p(-np.asarray(named.stay))
        return np.concatenate([np.log(named.rates), excess, logits])

    @declared
    def initial_params(self, rng: Rng | None = None) -> np.ndarray:
        """Daily means for the rates, an excess of half the mean rate, events a tenth of the time.

        rng, if given, perturbs them by a tenth, so that several starts can be compared.
        """
        seen = self.counts[self.observed]
        day = self.day[self.observed]
        n_seen = np.bincount(day, minlength=7)
        means = np.bincount(day, seen, 7) / np.maximum(n_seen, 1)
        rates = np.where(n_seen > 0, means, seen.mean()) + 0.5
        excess = np.log([2.0, 4.0 / rates.mean()])
        start = np.concatenate([np.log(0.9 * rates), excess, [4.5, 2.2]])
        return start if rng is None else start + 0.1 * rng.standard_normal(11)

    def further_starts(self) -> list[np.ndarray]:
        """Four points far around the first."""
        rng = np.random.default_rng(0)
        return list(self.initial_params() + rng.standard_normal((4, 11)))

    def default_priors(self, params: np.ndarray) -> dict:
        """See `ModelDefaults`."""
        return dict(self.prior.defaults(params))

    @declared
    def log_densities(self, params: Params) -> np.ndarray:
        """log p(x_t | z_t = k), shape (T, 2), zero where missing; differentiable."""
        classes = self.classes
        table = _log_density(self.unpack(params), classes.counts, classes.days)
        return table[classes.of_site] * self.observed[:, None]

    @cached_property
    def classes(self) -> CountClasses:
        """The distinct (count, day) pairs; a missing site is put with the count 0 of its day."""
        return CountClasses.of(np.maximum(self.counts, 0), self.day)

    @declared
    def log_chain(self, params: Params) -> tuple[np.ndarray, np.ndarray]:
        """(log initial (2,), log transition (2, 2)); the initial law is the stationary one."""
        stay, leave = -anp.logaddexp(0.0, -params[9:]), -anp.logaddexp(0.0, params[9:])
        initial = anp.array([leave[1], leave[0]]) - anp.logaddexp(leave[0], leave[1])
        return initial, anp.array([[stay[0], leave[0]], [leave[1], stay[1]]])

    def check_optimum(self, params: np.ndarray) -> None:
        """Raise ValueError where a day was never observed, or the density has no maximum."""
        unseen = np.setdiff1d(np.arange(7), self.day[self.observed])
        if unseen.size and self.prior.day_concentration <= 1.0:
            raise ValueError(
                f"no count of day {unseen[0]} (0 = Sunday) is observed, so its rate is not "
                "identified: take a longer series, or a prior with day_concentration > 1"
            )
        ones = np.ones(self.n_sites)
        hessian = np.asarray(derivatives_of(self).hessian(params, ones))
        curvatures = np.linalg.eigvalsh(hessian) if np.isfinite(hessian).all() else np.zeros(1)
        is_flat = not curvatures[0] > FLAT * max(curvatures[-1], 1.0)
        if is_flat and np.abs(params - self.initial_params()).max() > FAR:
            rates, a, b, stay = self.unpack(params)
            raise ValueError(
                "the posterior density has no maximum: it rises on towards rates "
                f"{rates.min():.2g} ... {rates.max():.2g}, excess_shape {a:.2g}, excess_rate "
                f"{b:.2g}, stay {stay[0]:.6g} and {stay[1]:.6g}. These {self.n_sites} counts do "
                "not tell events from quiet steps: take a longer series, or a prior such as "
                f"{SUGGESTED_PRIOR}"
            )

    def check_folds(self, folds: Folds) -> None:
        """Raise NoFiniteOptimum for a fold that leaves no count above 0 of a day.

        Its log rate then falls without end, unless the prior keeps it.
        """
        if self.prior.day_concentration > 1.0:
            return
        is_day = self.day[:, None] == np.arange(7)
        if gone := emptied(folds, is_day & (self.counts[:, None] > 0)):
            fold, day = gone
            raise NoFiniteOptimum(
                f"{folds.name(fold)} leaves no count above 0 of day {day} (0 = Sunday), so its log "
                "rate has no finite optimum: leave out less, or give a prior day_concentration > 1"
            )

    @declared
    def objective(self, params: Params, weights: Weights) -> float:
        """F = -log p(x; params, weights) - log p(params)."""
        log_chain = self.log_densities(params), *self.log_chain(params)
        node, edge = chain.potentials(self.scheme, weights, *log_chain)
        return -chain.log_partition(node, edge) - self.log_prior(params)

    @declared
    def log_prior(self, params: Params) -> Any:
        """log p(constrained params) up to a constant."""
        return -self.prior.negative_log_density(params)

    @declared
    def heldout_loss(self, params: Params, fold: Fold) -> np.ndarray:
        """-log p(x_t | x outside the fold; params), (len(fold),); latents kept, as in scheme A."""
        Folds([fold]).omitted.check_observed(self.observed)
        initial, transition = self.log_chain(params)
        return chain.heldout_loss(self.log_densities(params), initial, transition, fold)


def _log_density(params, counts, days):
    """log p(x | z) of each class, (n_classes, 2), by a sum over the excess; differentiable."""
    from autograd.scipy.special import gammaln, logsumexp  # loads all of scipy.stats: not at import

    excess = np.arange(counts.max() + 1)
    background = counts[:, None] - excess
    possible = background >= 0
    a = params.excess_shape
    b = params.excess_rate
    log_excess = gammaln(a + excess) - gammaln(a) - gammaln(excess + 1.0)
    log_excess = log_excess + a * anp.log(b / (1.0 + b)) - excess * anp.log(1.0 + b)
    rates = params.rates[days][:, None]
    n = np.maximum(background, 0)
    log_background = n * anp.log(rates) - rates - gammaln(n + 1.0)
    event = logsumexp(anp.where(possible, log_background + log_excess, -1e300), axis=1)
    return anp.stack([log_background[:, 0], event], axis=1)
