"""Derivatives of `PoissonTraffic` under scheme A, by the kernels of `two_state`.

The series is touched by those kernels alone; params enter through tables over (count, day) classes.
Var(score | x) is what the Hessian lacks beside its complete-data part (Louis 1982).
"""

from functools import cached_property

import numpy as np
from joblib import delayed

from ...derivatives import Derivatives, at
from ...folds import weights as fold_weights
from ...inference import chain
from ...inference.prefixes import Chain, futures
from ...inference.smoothing import UNLIKELY
from ...inference.two_state import N_LANES, N_PARAMS, TO0, TO1, Chains, Smoothed, jit, smooth
from ...model import override
from ...parallel import pieces, threads, track
from ...solvers.inverse import DenseFolds, DenseHessian
from ...weighting import check
from .emission import CompleteData, Emission
from .tangents import score_tangents

BLOCK = 256  # sites whose messages stay in cache
FURTHEST = 100.0  # log rates, log a and log b: beyond, F counts as inf, as its terms overflow


class TrafficDerivatives(Derivatives):
    """Values and derivatives of one model, for one weighting or for blocks of folds as lanes."""

    def __init__(self, model):
        super().__init__(model)
        self._prior = model.prior
        self._last = None, None

    @cached_property
    def _classes(self):
        return self.model.classes

    @property
    def _of_site(self):
        return self._classes.of_site

    @cached_property
    def _starts(self):
        return block_starts(self.model.day)

    @cached_property
    def _totals(self):
        return self._class_totals(self.model.observed)

    @override
    def value_and_gradient(self, params, weights):
        within = _within(params)
        return self._with_prior(params, within, *self._likelihood(within, weights))

    def _likelihood(self, params, weights):
        data, found = self._smooth(params, weights, order=1)
        log_z, event, statistics = found[:3]
        gradient = -data.gradient(event, statistics)
        return -log_z[0] - data.log_scale[0], gradient[:, 0]

    def _with_prior(self, params, within, value, gradient):
        """Of -log p(x) and its gradient at params `within`, F and its own; inf at other params."""
        value = self._prior.negative_log_density(within) + value
        moved = np.any(within != params, axis=-1)
        return np.where(moved, np.inf, value)[()], self._prior.gradient(within) + gradient

    @override
    def hessian(self, params, weights):
        if _is_beyond_kernels(params, weights):
            return super().hessian(params, weights)
        data, smoothed = self._second_order(params, weights)
        complete = data.hessian(smoothed.event, smoothed.statistics)
        second = complete[..., 0] + smoothed.variance[..., 0]
        return DenseHessian(self._prior.hessian(params) - second)

    @override
    def cross_matrix(self, params, weights):
        if _is_beyond_kernels(params, weights):
            return super().cross_matrix(params, weights)
        data, smoothed = self._second_order(params, weights)
        weights = weights * self.model.observed
        quiet, ratio = data.emission.score_tables()
        contrast = data.scaled[1, :, 0] - data.scaled[0, :, 0]
        tables = data.transition[:, :, 0], quiet, ratio, contrast
        cross = score_tangents(self._of_site, weights, smoothed.messages, *tables)
        cross[~self.model.observed] = 0.0
        return -cross[:, :N_PARAMS].T

    def _second_order(self, params, weights):
        """`_smooth` with the variance, kept: both the Hessian and the cross matrix ask for it."""
        point = params.tobytes(), np.asarray(weights, float).tobytes()
        if point != self._last[0]:
            self._last = point, self._smooth(params, weights, order=2)
        return self._last[1]

    def _smooth(self, params, weights, order):
        """(complete data, `Smoothed`) of one weighting; with the variance if order is 2."""
        check(weights, self.n_sites)
        weights = weights * self.model.observed
        total = self._class_totals(weights)[:, None]
        data = CompleteData(self._classes, params[None], total, order)
        if _is_beyond_kernels(params, weights):
            return data, self._smooth_in_logarithms(data, params, weights)
        keep = weights[:, None] > 0.0
        score = (data.emission.ratio_score, self._classes.places) if order == 2 else None
        return data, smooth(self._chains(data, keep), score)

    def _smooth_in_logarithms(self, data, params, weights):
        """`Smoothed`, but for variance and messages, at any weights and params."""
        initial, transition = self.model.log_chain(params)
        node = np.zeros((self.n_sites + 1, 2))  # a site 0, with the stationary law, comes first
        node[0] = initial
        node[1:] = weights[:, None] * data.scaled[:, self._of_site, 0].T
        edge = np.broadcast_to(transition, (self.n_sites, 2, 2))
        gamma, xi, _, log_z = chain.smooth(node, edge)
        in_event = gamma[:, 1]
        event = self._class_totals(weights * in_event[1:])
        statistics = [in_event[0], in_event[-1], xi[:, 0, 1].sum(), in_event[:-1].sum()]
        return Smoothed(np.array([log_z]), event[:, None], np.array(statistics)[:, None])

    def _class_totals(self, weights):
        return np.bincount(self._of_site, weights, len(self._classes))

    @override
    def fold_gradients(self, params, folds, values=True):
        """(F (n_folds,), dF/dparams (n_folds, 11)).

        F counts as inf, and no refit goes there, beyond `FURTHEST`, or where a stay logit is beyond
        `UNLIKELY`; its gradient is then that of the nearest point within.
        """
        within = _within(params, UNLIKELY)
        blocks = self._each_block(self._gradient_block, within, folds, "gradients")
        found, gradients = (np.concatenate(part) for part in zip(*blocks, strict=True))
        return self._with_prior(params, within, found, gradients)

    @override
    def fold_hessians(self, params, folds, damping=0.0, whole=None):
        if _is_beyond_kernels(params):
            return super().fold_hessians(params, folds, damping)
        blocks = self._each_block(self._hessian_block, params, folds, "Hessians")
        added = self._prior.hessian(params) + damping * np.eye(N_PARAMS)
        return DenseFolds(added + np.concatenate(blocks))

    @override
    def heldout(self, params, folds):
        if _is_beyond_kernels(params):
            return super().heldout(params, folds)
        blocks = self._each_block(self._heldout_block, params, folds, "held-out losses")
        return folds.pick([losses for block in blocks for losses in block])

    @override
    def prior_gradients(self, params):
        return self._prior.gradient(params)

    @override
    def futures(self, params, starts, horizon, gap):
        return futures(self._filter_tables(params), starts, horizon, gap)

    def _filter_tables(self, params):
        emission = Emission(self._classes, params[None], n_moments=2)
        quiet, ratio = emission.score_tables()[:, :, :TO0]
        initial, transition = self.model.log_chain(params)
        (stay0, leave0), (leave1, stay1) = np.exp(transition)
        p0, p1 = np.exp(initial)
        first_score = np.zeros((2, N_PARAMS))
        first_score[:, TO0:] = [[p1 * stay0, -p1 * stay1], [-p0 * stay0, p0 * stay1]]
        move_score = np.zeros((2, 2, N_PARAMS))
        move_score[0, :, TO0] = leave0, -stay0
        move_score[1, :, TO1] = -stay1, leave1
        return Chain(
            row=np.where(self.model.observed, self._of_site, -1),
            log_density=emission.log_density[:, :, 0].T,
            density_score=np.stack([quiet, quiet + ratio], axis=1),
            places=np.tile(np.arange(TO0), (2, 1)),
            log_initial=initial,
            initial_score=first_score,
            log_transition=transition,
            transition_score=move_score,
        )

    def _each_block(self, function, params, folds, label):
        blocks = pieces(len(folds), N_LANES)
        every = list(folds)  # parts of `folds` would be checked again
        jobs = (delayed(function)(at(params, b), every[b]) for b in track(blocks, label))
        return threads()(jobs)

    def _gradient_block(self, params, folds):
        data, chains, _ = self._block(params, folds, order=1)
        smoothed = smooth(chains)
        values = (-smoothed.log_z - data.log_scale)[: len(folds)]
        gradients = -data.gradient(smoothed.event, smoothed.statistics).T[: len(folds)]
        for n in np.flatnonzero(~np.isfinite(values)):  # a product of normalisers underflowed
            weights = fold_weights(self.n_sites, folds[n])
            values[n] = self._likelihood(at(params, n), weights)[0]
        return values, gradients

    def _hessian_block(self, params, folds):
        data, chains, _ = self._block(params, folds, order=2)
        smoothed = smooth(chains, (data.emission.ratio_score, self._classes.places))
        second = data.hessian(smoothed.event, smoothed.statistics) + smoothed.variance
        return -second.transpose(2, 0, 1)[: len(folds)]

    def _heldout_block(self, params, folds):
        data, chains, left_out = self._block(params, folds, order=0)
        sites, ends = left_out
        lane = np.repeat(np.arange(N_LANES), np.diff(ends))
        order = np.argsort(lane * self.n_sites + sites, kind="stable")
        smoothed = smooth(chains, left_out=(sites[order], ends))
        losses = np.empty(len(sites))
        losses[order] = -np.log(smoothed.density)
        losses -= data.peak[self._of_site[sites], lane]
        return np.split(losses, ends[1 : len(folds)])

    def _block(self, params, folds, order):
        """(complete data, `Chains`, (left-out sites, their ends)) of some folds.

        Lanes without a fold leave nothing out, at the last fold's params.
        """
        sizes = np.zeros(N_LANES + 1, int)
        sizes[1 : len(folds) + 1] = [len(fold) for fold in folds]
        left_out = np.concatenate(folds), np.cumsum(sizes)
        _check_sites(left_out[0], self.n_sites)
        keep = np.repeat(self.model.observed[:, None], N_LANES, axis=1)
        total = np.repeat(self._totals[:, None], N_LANES, axis=1)
        _leave_out(self._of_site, *left_out, keep, total)
        params = np.atleast_2d(params)
        params = params[np.minimum(np.arange(N_LANES), len(params) - 1)]
        data = CompleteData(self._classes, params, total, order)
        return data, self._chains(data, keep), left_out

    def _chains(self, data, keep):
        return Chains(self._of_site, keep, np.exp(data.scaled), data.transition, self._starts)


