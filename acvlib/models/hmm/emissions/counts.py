"""Counts, x_tr | z_t = k ~ Poisson(rate_kr), and codes, x_t | z_t = k ~ Categorical(p_k)."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from ....checks import in_named_columns
from ....declared import Real, Whole, declared
from ....trials import NoFiniteOptimum
from ..frames import Frames
from ..parameters import EXTREME, TINY, VANISHING, Simplex
from .base import Emission, Pair, alone, numpy_of

MOST = 10**5  # categories
WINDOW = 5  # frames on either side that count as near


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
        return PoissonParams(numpy_of(rows).exp(rows))

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
        return np.log(np.maximum(sums + shape - 1.0, TINY) / np.maximum(seen + rate, TINY))

    def extreme(self, rows: np.ndarray, frames: Frames):
        return (rows < EXTREME).any(axis=(-2, -1)) & (self.rate_prior[0] == 1.0)

    def check_optimum(self, rows: np.ndarray, expected: Any):
        sums, seen = expected
        silent = sums <= VANISHING * np.minimum(seen, 1.0)
        if self.rate_prior[0] == 1.0 and silent.any():
            state, channel = np.argwhere(silent)[0]
            raise NoFiniteOptimum(
                f"the rate of state {state}, channel {channel}, runs to 0 under rate_prior="
                f"{self.rate_prior}: give it a shape above 1, such as (1.01, 0.0)"
            )

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
        n = self.n_categories
        names = self.symbols
        if names is None:
            names = tuple(np.unique(x[np.isfinite(x)]) if n is None else np.arange(float(n)))
        if [*names] != sorted({*names}) or n not in (None, len(names)):
            raise ValueError(f"symbols {[*names]}: must be {n or 'several'} codes, in rising order")
        fixed = in_named_columns(names, "fixed", self.fixed)
        return replace(self, n_categories=len(names), symbols=tuple(map(float, names)), fixed=fixed)

    def prepared(self, x: np.ndarray):
        """The number of each symbol."""
        check_codes(x)
        symbols = np.array(self.symbols)
        other = x[~np.isin(x, symbols) & np.isfinite(x)]
        if other.size:
            known = ", ".join(f"{symbol:g}" for symbol in symbols[:5])
            more = ", ..." if len(symbols) > 5 else ""
            remedy = f"let it be nan, or give n_categories={other.max() + 1:g}"
            raise ValueError(f"x holds {other[0]:g}: only {known}{more} are expected: {remedy}")
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
        return CategoricalParams(numpy_of(rows).exp(self.law(len(rows)).log_p(rows)))

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

    def extreme(self, rows: np.ndarray, frames: Frames):
        return self.law(rows.shape[-2]).extreme(rows)

    def check_optimum(self, rows: np.ndarray, expected: Any):
        remedy = "give an emission_concentration, in hmmlearn emissionprob_prior,"
        self.law(len(rows)).check_optimum(expected, remedy)

    def features(self, frames: Frames):
        """A frame's own category, with how often each occurs around it."""
        own = np.eye(self.n_categories)[_codes(frames)]
        return np.hstack([own, local_means(own, frames.starts)])


def _codes(frames):
    return frames.x[:, 0].astype(int)


def check_codes(x: np.ndarray, n_codes: int | None = None) -> None:
    """Raise ValueError unless all of x are whole numbers 0 ... n_codes - 1, or missing."""
    bad = np.argwhere((x < 0) | (x > 2**53) | (x != np.floor(x)) & ~np.isnan(x))
    if bad.size:
        frame, channel = bad[0]
        place = f"x holds {x[frame, channel]:g}, channel {channel} of frame {frame}"
        raise ValueError(f"{place}: whole numbers from 0 to 2^53 are needed, nan where missing")
    if n_codes is not None and np.nanmax(x, initial=0) >= n_codes:
        raise ValueError(f"x holds {np.nanmax(x):g}: only 0 ... {n_codes - 1} are expected")


def local_means(rows: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Means (M, F) of rows (M, F) over the frames near each in its sequence."""
    sums = np.vstack([np.zeros(rows.shape[1]), np.cumsum(rows, axis=0)])
    frame = np.arange(len(rows))
    sequence = np.searchsorted(starts, frame, side="right") - 1
    low = np.maximum(frame - WINDOW, starts[sequence])
    high = np.minimum(frame + WINDOW + 1, starts[sequence + 1])
    return (sums[high] - sums[low]) / (high - low)[:, None]
