"""x_t | z_t = k ~ Normal(W_k y_t, C_k), y_t the p frames before and a 1: W_k is a mean if p = 0.

With C^-1 = P P', P lower triangular, log p = log |P| - |P'(x - W y)|^2 / 2. A row has P by rows,
-log P_ii in place of P_ii, then W by rows; a diagonal C has its log sds, a spherical one the one
that all channels have. All is of (x - centre) / scale.

Source: Ghosh et al. (2020), Eq. 17, which is `AutoRegression`.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.linalg import solve_sylvester

from ....checks import check_choice
from .base import alone, in_rows
from .moments import Moments, residual
from .priors import normal
from .units import Standardised, checked_width

LOG_2PI = np.log(2.0 * np.pi)
SHAPES = ("diag", "spherical", "full")


class GaussianParams(NamedTuple):
    """mean (K, R), sd (K, R), or (K, 1) if spherical; without K where tied."""

    mean: np.ndarray
    sd: np.ndarray


class CovarianceParams(NamedTuple):
    """mean (K, R), covariance (K, R, R), or (R, R) if tied."""

    mean: np.ndarray
    covariance: np.ndarray


class AutoRegressionParams(NamedTuple):
    """sd, one number if all have one, or a covariance; coefficients (K, p, R, R): B_k^m;

    intercept (K, R): b_k.
    """

    sd: Any
    coefficients: np.ndarray
    intercept: np.ndarray


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

    mean_scale: float = 100.0
    variance_prior: tuple[float, float] = (1.0, 0.01)
    covariance: str = "diag"
    tied: bool = False
    order: int = 0
    centre: tuple[float, ...] | float | None = field(default=None, repr=False)
    scale: tuple[float, ...] | float | None = field(default=None, repr=False)

    def __post_init__(self):
        check_choice("covariance", self.covariance, SHAPES)
        self.settle("mean_scale", order=0)

    @property
    def misses_channels(self):
        return self.order == 0 and self.covariance != "full" and not self.tied

    @property
    def common_scale(self):
        return self.covariance == "spherical"

    @property
    def _is_isotropic(self):
        return self.tied and self.common_scale

    @property
    def _n(self):
        return len(self.scale)

    @property
    def _on_diagonal(self):
        """Of each parameter of P, whether it is on the diagonal."""
        if self.covariance == "full":
            return np.equal(*np.tril_indices(self._n))
        return np.ones(self._n if self.covariance == "diag" else 1, bool)

    @property
    def n_shared(self):
        return len(self._on_diagonal) if self.tied and self.scale else 0

    def state_shape(self, n_channels):
        q = self.order * n_channels + 1
        if self._is_isotropic:
            return n_channels, q  # the same for each row of W
        return 1, n_channels * q + (0 if self.tied else len(self._on_diagonal))

    def _parts(self, rows):
        """P (K, R, R), or its diagonal (K, R), and W (K, R, q); of boxed or complex rows too."""
        on, n = self._on_diagonal, self._n
        spread = rows[:, : len(on)]
        weights = anp.reshape(rows[:, len(on) :], (len(rows), n, -1))
        if self.covariance != "full":
            return anp.exp(-spread) * np.ones(n), weights
        values = anp.where(on, anp.exp(-spread * on), spread)
        places = np.eye(n * n)[np.ravel_multi_index(np.tril_indices(n), (n, n))]
        return anp.reshape(anp.dot(values, places), (len(rows), n, n)), weights

    def _rows(self, P, weights):
        """Rows (K, e) of P (K, R, R) or (K, R), or of one for all, and W."""
        k, on = len(weights), self._on_diagonal
        entries = P[:, *np.tril_indices(self._n)] if self.covariance == "full" else P[:, : len(on)]
        spread = np.where(on, -np.log(np.where(on, entries, 1.0)), entries)
        return np.hstack([np.broadcast_to(spread, (k, len(on))), weights.reshape(k, -1)])

    def unpack(self, rows, n_channels):
        centre, scale = np.array([self.centre, self.scale])
        P, weights = self._parts(rows)
        P = P[:1] if self.tied else P
        if self.covariance == "full":
            inverse = anp.linalg.inv(P)
            spread = anp.matmul(anp.transpose(inverse, (0, 2, 1)), inverse)
            spread = spread * np.outer(scale, scale)
        else:
            spread = (scale / P)[:, : len(self._on_diagonal)]
        spread = spread[0] if self.tied else spread
        lags = anp.reshape(weights[:, :, :-1], (len(rows), n_channels, self.order, n_channels))
        lags = anp.transpose(lags, (0, 2, 1, 3)) * (scale[:, None] / scale)
        level = scale * weights[:, :, -1] + centre - anp.sum(anp.dot(lags, centre), axis=1)
        if self.order:
            return AutoRegressionParams(spread[0] if self._is_isotropic else spread, lags, level)
        kind = CovarianceParams if self.covariance == "full" else GaussianParams
        return kind(level, spread)

    def pack(self, named):
        scale, n, p = np.array(self.scale), self._n, self.order
        lags = named.coefficients if p else np.zeros((len(named.mean), 0, n, n))
        level = named.intercept if p else named.mean
        level = level - self.centre + (lags @ np.array(self.centre)).sum(axis=1)
        lags = (lags / (scale[:, None] / scale)).transpose(0, 2, 1, 3).reshape(len(lags), n, p * n)
        weights = np.dstack([lags, level / scale])
        if self.covariance != "full":
            width = len(self._on_diagonal)
            return self._rows(scale[:width] / np.reshape(named.sd, (-1, width)), weights)
        covariance = named.sd if p else named.covariance
        covariance = np.reshape(covariance, (-1, n, n)) / np.outer(scale, scale)
        return self._rows(np.linalg.cholesky(np.linalg.inv(covariance)), weights)

    def minus_log_prior(self, rows):
        shape, scale = self.variance_prior
        on = self._on_diagonal
        spread = rows[..., : len(on)]
        tail = scale * anp.where(on, anp.exp(-2.0 * spread * on), spread**2)
        value = anp.sum(2.0 * (shape + 1.0) * on * spread + tail, axis=-1)
        slopes = 2.0 * anp.where(on, shape + 1.0 - tail, scale * spread)
        if self.tied:  # once, not for each state
            first = np.arange(rows.shape[-2]) == 0
            value = value * first
            slopes = slopes * first[:, None]
        mean = self._prior_mean.ravel()
        pull, by_weights = normal(rows[..., len(on) :], mean, self.mean_scale**-2)
        total = anp.sum(value + pull, axis=-1)
        return total, anp.concatenate([slopes, by_weights], axis=-1)

    @property
    def _prior_mean(self):
        """[I, 0 ... 0] (R, q)."""
        shape = self._n, self.order * self._n + 1
        return np.eye(*shape) if self.order else np.zeros(shape)

    def log_densities(self, rows, frames):
        P, weights = self._parts(rows)
        is_full = self.covariance == "full"
        diagonal = anp.diagonal(P, axis1=-1, axis2=-2) if is_full else P
        logs = anp.log(diagonal) - np.log(self.scale) - 0.5 * LOG_2PI
        squares = []
        for factor, own in zip(P, weights, strict=True):
            gap = residual(own, frames, self.order > 0)
            if is_full:
                gap = gap @ factor
            else:
                gap *= factor
            squares.append(anp.einsum("nr,nr->n", gap, gap))
        return frames.seen @ logs.T - 0.5 * anp.stack(squares, axis=1)

    def score_factors(self, rows, k, frames):
        P, weights = (part[0] for part in self._parts(rows[k : k + 1]))
        gap = residual(weights, frames, self.order > 0)
        if self.covariance == "full":
            u = gap @ P
            i, j = np.tril_indices(len(P))
            by_spread = -gap[:, i] * u[:, j] * np.where(i == j, -P[i, j], 1.0) - (i == j)
            signal = u @ P.T
        else:
            by_spread = (gap * P) ** 2 - frames.seen
            if self.covariance == "spherical":
                by_spread = by_spread.sum(axis=1, keepdims=True)
            signal = gap * P**2
        by_weights = [(signal, frames.design)] if self.order else alone(signal)
        return alone(by_spread) + by_weights

    def expected(self, rows, frames, mass):
        _, weights = self._parts(rows)
        return Moments(weights, frames, mass, self.order > 0, self.covariance == "full")

    def slopes(self, rows, expected):
        P, weights = self._parts(rows)
        squares, met = expected.about(weights)
        if self.covariance == "full":
            i, j = np.tril_indices(self._n)
            slope = np.where(i == j, -P[:, i, j], 1.0)
            by_spread = -(squares @ P)[:, i, j] * slope - (i == j) * expected.count
            by_weights = P @ P.swapaxes(1, 2) @ met
        else:
            by_spread = P**2 * squares - expected.count
            if self.covariance == "spherical":
                by_spread = by_spread.sum(axis=1, keepdims=True)
            by_weights = P[:, :, None] ** 2 * met
        return np.hstack([by_spread, in_rows(by_weights)])

    def information(self, rows, expected, prior):
        if not self._is_isotropic:
            return super().information(rows, expected, prior)
        own = np.exp(-2.0 * rows[:, :1, None]) * expected.gram[:, 0]
        own = own + prior * self.mean_scale**-2 * np.eye(own.shape[1])
        return self.curvature(rows, expected, prior, 1), own

    def maximise(self, rows, expected):
        """The M-step: W given C, then C given W (Meng and Rubin 1993)."""
        P, weights = self._parts(rows)
        precision = self.mean_scale**-2
        away = self._prior_mean - weights
        if self.covariance == "full":
            pull = precision * np.linalg.inv(P @ P.swapaxes(1, 2))
            sums = expected.met + pull @ away
            gram = expected.gram[:, 0]
            moves = [solve_sylvester(*each) for each in zip(pull, gram, sums, strict=True)]
        else:
            pull = precision / P[:, : len(self._on_diagonal)] ** 2
            gram = expected.gram + pull[:, :, None, None] * np.eye(expected.gram.shape[-1])
            sums = expected.met + pull[:, :, None] * away
            groups = sums.reshape(*gram.shape[:2], -1, gram.shape[-1])
            moves = np.linalg.solve(gram, groups.swapaxes(2, 3)).swapaxes(2, 3)
        weights = weights + np.reshape(moves, weights.shape)
        squares, _ = expected.summed(weights)
        return self._rows(self._likeliest(squares, expected.count), weights)

    def _likeliest(self, squares, count):
        """P of the C with the highest posterior density, given sums of squares and counts (K, .)"""
        shape, scale = self.variance_prior
        if self.covariance == "spherical":
            count = np.broadcast_to(count, squares.shape)
            squares, count = (part.sum(axis=1, keepdims=True) for part in (squares, count))
        if self.tied:
            squares, count = (part.sum(axis=0, keepdims=True) for part in (squares, count))
        if self.covariance != "full":
            return ((squares + 2.0 * scale) / (count + 2.0 * (shape + 1.0))) ** -0.5
        spread = squares + 2.0 * scale * np.eye(self._n)
        spread = spread / (count[:, :, None] + 2.0 * (shape + 1.0))
        return np.linalg.cholesky(np.linalg.inv(spread))

    def mean(self, rows, k, frames):
        weights = self._parts(rows[k : k + 1])[1][0]
        scaled = weights[:, 0][None] if self.order == 0 else frames.design @ weights.T
        return np.array(self.centre) + scaled * self.scale

    def draw(self, rows, k, frames, rng):
        P = self._parts(rows[k : k + 1])[0][0]
        noise = rng.normal(size=frames.x.shape)
        noise = noise @ np.linalg.inv(P) if P.ndim == 2 else noise / P
        return self.mean(rows, k, frames) + noise * self.scale


def AutoRegression(
    order: int = 1,
    coefficient_sd: float = 1.0,
    variance_prior: tuple[float, float] = (1.0, 0.01),
    **units: Any,
) -> Gaussian:
    """Eq. 17: of order p, with one variance for all channels and states; 0 has no lags.

    coefficient_sd: of the Normal([I, 0 ... 0, 0], coefficient_sd^2) prior of W; units: centre and
    scale.
    """
    width = checked_width("coefficient_sd", coefficient_sd)
    return Gaussian(width, variance_prior, "spherical", tied=True, order=order, **units)
