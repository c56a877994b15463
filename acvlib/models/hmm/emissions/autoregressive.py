"""x_t | z_t = k ~ Normal(sum_m B_k^m x_t-m + b_k, sigma^2 I): Ghosh et al. (2020), Eq. 17.

Parameters: log sigma, then W_k = [B_k^1 ... B_k^p, b_k] (R, q), q = p R + 1, for each state, row by row.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import autograd.numpy as np
import numpy as onp
from scipy.linalg import solve

from .pairs import MANY, Pairs, row_products

NEGLIGIBLE = 1e-14  # a posterior that no M-step would show
LOG_2PI = onp.log(2 * onp.pi)


class AutoRegressionParams(NamedTuple):
    """sd: sigma; coefficients (K, p, R, R): B_k^m; intercept (K, R): b_k."""

    sd: float
    coefficients: onp.ndarray
    intercept: onp.ndarray


@dataclass(frozen=True)
class AutoRegression:
    """Order p of the autoregression, and its priors; p = 0 is a Gaussian with one variance for all.

    B^1_k ~ MatrixNormal(I, I, I) as in Eq. 17; the other lags' B^m_k have mean 0 (with mean I each, a model of
    order p would expect x_t near p times x_t-1) and b_k ~ Normal(0, I); all times coefficient_sd. sigma^2 ~
    InverseGamma(shape, scale) of `variance_prior`.
    """

    order: int = 1
    coefficient_sd: float = 1.0
    variance_prior: tuple = (1.0, 0.01)
    n_shared = 1

    def n_params(self, n_states, n_channels):
        return 1 + n_states * n_channels * (self.order * n_channels + 1)

    def state_params(self, n_states, n_channels):
        """Places of each state's parameters, (K, R, q): R equal blocks of the information matrix."""
        shape = n_states, n_channels, self.order * n_channels + 1
        return 1 + onp.arange(onp.prod(shape)).reshape(shape)

    def unpack(self, params, n_states, n_channels):
        """Named parameters."""
        w = params[1:].reshape(n_states, n_channels, -1)
        lags = w[:, :, :-1].reshape(n_states, n_channels, self.order, n_channels)
        return AutoRegressionParams(np.exp(params[0]), lags.transpose(0, 2, 1, 3), w[:, :, -1])

    def residuals(self, params, frames, n_states):
        """x_t minus its mean in each state, (M, K, R)."""
        w = np.reshape(params[1:], (n_states * frames.x.shape[1], -1))
        mean = np.dot(frames.design, w.T)
        return frames.x[:, None, :] - np.reshape(mean, (len(mean), n_states, -1))

    def log_densities(self, params, frames, n_states):
        """log p(x_t | z_t = k, lags), (M, K), zero where missing; differentiable."""
        squares = np.sum(self.residuals(params, frames, n_states) ** 2, axis=2)
        return _log_density(squares, params[0], frames)

    def prior_mean(self, n_states, n_channels):
        """(K, R, q): [I, 0 ... 0]."""
        return onp.tile(
            onp.eye(n_channels, self.order * n_channels + 1) * (self.order > 0), (n_states, 1, 1)
        )

    def minus_log_prior(self, params, n_states, n_channels):
        """Up to a constant; differentiable."""
        shape, scale = self.variance_prior
        gap = params[1:] - self.prior_mean(n_states, n_channels).ravel()
        variance = 2.0 * (shape + 1.0) * params[0] + scale * np.exp(-2.0 * params[0])
        return variance + 0.5 * np.sum(gap**2) / self.coefficient_sd**2

    def prior_derivatives(self, params, n_states, n_channels):
        """Gradient and diagonal Hessian of `minus_log_prior`, both (E,)."""
        shape, scale = self.variance_prior
        tail, precision = 2.0 * scale * onp.exp(-2.0 * params[0]), 1.0 / self.coefficient_sd**2
        gap = params[1:] - self.prior_mean(n_states, n_channels).ravel()
        gradient = onp.concatenate([[2.0 * (shape + 1.0) - tail], precision * gap])
        return gradient, onp.concatenate([[2.0 * tail], onp.full(gap.size, precision)])

    def at(self, params, frames, n_states):
        """Values and derivatives at these parameters."""
        return AutoRegressionPoint(self, params, frames, n_states)

    def start(self, frames, labels, n_states):
        """Parameters (E,) fitted to frames with known states."""
        params = onp.zeros(self.n_params(n_states, frames.x.shape[1]))
        params[0] = onp.log(frames.x[frames.observed].std() + 1e-3)
        for _ in range(3):
            params = self.maximise(
                params, frames, onp.eye(n_states)[labels] * frames.observed[:, None]
            )
        return params

    def maximise(self, params, frames, mass):
        """The M-step: W_k given sigma in closed form, then sigma given W (Meng and Rubin 1993)."""
        n_states, n_channels = mass.shape[1], frames.x.shape[1]
        mean, w, design = self.prior_mean(n_states, n_channels), [], frames.design
        ridge = onp.exp(2.0 * params[0]) / self.coefficient_sd**2
        for k in range(n_states):
            rows = onp.flatnonzero(mass[:, k] > NEGLIGIBLE)
            weighted = design[rows] * mass[rows, k, None]
            gram = weighted.T @ design[rows] + ridge * onp.eye(design.shape[1])
            w.append(solve(gram, weighted.T @ frames.x[rows] + ridge * mean[k].T, assume_a="pos").T)
        params = onp.concatenate([params[:1], onp.ravel(w)])
        squares = (self.residuals(params, frames, n_states) ** 2).sum(axis=2)
        shape, scale = self.variance_prior
        variance = ((mass * squares).sum() + 2.0 * scale) / (
            mass.sum() * n_channels + 2.0 * (shape + 1.0)
        )
        params[0] = 0.5 * onp.log(variance)
        return params


