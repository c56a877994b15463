"""Derivatives of `PoissonTraffic` under scheme A, by `smoothing`, and of folds by `two_state`.

The series is touched by those kernels alone; params enter through tables over (count, day) classes.
The Hessian is its complete-data part and the gradient of how the posterior moves (Louis 1982).
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from joblib import delayed

from ...derivatives import Derivatives, at
from ...folds import Folds
from ...folds import weights as fold_weights
from ...inference.smoothing import UNLIKELY, passes
from ...inference.two_state import N_LANES, N_PARAMS, TO0, TO1, Chains, Smoothed, jit, smooth
from ...parallel import pieces, threads, track
from ...solvers.inverse import DenseFolds, DenseHessian, FoldSolver, Solvable
from ...weighting import check
from .emission import WIDTH, CompleteData, Emission

FURTHEST = 100.0  # log rates, log a and log b: beyond, F counts as inf, as its terms overflow


class TrafficDerivatives(Derivatives):
    """Values and derivatives of one model, for one weighting or for blocks of folds as lanes."""

    def __init__(self, model: Any):
        super().__init__(model)
        self._prior = model.prior
        self._last = None, None

    @cached_property
    def _classes(self):
        return self.model.classes

    @cached_property
    def _observed_totals(self):
        return self._totals(self.model.observed)

    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        within = _within(params)
        return self._with_prior(params, within, *self._likelihood(within, weights))

    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        return DenseHessian(self._second_order(params, weights)[0])

    def cross_matrix(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return self._second_order(params, weights)[1]

    def _second_order(self, params, weights):
        """(H, J), kept: both are asked for at one point."""
        _refuse_beyond(params)
        point = params.tobytes(), np.asarray(weights, float).tobytes()
        if point != self._last[0]:
            self._last = point, self._hessian_and_cross(params, weights)
        return self._last[1]

    def _likelihood(self, params, weights):
        """-log p(x) and its gradient."""
        data, _, smoothed = self._smooth(params, weights)
        gradient = data.gradient(smoothed.event, smoothed.statistics)
        return -smoothed.log_z[0] - data.log_scale[0], -gradient[:, 0]

    def _hessian_and_cross(self, params, weights):
        data, weights, smoothed = self._smooth(params, weights)
        quiet, event = data.emission.log_density[:, :, 0]
        tables = data.transition[:, :, 0], *data.emission.score_tables(), event - quiet
        cross, *moved = _tangents(self._classes.of_site, weights, *smoothed.messages, *tables)
        second = data.hessian(smoothed.event, smoothed.statistics)[..., 0]
        second += data.gradient(*moved, whole=0.0)[:, :N_PARAMS]
        cross[~self.model.observed] = 0.0
        return self._prior.hessian(params) - second, -cross[:, :N_PARAMS].T

    def _smooth(self, params, weights):
        """(complete data, weights of what is observed, `Smoothed`) of one weighting."""
        check(weights, self.n_sites)
        weights = weights * self.model.observed
        total = self._totals(weights)[:, None]
        data = CompleteData(
            Emission(self._classes, params[None]), params[None], total, self.n_sites
        )
        factor = np.ones((self.n_sites + 1, 2))  # the first: a site before the series
        table = np.ascontiguousarray(data.scaled[:, :, 0].T)
        np.take(table, self._classes.of_site, axis=0, out=factor[1:], mode="clip")  # the fast one
        factor[1:][weights == 0.0] = 1.0
        if not np.isin(weights, (0.0, 1.0)).all():
            factor[1:] **= weights[:, None]
        transition = data.transition[:, :, 0]
        ends = np.array([0, len(factor)])
        gamma, filtered, ahead, norm = passes(factor, ends, transition, data.start[:, 0])
        in_event = gamma[:, 1]
        moves = transition[0, 1] * (filtered[:-1, 0] @ ahead[1:, 1])
        statistics = np.array([in_event[0], in_event[-1], moves, in_event[:-1].sum()])
        event = self._totals(weights * in_event[1:])
        log_z = np.log(norm).sum(keepdims=True)
        smoothed = Smoothed(
            log_z, event[:, None], statistics[:, None], messages=(filtered[:-1], ahead[1:])
        )
        return data, weights, smoothed

    def _totals(self, weights):
        return np.bincount(self._classes.of_site, weights, len(self._classes))

    def _with_prior(self, params, within, value, gradient):
        """Of -log p(x) and its gradient at params `within`, those of F; inf at other params."""
        value = self._prior.negative_log_density(within) + value
        moved = np.any(within != params, axis=-1)
        return np.where(moved, np.inf, value)[()], self._prior.gradient(within) + gradient

    def fold_gradients(
        self, params: np.ndarray, folds: Folds, values: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """(F (n_folds,), dF/dparams (n_folds, 11)).

        F counts as inf, and no fit goes there, beyond `FURTHEST`, or where a stay logit is beyond
        `UNLIKELY`, as paths would underflow; its gradient is then that of the nearest point within.
        """
        within = _within(params)
        blocks = self._each_block(self._gradient_block, within, folds, "gradients")
        found, gradients = (np.concatenate(part) for part in zip(*blocks, strict=True))
        return self._with_prior(params, within, found, gradients)

    def fold_hessians(
        self, params: np.ndarray, folds: Folds, damping: float = 0.0, whole: Solvable | None = None
    ) -> FoldSolver:
        _refuse_beyond(params)
        blocks = self._each_block(self._hessian_block, params, folds, "Hessians")
        added = np.array([self._prior.hessian(point) for point in np.atleast_2d(params)])
        return DenseFolds(np.concatenate(blocks) + added + damping * np.eye(N_PARAMS))

    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray] | np.ndarray:
        _refuse_beyond(params)
        blocks = self._each_block(self._heldout_block, params, folds, "held-out losses")
        return folds.pick([losses for block in blocks for losses in block])

    def prior_gradients(self, params: np.ndarray) -> np.ndarray:
        return self._prior.gradient(params)

    def _each_block(self, function, params, folds, label):
        blocks = pieces(len(folds), N_LANES)
        every = folds.omitted
        jobs = (delayed(function)(at(params, b), every[b]) for b in track(blocks, label))
        return threads()(jobs)

    def _gradient_block(self, params, folds):
        data, chains, _ = self._block(params, folds)
        smoothed = smooth(chains)
        values = (-smoothed.log_z - data.log_scale)[: len(folds)]
        gradients = -data.gradient(smoothed.event, smoothed.statistics).T[: len(folds)]
        for n in np.flatnonzero(~np.isfinite(values)):  # a product of normalisers underflowed
            weights = fold_weights(self.n_sites, folds[n])
            values[n] = self._likelihood(at(params, n), weights)[0]
        return values, gradients

    def _hessian_block(self, params, folds):
        data, chains, _ = self._block(params, folds)
        smoothed = smooth(chains, (data.emission.ratio_score, data.emission.places))
        second = data.hessian(smoothed.event, smoothed.statistics) + smoothed.variance
        return -second.transpose(2, 0, 1)[: len(folds)]

    def _heldout_block(self, params, folds):
        data, chains, (sites, lane, ends) = self._block(params, folds)
        order = np.argsort(lane * self.n_sites + sites, kind="stable")
        losses = np.empty(len(sites))
        losses[order] = -np.log(smooth(chains, left_out=(sites[order], ends)).density)
        losses -= data.peak[chains.classes[sites], lane]
        return np.split(losses, ends[1 : len(folds)])

    def _block(self, params, folds):
        """(complete data, `Chains`, (left-out sites, their lanes, ends)) of up to 32 folds.

        Lanes without a fold leave nothing out, at the last fold's params.
        """
        folds.check_range(self.n_sites)
        sites, sizes = folds.sites, folds.sizes
        lane = np.repeat(np.arange(len(folds)), sizes)
        ends = np.zeros(N_LANES + 1, int)
        ends[1:] = np.bincount(lane, minlength=N_LANES).cumsum()
        of_site = self._classes.of_site
        keep = np.repeat(self.model.observed[:, None], N_LANES, axis=1)
        places = of_site[sites] * N_LANES + lane
        lost = np.bincount(places, keep[sites, lane], len(self._classes) * N_LANES)
        total = self._observed_totals[:, None] - lost.reshape(-1, N_LANES)
        keep[sites, lane] = False
        params = np.atleast_2d(params)
        params = params[np.minimum(np.arange(N_LANES), len(params) - 1)]
        data = CompleteData(Emission(self._classes, params), params, total, self.n_sites)
        chains = Chains(of_site, keep, data.scaled, data.transition)
        return data, chains, (sites, lane, ends)


def _within(params):
    """The nearest params at which F can be computed."""
    limits = np.repeat([FURTHEST, UNLIKELY], [TO0, N_PARAMS - TO0])
    return np.clip(params, -limits, limits)


def _refuse_beyond(params):
    if (params != _within(params)).any():
        raise ValueError(f"params are beyond log rates of {FURTHEST:g} or logits of {UNLIKELY:g}")


@jit
def _tangents(classes, weights, past, ahead, transition, quiet, ratio, contrast):
    """Derivatives in all parameters of what one weighting's `two_state.smooth` gives.

    d2 log Z / dw_t dparams (T, WIDTH), and the derivatives of `Smoothed.event` (n_classes, WIDTH)
    and of `Smoothed.statistics` (4, WIDTH); past and ahead (T, 2) are its `messages`.

    quiet and ratio (n_classes, WIDTH): gradients of log emission 0, and of the logarithm of the
    ratio of both emissions, whose values are contrast (n_classes,); transition (2, 2).
    Source: Louis (1982), by the tangents of the forward and of the backward log-odds.
    """
    stay0, leave0 = transition[0]
    leave1, stay1 = transition[1]
    cross = np.zeros((len(classes) + 1, WIDTH))  # first the tangent of the forward log-odds
    cross[0, TO0] = -stay0
    cross[0, TO1] = stay1
    for t in range(len(classes)):
        p0 = past[t, 0]
        p1 = past[t, 1]
        inverse = 1.0 / ((stay0 * p0 + leave1 * p1) * (leave0 * p0 + stay1 * p1))
        slope = (stay1 - leave0) * p0 * p1 * inverse
        for i in range(WIDTH):
            cross[t + 1, i] = slope * cross[t, i] + weights[t] * ratio[classes[t], i]
        cross[t + 1, TO0] -= p0 * stay0 * leave0 * inverse
        cross[t + 1, TO1] += p1 * stay1 * leave1 * inverse
    x = np.zeros(WIDTH)  # the tangent of the backward log-odds
    event = np.zeros_like(ratio)
    last, moves, in_event = np.zeros((3, WIDTH))
    for t in range(len(classes) - 1, -1, -1):
        c = classes[t]
        p0 = past[t, 0]
        p1 = past[t, 1]
        v0 = ahead[t, 0]
        v1 = ahead[t, 1]
        reach = leave0 * p0 + stay1 * p1
        gamma = reach * v1
        spread = gamma * (stay0 * p0 + leave1 * p1) * v0
        came = leave0 * p0 / reach  # P(z_t-1 = 0 | z_t = 1, past)
        turn = gamma * came * stay1 * p1 / reach
        enter = leave0 * v1 / (stay0 * v0 + leave0 * v1)
        remain = stay1 * v1 / (leave1 * v0 + stay1 * v1)
        for i in range(WIDTH):
            change = spread * (cross[t + 1, i] + x[i])  # of gamma
            cross[t + 1, i] = quiet[c, i] + gamma * ratio[c, i] + contrast[c] * change
            event[c, i] += weights[t] * change
            in_event[i] += change
            moves[i] += came * change - turn * cross[t, i]
            x[i] = (remain - enter) * (x[i] + weights[t] * ratio[c, i])
        if t == len(classes) - 1:
            last[:] = in_event
        moves[TO0] -= turn * stay0
        moves[TO1] -= turn * leave1
        x[TO0] += enter - leave0
        x[TO1] += remain - stay1
    p0, p1 = past[0]
    v0, v1 = ahead[0]
    first = p0 * (stay0 * v0 + leave0 * v1) * p1 * (leave1 * v0 + stay1 * v1) * (cross[0] + x)
    return cross[1:], event, np.stack((first, last, moves, in_event + first - last))
