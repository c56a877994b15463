"""x_t | z_t = k ~ Normal(B1_k tanh(B0_k y_t + b0_k) + b1_k, sigma^2 I), y_t the lags: Ghosh et al. (2020), Eq. 18.

Parameters: log sigma, then for each state [B0_k, b0_k] (H, p R + 1) and [B1_k, b1_k] (R, H + 1), row by row.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import autograd.numpy as np
import numpy as onp

from .autoregressive import _log_density
from .pairs import row_products


class NetworkParams(NamedTuple):
    """sd: sigma; inner (K, H, p R + 1): [B0, b0]; outer (K, R, H + 1): [B1, b1]."""

    sd: float
    inner: onp.ndarray
    outer: onp.ndarray


NEGLIGIBLE = 1e-25  # a posterior that no sum of scores would show


@dataclass(frozen=True)
class NeuralAutoRegression:
    """A network of one hidden layer for each state; every weight ~ Normal(0, weight_sd^2).

    sigma^2 ~ InverseGamma(shape, scale) of `variance_prior`.
    """

    order: int = 1
    n_hidden: int = 12
    weight_sd: float = 1.0
    variance_prior: tuple = (1.0, 0.01)
    n_shared = 1

    def layer_sizes(self, n_channels):
        """Numbers of weights in the inner and in the outer layer of a state."""
        return self.n_hidden * (self.order * n_channels + 1), n_channels * (self.n_hidden + 1)

    def n_params(self, n_states, n_channels):
        return 1 + n_states * sum(self.layer_sizes(n_channels))

    def state_params(self, n_states, n_channels):
        """Places of each state's parameters, (K, 1, d)."""
        return (1 + onp.arange(n_states * sum(self.layer_sizes(n_channels)))).reshape(
            n_states, 1, -1
        )

    def unpack(self, params, n_states, n_channels):
        """Named parameters."""
        return NetworkParams(np.exp(params[0]), *self.layers(params[None], n_states, n_channels, 0))

    def layers(self, params, n_states, n_channels, row=slice(None)):
        """(inner (B, K, H, p R + 1), outer (B, K, R, H + 1)) of rows of params (B, E); differentiable."""
        cut = self.layer_sizes(n_channels)[0]
        weights = np.reshape(params[:, 1:], (len(params), n_states, -1))
        inner = np.reshape(weights[:, :, :cut], (len(params), n_states, self.n_hidden, -1))
        return inner[row], np.reshape(weights[:, :, cut:], (len(params), n_states, n_channels, -1))[
            row
        ]

    def forward(self, params, frames, n_states):
        """(hidden (K, M, H + 1) with a last entry of 1, residual (K, M, R)) in each state; differentiable."""
        inner, outer = self.layers(np.reshape(params, (1, -1)), n_states, frames.x.shape[1], 0)
        ones, hidden, residual = onp.ones((len(frames.x), 1)), [], []
        for k in range(n_states):
            hidden.append(
                np.concatenate([np.tanh(np.dot(frames.design, inner[k].T)), ones], axis=1)
            )
            residual.append(frames.x - np.dot(hidden[k], outer[k].T))
        return hidden, residual

    def log_densities(self, params, frames, n_states):
        """log p(x_t | z_t = k, lags), (M, K), zero where missing; differentiable."""
        squares = np.array(
            [np.sum(r**2, axis=1) for r in self.forward(params, frames, n_states)[1]]
        ).T
        return _log_density(squares, params[0], frames)

    def minus_log_prior(self, params, n_states, n_channels):
        """Up to a constant; differentiable."""
        shape, scale = self.variance_prior
        variance = 2.0 * (shape + 1.0) * params[0] + scale * np.exp(-2.0 * params[0])
        return variance + 0.5 * np.sum(params[1:] ** 2) / self.weight_sd**2

    def prior_derivatives(self, params, n_states, n_channels):
        """Gradient and diagonal Hessian of `minus_log_prior`, both (E,)."""
        shape, scale = self.variance_prior
        tail, precision = 2.0 * scale * onp.exp(-2.0 * params[0]), self.weight_sd**-2.0
        gradient = onp.concatenate([[2.0 * (shape + 1.0) - tail], precision * params[1:]])
        return gradient, onp.concatenate([[2.0 * tail], onp.full(len(params) - 1, precision)])

    def at(self, params, frames, n_states):
        """Values and derivatives at these parameters."""
        return NeuralPoint(self, params, frames, n_states)

    def start(self, frames, labels, n_states, rng=None):
        """A small random inner layer, and the ridge regression of each state's frames on it; params (E,)."""
        rng, n_channels = rng or onp.random.default_rng(0), frames.x.shape[1]
        scale = 0.3 / (frames.design[:, :-1].std() * onp.sqrt(frames.design.shape[1]))
        params = onp.zeros(self.n_params(n_states, n_channels))
        inner, outer = self.layers(params[None], n_states, n_channels, 0)
        inner[...] = rng.normal(0.0, scale, inner.shape)
        hidden, _ = self.forward(
            onp.concatenate([[0.0], self._join(inner, outer)]), frames, n_states
        )
        squares = 0.0
        for k in range(n_states):
            rows = onp.flatnonzero((labels == k) & frames.observed)
            h = hidden[k][rows]
            outer[k] = onp.linalg.solve(
                h.T @ h + 0.01 * onp.eye(h.shape[1]), h.T @ frames.x[rows]
            ).T
            squares += ((frames.x[rows] - h @ outer[k].T) ** 2).sum()
        out = onp.concatenate([[0.0], self._join(inner, outer)])
        out[0] = 0.5 * onp.log(squares / (frames.observed.sum() * n_channels) + 1e-4)
        return out

    def _join(self, inner, outer):
        return onp.concatenate(
            [inner.reshape(len(inner), -1), outer.reshape(len(outer), -1)], axis=1
        ).ravel()


