"""Derivatives of `PoissonTraffic` under scheme A, by the kernels of `two_state`.

The series is touched by those kernels alone; params enter through tables over (count, day) classes.
Var(score | x) is what the Hessian lacks beside its complete-data part (Louis 1982).
The last axis of every table is the lane: one parameter vector, or one for each fold of a block.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import delayed
from scipy.special import expit

from ...derivatives import Derivatives, at
from ...folds import Folds
from ...inference import two_state, two_state_lanes
from ...inference.two_state_lanes import N_LANES
from ...parallel import pieces, threads, track
from ...protocol import override
from ...solvers.inverse import DenseFolds, DenseHessian, FoldSolver, Solvable
from ...weighting import check
from .emission import N_PARAMS, TO0, Emission


class TrafficDerivatives(Derivatives):
    """Values and derivatives of one model, for one weighting or for blocks of folds as lanes."""

    def __init__(self, model: Any):
        super().__init__(model)
        self._classes = model.classes
        self._prior = model.prior
        self._totals = self._class_totals(model.observed.astype(float))
        self._last = None, None

    @override
    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """(F, dF/dparams (11,))."""
        chain = self._chain(params, weights)
        log_z, event, statistics = two_state.smooth(*chain.arguments())
        gradient = chain.gradient(event[:, None], statistics[:, None])[:, 0]
        value = -log_z - chain.log_scale[0]
        return self._with_prior(params, value, -gradient)

    @override
    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        """d2F/dparams2 (11, 11)."""
        second, _ = self._second_order(params, weights)
        return DenseHessian(self._prior.hessian(params) - second)

    @override
    def cross_matrix(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """d2F / dparams dweights (11, T)."""
        _, cross = self._second_order(params, weights)
        return -cross[:, :N_PARAMS].T

    def _second_order(self, params, weights):
        """d2 log p(x) / dparams2 and dw dparams, those of the last point kept for both callers."""
        point = params.tobytes(), np.asarray(weights, float).tobytes()
        last_point, found = self._last
        if point != last_point:
            chain = self._chain(params, weights)
            found = chain.second_order(self.model.observed)
            self._last = point, found
        return found

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

    def _with_prior(self, params, value, gradient):
        prior = self._prior
        return prior.negative_log_density(params) + value, prior.gradient(params) + gradient

    def _chain(self, params, weights):
        check(weights, self.n_sites)
        weights = weights * self.model.observed
        total = self._class_totals(weights)[:, None]
        return _Chains(self._classes, params[None], weights, total)

    def _class_totals(self, weights):
        return np.bincount(self._classes.of_site, weights, len(self._classes.counts))

    # blocks of folds

    def _each_block(self, function, params, folds, label):
        blocks = pieces(len(folds), N_LANES)
        jobs = (delayed(function)(at(params, b), folds[b]) for b in track(blocks, label))
        return threads()(jobs)

    def _block(self, params, folds):
        """(chains of the folds, sites left out one fold after another, where each fold's end)."""
        sites = np.concatenate(list(folds))
        ends = np.cumsum([0, *folds.sizes])
        n_classes = len(self._classes.counts)
        place = self._classes.of_site[sites] + n_classes * np.repeat(
            np.arange(len(folds)), folds.sizes
        )
        left_out = np.bincount(place, minlength=n_classes * len(folds))
        total = self._totals[:, None] - left_out.reshape(len(folds), n_classes).T
        chains = _Chains(self._classes, np.atleast_2d(params), self.model.observed, total)
        return chains, sites, ends

    def _gradient_block(self, params, folds):
        chains, sites, ends = self._block(params, folds)
        log_z, event, statistics, _ = chains.smooth_lanes(sites, ends, False)
        for fold in np.flatnonzero(~np.isfinite(log_z)):  # a product of normalisers underflowed
            log_z[fold] = self._log_z_alone(chains, fold, folds[fold])
        return -log_z - chains.log_scale, -chains.gradient(event, statistics).T

    def _log_z_alone(self, chains, fold, sites):
        weights = chains.weights.astype(float)
        weights[sites] = 0.0
        return two_state.smooth(*chains.arguments(fold, weights))[0]

    def _hessian_block(self, params, folds):
        chains, sites, ends = self._block(params, folds)
        _, event, statistics, _ = chains.smooth_lanes(sites, ends, False)
        complete = chains.hessian(event, statistics)
        return -(complete + chains.variance_lanes(sites, ends)).transpose(2, 0, 1)

    def _heldout_block(self, params, folds):
        orders = [np.argsort(fold, kind="stable") for fold in folds]
        ordered = Folds([fold[order] for fold, order in zip(folds, orders, strict=True)])
        chains, sites, ends = self._block(params, ordered)
        density = chains.smooth_lanes(sites, ends, True)[3]
        lane = np.repeat(chains.lane[: len(folds)], folds.sizes)
        peak = chains.emission.peak[self._classes.of_site[sites], lane]
        losses = np.empty(len(sites))
        places = [order + end for order, end in zip(orders, ends[:-1], strict=True)]
        losses[np.concatenate(places)] = -np.log(density) - peak
        return np.split(losses, ends[1:-1])


class _Chains:
    """The chain at params (L, 11), for n folds with class totals (n_classes, n); L is n or 1."""

    def __init__(self, classes, params, weights, total):
        self.classes, self.weights, self.total = classes, weights, total
        self.emission = Emission(classes, params)
        stay, leave = expit(params[:, TO0:].T), expit(-params[:, TO0:].T)
        self.transition = np.array([[stay[0], leave[0]], [leave[1], stay[1]]])
        self.lane = np.minimum(np.arange(N_LANES), len(params) - 1)  # spare ones repeat the last
        self.log_scale = (total * self.emission.peak).sum(axis=0)

    def arguments(self, fold=0, weights=None):
        """What the kernels of one chain take."""
        lane, weights = self.lane[fold], self.weights if weights is None else weights
        table = self.emission.scaled(lane)
        return self.classes.of_site, weights, table, self.transition[:, :, lane].copy()

    def _lanes(self, sites, ends):
        """What the kernels of lanes take, lanes without a fold leaving nothing out."""
        padded = np.concatenate([ends, np.full(N_LANES + 1 - len(ends), ends[-1])])
        scaled = np.exp(self.emission.log_density - self.emission.peak)
        tables = self._spread(scaled), self._spread(self.transition)
        return self.classes.of_site, self.weights, *tables, sites, padded

    def _spread(self, table):
        """A column a lane. Contiguous: the kernels read strided tables at a third of the speed."""
        return np.ascontiguousarray(table[..., self.lane])

    def smooth_lanes(self, sites, ends, score):
        """`two_state_lanes.smooth_lanes` of the folds."""
        n_sites = len(self.weights)
        *parts, density = two_state_lanes.smooth_lanes(
            *self._lanes(sites, ends), two_state_lanes.block_starts(np.zeros(n_sites)), score
        )
        return *(part[..., : len(ends) - 1] for part in parts), density

    def variance_lanes(self, sites, ends):
        """`two_state_lanes.variance_lanes` of the folds, (11, 11, n)."""
        ratio = self.emission.score1.copy()
        ratio[0] -= self.emission.score0
        days = two_state_lanes.block_starts(self.classes.days[self.classes.of_site])
        arguments = *self._lanes(sites, ends), days, self._spread(ratio), self.emission.places
        return two_state_lanes.variance_lanes(*arguments)[..., : len(ends) - 1]

    def second_order(self, observed):
        """d2 log p(x) / dparams2 (11, 11) and dw dparams (T, WIDTH) of a single fold."""
        quiet, ratio = self.emission.score_tables()
        contrast = np.subtract(*self.emission.log_density[::-1, :, 0])
        found = two_state.smooth_tangent(*self.arguments(), observed, quiet, ratio, contrast)
        event, statistics, d_event, d_statistics, cross = found
        hessian = self.hessian(event[:, None], statistics[:, None])[..., 0]
        response = ratio.T @ d_event  # by the posterior's change; that of the stays is here
        response[TO0:N_PARAMS] = self._transition_gradient(d_statistics, 0.0)
        return hessian + response[:N_PARAMS, :N_PARAMS], cross

    def gradient(self, event, statistics):
        """Expected gradient (11, n) of log p(x, z)."""
        gradient = self.emission.gradient(self.total, event)
        gradient[TO0:] = self._transition_gradient(statistics, len(self.classes.of_site))
        return gradient

    def _transition_gradient(self, statistics, n_moves):
        """Expected gradient (2, n) in the stay logits; linear in statistics (4, n) and n_moves."""
        first, last, moves01, total = statistics
        score, start = self._start()
        moves10 = moves01 - (last - first)
        from_quiet = (n_moves - total) * self.transition[0, 1] - moves01
        from_event = total * self.transition[1, 0] - moves10
        base = start if n_moves else 0.0
        return np.stack([from_quiet, from_event]) + (first - base) * score

    def hessian(self, event, statistics):
        """Expected Hessian (11, 11, n) of log p(x, z)."""
        hessian = self.emission.hessian(self.total, event)
        first, _, _, total = statistics
        score, start = self._start()
        spread = self.transition[[0, 1], [0, 1]] * self.transition[[0, 1], [1, 0]]
        visits = np.stack([len(self.classes.of_site) - total, total])
        signs = np.array([[-1.0], [1.0]])
        diagonal = spread * ((first - start) * signs - visits)
        hessian[TO0:, TO0:] = -start * (1.0 - start) * score[:, None] * score
        hessian[[TO0, TO0 + 1], [TO0, TO0 + 1]] += diagonal
        return hessian

    def _start(self):
        """Gradient of logit P(z_0 = 1) in the two stay logits, (2, L), and P(z_0 = 1) (L,)."""
        leave0, leave1 = self.transition[0, 1], self.transition[1, 0]
        score = np.stack([-self.transition[0, 0], self.transition[1, 1]])
        return score, leave0 / (leave0 + leave1)
