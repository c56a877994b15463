"""Counts, x_tr | z_t = k ~ Poisson(rate_kr), and codes, x_t | z_t = k ~ Categorical(p_k)."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from ....declared import Real, Whole, declared
from ..frames import Frames, check_codes, local_means
from ..parameters import Simplex
from .base import Emission, Pair, alone, numpy_of

MOST = 10**5  # categories


class PoissonParams(NamedTuple):
    """rate (K, R)."""

    rate: np.ndarray


class CategoricalParams(NamedTuple):
    """probability (K, C), rows that sum to 1, in the order of `Categorical.symbols`."""

    probability: np.ndarray


@declared
@dataclass(frozen=True, repr=False)
class Poisson(Emission):
    """A row: log rates (R,), independent. Rates ~ Gamma(shape, rate) of `rate_prior`.

    (1, 0) is flat, shapes above 1 keep rates above 0.
    """

    rate_prior: Annotated[tuple[float, float], Pair(1.0, 0.0)] = (1.1, 0.01)
    priors = {"rate_prior": ((1.1, 0.01), (1.0, 0.0))}
    misses_channels = True

    def prepared(self, x: np.ndarray):
        check_codes(x)
        return x

    def state_size(self, n_channels: int):
        return n_channels

    def unpack(self, rows: np.ndarray, n_channels: int):
        return PoissonParams(np.exp(rows))

    def pack(self, named: Any):
        return np.log(named.rate)

    def minus_log_prior(self, rows: Any):
        xp = numpy_of(rows)
        shape, rate = self.rate_prior
        terms = rate * xp.exp(rows)
        return xp.sum(terms - (shape - 1.0) * rows, axis=(-2, -1)), terms - (shape - 1.0)

    def log_densities(self, rows: Any, frames: Frames):
        xp = numpy_of(rows)
        known = gammaln(frames.x + 1.0).sum(axis=1, keepdims=True)
        linear = xp.dot(frames.x, xp.transpose(rows))
        return linear - xp.dot(frames.seen, xp.exp(xp.transpose(rows))) - known

    def score_factors(self, rows: np.ndarray, k: int, frames: Frames):
        return alone(frames.x - frames.seen * np.exp(rows[k]))

    def expected(self, rows: np.ndarray, frames: Frames, mass: np.ndarray):
        """Sums of x, and how often a channel is seen, (K, R) both."""
        return mass.T @ frames.x, mass.T @ frames.seen

    def slopes(self, rows: np.ndarray, expected: Any):
        sums, seen = expected
        return sums - seen * np.exp(rows)

    information = Emission.by_complex_step

    def maximise(self, rows: np.ndarray, expected: Any):
        sums, seen = expected
        shape, rate = self.rate_prior
        return np.log((sums + shape - 1.0) / (seen + rate))

    def features(self, frames: Frames):
        """Square roots, whose variance does not depend on the rate, with those around a frame."""
        roots = np.sqrt(frames.x)
        return np.hstack([roots, local_means(roots, frames.starts)])


@declared
@dataclass(frozen=True, repr=False)
class Categorical(Emission):
    """A row: log weights (C,) of the symbols, see `Simplex`; p_k ~ Dirichlet.

    n_categories: C codes 0 ... C - 1, by default the codes that occur; symbols (C,): these codes,
    in their order; fixed: None, or (K, C) probabilities that stay as they are, 0 for what a state
    never shows, nan where free.
    """

    n_categories: Annotated[int, Whole(1, MOST)] | None = None
    emission_concentration: Annotated[float, Real("", least=1.0)] = 1.1
    fixed: Any = field(default=None, repr=False, compare=False)
    priors = {"emission_concentration": (1.1, 1.001)}
    symbols: tuple[float, ...] | None = field(default=None, repr=False)

    def settled(self, x: np.ndarray, inputs: np.ndarray, weights: np.ndarray):
        if x.shape[1] != 1:
            raise ValueError(f"{x.shape[1]} channels of codes: categorical emissions have one")
        check_codes(x)
        if self.symbols is not None:
            return self
        codes = np.unique(x[np.isfinite(x)])
        symbols = codes if self.n_categories is None else np.arange(float(self.n_categories))
        return replace(self, n_categories=len(symbols), symbols=tuple(symbols.tolist()))

    def prepared(self, x: np.ndarray):
        """The number of each symbol."""
        check_codes(x)
        symbols = np.array(self.symbols)
        other = x[~np.isin(x, symbols) & np.isfinite(x)]
        if other.size:
            known = ", ".join(f"{symbol:g}" for symbol in symbols[:5])
            more = ", ..." if len(symbols) > 5 else ""
            raise ValueError(f"x holds {other[0]:g}: only {known}{more} are expected")
        return np.where(np.isfinite(x), np.searchsorted(symbols, x), np.nan)

    @property
    def has_zeros(self):
        return self.fixed is not None and bool((np.asarray(self.fixed) == 0.0).any())

    def law(self, n_states: int) -> Simplex:
        """Of all rows."""
        return self._law(n_states, self.n_categories, self.emission_concentration, self.fixed)

    def state_size(self, n_channels: int):
        return self.n_categories

    def kept(self, n_states: int, n_channels: int):
        return self.law(n_states).kept

    def unpack(self, rows: np.ndarray, n_channels: int):
        return CategoricalParams(np.exp(self.law(len(rows)).log_p(rows)))

    def pack(self, named: Any):
        p = np.asarray(named.probability)
        return self.law(len(p)).weights(p, "probability")

    def minus_log_prior(self, rows: Any):
        law = self.law(rows.shape[-2])
        return law.minus_log_prior(law.log_p(rows))

    def log_densities(self, rows: Any, frames: Frames):
        return self.law(len(rows)).log_p(rows).T[_codes(frames)]

    def score_factors(self, rows: np.ndarray, k: int, frames: Frames):
        law = self.law(len(rows))
        seen = np.eye(self.n_categories)[_codes(frames)] * law.free[k]
        shares = law.shares(np.exp(law.log_p(rows)))[k]
        return alone(seen - seen.sum(axis=1, keepdims=True) * shares)

    def expected(self, rows: np.ndarray, frames: Frames, mass: np.ndarray):
        """Counts of each code, (K, C)."""
        codes = _codes(frames)
        return np.array([np.bincount(codes, counts, self.n_categories) for counts in mass.T])

    def slopes(self, rows: np.ndarray, expected: Any):
        law = self.law(len(rows))
        return law.score(expected, np.exp(law.log_p(rows)))

    def information(self, rows: np.ndarray, expected: Any):
        law = self.law(len(rows))
        matrices = law.information(expected, np.exp(law.log_p(rows)))
        return matrices[:, :0], matrices

    def maximise(self, rows: np.ndarray, expected: Any):
        law = self.law(len(rows))
        return law.weights(law.rows(expected + law.pseudo_counts))

    def check_optimum(self, rows: np.ndarray, expected: Any):
        self.law(len(rows)).check_optimum(expected)

    def features(self, frames: Frames):
        """How often each category occurs around a frame."""
        return local_means(np.eye(self.n_categories)[_codes(frames)], frames.starts)


def _codes(frames):
    return frames.x[:, 0].astype(int)
