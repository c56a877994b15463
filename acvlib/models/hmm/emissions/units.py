"""What emissions of real numbers share: units, so that no unit and no level matters, and sums."""

from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from ....checks import LARGEST, real_array
from ....declared import Check, Real, Sizes
from ..frames import Frames
from .base import Emission, likely, numpy_of

FLAT = (-1.0, 0.0)  # shape and scale of the inverse Gamma law that says nothing
WEAK = (-0.95, 1e-3)  # of the variance, that of a tenth of a frame
ROUNDING = 1e-10  # a scale that is less than that of a range is what sums of weights round to
ENOUGH = 1e-11  # an expected count that second derivatives take: see `curvature.THRESHOLD`


class Pair(Check):
    """Two numbers from these on, such as the shape and the scale, or rate, of a prior."""

    def __init__(self, *least: float) -> None:
        self.least = least

    def __call__(self, name: str, value: Any, sizes: Sizes) -> tuple[float, float]:
        pair = real_array(name, value, 1)
        if pair.shape != (2,) or (pair < self.least).any():
            raise ValueError(f"{name} {pair}: must be shape and scale, or rate, from {self.least}")
        return tuple(pair.tolist())


class WidthCheck(Real):
    """An sd above 0, or infinity for a flat prior."""

    def __call__(self, name: str, value: Any, sizes: Sizes) -> float:
        flat = isinstance(value, float) and value == np.inf
        return value if flat else super().__call__(name, value, sizes)


Width = Annotated[float, WidthCheck("", above=1.0 / LARGEST)]
VariancePrior = Annotated[tuple[float, float], Pair(*FLAT)]


class Standardised(Emission):
    """Densities of (x - centre) / scale, in whose units priors are.

    Where centre and scale are None, the model takes the median and the interquartile range over
    1.349 of what it observes, a site of weight 2 counted twice.
    """

    centre: tuple[float, ...] | float | None
    scale: tuple[float, ...] | float | None
    common_scale = False  # whether all channels are scaled by the largest of their ranges

    def __post_init__(self):
        if self.centre is None and self.scale is None:
            return
        units = real_array("centre and scale", [self.centre, self.scale])
        if (units[1] < 1.0 / LARGEST).any():
            raise ValueError(f"scale {units[1]} must be above {1.0 / LARGEST}")
        centre, scale = (tuple(unit) if np.ndim(unit) else unit for unit in units.tolist())
        self.__dict__.update(centre=centre, scale=scale)

    def settled(self: Any, x: np.ndarray, inputs: np.ndarray, weights: np.ndarray):
        """With centre and scale of the observed frames, unless it has some."""
        n = x.shape[1]
        if self.centre is None:
            centre, scale = units_of(x, weights)
            scale = np.full(n, scale.max()) if self.common_scale else scale
        elif np.ndim(self.centre) and len(self.centre) != n:
            raise ValueError(f"centre {self.centre} must have {n} entries, as x has")
        else:
            centre, scale = self.centre * np.ones(n), self.scale * np.ones(n)
        return replace(self, centre=tuple(centre.tolist()), scale=tuple(scale.tolist()))

    @cached_property
    def _units(self):
        """Centre and scale as arrays (2, R)."""
        return np.array([self.centre, self.scale])

    def spread_prior(self: Any, spread: Any, on: np.ndarray, once: bool):
        """(minus the log prior of variances (..., K), slopes) of entries of P (..., K, m).

        Where `on`, they are log sds; once: of the first row alone, as all rows share them.
        """
        xp = numpy_of(spread)
        shape, scale = self.variance_prior
        tail = scale * xp.where(on, xp.exp(-2.0 * spread * on), spread**2)
        value = xp.sum(2.0 * (shape + 1.0) * on * spread + tail, axis=-1)
        slopes = 2.0 * xp.where(on, shape + 1.0 - tail, scale * spread)
        first = np.arange(spread.shape[-2]) == 0
        return (value * first, slopes * first[:, None]) if once else (value, slopes)

    def prepared(self, x: np.ndarray):
        """(x - centre) / scale."""
        return (x - self._units[0]) / self._units[1]


def units_of(x: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Medians and scales (R,) of channels (T, R): the sds, where x is normal; nan is missing."""
    low, centre, high = np.transpose([_quartiles(column, weights) for column in x.T])
    scale = (high - low) / 1.349
    widest = np.nanmax(x, axis=0) - np.nanmin(x, axis=0)
    return centre, np.where(scale > ROUNDING * widest, scale, widest)


def _quartiles(values, weights):
    """Of values, each as often as its weight says; interpolated as numpy's are at weights 1.

    Weights below 1 on the average count as shares of as many values.
    """
    seen = np.isfinite(values) & (weights > 0.0)
    order = np.argsort(values[seen], kind="stable")
    values, weights = values[seen][order], weights[seen][order]
    stop = np.cumsum(weights * max(len(weights) / weights.sum(), 1.0))
    weights = np.diff(stop, prepend=0.0)
    first = stop - weights
    last = np.maximum(first, stop - 1.0)
    places = np.column_stack([first, last]).ravel()
    wanted = np.array([0.25, 0.5, 0.75]) * max(stop[-1] - 1.0, 0.0)
    return np.interp(wanted, places, np.repeat(values, 2))


class Moments:
    """Sums over frames, weighted by how often each is expected in each state, of gaps x - W y.

    count (K, R); squares (K, R, R); met (K, R, q): with y; gram (K, 1, q, q) or, of means,
    (K, R, 1, 1): of y with itself.
    """

    def __init__(self, weights: np.ndarray, frames: Frames, mass: np.ndarray):
        self.weights = weights
        self._parts = likely(frames, mass)
        self._has_lags = weights.shape[2] > 1
        self.count = mass.T @ frames.seen
        self.squares, self.met = self.about(weights)

    def about(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(squares, met) of weights W (K, R, q)."""
        squares = []
        met = []
        for of_state, (frames, mass) in zip(weights, self._parts, strict=True):
            gap = residual(of_state, frames)
            weighted = mass[:, None] * gap
            squares.append(weighted.T @ gap)
            met.append(weighted.T @ frames.design)
        return np.array(squares), np.array(met)

    def moved(self, move: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same of W + move, without the frames: it rounds where gaps become much smaller."""
        gram = self.gram[:, 0] if self._has_lags else self.gram[:, :, 0]
        met = self.met - (move @ gram if self._has_lags else move * gram)
        return self.squares - move @ self.met.swapaxes(1, 2) - met @ move.swapaxes(1, 2), met

    @cached_property
    def gram(self) -> np.ndarray:
        if not self._has_lags:
            return self.count[:, :, None, None]
        grams = []
        for frames, mass in self._parts:
            used = abs(mass) > ENOUGH
            y = frames.design[used]
            grams.append((y.T * mass[used]) @ y)
        return np.array(grams)[:, None]


def residual(weights: Any, frames: Frames) -> Any:
    """x - W y (n, R) of one state's weights (R, q), 0 where missing; differentiable."""
    return (frames.x - (weights @ frames.design.T).T) * frames.seen
