"""x_t | z_t = k ~ Normal(W_k y_t, C_k), y_t the p frames before and a 1: W_k is a mean if p = 0.

With C^-1 = P P', P lower triangular, log p = log |P| - |P'(x - W y)|^2 / 2. A row has P by rows,
-log P_ii in place of P_ii, then W by rows; a diagonal C has its log sds, a spherical one the one
that all channels have. All is of (x - centre) / scale.

Source: Ghosh et al. (2020), Eq. 17, which is `AutoRegression`.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np

from ....checks import NotFinite
from ....declared import Flag, OneOf, Whole, declared
from ....trials import NoFiniteOptimum
from ..frames import Frames
from .base import STEP, in_rows, normal, numpy_of
from .units import FLAT, WEAK, Moments, Standardised, VariancePrior, Width, residual

LOG_2PI = np.log(2.0 * np.pi)


class GaussianParams(NamedTuple):
    """mean (K, R), sd (K, R), or (K, 1) if spherical; without K where tied."""

    mean: np.ndarray
    sd: np.ndarray


class CovarianceParams(NamedTuple):
    """mean (K, R), covariance (K, R, R), or (R, R) if tied."""

    mean: np.ndarray
    covariance: np.ndarray


class AutoRegressionParams(NamedTuple):
    """sd or covariance, of all if tied; coefficients (K, p, R, R): B_k^m; intercept (K, R): b_k."""

    sd: Any
    coefficients: np.ndarray
    intercept: np.ndarray


@declared
@dataclass(frozen=True, repr=False)
class Gaussian(Standardised):
    """Normal given the p frames before, of (x - centre) / scale, see `units.Standardised`.

    W ~ Normal([I, 0 ... 0], mean_scale^2), about 0 if p = 0 (with mean I at each lag, a model of
    order p would expect x_t near p times x_t-1). Variances ~ InverseGamma by `variance_prior`, and
    p(C) ~ |C|^-(shape + 1) exp(-scale tr C^-1), an inverse Wishart law. Flat, which is maximum
    likelihood: mean_scale = inf, variance_prior = (-1, 0).

    covariance: "diag", "spherical" (all channels scaled by the largest of their ranges) or "full";
    tied: one C for all states; order: p.
    """

    mean_scale: Width = 1e4
    variance_prior: VariancePrior = WEAK
    covariance: Annotated[str, OneOf("diag", "spherical", "full")] = "diag"
    tied: Flag = False
    order: Annotated[int, Whole(0)] = 0
    centre: tuple[float, ...] | float | None = field(default=None, repr=False)
    scale: tuple[float, ...] | float | None = field(default=None, repr=False)
    priors = {"mean_scale": (1e4, 1.0, np.inf), "variance_prior": (WEAK, FLAT)}

    @property
    def misses_channels(self):
        return self.order == 0 and self.covariance != "full" and not self.tied

    @property
    def common_scale(self):
        return self.covariance == "spherical"

    @property
    def _is_isotropic(self):
        return self.tied and self.common_scale

    @cached_property
    def _places(self):
        """Row and column in P of each entry that has a parameter."""
        n = len(self.scale)
        return np.tril_indices(n) if self.covariance == "full" else (np.arange(n),) * 2

    @cached_property
    def _on(self):
        """Of each such entry, whether it is on the diagonal."""
        return np.equal(*self._places)

    @cached_property
    def _shared(self):
        """(entries, m) which of the m parameters an entry has: a spherical P has one for all."""
        n = len(self._on)
        return np.ones((n, 1)) if self.covariance == "spherical" else np.eye(n)

    @cached_property
    def _placed(self):
        """(m, R^2) the entries of P of each parameter."""
        n = len(self.scale)
        return self._shared.T @ np.eye(n * n)[np.ravel_multi_index(self._places, (n, n))]

    @cached_property
    def n_shared(self):
        return self._shared.shape[1] if self.tied and self.scale else 0

    @property
    def n_groups(self):
        return len(self.scale) if self._is_isotropic else 1  # the same for each row of W

    def state_size(self, n_channels: int):
        spread = 0 if self.tied else self._shared.shape[1]
        return n_channels * (self.order * n_channels + 1) + spread

    def _parts(self, rows):
        """P (K, R, R) and W (K, R, q)."""
        xp = numpy_of(rows)
        n = len(self.scale)
        m = self._shared.shape[1]
        spread = rows[:, :m]
        on = self._on[:m]
        values = xp.where(on, xp.exp(-spread * on), spread)
        P = xp.reshape(xp.dot(values, self._placed), (len(rows), n, n))
        return P, xp.reshape(rows[:, m:], (len(rows), n, -1))

    def _rows(self, P, weights):
        """Rows (K, e) of P (K, R, R), or of one for all, and W."""
        entries = P[:, *self._places]
        spread = np.where(self._on, -np.log(np.where(self._on, entries, 1.0)), entries)
        spread = spread[:, : self._shared.shape[1]]
        return np.hstack(
            [np.broadcast_to(spread, (len(weights), spread.shape[1])), in_rows(weights)]
        )

    def unpack(self, rows: np.ndarray, n_channels: int):
        xp = numpy_of(rows)
        centre, scale = self._units
        P, weights = self._parts(rows)
        P = P[:1] if self.tied else P
        try:
            root = xp.linalg.inv(P)
        except np.linalg.LinAlgError as error:
            raise NotFinite("a covariance at these params is infinite: they are far off") from error
        spread = xp.matmul(xp.swapaxes(root, 1, 2), root) * np.outer(scale, scale)
        if self.covariance != "full":
            diagonal = xp.diagonal(spread, axis1=-1, axis2=-2)
            spread = xp.sqrt(diagonal[:, : self._shared.shape[1]])
        spread = spread[0] if self.tied else spread
        lags = xp.reshape(weights[:, :, :-1], (len(rows), n_channels, self.order, n_channels))
        lags = xp.transpose(lags, (0, 2, 1, 3)) * (scale[:, None] / scale)
        level = scale * weights[:, :, -1] + centre - xp.sum(xp.dot(lags, centre), axis=1)
        if self.order:
            return AutoRegressionParams(spread[0] if self._is_isotropic else spread, lags, level)
        kind = CovarianceParams if self.covariance == "full" else GaussianParams
        return kind(level, spread)

    def pack(self, named: Any):
        centre, scale = self._units
        n = len(scale)
        if self.order:
            spread, lags, level = named
            level = level - centre + (lags @ centre).sum(axis=1)
            lags = (lags * (scale / scale[:, None])).transpose(0, 2, 1, 3).reshape(len(lags), n, -1)
        else:
            level, spread = named
            lags = np.zeros((len(level), n, 0))
            level = level - centre
        if self.covariance != "full":
            spread = np.reshape(spread, (-1, self._shared.shape[1])) ** 2
            spread = spread[:, :, None] * np.eye(n)
        spread = np.reshape(spread, (-1, n, n)) / np.outer(scale, scale)
        try:
            P = np.linalg.cholesky(np.linalg.inv(spread))
        except np.linalg.LinAlgError:
            told = f"covariance {np.linalg.cond(spread).argmax()} is singular, or an sd in it 0"
            raise ValueError(f"{told}: fit fewer states, or with a prior above 0") from None
        return self._rows(P, np.dstack([lags, level / scale]))

    def minus_log_prior(self, rows: Any):
        xp = numpy_of(rows)
        m = self._shared.shape[1]
        value, slopes = self.spread_prior(rows[..., :m], self._on[:m], self.tied)
        pull, by_weights = normal(rows[..., m:], self._prior_mean.ravel(), self.mean_scale**-2)
        return xp.sum(value + pull, axis=-1), xp.concatenate([slopes, by_weights], axis=-1)

    @cached_property
    def _prior_mean(self):
        """[I, 0 ... 0] (R, q)."""
        n = len(self.scale)
        return np.eye(n, self.order * n + 1) * (self.order > 0)

    def log_densities(self, rows: Any, frames: Frames):
        xp = numpy_of(rows)
        P, weights = self._parts(rows)
        logs = xp.log(xp.diagonal(P, axis1=-1, axis2=-2)) - np.log(self._units[1]) - 0.5 * LOG_2PI
        squares = []
        for factor, of_state in zip(P, weights, strict=True):
            gap = xp.dot(residual(of_state, frames), factor)
            squares.append(xp.einsum("nr,nr->n", gap, gap))
        return xp.dot(frames.seen, logs.T) - 0.5 * xp.stack(squares, axis=1)

    def score_factors(self, rows: np.ndarray, k: int, frames: Frames):
        P, weights = (part[0] for part in self._parts(rows[k : k + 1]))
        gap = residual(weights, frames)
        u = gap @ P
        i, j = self._places
        by_spread = self._by_spread(P, gap[:, i] * u[:, j], frames.seen[:, i])
        return [(by_spread, np.ones((len(u), 1))), (u @ P.T, frames.design)]

    def _by_spread(self, P, products, count):
        """Slopes by the parameters of P, of (x - W y) (x - W y)' P, and how often it is seen."""
        slopes = np.where(self._on, P[..., *self._places] * products - count, -products)
        return slopes @ self._shared

    def expected(self, rows: np.ndarray, frames: Frames, mass: np.ndarray):
        return Moments(self._parts(rows)[1], frames, mass)

    def slopes(self, rows: np.ndarray, expected: Any):
        P, weights = self._parts(rows)
        i, j = self._places
        squares, met = expected.squares, expected.met
        if np.iscomplexobj(rows):
            squares, met = expected.moved(weights - expected.weights)
        by_spread = self._by_spread(P, (squares @ P)[:, i, j], expected.count[:, i])
        by_weights = P @ P.swapaxes(1, 2) @ met
        return np.hstack([by_spread, by_weights.reshape(len(rows), -1)])

    def information(self, rows: np.ndarray, expected: Any):
        if not self._is_isotropic:
            return self.by_complex_step(rows, expected)
        unit = np.eye(1, rows.shape[1])
        across = -self.slopes(rows + 1j * STEP * unit, expected).imag / STEP
        return across[:, None], np.exp(-2.0 * rows[:, :1, None]) * expected.gram[:, 0]

    def maximise(self, rows: np.ndarray, expected: Any):
        """The M-step: W given C, then C given W (Meng and Rubin 1993)."""
        P, weights = self._parts(rows)
        n = weights.shape[1]
        covariance = np.linalg.inv(P @ P.swapaxes(1, 2))
        if self.covariance == "full":  # each axis of C on its own, then each channel
            spreads, axes = np.linalg.eigh(covariance)
        else:
            spreads, axes = np.diagonal(covariance, axis1=1, axis2=2), np.eye(n)[None]
            spreads = spreads[:, : self._shared.shape[1]]
        pull = self.mean_scale**-2 * spreads
        sums = expected.met + self.mean_scale**-2 * covariance @ (self._prior_mean - weights)
        gram = expected.gram + pull[:, :, None, None] * np.eye(weights.shape[2])
        groups = axes.swapaxes(1, 2) @ sums
        groups = groups.reshape(*gram.shape[:2], -1, gram.shape[-1])
        try:
            moves = np.linalg.solve(gram, groups.swapaxes(2, 3)).swapaxes(2, 3)
        except np.linalg.LinAlgError:
            raise NoFiniteOptimum(
                f"no data decide the {gram.shape[-1]} weights of a channel in some state: drop a "
                "channel that others add up to, lower order or n_states, or make mean_scale finite"
            ) from None
        weights = weights + axes @ moves.reshape(weights.shape)
        squares, _ = expected.about(weights)
        count = expected.count
        shape, scale = self.variance_prior
        unit = np.eye(n)
        if self.covariance == "spherical":
            squares = squares.trace(axis1=1, axis2=2)[:, None, None] * unit
            count = count.sum(axis=1, keepdims=True)
        elif self.covariance == "diag":
            squares = squares * unit
        if self.tied:
            squares, count = (part.sum(axis=0, keepdims=True) for part in (squares, count))
        spread = (squares + 2.0 * scale * unit) / (count[:, :, None] + 2.0 * (shape + 1.0))
        try:
            return self._rows(np.linalg.cholesky(np.linalg.inv(spread)), weights)
        except np.linalg.LinAlgError:
            remedy = "drop a channel that others add up to, or give variance_prior a scale above 0"
            raise NoFiniteOptimum(f"the covariance of a state is singular: {remedy}") from None


@declared
def AutoRegression(
    order: int = 1,
    mean_scale: Width = 1.0,
    variance_prior: tuple[float, float] = WEAK,
    **units: Any,
) -> Gaussian:
    """Eq. 17: of order p, with one variance for all channels and states; 0 has no lags.

    mean_scale: of the Normal([I, 0 ... 0, 0], mean_scale^2) prior of W; units: centre and scale.
    """
    return Gaussian(mean_scale, variance_prior, "spherical", tied=True, order=order, **units)
