"""Counts, x_tr | z_t = k ~ Poisson(rate_kr), and codes, x_t | z_t = k ~ Categorical(p_k)."""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.special import gammaln

from ....checks import check_whole, real_array, real_number
from ..sequences import check_codes, local_means
from ..simplex import Simplex
from .base import Analytic, alone
from .priors import log_rate

MOST = 10**5  # categories


class PoissonParams(NamedTuple):
    """rate (K, R)."""

    rate: np.ndarray


class CategoricalParams(NamedTuple):
    """probability (K, C), rows that sum to 1."""

    probability: np.ndarray


@dataclass(frozen=True, repr=False)
class Poisson(Analytic):
    """A row: log rates (R,), independent. Rates ~ Gamma(shape, rate) of `rate_prior`.

    (1, 0) is flat, shapes above 1 keep rates above 0.
    """

    rate_prior: tuple[float, float] = (1.1, 0.01)
    misses_channels = True

    def __post_init__(self):
        prior = real_array("rate_prior", self.rate_prior, 1)
        if prior.shape != (2,) or prior[0] < 1.0 or prior[1] < 0.0:
            raise ValueError(f"rate_prior {prior}: must be a shape from 1 and a rate from 0 on")
        object.__setattr__(self, "rate_prior", tuple(prior.tolist()))

    def prepared(self, x):
        check_codes(x)
        return x

    def state_shape(self, n_channels):
        return 1, n_channels

    def unpack(self, rows, n_channels):
        return PoissonParams(anp.exp(rows))

    def pack(self, named):
        return np.log(named.rate)

    def minus_log_prior(self, rows):
        value, slopes = log_rate(rows, *self.rate_prior)
        return anp.sum(value, axis=-1), slopes

    def log_densities(self, rows, frames):
        known = gammaln(frames.x + 1.0).sum(axis=1, keepdims=True)
        linear = anp.dot(frames.x, anp.transpose(rows))
        return linear - anp.dot(frames.seen, anp.exp(anp.transpose(rows))) - known

    def score_factors(self, rows, k, frames):
        return alone(frames.x - frames.seen * np.exp(rows[k]))

    def expected(self, rows, frames, mass):
        """Sums of x, and how often a channel is seen, (K, R) both."""
        return mass.T @ frames.x, mass.T @ frames.seen

    def slopes(self, rows, expected):
        sums, seen = expected
        return sums - seen * np.exp(rows)

    def maximise(self, rows, expected):
        sums, seen = expected
        shape, rate = self.rate_prior
        return np.log((sums + shape - 1.0) / (seen + rate))

    def features(self, frames):
        """Square roots, whose variance does not depend on the rate, with those around a frame."""
        roots = np.sqrt(frames.x)
        return np.hstack([roots, local_means(roots, frames.starts)])

    def mean(self, rows, k, frames):
        return np.exp(rows[k : k + 1])

    def draw(self, rows, k, frames, rng):
        return rng.poisson(np.exp(rows[k]), frames.x.shape)


@dataclass(frozen=True, repr=False)
class Categorical(Analytic):
    """A row: log weights (C,) of the codes 0 ... C - 1, see `simplex`; p_k ~ Dirichlet.

    n_categories: C, by default the largest code and 1; fixed: None, or (K, C) probabilities that
    stay as they are, 0 for what a state never shows, nan where free.
    """

    n_categories: int | None = None
    concentration: float = 1.1
    fixed: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self):
        concentration = real_number("concentration", self.concentration, least=1.0)
        object.__setattr__(self, "concentration", concentration)
        if self.n_categories is not None:
            n_categories = check_whole("n_categories", self.n_categories, 2, MOST)
            object.__setattr__(self, "n_categories", n_categories)

    def settled(self, x, inputs, weights):
        if x.shape[1] != 1:
            raise ValueError(f"{x.shape[1]} channels of codes: categorical emissions have one")
        check_codes(x)
        found = int(np.nanmax(x)) + 1
        if self.n_categories is None and found > max(len(x), 2):
            largest = f"the code {found - 1} in {len(x)} frames"
            raise ValueError(f"{largest}: number the categories from 0, or pass n_categories")
        return replace(self, n_categories=self.n_categories or found)

    def prepared(self, x):
        check_codes(x, self.n_categories)
        return x

    @property
    def has_zeros(self):
        return self.fixed is not None and bool((np.asarray(self.fixed) == 0.0).any())

    def law(self, n_states: int) -> Simplex:
        """Of all rows."""
        return Simplex((n_states, self.n_categories), self.concentration, self.fixed)

    def state_shape(self, n_channels):
        return 1, self.n_categories

    def kept(self, n_states, n_channels):
        return self.law(n_states).kept

    def unpack(self, rows, n_channels):
        return CategoricalParams(anp.exp(self.law(len(rows)).log_p(rows)))

    def pack(self, named):
        p = np.asarray(named.probability)
        return self.law(len(p)).weights(p, "probability")

    def minus_log_prior(self, rows):
        law = self.law(rows.shape[-2])
        log_p = law.log_p(rows)
        return -law.log_density(log_p), -law.score(law.pseudo_counts, anp.exp(log_p))

    def log_densities(self, rows, frames):
        return anp.transpose(self.law(len(rows)).log_p(rows))[_codes(frames)]

    def score_factors(self, rows, k, frames):
        law = self.law(len(rows))
        p = np.exp(law.log_p(rows))
        seen = np.eye(self.n_categories)[_codes(frames)] * law.free[k]
        return alone(seen - seen.sum(axis=1, keepdims=True) * (p * law.free / law.left)[k])

    def expected(self, rows, frames, mass):
        """Counts of each code, (K, C)."""
        codes = _codes(frames)
        return np.array([np.bincount(codes, counts, self.n_categories) for counts in mass.T])

    def slopes(self, rows, expected):
        law = self.law(len(rows))
        return law.score(expected, np.exp(law.log_p(rows)))

    def maximise(self, rows, expected):
        law = self.law(len(rows))
        return law.weights(law.rows(expected + law.pseudo_counts))

    def check_optimum(self, rows, expected):
        self.law(len(rows)).check_optimum(expected)

    def features(self, frames):
        """How often each category occurs around a frame."""
        return local_means(np.eye(self.n_categories)[_codes(frames)], frames.starts)

    def mean(self, rows, k, frames):
        """That of the codes."""
        return self._p(rows, k)[None] @ np.arange(self.n_categories)[:, None]

    def draw(self, rows, k, frames, rng):
        p = self._p(rows, k)
        return rng.choice(self.n_categories, (len(frames.x), 1), p=p / p.sum())

    def _p(self, rows, k):
        return np.exp(self.law(len(rows)).log_p(rows)[k])


def _codes(frames):
    return frames.x[:, 0].astype(int)
