"""Emissions of channels that are centred and scaled, so that no unit and no level matters."""

from dataclasses import replace
from typing import Any

import numpy as np

from ....checks import LARGEST, check_whole, real_array, real_number
from .base import Analytic

FLAT = (-1.0, 0.0)  # the `variance_prior` that says nothing


class Standardised(Analytic):
    """Densities of (x - centre) / scale, in whose units priors are.

    Where centre and scale are None, the model takes the median and the interquartile range over
    1.349 of what it observes, a site of weight 2 counted twice. A variance_prior is the shape and
    scale of an inverse Gamma law; FLAT says nothing.
    """

    variance_prior: tuple[float, float]
    centre: tuple[float, ...] | float | None
    scale: tuple[float, ...] | float | None
    common_scale = False  # whether all channels are scaled by the largest of their ranges

    def settle(self, width: str, **counts: int) -> None:
        """Check the settings: an sd by name, and whole numbers, given the least."""
        found: dict[str, Any] = {
            name: check_whole(name, getattr(self, name), least) for name, least in counts.items()
        }
        found[width] = checked_width(width, getattr(self, width))
        prior = real_array("variance_prior", self.variance_prior, 1)
        if prior.shape != (2,) or (prior < FLAT).any():
            raise ValueError(
                f"variance_prior {prior}: must be shape and scale, from {FLAT}, flat, on"
            )
        found["variance_prior"] = tuple(prior.tolist())
        if self.centre is not None or self.scale is not None:
            centre, scale = real_array("centre and scale", [self.centre, self.scale])
            if (scale < 1.0 / LARGEST).any():
                raise ValueError(f"scale {scale} must be above {1.0 / LARGEST}")
            found["centre"] = tuple(centre.tolist()) if centre.ndim else float(centre)
            found["scale"] = tuple(scale.tolist()) if scale.ndim else float(scale)
        for name, value in found.items():
            object.__setattr__(self, name, value)

    def settled(self, x, inputs, weights):
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

    def prepared(self, x):
        """(x - centre) / scale."""
        return (x - np.array(self.centre)) / np.array(self.scale)


def checked_width(name: str, width: Any) -> float:
    """An sd by name: a number above 0, or infinity for a flat prior."""
    flat = isinstance(width, float) and width == np.inf
    return width if flat else real_number(name, width, above=1.0 / LARGEST)


def units_of(x: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Medians and scales (R,) of channels (T, R): the sds, where x is normal; nan is missing."""
    low, centre, high = np.transpose([_quartiles(column, weights) for column in x.T])
    scale = (high - low) / 1.349
    return centre, np.where(scale > 0.0, scale, np.nanmax(x, axis=0) - np.nanmin(x, axis=0))


def _quartiles(values, weights):
    """Of values, each as often as its weight says; interpolated as numpy's are at weights 1."""
    seen = np.isfinite(values) & (weights > 0.0)
    order = np.argsort(values[seen], kind="stable")
    values, weights = values[seen][order], weights[seen][order]
    stop = np.cumsum(weights)
    first = stop - weights
    last = np.maximum(first, stop - 1.0)
    places = np.column_stack([first, last]).ravel()
    wanted = np.array([0.25, 0.5, 0.75]) * max(stop[-1] - 1.0, 0.0)
    return np.interp(wanted, places, np.repeat(values, 2))
