"""Fast paths of `PoissonTraffic` under scheme A, named as in `curvature`.

The series is touched only by the kernels of `two_state` (one weighting) and `lanes` (many folds at once);
the parameters enter through tables over (count, day) classes.
"""

import numpy as np
from joblib import delayed

from ...inference import lanes, two_state
from ...parallel import threads, track
from ...weighting import check
from .assembly import (
    DIM,
    TO0,
    EmissionDerivatives,
    emission_law,
    score_variance,
    start_score,
    transition_gradient,
    transition_hessian,
    transitions,
)
from .emission import log_density
from .lanes import LaneBlock


class PoissonFast:
    """Values and derivatives of one `PoissonTraffic` model by the two-state kernels."""

    def __init__(self, model):
        self.classes, self.prior, self.observed = model.classes, model.prior, model.observed
        self.n_sites, self.n_classes = model.n_sites, len(model.classes.counts)
        self.starts = lanes.block_starts(model.day)
        self.totals = np.bincount(self.classes.of_site, self.observed, self.n_classes)

    # one weighting

    def value_and_gradient(self, params, weights):
        """(F, dF/dparams)."""
        check(weights, self.n_sites)
        weights, transition = weights * self.observed, transitions(params[None])
        table = self.log_density(params[None])[:, :, 0]
        peak = table.max(axis=0)
        of_site = self.classes.of_site
        log_z, gamma, moves01 = two_state.smooth(
            of_site, weights, (table - peak).T.copy(), transition[:, :, 0]
        )
        total, event = two_state.class_sums(of_site, weights, gamma, self.n_classes)
        statistics = np.array([gamma[0], gamma[-1], moves01, gamma[:-1].sum()])[:, None]
        gradient = EmissionDerivatives(self.classes, params[None]).gradient(
            total[:, None], event[:, None]
        )
        gradient[TO0:] += transition_gradient(transition, statistics, self.n_sites)
        value = self.prior.negative_log_density(params) - log_z - total @ peak
        return float(value), self.prior.gradient(params) - gradient[:, 0]

    def hessian_and_cross(self, params, weights):
        """(H, J), from one smoothing pass and its tangent."""
        check(weights, self.n_sites)
        weights, transition = weights * self.observed, transitions(params[None])
        table = self.log_density(params[None])[:, :, 0]
        emission = EmissionDerivatives(self.classes, params[None], curvature=True)
        ratio, at = emission.ratio_score[:, :, 0].T.copy(), self.classes.score_at
        score0 = np.concatenate([emission.score0, np.zeros((self.n_classes, 2))], axis=1)
        of_site = self.classes.of_site
        scaled = (table - table.max(axis=0)).T.copy()
        _, gamma, moves01, d_gamma, d_moves01 = two_state.smooth_tangent(
            of_site, weights, scaled, transition[:, :, 0], ratio, at
        )
        total, event = two_state.class_sums(of_site, weights, gamma, self.n_classes)
        statistics = np.array([gamma[0], gamma[-1], moves01, gamma[:-1].sum()])[:, None]
        at_ends = d_gamma[[0, -1]]
        d_event, d_total = two_state.cross_derivatives(
            of_site, weights, self.observed, gamma, d_gamma, table[1] - table[0], score0, ratio, at
        )
        hessian = emission.hessian(total[:, None], event[:, None])[:, :, 0]
        for s in range(3):
            np.add.at(hessian, at[:, s], ratio[:, s, None] * d_event[:, :DIM])
        hessian[TO0:, TO0:] += transition_hessian(transition, statistics, self.n_sites)[:, :, 0]
        hessian[TO0:] += _transition_response(transition[:, :, 0], *at_ends, d_total, d_moves01)[
            :, :DIM
        ]
        return self.prior.hessian(params) - hessian, d_gamma[1:, :DIM].T

    # many folds at once

    def fold_gradients(self, params, folds):
        """(F (n_folds,), dF/dparams (n_folds, D))."""
        values, gradients = zip(
            *self._each_block(self._gradient_block, params, folds, "gradients"), strict=True
        )
        values, gradients = np.concatenate(values), np.concatenate(gradients)
        return values + self.prior.negative_log_density(params), gradients + self.prior.gradient(
            params
        )

    def fold_hessians(self, params, folds):
        """d2F/dparams2 (n_folds, D, D)."""
        blocks = self._each_block(self._hessian_block, params, folds, "Hessians")
        return self.prior.hessian(params) + np.concatenate(blocks)

    def fold_heldout_losses(self, params, folds):
        """One array of -log p(x_t | x outside the fold) for each fold."""
        blocks = self._each_block(self._heldout_block, params, folds, "held-out losses")
        return [losses for block in blocks for losses in block]

    def _each_block(self, function, params, folds, label):
        cuts = range(0, len(folds), lanes.N_LANES)
        jobs = (
            delayed(function)(params[i : i + lanes.N_LANES], folds[i : i + lanes.N_LANES])
            for i in track(cuts, label)
        )
        return threads()(jobs)

    def _gradient_block(self, params, folds):
        n = len(folds)
        block = LaneBlock(self, params, folds)
        log_z, event, statistics = block.smooth()
        emission = EmissionDerivatives(self.classes, params)
        gradient = emission.gradient(block.total, event)
        gradient[TO0:] += transition_gradient(block.transition[:, :, :n], statistics, self.n_sites)
        return -log_z, -gradient.T

    def _hessian_block(self, params, folds):
        block = LaneBlock(self, params, folds)
        _, event, statistics = block.smooth()
        transition = block.transition[:, :, : len(folds)]
        emission = EmissionDerivatives(self.classes, params, curvature=True)
        hessian = emission.hessian(block.total, event)
        hessian[TO0:, TO0:] += transition_hessian(transition, statistics, self.n_sites)
        hessian += score_variance(transition, statistics[0], *block.curvature(emission.ratio_score))
        return -hessian.transpose(2, 0, 1)

    def _heldout_block(self, params, folds):
        order = [np.argsort(fold, kind="stable") for fold in folds]
        block = LaneBlock(self, params, folds)
        losses = block.heldout([np.asarray(fold)[o] for fold, o in zip(folds, order, strict=True)])
        return [part[np.argsort(o, kind="stable")] for part, o in zip(losses, order, strict=True)]

    def log_density(self, params):
        """log p(x | z) of each class, (2, n_classes, L), for params (L, 11)."""
        return log_density(*emission_law(params), self.classes.counts, self.classes.days)


def _transition_response(transition, d_first, d_last, d_event, d_moves01):
    """Derivative (2, D) of `transition_gradient` through its statistics alone."""
    score, _ = start_score(transition[:, :, None])
    d_moves10 = d_moves01 - (d_last - d_first)
    from_quiet = -d_event * transition[0, 1] - d_moves01 + score[0, 0] * d_first
    from_event = d_event * transition[1, 0] - d_moves10 + score[1, 0] * d_first
    return np.stack([from_quiet, from_event])
