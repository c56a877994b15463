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
from ...inference import two_state
from ...inference.two_state import N_LANES
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
        chain = self._chain(params, weights)
        _, event, statistics = two_state.smooth(*chain.arguments())
        complete = chain.hessian(event[:, None], statistics[:, None])[..., 0]
        variance = chain.score_variance(0, chain.weights)
        return DenseHessian(self._prior.hessian(params) - complete - variance)

    @override
    def cross_matrix(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """d2F / dparams dweights (11, T)."""
        chain = self._chain(params, weights)
        quiet, ratio = chain.emission.score_tables(0)
        contrast = chain.emission.log_density[1] - chain.emission.log_density[0]
        arguments = *chain.arguments(), self.model.observed, quiet, ratio, contrast[:, 0]
        return -two_state.cross_derivatives(*arguments)[:, :N_PARAMS].T

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
        hessians = -chains.hessian(event, statistics).transpose(2, 0, 1)
        for fold, omitted in enumerate(folds):
            weights = chains.weights.astype(float)
            weights[omitted] = 0.0
            hessians[fold] -= chains.score_variance(fold, weights)
        return hessians

    def _heldout_block(self, params, folds):
        orders = [np.argsort(fold, kind="stable") for fold in folds]
        ordered = Folds([fold[order] for fold, order in zip(folds, orders, strict=True)])
        chains, sites, ends = self._block(params, ordered)
        density = chains.smooth_lanes(sites, ends, True)[3]
        lane = np.repeat(chains.lane[: len(folds)], folds.sizes)
        losses = -np.log(density) - chains.emission.peak[self._classes.of_site[sites], lane]
        parts = zip(np.split(losses, ends[1:-1]), orders, strict=True)
        return [part[np.argsort(order)] for part, order in parts]


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

    def smooth_lanes(self, sites, ends, score):
        """`two_state.smooth_lanes`, lanes without a fold cut off."""
        n = len(ends) - 1
        padded = np.concatenate([ends, np.full(N_LANES - n, ends[-1])])
        scaled = np.exp(self.emission.log_density - self.emission.peak)
        tables = (np.ascontiguousarray(t[..., self.lane]) for t in (scaled, self.transition))
        of_site, observed = self.classes.of_site, self.weights
        *parts, density = two_state.smooth_lanes(of_site, observed, *tables, sites, padded, score)
        return *(part[..., :n] for part in parts), density

    def score_variance(self, fold, weights):
        """Var(score | x) of one fold, (11, 11)."""
        _, ratio = self.emission.score_tables(self.lane[fold])
        return two_state.score_variance(*self.arguments(fold, weights), ratio)

    def gradient(self, event, statistics):
        """Expected gradient (11, n) of log p(x, z)."""
        gradient = self.emission.gradient(self.total, event)
        first, last, moves01, total = statistics
        score, start = self._start()
        moves10 = moves01 - (last - first)
        from_quiet = (len(self.classes.of_site) - total) * self.transition[0, 1] - moves01
        from_event = total * self.transition[1, 0] - moves10
        gradient[TO0:] = np.stack([from_quiet, from_event]) + (first - start) * score
        return gradient

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
