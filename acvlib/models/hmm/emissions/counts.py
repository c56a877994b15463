"""Counts, x_tr | z_t = k ~ Poisson(rate_kr), or more dispersed: NegativeBinomial."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

import autograd.numpy as anp
import numpy as np
from autograd.tracer import isbox
from scipy import special

from ....declared import declared
from ....trials import NoFiniteOptimum
from ..frames import Frames
from ..parameters import EXTREME, TINY, VANISHING
from .base import STEP, Emission, alone, numpy_of
from .units import Pair

WINDOW = 5  # frames on either side that count as near
FIRST = 16  # terms that are summed one by one, before those of a sum that Stirling's series has
GammaPrior = Annotated[tuple[float, float], Pair(1.0, 0.0)]  # shape and rate


class PoissonParams(NamedTuple):
    """rate (K, R)."""

    rate: np.ndarray


class NegativeBinomialParams(NamedTuple):
    """rate (K, R), the mean; dispersion (K, R): variances are rate + dispersion rate^2."""

    rate: np.ndarray
    dispersion: np.ndarray


@declared
@dataclass(frozen=True, repr=False)
class Poisson(Emission):
    """A row: log rates (R,), independent. Rates ~ Gamma(shape, rate) of `rate_prior`.

    (1, 0) is flat, shapes above 1 keep rates above 0.
    """

    rate_prior: GammaPrior = (1.1, 0.01)
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

    def _gamma_priors(self, n_entries: int) -> Any:
        """Shape and rate of the Gamma law of exp of each entry of a row."""
        return self.rate_prior

    def minus_log_prior(self, rows: Any):
        xp = numpy_of(rows)
        shape, rate = self._gamma_priors(rows.shape[-1])
        terms = rate * xp.exp(rows)
        return xp.sum(terms - (shape - 1.0) * rows, axis=(-2, -1)), terms - (shape - 1.0)

    def log_densities(self, rows: Any, frames: Frames):
        xp = numpy_of(rows)
        known = special.gammaln(frames.x + 1.0).sum(axis=1, keepdims=True)
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
        for state, channel in np.argwhere(silent & (self.rate_prior[0] == 1.0)):
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
class NegativeBinomial(Poisson):
    """A row: log rates (R,), then log dispersions (R,); variances are rate + dispersion rate^2.

    At dispersion 0, up to which all is smooth, it is Poisson's law; scipy's n is 1 / dispersion.
    Dispersions ~ Gamma(shape, rate) of `dispersion_prior`: shapes above 1 keep them above 0 where
    counts vary no more than Poisson's do, rates above 0 keep them finite where all counts are 0.
    Rates / scale ~ Gamma by `rate_prior`; scale (R,): by default the mean of each channel.
    """

    dispersion_prior: GammaPrior = (1.1, 0.01)
    scale: tuple[float, ...] | None = field(default=None, repr=False)
    priors = Poisson.priors | {"dispersion_prior": ((1.1, 0.01), (1.001, 1e-4))}

    def __post_init__(self):
        if self.dispersion_prior[0] > 1.0 and self.dispersion_prior[1] == 0.0:
            told = f"dispersion_prior {self.dispersion_prior}: with a shape above 1"
            raise ValueError(f"{told} its rate must be above 0 as well, such as 0.001")

    def settled(self, x: np.ndarray, inputs: np.ndarray, weights: np.ndarray):
        seen = np.isfinite(x)
        means = weights @ np.where(seen, x, 0.0) / (weights @ seen)
        return self if self.scale else replace(self, scale=tuple(means.tolist()))

    def state_size(self, n_channels: int):
        return 2 * n_channels

    def unpack(self, rows: np.ndarray, n_channels: int):
        values = numpy_of(rows).exp(rows)
        return NegativeBinomialParams(values[:, :n_channels], values[:, n_channels:])

    def pack(self, named: Any):
        return np.log(np.hstack([named.rate, named.dispersion]))

    def _gamma_priors(self, n_entries: int):
        n = n_entries // 2
        shape, rate = np.repeat([self.rate_prior, self.dispersion_prior], n, axis=0).T
        return shape, rate / np.append(self.scale, np.ones(n))

    def _tables(self, rows, counts):
        """log p (K, R, V) of counts (V,)."""
        log_rate, rate, dispersion = _by_channel(rows)
        spread = (counts + 1.0 / dispersion) * _log1p(dispersion * rate)
        return _rise(dispersion, counts) + counts * log_rate - spread - special.gammaln(counts + 1)

    def _score_tables(self, rows, counts):
        """Slopes (K, 2 R, V) of log p in log rates and in log dispersions."""
        _, rate, dispersion = _by_channel(rows)
        by_rate = (counts - rate) / (1.0 + dispersion * rate)
        spread = _log1p(dispersion * rate) / dispersion - _inverses(dispersion, counts)
        return np.concatenate([by_rate, by_rate + spread], axis=1)

    def log_densities(self, rows: Any, frames: Frames):
        counts, places = _distinct(frames.x)
        tables = self._tables(rows, counts)
        channels = zip(places.T, frames.seen.T, strict=True)
        return sum((tables[:, r, place] * seen).T for r, (place, seen) in enumerate(channels))

    def score_factors(self, rows: np.ndarray, k: int, frames: Frames):
        counts, places = _distinct(frames.x)
        tables = self._score_tables(rows[k : k + 1], counts)[0]
        scores = tables[np.arange(len(tables)), np.tile(places, 2)]
        return alone(scores * np.tile(frames.seen, 2))

    def expected(self, rows: np.ndarray, frames: Frames, mass: np.ndarray):
        """The distinct counts (V,), and how often each is met, (K, R, V)."""
        counts, places = _distinct(frames.x)
        channels = [*zip(places.T, frames.seen.T, strict=True)]
        met = [[np.bincount(p, m * seen, len(counts)) for p, seen in channels] for m in mass.T]
        return counts, np.array(met)

    def likelihood(self, rows: np.ndarray, expected: Any):
        counts, met = expected
        return np.sum(met * self._tables(rows, counts), axis=(1, 2))

    def slopes(self, rows: np.ndarray, expected: Any):
        counts, met = expected
        return (np.tile(met, (1, 2, 1)) * self._score_tables(rows, counts)).sum(axis=2)

    def information(self, rows: np.ndarray, expected: Any):
        """By complex steps of all rates, then of all dispersions: channels are independent."""
        n = rows.shape[1] // 2
        kinds = np.repeat(np.eye(2), n, axis=1)
        moved = [-self.slopes(rows + 1j * STEP * kind, expected).imag / STEP for kind in kinds]
        matrices = np.repeat(np.stack(moved, axis=2), n, axis=2) * np.tile(np.eye(n), (2, 2))
        return matrices[:, :0], matrices

    def start(self, frames: Frames, labels: np.ndarray, n_states: int):
        rates = Poisson(self.rate_prior).start(frames, labels, n_states)
        rows = np.hstack([rates, np.zeros_like(rates)])
        mass = np.eye(n_states)[labels] * frames.observed[:, None]
        return self.maximise(rows, self.expected(rows, frames, mass))

    maximise = Emission.maximise

    def extreme(self, rows: np.ndarray, frames: Frames):
        rates, dispersions = np.split(rows, 2, axis=-1)
        shape, rate = self.dispersion_prior
        low = (dispersions < EXTREME / 2.0) & (shape == 1.0)
        high = (dispersions > -EXTREME) & (rate == 0.0)
        return super().extreme(rates, frames) | (low | high).any(axis=(-2, -1))

    def check_optimum(self, rows: np.ndarray, expected: Any):
        counts, met = expected
        _, rate, _ = _by_channel(rows)
        sums = met @ counts
        super().check_optimum(rows, (sums, met.sum(axis=2)))
        excess = (met * ((counts - rate) ** 2 - counts)).sum(axis=2)
        shape, least = self.dispersion_prior
        silent = (sums <= VANISHING) & (least == 0.0)
        for state, channel in np.argwhere(silent | (excess <= 2.0 * least) & (shape == 1.0)):
            why = "all are 0" if silent[state, channel] else "they vary no more than Poisson's"
            raise NoFiniteOptimum(
                f"counts of state {state}, channel {channel}, have no best dispersion, as {why}: "
                "give dispersion_prior a shape above 1 and a rate above 0, such as (1.01, 0.001)"
            )


def _by_channel(rows):
    """Log rates, rates and dispersions (K, R, 1) of rows (K, 2 R)."""
    n = rows.shape[1] // 2
    values = numpy_of(rows).exp(rows[:, :, None])
    return rows[:, :n, None], values[:, :n], values[:, n:]


def _distinct(x):
    """The distinct numbers in x (V,), and which of them each is."""
    values = np.unique(x)
    return values, np.searchsorted(values, x)


def _log1p(x):
    """log(1 + x); numpy's own loses the digits of a small complex x."""
    return anp.log1p(x) if isbox(x) else special.log1p(x)


def _rise(dispersion, counts):
    """sum_{j < x} log(1 + dispersion j), (K, R, V), the later terms by Stirling's series."""
    early = np.arange(FIRST)
    first = numpy_of(dispersion).dot(_log1p(dispersion * early), early[:, None] < counts)

    def series(y):
        u = 1.0 + dispersion * y
        t = dispersion / u
        powers = t / 12.0 - t**3 / 360.0 + t**5 / 1260.0 - t**7 / 1680.0
        return (u / dispersion - 0.5) * _log1p(dispersion * y) - y + powers

    return first + series(np.maximum(counts, FIRST)) - series(FIRST)


def _inverses(dispersion, counts):
    """sum_{j < x} 1 / (1 + dispersion j) in the same way."""
    early = np.arange(FIRST)
    first = (1.0 / (1.0 + dispersion * early)) @ (early[:, None] < counts)

    def series(y):
        u = 1.0 + dispersion * y
        t = dispersion / u
        powers = t / 12.0 - t**3 / 120.0 + t**5 / 252.0 - t**7 / 240.0
        return _log1p(dispersion * y) / dispersion - (0.5 + powers) / u

    return first + series(np.maximum(counts, FIRST)) - series(FIRST)


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