class NeuralPoint:
    """Log-densities (M, K) at some parameters, their weighted gradient, and their derivatives along directions."""

    def __init__(self, emission, params, frames, n_states):
        self.emission, self.frames, self.n_states = emission, frames, n_states
        self.hidden, self.residual = emission.forward(params, frames, n_states)
        self.squares = onp.array([onp.einsum("mr,mr->m", r, r) for r in self.residual]).T
        self.log_density = _log_density(self.squares, params[0], frames)
        self.precision = onp.exp(-2.0 * params[0])
        self.outer = emission.layers(params[None], n_states, frames.x.shape[1], 0)[1]

    def gradient(self, mass):
        """sum_tk mass_tk d log p(x_t | k) / dparams, (E,)."""
        parts = []
        for k in range(self.n_states):
            rows = onp.flatnonzero(mass[:, k] > NEGLIGIBLE)
            hidden, e = self.hidden[k][rows], mass[rows, k, None] * self.residual[k][rows]
            back = (e @ self.outer[k][:, :-1]) * (1.0 - hidden[:, :-1] ** 2)
            parts += [(back.T @ self.frames.design[rows]).ravel(), (e.T @ hidden).ravel()]
        by_sd = self.precision * (mass * self.squares).sum() - self.frames.x.shape[1] * mass.sum()
        return onp.concatenate([[by_sd], self.precision * onp.concatenate(parts)])

    def linearise(self, pairs):
        """The derivatives at active pairs."""
        return LinearNeural(self, pairs)