def _log_density(squares, log_sd, frames):
    n_channels = frames.x.shape[1]
    density = -0.5 * squares * np.exp(-2.0 * log_sd) - n_channels * (log_sd + 0.5 * LOG_2PI)
    return density * frames.observed[:, None]


class AutoRegressionPoint:
    """Log-densities (M, K) at some parameters, their weighted gradient, and their derivatives along directions."""

    def __init__(self, emission, params, frames, n_states):
        self.emission, self.params, self.frames, self.n_states = emission, params, frames, n_states
        self.residual = emission.residuals(params, frames, n_states)
        self.squares = onp.einsum("mkr,mkr->mk", self.residual, self.residual)
        self.log_density = _log_density(self.squares, params[0], frames)
        self.design, self.precision = frames.design, onp.exp(-2.0 * params[0])

    def gradient(self, mass):
        """sum_tk mass_tk d log p(x_t | k) / dparams, (E,); mass (M, K), 0 at missing frames."""
        weighted = mass[:, :, None] * self.residual
        w = weighted.reshape(len(mass), -1).T @ self.design
        sd = self.precision * (mass * self.squares).sum() - self.frames.x.shape[1] * mass.sum()
        return onp.concatenate([[sd], self.precision * w.ravel()])

    def linearise(self, pairs: Pairs):
        """The derivatives at active pairs."""
        return LinearAutoRegression(self, pairs)


