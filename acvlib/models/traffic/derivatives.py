"""Derivatives of `PoissonTraffic` under scheme A, by `smoothing`, and of folds by `two_state`.

The series is touched by those kernels alone; params enter through tables over (count, day) classes.
The Hessian is its complete-data part and the gradient of how the posterior moves (Louis 1982).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from joblib import delayed

from ...derivatives import Derivatives, at
from ...folds import Folds
from ...folds import weights as fold_weights
from ...inference.smoothing import UNLIKELY, passes
from ...inference.two_state import N_LANES, N_PARAMS, TO0, TO1, Chains, jit, smooth
from ...parallel import threads, track
from ...solvers.inverse import DenseFolds, DenseHessian, FoldSolver, Solvable
from ...weighting import check
from .emission import WIDTH, CompleteData

FURTHEST = 100.0  # log rates, log a and log b: beyond, F counts as inf, as its terms overflow


class TrafficDerivatives(Derivatives):
    """Values and derivatives of one model, for one weighting or for blocks of folds as lanes.

    F counts as inf, and no fit goes there, beyond `FURTHEST`, or where a stay logit is beyond
    `UNLIKELY`, as paths would underflow; its gradient is then that of the nearest point within.
    """

    _last: Any = (None, None)

    def value_and_gradient(self, params: np.ndarray, weights: np.ndarray):
        return self._with_prior(params, self._likelihood, weights)

    def _with_prior(self, params, likelihood, where):
        """F and its gradient; likelihood(params, where) are those of -log p(x)."""
        within = _within(params)
        value, gradient = likelihood(within, where)
        prior = self.model.prior
        beyond = np.any(within != params, axis=-1)
        value = np.where(beyond, np.inf, prior.negative_log_density(within) + value)
        return value[()], prior.gradient(within) + gradient

    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        return DenseHessian(self._second_order(params, weights)[0])

    def cross_matrix(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return self._second_order(params, weights)[1]

    def _second_order(self, params, weights):
        """(H, J), kept: both are asked for at one point."""
        _refuse_beyond(params)
        point = params.tobytes(), np.asarray(weights, float).tobytes()
        if point == self._last[0]:
            return self._last[1]
        data, expected, _, messages = self._smooth(params, weights)
        observed = self.model.observed
        quiet, event = data.log_density[:, :, 0]
        tables = data.transition[:, :, 0], *data.score_tables(), event - quiet
        of_site = self.model.classes.of_site
        cross, *moved = _tangents(of_site, weights * observed, *messages, *tables)
        second = data.hessian(*expected)[..., 0]
        second += data.gradient(0.0, *moved, whole=0.0)[:, :N_PARAMS]
        cross[~observed] = 0.0
        answer = self.model.prior.hessian(params) - second, -cross[:, :N_PARAMS].T
        self._last = point, answer
        return answer

    def _likelihood(self, params, weights):
        """-log p(x) and its gradient."""
        data, expected, log_z, _ = self._smooth(params, weights)
        return -log_z - (expected[0] * data.peak).sum(), -data.gradient(*expected)[:, 0]

    def _smooth(self, params, weights):
        """(complete data, what is expected, log Z, messages) of one weighting.

        messages: P(z_t-1 | past), P(x_t.. | z_t) / P(x_t.. | past), each (T, 2).
        """
        check(weights, self.n_sites)
        weights = weights * self.model.observed
        classes = self.model.classes
        data = CompleteData(classes, params[None])
        table = np.ascontiguousarray(data.scaled[:, :, 0].T)
        factor = np.ones((self.n_sites + 1, 2))  # the first: a site before the series
        np.take(table, classes.of_site, axis=0, out=factor[1:], mode="clip")  # the fast one
        part = np.flatnonzero(weights != 1.0)
        factor[1 + part] **= weights[part, None]
        transition = data.transition[:, :, 0]
        ends = np.array([0, len(factor)])
        gamma, filtered, ahead, norm = passes(factor, ends, transition, data.start[:, 0])
        in_event = gamma[:, 1]
        moves = transition[0, 1] * (filtered[:-1, 0] @ ahead[1:, 1])
        statistics = np.array([in_event[0], in_event[-1], moves, in_event[:-1].sum()])
        sums = [classes.sums(weights), classes.sums(weights * in_event[1:]), statistics]
        expected = [each[:, None] for each in sums]
        return data, expected, np.log(norm).sum(), (filtered[:-1], ahead[1:])

    def fold_gradients(
        self, params: np.ndarray, folds: Folds, values: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        return self._with_prior(params, self._fold_likelihoods, folds)

    def _fold_likelihoods(self, params, folds):
        def of_block(data, total, chains, rows):
            smoothed = smooth(chains)
            values = -smoothed.log_z - (total * data.peak).sum(axis=0)
            for n in np.flatnonzero(~np.isfinite(values)):  # a product of normalisers underflowed
                weights = fold_weights(self.n_sites, folds.omitted[rows[n]])
                values[n] = self._likelihood(at(params, rows[n]), weights)[0]
            return values, -data.gradient(total, smoothed.event, smoothed.statistics).T

        blocks = self._each_block(of_block, params, folds, "gradients")
        values, gradients = map(np.concatenate, zip(*blocks, strict=True))
        return values[: len(folds)], gradients[: len(folds)]

    def fold_hessians(
        self, params: np.ndarray, folds: Folds, damping: float = 0.0, whole: Solvable | None = None
    ) -> FoldSolver:
        _refuse_beyond(params)

        def of_block(data, total, chains, rows):
            smoothed = smooth(chains, (data.ratio_score, data.places))
            second = data.hessian(total, smoothed.event, smoothed.statistics) + smoothed.variance
            return -second.transpose(2, 0, 1)

        found = np.concatenate(self._each_block(of_block, params, folds, "Hessians"))
        added = np.array([self.model.prior.hessian(point) for point in np.atleast_2d(params)])
        return DenseFolds(found[: len(folds)] + added + damping * np.eye(N_PARAMS))

    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray] | np.ndarray:
        _refuse_beyond(params)

        def of_block(data, total, chains, rows):
            sites, lane, ends = _by_lane(folds.omitted[rows])
            order = np.argsort(lane * self.n_sites + sites, kind="stable")
            losses = np.empty(len(sites))
            losses[order] = -np.log(smooth(chains, left_out=(sites[order], ends)).density)
            losses -= data.peak[chains.classes[sites], lane]
            return np.split(losses, ends[1:-1])

        blocks = self._each_block(of_block, params, folds, "held-out losses")
        return folds.pick([losses for block in blocks for losses in block][: len(folds)])

    def prior_gradients(self, params: np.ndarray) -> np.ndarray:
        return self.model.prior.gradient(params)

    def _each_block(self, function: Callable, params: np.ndarray, folds: Folds, label: str) -> list:
        """[function(complete data, total, `Chains`, rows)] of 32 folds; the last one repeats."""
        every = folds.omitted
        every.check_range(self.n_sites)
        classes = self.model.classes

        def of_rows(rows: np.ndarray) -> Any:
            data = CompleteData(classes, np.broadcast_to(at(params, rows), (N_LANES, N_PARAMS)))
            sites, lane, _ = _by_lane(every[rows])
            keep = np.repeat(self.model.observed[:, None], N_LANES, axis=1)
            places = classes.of_site[sites] * N_LANES + lane
            lost = np.bincount(places, keep[sites, lane], data.peak.size).reshape(-1, N_LANES)
            keep[sites, lane] = False
            total = classes.sums(self.model.observed)[:, None] - lost
            chains = Chains(classes.of_site, keep, data.scaled, data.transition)
            return function(data, total, chains, rows)

        starts = range(0, len(folds), N_LANES)
        blocks = [np.minimum(start + np.arange(N_LANES), len(folds) - 1) for start in starts]
        return threads()(delayed(of_rows)(rows) for rows in track(blocks, label))


def _by_lane(folds):
    """(left-out sites of folds end to end, the lane of each, where folds begin, and the end)."""
    sizes = folds.sizes
    return folds.sites, np.repeat(np.arange(len(sizes)), sizes), np.cumsum([0, *sizes])


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
    statistics = np.zeros((4, WIDTH))
    first, last, moves, again = statistics
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
            again[i] += change
            moves[i] += came * change - turn * cross[t, i]
            x[i] = (remain - enter) * (x[i] + weights[t] * ratio[c, i])
            if t == len(classes) - 1:
                last[i] = change
        moves[TO0] -= turn * stay0
        moves[TO1] -= turn * leave1
        x[TO0] += enter - leave0
        x[TO1] += remain - stay1
    p0, p1 = past[0]
    v0, v1 = ahead[0]
    spread = p0 * (stay0 * v0 + leave0 * v1) * p1 * (leave1 * v0 + stay1 * v1)
    for i in range(WIDTH):
        first[i] = spread * (cross[0, i] + x[i])
        again[i] += first[i] - last[i]
    return cross[1:], event, statistics
