"""x_t | z_t = k ~ Normal(B1_k tanh(B0_k y_t + b0_k) + b1_k, sigma^2 I), y_t the lags.

A row: log sigma, which all states have, [B0_k, b0_k] (H, q), q = p R + 1, [B1_k, b1_k] (R, H + 1).
All is of (x - centre) / scale.

Source: Ghosh et al. (2020), Eq. 18.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve

from ....declared import Count, declared
from ..frames import Frames
from .base import alone, normal, numpy_of, outer_rows
from .gaussian import LOG_2PI
from .units import FLAT, WEAK, Standardised, VariancePrior, Width


class NetworkParams(NamedTuple):
    """sd: sigma; inner (K, H, q): [B0, b0]; outer (K, R, H + 1): [B1, b1]; in units of the data."""

    sd: float
    inner: np.ndarray
    outer: np.ndarray


@declared
@dataclass(frozen=True, repr=False)
class NeuralAutoRegression(Standardised):
    """A network of one hidden layer for each state; every weight ~ Normal(0, weight_sd^2).

    sigma^2 ~ InverseGamma(shape, scale) of `variance_prior`; both of scaled x, see
    `units.Standardised`.
    """

    order: Count = 1
    n_hidden: Count = 12
    weight_sd: Width = 1.0
    variance_prior: VariancePrior = WEAK
    centre: tuple[float, ...] | float | None = field(default=None, repr=False)
    scale: tuple[float, ...] | float | None = field(default=None, repr=False)
    priors = {"weight_sd": (1.0, 10.0), "variance_prior": (WEAK, FLAT)}
    n_shared = 1
    common_scale = True
    maximise = None  # has no closed form: `fit` climbs by L-BFGS

    def state_size(self, n_channels: int):
        n_inner = self.n_hidden * (self.order * n_channels + 1)
        return n_inner + n_channels * (self.n_hidden + 1)

    def _weights(self, rows):
        """Inner (K, H, q) and outer (K, R, H + 1) weights."""
        n = len(self.scale)
        q = self.order * n + 1
        cut = 1 + self.n_hidden * q
        inner = rows[:, 1:cut].reshape((len(rows), self.n_hidden, q))
        return inner, rows[:, cut:].reshape((len(rows), n, self.n_hidden + 1))

    @property
    def _ones(self):
        """(H + 1,) which weight of the outer layer is the intercept's."""
        return np.arange(self.n_hidden + 1) == self.n_hidden

    def unpack(self, rows: np.ndarray, n_channels: int):
        xp = numpy_of(rows)
        centre, scale = self._units
        inner, outer = self._weights(rows)
        lags = inner[:, :, :-1] / np.tile(scale, self.order)
        level = inner[:, :, -1] - xp.dot(lags, np.tile(centre, self.order))
        outer = outer * scale[:, None] + centre[:, None] * self._ones
        inner = xp.concatenate([lags, level[:, :, None]], axis=2)
        return NetworkParams(scale[0] * xp.exp(rows[0, 0]), inner, outer)

    def pack(self, named: Any):
        centre, scale = self._units
        lags = named.inner[:, :, :-1]
        level = named.inner[:, :, -1] + lags @ np.tile(centre, self.order)
        inner = np.dstack([lags * np.tile(scale, self.order), level])
        outer = named.outer - centre[:, None] * self._ones
        k = len(inner)
        parts = np.full((k, 1), np.log(named.sd / scale[0])), inner, outer / scale[:, None]
        return np.hstack([np.reshape(part, (k, -1)) for part in parts])

    def minus_log_prior(self, rows: Any):
        xp = numpy_of(rows)
        value, by_spread = self.spread_prior(rows[..., :1], np.ones(1, bool), True)
        pull, slopes = normal(rows[..., 1:], 0.0, self.weight_sd**-2)
        return xp.sum(value + pull, axis=-1), xp.concatenate([by_spread, slopes], axis=-1)

    def _passed(self, inner, outer, frames):
        """The hidden layer of one state and a 1 (n, H + 1), and residuals (n, R)."""
        xp = numpy_of(inner)
        h = xp.tanh(xp.dot(frames.design, inner.T))
        h = xp.concatenate([h, np.ones((len(frames.x), 1))], axis=1)
        return h, frames.x - xp.dot(h, outer.T)

    def log_densities(self, rows: Any, frames: Frames):
        xp = numpy_of(rows)
        columns = []
        constant = np.log(self.scale).sum() + 0.5 * frames.n_channels * LOG_2PI
        for row, inner, outer in zip(rows, *self._weights(rows), strict=True):
            _, gap = self._passed(inner, outer, frames)
            squares = 0.5 * xp.exp(-2.0 * row[0]) * xp.einsum("nr,nr->n", gap, gap)
            columns.append(-squares - frames.n_channels * row[0] - constant)
        return xp.stack(columns, axis=1)

    def score_factors(self, rows: np.ndarray, k: int, frames: Frames):
        row = rows[k]
        inner, outer = (part[0] for part in self._weights(row[None]))
        h, gap = self._passed(inner, outer, frames)
        signal = np.exp(-2.0 * row[0]) * gap
        back = signal @ outer[:, :-1] * (1.0 - h[:, :-1] ** 2)
        spread = np.einsum("nr,nr->n", signal, gap) - frames.n_channels
        return [*alone(spread[:, None]), (back, frames.design), (signal, h)]

    def information(self, rows: np.ndarray, expected: Any):
        """sum_t m (D'D - residual d2 mean), D the mean's derivative by a state's weights."""
        pairs = zip(rows, expected, strict=True)
        matrices = np.array([self._curvature(row, *part) for row, part in pairs])
        across = 2.0 * self.slopes(rows, expected)  # which go with sigma^-2
        across[:, 0] += [2.0 * frames.n_channels * mass.sum() for frames, mass in expected]
        return across[:, None], matrices

    def _curvature(self, row, frames, mass):
        m = np.exp(-2.0 * row[0]) * mass
        inner, outer = (part[0] for part in self._weights(row[None]))
        h, gap = self._passed(inner, outer, frames)
        n_hidden, q = inner.shape
        slope = 1.0 - h[:, :-1] ** 2
        moved = outer_rows(slope, frames.design)
        weighted = m[:, None] * moved
        wide = np.repeat(outer[:, :-1], q, axis=1)
        cut = n_hidden * q
        out = np.empty((cut + outer.size,) * 2)
        out[:cut, :cut] = (wide.T @ wide) * (weighted.T @ moved)
        out[:cut, cut:] = (wide.T[:, :, None] * (weighted.T @ h)[:, None, :]).reshape(cut, -1)
        out[cut:, cut:] = np.kron(np.eye(len(outer)), (m[:, None] * h).T @ h)
        residual = m[:, None] * gap
        back = 2.0 * (residual @ outer[:, :-1]) * h[:, :-1] * slope
        across = (residual.T @ moved).reshape(len(outer), n_hidden, q)
        for unit in range(n_hidden):
            own = slice(unit * q, (unit + 1) * q)
            its_outer = cut + unit + np.arange(len(outer)) * outer.shape[1]
            out[own, own] += (back[:, unit, None] * frames.design).T @ frames.design
            out[own, its_outer] -= across[:, unit].T
        out[cut:, :cut] = out[:cut, cut:].T
        return out

    def start(self, frames: Frames, labels: np.ndarray, n_states: int):
        """A small random inner layer, and ridge regressions of each state's frames on it."""
        rng = np.random.default_rng(0)
        n_inputs = frames.design.shape[1]
        spread = frames.design[:, :-1].std()
        inner = rng.normal(
            0.0, 0.3 / (spread * np.sqrt(n_inputs)), (n_states, self.n_hidden, n_inputs)
        )
        outer = []
        squares = 0.0
        for k in range(n_states):
            own = frames.rows(np.flatnonzero((labels == k) & frames.observed))
            h, _ = self._passed(inner[k], np.zeros((frames.n_channels, self.n_hidden + 1)), own)
            outer.append(solve(h.T @ h + 0.01 * np.eye(h.shape[1]), h.T @ own.x, assume_a="pos").T)
            squares += ((own.x - h @ outer[-1].T) ** 2).sum()
        count = frames.observed.sum() * frames.n_channels
        spread = np.full((n_states, 1), 0.5 * np.log(squares / count + 1e-4))
        parts = spread, inner.reshape(n_states, -1), np.reshape(outer, (n_states, -1))
        return np.hstack(parts)