class LinearAutoRegression:
    """Products with first and second derivatives of the log-densities of P active pairs; directions are rows."""

    directions_at_once = 128  # more would only need more memory

    def __init__(self, point, pairs):
        self.point, self.pairs, self.precision, self.n_states = (
            point,
            pairs,
            point.precision,
            point.n_states,
        )
        self.residual = point.residual[pairs.frame, pairs.state]
        self.by_sd = (
            point.precision * point.squares[pairs.frame, pairs.state] - self.n_channels
        ) * pairs.observed
        sums = [self._sums(rows, point.design[pairs.frame[rows]]) for _, rows in pairs.groups]
        self.grams, self.sums = zip(*sums, strict=True)

    @property
    def n_channels(self):
        return self.residual.shape[1]

    @cached_property
    def by_mean(self):
        """The scores by the means, times u, (P, R)."""
        return (self.precision * self.residual) * self.pairs.observed[:, None]

    @cached_property
    def design(self):
        """Each state's regressors where its pairs are contested, (n, q)."""
        return [
            self.point.design[self.pairs.frame[rows]] for _, rows in self.pairs.contested_groups
        ]

    def _sums(self, rows, design):
        """sum mass z z' (q, q) and sum mass e z' (R, q) over the pairs of one state, by sigma^2."""
        weighted = design * (self.precision * self.pairs.mass[rows])[:, None]
        return weighted.T @ design, self.residual[rows].T @ weighted

    def _split(self, directions):
        """W (B, K, R, q)."""
        return directions[:, 1:].reshape(len(directions), self.n_states, self.n_channels, -1)

    def _groups(self, of_each):
        """(state, its contested pairs, what belongs to them)."""
        return (
            (k, rows, own)
            for (k, rows), own in zip(self.pairs.contested_groups, of_each, strict=True)
        )

    @property
    def matrices(self):
        """Each state's scores (n, R q + 1), log sigma last; kept where they are rough, as those are used often."""
        return self._kept if self.pairs.rough else self._made()

    @cached_property
    def _kept(self):
        return list(self._made())

    def _made(self):
        return (self._matrix(rows, design) for _, rows, design in self._groups(self.design))

    def _matrix(self, rows, design):
        by_w = self.by_mean[rows, :, None] * design[:, None, :]
        return self.pairs.cast(onp.column_stack([by_w.reshape(len(rows), -1), self.by_sd[rows]]))

    def scores(self, directions):
        """d log p along each direction (B, E), times u: (P, B); 0 for pairs that are not contested."""
        n, out = len(directions), onp.zeros((len(self.by_sd), len(directions)))
        if n >= MANY:
            directions = self.pairs.cast(directions)
            w = self._split(directions)
            for k, rows, matrix in self._groups(self.matrices):
                out[rows] = matrix @ onp.column_stack([w[:, k].reshape(n, -1), directions[:, 0]]).T
            return out
        w = self._split(directions)
        for k, rows, design in self._groups(self.design):
            out[rows] = onp.outer(self.by_sd[rows], directions[:, 0])
            moved = design @ w[:, k].reshape(-1, design.shape[1]).T
            row_products(moved.reshape(len(rows), n, -1), self.by_mean[rows], out, rows)
        return out

    def adjoint(self, coefficients):
        """sum_p coefficients[p, b] u_p d log p over contested pairs, (B, E)."""
        n, r = coefficients.shape[1], self.n_channels
        out = onp.zeros((n, 1 + self.n_states * self.sums[0].size))
        w = self._split(out)
        if n >= MANY:
            coefficients = self.pairs.cast(coefficients)
            for k, rows, matrix in self._groups(self.matrices):
                own = coefficients[rows].T @ matrix
                w[:, k] = own[:, :-1].reshape(n, r, -1)
                out[:, 0] += own[:, -1]
            return out
        for k, rows, design in self._groups(self.design):
            spread = coefficients[rows, :, None] * self.by_mean[rows, None, :]
            w[:, k] = (spread.reshape(len(rows), -1).T @ design).reshape(n, r, -1)
            out[:, 0] += self.by_sd[rows] @ coefficients[rows]
        return out

    def curvature(self, directions):
        """Minus sum_p mass_p d2 log p times each direction, (B, E)."""
        out, sd = onp.empty(directions.shape), directions[:, 0]
        w, moved = self._split(out), self._split(directions)
        w[:] = 0.0
        out[:, 0] = 2.0 * sd * self.precision * (self.pairs.mass @ (self.residual**2).sum(axis=1))
        for (k, _), gram, total in zip(self.pairs.groups, self.grams, self.sums, strict=True):
            own = moved[:, k].reshape(-1, len(gram))
            w[:, k] = (own @ gram).reshape(len(out), *total.shape)
            out[:, 0] += 2.0 * (own.reshape(len(out), -1) @ total.ravel())
            if sd.any():
                w[:, k] += 2.0 * sd[:, None, None] * total
        return out

    def information(self):
        """(that of log sigma, and of one row of W_k: (K, q, q), zero where no pair is in state k)."""
        blocks = onp.zeros((self.n_states, *self.grams[0].shape))
        for (k, _), gram in zip(self.pairs.groups, self.grams, strict=True):
            blocks[k] = gram
        shared = 2.0 * self.precision * (self.pairs.mass @ (self.residual**2).sum(axis=1))
        return onp.array([[shared]]), blocks