class LinearNeural:
    """Products with first and second derivatives of the log-densities of P active pairs; directions are rows.

    For each state: y (n, p R + 1) the inputs, h (n, H + 1) the hidden layer, e (n, R) the residual, g = 1 - h^2 the
    slope of tanh, d = (B1' e) g the residual carried back.
    """

    directions_at_once = 32  # each takes several arrays (n, R)

    def __init__(self, point, pairs):
        self.point, self.pairs = point, pairs
        self.emission, self.precision = point.emission, point.precision
        self.n_states, self.n_channels = point.n_states, point.frames.x.shape[1]
        self.outer = point.outer[:, :, :-1]
        self.y = [point.frames.design[pairs.frame[rows]] for _, rows in pairs.groups]
        self.h = [point.hidden[k][pairs.frame[rows]] for k, rows in pairs.groups]
        self.e = [point.residual[k][pairs.frame[rows]] for k, rows in pairs.groups]
        self.g = [1.0 - h[:, :-1] ** 2 for h in self.h]
        back = [e @ self.outer[k] for (k, _), e in zip(pairs.groups, self.e, strict=True)]
        self.back, self.d = back, [b * g for b, g in zip(back, self.g, strict=True)]
        self.by_sd = (
            point.precision * point.squares[pairs.frame, pairs.state] - self.n_channels
        ) * pairs.observed

    @cached_property
    def scored(self):
        """(k, its contested pairs, what `_score_parts` makes of them)."""
        return [(k, rows, *self._score_parts(k, rows)) for k, rows in self.pairs.contested_groups]

    def _score_parts(self, k, rows):
        """y, h, and the scores' other factors: u d / sigma^2, u e / sigma^2."""
        point, at = self.point, self.pairs.frame[rows]
        scale = self.precision * self.pairs.observed[rows, None]
        h, e = point.hidden[k][at], scale * point.residual[k][at]
        return point.frames.design[at], h, (e @ self.outer[k]) * (1.0 - h[:, :-1] ** 2), e

    def _layers(self, directions):
        return self.emission.layers(directions, self.n_states, self.n_channels)

    def _states(self):
        """(k, rows, y, h, e, g, back, d) of each state that has pairs."""
        parts = zip(
            self.pairs.groups, self.y, self.h, self.e, self.g, self.back, self.d, strict=True
        )
        return ((*group, *rest) for group, *rest in parts)

    def scores(self, directions):
        """d log p along each direction (B, E), times u: (P, B); 0 for pairs that are not contested."""
        inner, outer = self._layers(directions)
        out = onp.zeros((len(self.by_sd), len(directions)))
        for k, rows, y, h, by_hidden, by_mean in self.scored:
            out[rows] = onp.outer(self.by_sd[rows], directions[:, 0])
            row_products(_through(y, inner[:, k]), by_hidden, out, rows)
            row_products(_through(h, outer[:, k]), by_mean, out, rows)
        return out

    def adjoint(self, coefficients):
        """sum_p coefficients[p, b] u_p d log p over contested pairs, (B, E)."""
        out = onp.zeros(
            (coefficients.shape[1], self.emission.n_params(self.n_states, self.n_channels))
        )
        for k, rows, y, h, by_hidden, by_mean in self.scored:
            c = coefficients[rows]
            signals = (c[:, :, None] * factor[:, None, :] for factor in (by_hidden, by_mean))
            self._put(
                out,
                k,
                *(_back_through(s, inputs) for s, inputs in zip(signals, (y, h), strict=True)),
            )
            out[:, 0] += self.by_sd[rows] @ c
        return out

    def curvature(self, directions):
        """Minus sum_p mass_p d2 log p times each direction, (B, E): the gradient's derivative, layer by layer."""
        out, sd = onp.zeros(directions.shape), directions[:, 0]
        inner, outer = self._layers(directions)
        for k, rows, y, h, e, g, back, d in self._states():
            mass = self.precision * self.pairs.mass[rows, None]
            weighted, g = mass * e, g[:, None, :]
            dh = _through(y, inner[:, k]) * g
            de = -_through(h, outer[:, k]) - _times(dh, self.outer[k].T)
            dd = (_through(e, outer[:, k, :, :-1].swapaxes(1, 2)) + _times(de, self.outer[k])) * g
            dd -= 2.0 * (back * h[:, :-1])[:, None, :] * dh
            shrink, mass = 2.0 * sd[:, None], mass[:, :, None]
            by_inner = _back_through(mass * (shrink * d[:, None, :] - dd), y)
            by_outer = _back_through(mass * (shrink * e[:, None, :] - de), h)
            by_outer[:, :, :-1] -= _back_through(dh, weighted).swapaxes(1, 2)
            self._put(out, k, by_inner, by_outer)
            out[:, 0] += 2.0 * (sd * (weighted * e).sum() - onp.einsum("nbr,nr->b", de, weighted))
        return out

    def _put(self, out, k, by_inner, by_outer):
        n, size = len(out), sum(self.emission.layer_sizes(self.n_channels))
        both = by_inner.reshape(n, -1), by_outer.reshape(n, -1)
        out[:, 1 + k * size : 1 + (k + 1) * size] = onp.concatenate(both, axis=1)

    def information(self):
        """(that of log sigma, and Gauss-Newton's of each state's weights, (K, d, d))."""
        size = sum(self.emission.layer_sizes(self.n_channels))
        blocks, squares = onp.zeros((self.n_states, size, size)), 0.0
        for k, rows, y, h, e, g, _, _ in self._states():
            mass = self.precision * self.pairs.mass[rows]
            self._gauss_newton(k, onp.sqrt(mass)[:, None], y, h, g, blocks[k])
            squares += mass @ (e**2).sum(axis=1)
        return onp.array([[2.0 * squares]]), blocks

    def _gauss_newton(self, k, root, y, h, g, out):
        """sum_n m_n D_n' D_n into out; D_n (R, d) = [B1 diag(g) (x) y, I (x) h], the derivative of the mean of frame n.

        root (n, 1): of m.
        """
        outer, (n_outer, n_inner), n_inputs = self.outer[k], self.outer[k].shape, y.shape[1]
        slope = (g[:, :, None] * (root * y)[:, None, :]).reshape(len(y), -1)
        cut, h = slope.shape[1], root * h
        gram = (slope.T @ slope).reshape(n_inner, n_inputs, n_inner, n_inputs)
        gram *= (outer.T @ outer)[:, None, :, None]
        cross = (slope.T @ h).reshape(n_inner, n_inputs, 1, -1) * outer.T[:, None, :, None]
        out[:cut, :cut], out[:cut, cut:] = gram.reshape(cut, cut), cross.reshape(cut, -1)
        out[cut:, :cut] = out[:cut, cut:].T
        own = out[cut:, cut:].reshape(n_outer, n_inner + 1, n_outer, n_inner + 1)
        onp.einsum("rarb->rab", own)[...] = h.T @ h


def _through(inputs, weights):
    """inputs (n, i) through weights (B, o, i): (n, B, o)."""
    return (inputs @ weights.reshape(-1, inputs.shape[1]).T).reshape(
        len(inputs), *weights.shape[:2]
    )


def _back_through(signals, inputs):
    """sum_n signals[n, b, o] inputs[n, i], (B, o, i)."""
    flat = signals.reshape(len(signals), -1).T @ inputs
    return flat.reshape(*signals.shape[1:], -1)


def _times(signals, matrix):
    """signals (n, B, o) @ matrix (o, i), as one product."""
    return (signals.reshape(-1, len(matrix)) @ matrix).reshape(*signals.shape[:2], -1)
