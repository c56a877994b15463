"""Derivatives of `PoissonTraffic` under scheme A, by the kernels of `two_state`.

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
from ...inference.smoothing import UNLIKELY
from ...inference.two_state import N_LANES, N_PARAMS, TO0, Chains, smooth
from ...parallel import pieces, threads, track
from ...solvers.inverse import DenseFolds, DenseHessian, FoldSolver, Solvable
from ...weighting import check
from .emission import CompleteData, Emission
from .tangents import tangents

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
        if _is_unlikely(within):
            value, gradient = super().value_and_gradient(within, weights)
            return (value if np.all(within == params) else np.inf), gradient
        return self._with_prior(params, within, *self._likelihood(within, weights))

    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        if _is_unlikely(params):
            return super().hessian(params, weights)
        return DenseHessian(self._second_order(params, weights)[0])

    def cross_matrix(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        if _is_unlikely(params):
            return super().cross_matrix(params, weights)
        return self._second_order(params, weights)[1]

    def _second_order(self, params, weights):
        """(H, J), kept: both are asked for at one point."""
        point = params.tobytes(), np.asarray(weights, float).tobytes()
        if point != self._last[0]:
            self._last = point, self._hessian_and_cross(params, weights)
        return self._last[1]

    def _likelihood(self, params, weights):
        """-log p(x) and its gradient, where moves are not unlikely."""
        data, _, smoothed = self._smooth(params, weights)
        gradient = data.gradient(smoothed.event, smoothed.statistics)
        return -smoothed.log_z[0] - data.log_scale[0], -gradient[:, 0]

    def _hessian_and_cross(self, params, weights):
        data, weights, smoothed = self._smooth(params, weights)
        contrast = data.scaled[1, :, 0] - data.scaled[0, :, 0]
        tables = data.transition[:, :, 0], *data.emission.score_tables(), contrast
        cross, *moved = tangents(self._classes.of_site, weights, smoothed.messages, *tables)
        second = data.hessian(smoothed.event, smoothed.statistics)[..., 0]
        second += data.gradient(*moved, whole=0.0)[:, :N_PARAMS]
        cross[~self.model.observed] = 0.0
        return self._prior.hessian(params) - second, -cross[:, :N_PARAMS].T

    def _smooth(self, params, weights):
        """(complete data, weights of what is observed, `Smoothed`) of one weighting.

        Each site is a class of its own if weights are fractions.
        """
        check(weights, self.n_sites)
        weights = weights * self.model.observed
        total = self._totals(weights)[:, None]
        data = CompleteData(Emission(self._classes, params[None]), total, self.n_sites)
        keep = weights[:, None] > 0.0
        of_site = self._classes.of_site
        if np.isin(weights, (0.0, 1.0)).all():
            return (
                data,
                weights,
                smooth(Chains(of_site, keep, np.exp(data.scaled), data.transition)),
            )
        scaled = np.exp(weights[:, None] * data.scaled[:, of_site])
        smoothed = smooth(Chains(np.arange(self.n_sites), keep, scaled, data.transition))
        event = self._totals(weights * smoothed.event[:, 0])
        return data, weights, smoothed._replace(event=event[:, None])

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

        F counts as inf, and no refit goes there, beyond `FURTHEST`, or where a stay logit is beyond
        `UNLIKELY`; its gradient is then that of the nearest point within.
        """
        within = _within(params, UNLIKELY)
        blocks = self._each_block(self._gradient_block, within, folds, "gradients")
        found, gradients = (np.concatenate(part) for part in zip(*blocks, strict=True))
        return self._with_prior(params, within, found, gradients)

    def fold_hessians(
        self, params: np.ndarray, folds: Folds, damping: float = 0.0, whole: Solvable | None = None
    ) -> FoldSolver:
        if _is_unlikely(params):
            return super().fold_hessians(params, folds, damping)
        blocks = self._each_block(self._hessian_block, params, folds, "Hessians")
        added = np.array([self._prior.hessian(point) for point in np.atleast_2d(params)])
        return DenseFolds(np.concatenate(blocks) + added + damping * np.eye(N_PARAMS))

    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray] | np.ndarray:
        if _is_unlikely(params):
            return super().heldout(params, folds)
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
        data = CompleteData(Emission(self._classes, params), total, self.n_sites)
        return (
            data,
            Chains(of_site, keep, np.exp(data.scaled), data.transition),
            (sites, lane, ends),
        )


def _within(params, furthest_stay=np.inf):
    """The nearest params at which F can be computed."""
    limits = np.repeat([FURTHEST, furthest_stay], [TO0, N_PARAMS - TO0])
    return np.clip(params, -limits, limits)


def _is_unlikely(params):
    """Whether a move is so unlikely that a path would underflow."""
    return np.abs(params[..., TO0:]).max() > UNLIKELY