def _within(params, furthest_stay=np.inf):
    """The nearest params at which F can be computed."""
    limits = np.repeat([FURTHEST, furthest_stay], [TO0, N_PARAMS - TO0])
    return np.clip(params, -limits, limits)


def _is_beyond_kernels(params, weights=0.0):
    """Whether weights are fractions, or moves so unlikely that a path would underflow."""
    fractions = np.any((weights != 0.0) & (weights != 1.0))
    return fractions or np.abs(params[..., TO0:]).max() > UNLIKELY


def _check_sites(sites, n_sites):
    if len(sites) and not 0 <= sites.min() <= sites.max() < n_sites:
        raise ValueError(
            f"folds hold sites {sites.min()} ... {sites.max()}, but the sites are "
            f"0 ... {n_sites - 1}"
        )


def block_starts(groups: np.ndarray, size: int = BLOCK) -> np.ndarray:
    """Starts of blocks of at most `size` sites with equal `groups` (T,), and T at the end."""
    site = np.arange(len(groups))
    changed = np.append(True, np.diff(groups) != 0)
    since = site - np.maximum.accumulate(site * changed)
    return np.append(np.flatnonzero(since % size == 0), len(groups))


@jit
def _leave_out(of_site, sites, ends, keep, total):
    """Takes each fold's sites from keep (T, B), and from the classes' total (n_classes, B)."""
    for b in range(len(ends) - 1):
        for i in range(ends[b], ends[b + 1]):
            if keep[sites[i], b]:
                total[of_site[sites[i]], b] -= 1.0
            keep[sites[i], b] = False
