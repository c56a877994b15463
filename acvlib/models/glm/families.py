"""Response families of a GLM: each a loss -log p(y | eta), with its derivatives in eta.

All losses are convex in eta, and log-concave in curvature but for Tweedie's: inside an interval of
eta their curvature is least at an end, and it and |third| are largest at an end or at a peak named
here.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.special import erfcx, expit, gammaln, logit, ndtr, ndtri

from ...checks import check_choice, one_line, real_number

LOG_2PI = float(np.log(2 * np.pi))


class Family(NamedTuple):
    """Functions of eta and y, elementwise; `loss` is differentiable by autograd, and convex in eta.

    slope, curvature, third: the derivatives of loss in eta, first to third.
    mean, link: E[y | eta] and its inverse.
    accepts, response: which y are possible, as a function and in words.
    free_direction(y): 1, -1 where the loss never rises as eta goes to plus, minus infinity, else 0.
    change(mean, d): [slope(eta + d) - slope(eta)] / curvature(eta) without cancellation; may use d.
    self_concordant: |third| <= curvature, which so changes by at most exp(|change of eta|).
    curvature_peaks, third_peaks: where each may be largest inside an interval.
    log_concave: the curvature is, so that inside an interval it is least at an end.
    """

    name: str
    loss: Callable
    slope: Callable
    curvature: Callable
    third: Callable
    mean: Callable
    link: Callable
    accepts: Callable
    response: str
    free_direction: Callable
    change: Callable | None = None
    self_concordant: bool = False
    curvature_peaks: tuple = ()
    third_peaks: tuple = ()
    log_concave: bool = True

    def __repr__(self):
        return one_line(self)

    def __reduce__(self):
        """Pickle a family of the library by its name: the copy is then the same object."""
        known = FAMILIES.get(self.name) is self
        return (family_of, (self.name,)) if known else (Family, tuple(self))


def _gaussian_loss(eta, y):
    return 0.5 * (y - eta) ** 2 + 0.5 * LOG_2PI


# y ~ N(eta, 1)
gaussian = Family(
    name="gaussian",
    loss=_gaussian_loss,
    slope=lambda eta, y: eta - y,
    curvature=lambda eta, y: np.ones_like(eta),
    third=lambda eta, y: np.zeros_like(eta),
    mean=lambda eta: eta,
    link=lambda mean: mean,
    accepts=np.isfinite,
    response="finite numbers",
    free_direction=lambda y: np.zeros(len(y), int),
    change=lambda mean, d: d,
    self_concordant=True,
)


def _binary(y):
    return (y == 0) | (y == 1)


def _towards_its_class(y):
    return np.where(y == 1, 1, -1)


def _positive(y):
    return (y > 0) & np.isfinite(y)


def _not_negative(y):
    return (y >= 0) & np.isfinite(y)


def _down_at_zero(y):
    return np.where(y == 0, -1, 0)


def _logistic_slope(eta, y):
    with np.errstate(over="ignore"):  # exp(-eta) = inf is a mean of 0
        mean = np.exp(-eta)
    mean += 1.0
    np.reciprocal(mean, out=mean)
    mean -= y
    return mean


def _logistic_third(eta, y):
    mean = expit(eta)
    return mean * (1 - mean) * (1 - 2 * mean)


def _logistic_change(mean, d):
    grown = np.expm1(d, out=d)
    scale = grown * mean
    scale += 1
    grown /= scale
    return grown


_STEEPEST = float(np.log(2 + np.sqrt(3)))  # where |third| is largest: mean = 1/2 +- sqrt(3)/6

# y ~ Bernoulli(1 / (1 + exp(-eta)))
logistic = Family(
    name="logistic",
    loss=lambda eta, y: anp.logaddexp(0.0, (1 - 2 * y) * eta),
    slope=_logistic_slope,
    curvature=lambda eta, y: expit(eta) * expit(-eta),
    third=_logistic_third,
    mean=expit,
    link=logit,
    accepts=_binary,
    response="0 or 1",
    free_direction=_towards_its_class,
    change=_logistic_change,
    self_concordant=True,
    curvature_peaks=(0.0,),
    third_peaks=(-_STEEPEST, _STEEPEST),
)

# y ~ Poisson(exp(eta))
poisson = Family(
    name="poisson",
    loss=lambda eta, y: anp.exp(eta) - y * eta + gammaln(y + 1.0),
    slope=lambda eta, y: np.exp(eta) - y,
    curvature=lambda eta, y: np.exp(eta),
    third=lambda eta, y: np.exp(eta),
    mean=np.exp,
    link=np.log,
    accepts=lambda y: (y >= 0) & (y == np.floor(y)) & (y <= 2.0**53),
    response="whole numbers >= 0, up to 2**53",
    free_direction=_down_at_zero,
    change=lambda mean, d: np.expm1(d, out=d),
    self_concordant=True,
)

# y >= 0 with mean exp(eta), y not counted but measured, such as counts over an exposure
poisson_rate = poisson._replace(
    name="poisson rate",
    accepts=_not_negative,
    response="finite numbers >= 0",
)


def _tweedie_loss(eta, y, power):
    """Half the deviance of mean exp(eta) and variance mean^power, up to a constant."""
    if power == 2.0:
        return y * anp.exp(-eta) + eta
    return y * anp.exp((1 - power) * eta) / (power - 1) + anp.exp((2 - power) * eta) / (2 - power)


def _tweedie_slopes(eta, y, power, order):
    """The derivative of that order of the same."""
    rising = (2 - power) ** (order - 1) * np.exp((2 - power) * eta)
    return rising - (1 - power) ** (order - 1) * y * np.exp((1 - power) * eta)


def tweedie(power: float) -> Family:
    """Positive numbers, from power 1 < 2 on zeros too, of mean exp(eta) and variance mean^power.

    power: above 1, up to 2, the gamma family's. The loss is half the unit deviance up to a
    constant, as in scikit-learn's TweedieRegressor: minus a log density for power 2 alone, that of
    an exponential distribution.

    Raises
    ------
    ValueError: another power
    """
    power = real_number("power", power, above=1.0)
    if power > 2.0:
        raise ValueError(f"power = {power:g}: the loss is convex in eta for powers up to 2 alone")
    gamma = power == 2.0
    return poisson_rate._replace(
        name="gamma" if gamma else f"tweedie({power:g})",
        loss=partial(_tweedie_loss, power=power),
        slope=partial(_tweedie_slopes, power=power, order=1),
        curvature=partial(_tweedie_slopes, power=power, order=2),
        third=partial(_tweedie_slopes, power=power, order=3),
        accepts=_positive if gamma else _not_negative,
        response="finite numbers > 0" if gamma else "finite numbers >= 0",
        change=None,
        log_concave=gamma,
    )


gamma = tweedie(2.0)


def _probit_loss(eta, y):
    from autograd.scipy.stats import norm  # loads all of scipy.stats: not at import

    return -norm.logcdf((2 * y - 1) * eta)


def _margin_and_mills(eta, y):
    """(m, r): eta turned towards y's class, and phi(m) / Phi(m) to a few epsilons at any m."""
    margin = (2 * y - 1) * eta
    return margin, np.sqrt(2.0 / np.pi) / erfcx(-margin / np.sqrt(2.0))


