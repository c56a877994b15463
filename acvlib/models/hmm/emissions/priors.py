"""Priors of an emission's parameters: independent laws of groups of them."""

from dataclasses import dataclass
from typing import Any, Protocol

import autograd.numpy as anp
import numpy as np
from scipy.sparse import csr_array

from ..simplex import Dirichlet

__all__ = ["Dirichlet", "Law", "LogRate", "LogSd", "Normal", "Prior"]


class Law(Protocol):
    """The prior of n groups of d parameters each."""

    def minus_log(self, x: Any) -> Any:
        """Minus the log density of all groups (n, d), up to a constant; differentiable."""

    def derivatives(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient (n, d) and Hessian (n, d, d) of it."""


@dataclass(frozen=True)
class Normal:
    """Each parameter ~ Normal(mean, 1 / precision); mean is one number or (n, 1)."""

    mean: Any
    precision: float

    def minus_log(self, x):
        return 0.5 * self.precision * anp.sum((x - self.mean) ** 2)

    def derivatives(self, x):
        return self.precision * (x - self.mean), np.full((*x.shape, 1), self.precision)


@dataclass(frozen=True)
class LogSd:
    """log sd, where sd^2 ~ InverseGamma(shape, scale): a state cannot collapse onto a point."""

    shape: float
    scale: float

    def minus_log(self, x):
        return anp.sum(2.0 * (self.shape + 1.0) * x + self.scale * anp.exp(-2.0 * x))

    def derivatives(self, x):
        tail = 2.0 * self.scale * np.exp(-2.0 * x)
        return 2.0 * (self.shape + 1.0) - tail, 2.0 * tail[:, :, None]


@dataclass(frozen=True)
class LogRate:
    """log rate, where rate ~ Gamma(shape, rate)."""

    shape: float
    rate: float

    def minus_log(self, x):
        return anp.sum(self.rate * anp.exp(x) - (self.shape - 1.0) * x)

    def derivatives(self, x):
        curvature = self.rate * np.exp(x)
        return curvature - (self.shape - 1.0), curvature[:, :, None]


@dataclass(frozen=True)
class Prior:
    """Independent laws; parts: each with the places (n, d) of its parameters among all (E,)."""

    parts: tuple[tuple[Law, np.ndarray], ...]

    def minus_log(self, params: Any) -> Any:
        """Minus the log density, up to a constant; differentiable."""
        return sum(law.minus_log(params[places]) for law, places in self.parts)

    def gradient(self, params: np.ndarray) -> np.ndarray:
        """Of `minus_log`, (E,)."""
        out = np.zeros(len(params))
        for law, places in self.parts:
            out[places] = law.derivatives(params[places])[0]
        return out

    def hessian(self, params: np.ndarray) -> csr_array:
        """Of `minus_log`, sparse (E, E)."""
        rows, columns, entries = [], [], []
        for law, places in self.parts:
            hessian = law.derivatives(params[places])[1]
            rows.append(np.repeat(places, places.shape[1]))
            columns.append(np.tile(places, places.shape[1]).ravel())
            entries.append(hessian.ravel())
        where = np.concatenate(rows), np.concatenate(columns)
        return csr_array((np.concatenate(entries), where), shape=(len(params), len(params)))
