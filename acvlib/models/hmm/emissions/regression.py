"""Regressions in each state: of responses on inputs, and of a frame on those before by a network.

    GLM: x_t | z_t = k, u_t ~ Bernoulli(1 / (1 + exp(-eta))) or Poisson(exp(eta))
    NeuralAutoRegression: x_t | z_t = k ~ Normal(B1_k tanh(B0_k y_t + b0_k) + b1_k, sigma^2 I), y_t
    the lags; all is of (x - centre) / scale

Source: Ashwood et al. (2022), Mice alternate between discrete strategies, Nature Neuroscience 25;
Ghosh et al. (2020), Eq. 18.
"""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.linalg import solve
from scipy.special import gammaln

from ....declared import Count, OneOf, Whole, declared
from ....trials import NoFiniteOptimum, separated
from ..frames import Frames
from .base import Emission, alone, in_rows, normal, numpy_of, outer_rows
from .counts import check_codes, local_means
from .gaussian import LOG_2PI
from .units import FLAT, WEAK, Standardised, VariancePrior, Width

EXTREME = 15.0  # scores up to which nothing is separated: no loss below 3e-7
RARE = 1e-6  # expected counts of frames that states at infinity do not show


class GLMParams(NamedTuple):
    """weights (K, R, q): those of the inputs, then the intercept, in the units of the data."""

    weights: np.ndarray


@declared
@dataclass(frozen=True, repr=False)
class GLM(Emission):
    """A row: W_k (R, q) by rows, of (inputs - centre) / scale, then of a 1; eta = W_k [u_t, 1].

    Weights ~ Normal(0, weight_sd^2), with which a state that inputs part stays finite.

    n_inputs: how many last columns of a sequence are inputs; centre, scale (n_inputs,): by default
    means and sds of the inputs where nothing is missing, so that no unit matters.
    """

    family: Annotated[str, OneOf("bernoulli", "poisson")] = "bernoulli"
    n_inputs: Annotated[int, Whole(0)] = 0
    weight_sd: Width = 10.0
    centre: tuple[float, ...] | None = field(default=None, repr=False)
    scale: tuple[float, ...] | None = field(default=None, repr=False)
    priors = {"weight_sd": (10.0, np.inf)}

    def settled(self, x: np.ndarray, inputs: np.ndarray, weights: np.ndarray):
        if self.scale is not None:
            return self
        whole = np.isfinite(np.column_stack([x, inputs])).all(axis=1)
        centre = np.zeros(self.n_inputs)
        scale = np.ones(self.n_inputs)
        if self.n_inputs and weights[whole].sum() > 0.0:
            centre = np.average(inputs[whole], axis=0, weights=weights[whole])
            squares = np.average((inputs[whole] - centre) ** 2, axis=0, weights=weights[whole])
            scale = np.where(squares > 0.0, np.sqrt(squares), 1.0)
        return replace(self, centre=tuple(centre.tolist()), scale=tuple(scale.tolist()))

    def prepared(self, x: np.ndarray):
        check_codes(x, 2 if self.family == "bernoulli" else None)
        return x

    def prepared_inputs(self, inputs: np.ndarray):
        return (inputs - np.array(self.centre)) / np.array(self.scale)

    def state_size(self, n_channels: int):
        return n_channels * (self.n_inputs + 1)

    def unpack(self, rows: np.ndarray, n_channels: int):
        return GLMParams(
            numpy_of(rows).dot(rows.reshape((len(rows), n_channels, -1)), self._to_units())
        )

    def pack(self, named: Any):
        return in_rows(named.weights @ np.linalg.inv(self._to_units()))

    def _to_units(self):
        """The matrix (q, q) that takes weights of scaled inputs to those of inputs."""
        scale = np.array(self.scale)
        change = np.diag(np.append(1.0 / scale, 1.0))
        change[:-1, -1] = -np.array(self.centre) / scale
        return change

    def minus_log_prior(self, rows: Any):
        value, slopes = normal(rows, 0.0, self.weight_sd**-2)
        return value.sum(axis=-1), slopes

    def log_density(self, row: Any, frames: Frames):
        xp = numpy_of(row)
        eta = self._eta(row, frames)
        if self.family == "bernoulli":
            terms = frames.x * eta - xp.logaddexp(0.0, eta)
        else:
            terms = frames.x * eta - xp.exp(eta) - gammaln(frames.x + 1.0)
        return xp.sum(terms, axis=1)

    def score_factors(self, rows: np.ndarray, k: int, frames: Frames):
        return [(frames.x - self._mean(rows[k], frames), frames.design)]

    information = Emission.by_complex_step

    def extreme(self, rows: np.ndarray, frames: Frames):
        if self.weight_sd < np.inf:
            return super().extreme(rows, frames)
        reach = abs(frames.design).max(axis=0)
        sizes = abs(rows).reshape(*rows.shape[:-1], -1, len(reach)) @ reach
        return (sizes > EXTREME).any(axis=(-2, -1))

    def check_optimum(self, rows: np.ndarray, expected: Any):
        """Where inputs part what a state shows, which no likelihood stops at."""
        if self.weight_sd < np.inf:
            return
        for k, (frames, mass) in enumerate(expected):
            counted = frames.rows(np.flatnonzero(mass > RARE))
            free = 2.0 * counted.x - 1.0 if self.family == "bernoulli" else -1.0 * (counted.x == 0)
            gains = free * self._eta(rows[k], counted)
            for channel in np.flatnonzero((gains > EXTREME).any(axis=0)):
                if separated(counted.design, free[:, channel]):
                    raise NoFiniteOptimum(
                        f"the {self.family} likelihood has no finite maximum: inputs separate "
                        f"channel {channel} in state {k} (fitted scores up to "
                        f"{gains[:, channel].max():.3g}). Give weight_sd a finite value"
                    )

    def features(self, frames: Frames):
        """Around a frame, the scores of one regression for all."""
        everyone = np.zeros(len(frames.x), int)
        pooled = self.start(frames, everyone, 1)
        return local_means(self.scores(pooled, 0, frames), frames.starts)

    def _eta(self, row, frames):
        weights = row.reshape((frames.n_channels, -1))
        return numpy_of(row).dot(frames.design, weights.T)

    def _mean(self, row, frames):
        eta = self._eta(row, frames)
        return 0.5 + 0.5 * np.tanh(0.5 * eta) if self.family == "bernoulli" else np.exp(eta)


class NetworkParams(NamedTuple):
    """sd: sigma; inner (K, H, q): [B0, b0]; outer (K, R, H + 1): [B1, b1]; in units of the data."""

    sd: float
    inner: np.ndarray
    outer: np.ndarray


@declared
@dataclass(frozen=True, repr=False)
class NeuralAutoRegression(Standardised):
    """A network of one hidden layer for each state; every weight ~ Normal(0, weight_sd^2).

    A row: log sigma, which all states have, [B0, b0] (H, q), q = p R + 1, [B1, b1] (R, H + 1).
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
