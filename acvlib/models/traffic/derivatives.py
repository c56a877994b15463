"""Derivatives of `PoissonTraffic` under scheme A, by the kernels of `two_state`.

The series is touched by those kernels alone; params enter through tables over (count, day) classes.
Var(score | x) is what the Hessian lacks beside its complete-data part (Louis 1982).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import delayed

from ...derivatives import Derivatives, at
from ...folds import Folds
from ...folds import weights as fold_weights
from ...inference.two_state import N_LANES, block_starts, smooth, tangent
from ...parallel import pieces, threads, track
from ...protocol import override
from ...solvers.inverse import DenseFolds, DenseHessian, FoldSolver, Solvable
from ...weighting import check
from .complete_data import CompleteData
from .emission import N_PARAMS


class TrafficDerivatives(Derivatives):
    """Values and derivatives of one model, for one weighting or for blocks of folds as lanes."""

    def __init__(self, model: Any):
        super().__init__(model)
        self._classes = model.classes
        self._prior = model.prior
        self._of_site = model.classes.of_site
        self._starts = block_starts(model.day)

    @override
    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """(F, dF/dparams (11,))."""
        return self._with_prior(params, *self._likelihood(params, weights))

    def _likelihood(self, params, weights):
        data, smoothed = self._smooth(params, weights)
        value = -smoothed.log_z - data.log_scale
        gradient = -data.gradient(smoothed.event, smoothed.statistics)
        return value[0], gradient[:, 0]

    def _with_prior(self, params, value, gradient):
        prior = self._prior
        return prior.negative_log_density(params) + value, prior.gradient(params) + gradient

    @override
    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        """d2F/dparams2 (11, 11)."""
        data, smoothed = self._smooth(params, weights, second=True)
        complete = data.hessian(smoothed.event, smoothed.statistics)
        second = complete[..., 0] + smoothed.variance[..., 0]
        return DenseHessian(self._prior.hessian(params) - second)

    @override
    def cross_matrix(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """d2F / dparams dweights (11, T)."""
        data, smoothed = self._smooth(params, weights)
        weights = weights * self.model.observed
        tables = data.emission.score_tables()
        contrast = data.scaled[1, :, 0] - data.scaled[0, :, 0]
        transition = data.transition[:, :, 0]
        cross = tangent(self._of_site, weights, smoothed.messages, transition, *tables, contrast)
        cross[~self.model.observed] = 0.0
        return -cross[:, :N_PARAMS].T

    def _smooth(self, params, weights, second=False):
        """(complete data, `Smoothed`) of one weighting."""
        check(weights, self.n_sites)
        weights = weights * self.model.observed
        total = np.bincount(self._of_site, weights, len(self._classes))
        data = CompleteData(self._classes, params[None], total[:, None])
        keep = weights > 0.0
        starts = self._starts if second else np.array([0, self.n_sites])
        emission = data.scaled
        score = data.emission.ratio_score
        places = data.emission.places
        classes = self._of_site
        own_class = not np.array_equal(weights, keep)
        if own_class:  # each site's table has its weight in it
            classes = np.arange(self.n_sites)
            emission = weights[:, None] * emission[:, self._of_site]
            score = weights[:, None] * score[:, self._of_site]
            places = places[self._of_site]
        smoothed = smooth(
            classes,
            keep[:, None],
            np.exp(emission),
            data.transition,
            starts,
            score=(score, places) if second else None,
        )
        if own_class:
            event = np.bincount(self._of_site, weights * smoothed.event[:, 0], len(total))
            smoothed = smoothed._replace(event=event[:, None])
        return data, smoothed

    @override
    def fold_gradients(
        self, params: np.ndarray, folds: Folds, values: bool = True
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """(F (n_folds,), dF/dparams (n_folds, 11))."""
        blocks = self._each_block(self._gradient_block, params, folds, "gradients")
        found, gradients = (np.concatenate(part) for part in zip(*blocks, strict=True))
        return self._with_prior(params, found, gradients)

    @override
    def fold_hessians(
        self,
        params: np.ndarray,
        folds: Folds,
        damping: float = 0.0,
        whole: Solvable | None = None,
    ) -> FoldSolver:
        """d2F/dparams2 + damping I of each fold."""
        blocks = self._each_block(self._hessian_block, params, folds, "Hessians")
        added = self._prior.hessian(params) + damping * np.eye(N_PARAMS)
        return DenseFolds(added + np.concatenate(blocks))

    @override
    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray]:
        """-log p(x_t | x outside the fold) of the scored sites of each fold."""
        blocks = self._each_block(self._heldout_block, params, folds, "held-out losses")
        return folds.pick([losses for block in blocks for losses in block])

    def _each_block(self, function, params, folds, label):
        blocks = pieces(len(folds), N_LANES)
        jobs = (delayed(function)(at(params, b), folds[b]) for b in track(blocks, label))
        return threads()(jobs)

    def _gradient_block(self, params, folds):
        data, task, _ = self._block(params, folds)
        smoothed = smooth(*task, self._starts)
        values = (-smoothed.log_z - data.log_scale)[: len(folds)]
        gradients = -data.gradient(smoothed.event, smoothed.statistics).T[: len(folds)]
        for n in np.flatnonzero(~np.isfinite(values)):  # a product of normalisers underflowed
            weights = fold_weights(self.n_sites, folds[n])
            values[n] = self._likelihood(at(params, n), weights)[0]
        return values, gradients

    def _hessian_block(self, params, folds):
        data, task, _ = self._block(params, folds)
        score = data.emission.ratio_score, data.emission.places
        smoothed = smooth(*task, self._starts, score=score)
        second = data.hessian(smoothed.event, smoothed.statistics) + smoothed.variance
        return -second.transpose(2, 0, 1)[: len(folds)]

    def _heldout_block(self, params, folds):
        data, task, (sites, lane, ends) = self._block(params, folds)
        order = np.argsort(lane * self.n_sites + sites, kind="stable")  # fast if sorted already
        left_out = smooth(*task, self._starts, left_out=(sites[order], ends)).left_out
        losses = np.empty(len(sites))
        losses[order] = -np.log(left_out)
        losses -= data.peak[self._of_site[sites], lane]
        return np.split(losses, ends[1 : len(folds)])

    def _block(self, params, folds):
        """(complete data, what `smooth` takes of them, (left-out sites, their lanes, ends)).

        Lanes without a fold leave nothing out, at the last fold's params.
        """
        sizes = np.zeros(N_LANES, int)
        sizes[: len(folds)] = folds.sizes
        sites = np.concatenate(list(folds))
        lane = np.repeat(np.arange(N_LANES), sizes)
        keep = np.repeat(self.model.observed[:, None], N_LANES, axis=1)
        keep.ravel()[sites * N_LANES + lane] = False
        shape = len(self._classes), N_LANES
        left_out = np.bincount(self._of_site[sites] * N_LANES + lane, minlength=np.prod(shape))
        total = np.bincount(self._of_site, self.model.observed, len(self._classes))
        params = np.atleast_2d(params)
        params = params[np.minimum(np.arange(N_LANES), len(params) - 1)]
        data = CompleteData(self._classes, params, total[:, None] - left_out.reshape(shape))
        task = self._of_site, keep, np.exp(data.scaled), data.transition
        return data, task, (sites, lane, np.concatenate([[0], np.cumsum(sizes)]))