def _probit_curvature(eta, y):
    margin, mills = _margin_and_mills(eta, y)
    return mills * (mills + margin)


def _probit_third(eta, y):
    margin, mills = _margin_and_mills(eta, y)
    both = mills + margin
    size = mills * (1 - mills * both - both**2)
    return (2 * y - 1) * size


_PROBIT_STEEPEST = 1.0023693  # the margin at which |third| is largest

# y ~ Bernoulli(Phi(eta))
probit = Family(
    name="probit",
    loss=_probit_loss,
    slope=lambda eta, y: (1 - 2 * y) * _margin_and_mills(eta, y)[1],
    curvature=_probit_curvature,
    third=_probit_third,
    mean=ndtr,
    link=ndtri,
    accepts=_binary,
    response="0 or 1",
    free_direction=_towards_its_class,
    third_peaks=(-_PROBIT_STEEPEST, _PROBIT_STEEPEST),
)

_NAMED = (gaussian, logistic, poisson, poisson_rate, gamma, probit)
FAMILIES = {family.name: family for family in _NAMED}


def family_of(family: Family | str) -> Family:
    """The family of that name. Raises ValueError where there is none."""
    if isinstance(family, Family):
        return family
    check_choice("family", family, FAMILIES)
    return FAMILIES[family]
