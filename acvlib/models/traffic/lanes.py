"""Folds of `PoissonTraffic` laid out as lanes, with what the kernels of `lanes` need of them."""

import numpy as np
from numba import njit

from ...inference import lanes, two_state
from .assembly import transitions


@njit(cache=True, nogil=True)
def _leave_out(fold, of_site, keep, total):
    for site in fold:
        keep[site] = False
        total[of_site[site]] -= 1.0


class LaneBlock:
    """Up to N_LANES folds as lanes: tables (2, n_classes, L), kept sites (T, N_LANES) and class totals."""

    def __init__(self, fast, params, folds):
        self.fast, self.n = fast, len(folds)
        padding = np.zeros(lanes.N_LANES - self.n, int)
        self.lane = np.concatenate(
            [np.arange(self.n), padding]
        )  # spare lanes repeat the first fold's params
        self.transition = self._lanes(transitions(params))
        self.table = fast.log_density(params)
        self.peak = self.table.max(axis=0)
        self.emission = self._lanes(np.exp(self.table - self.peak))
        self.keep = np.repeat(fast.observed[:, None], lanes.N_LANES, axis=1)
        self.total = np.repeat(fast.totals[:, None], self.n, axis=1)
        for b, fold in enumerate(folds):
            _leave_out(fold, fast.classes.of_site, self.keep[:, b], self.total[:, b])

    def _lanes(self, table):
        """One column a lane. Contiguous: the kernels read strided tables at a third of the speed."""
        return np.ascontiguousarray(table[..., self.lane])

    def _arguments(self):
        return self.fast.classes.of_site, self.keep, self.emission, self.transition

    def smooth(self):
        """(log p(x) (L,), class sums (n_classes, L), statistics (4, L))."""
        log_z, event, statistics = lanes.smooth_lanes(*self._arguments(), self.fast.starts)
        for b in np.flatnonzero(
            ~np.isfinite(log_z[: self.n])
        ):  # a product of normalisers that underflowed
            log_z[b] = self._log_z_alone(b)
        log_p = log_z[: self.n] + (self.total * self.peak).sum(axis=0)
        return log_p, event[:, : self.n], statistics[:, : self.n]

    def _log_z_alone(self, b):
        table = (self.table[:, :, b] - self.peak[:, b]).T.copy()
        kept = self.keep[:, b].astype(float)
        return two_state.smooth(
            self.fast.classes.of_site, kept, table, self.transition[:, :, b].copy()
        )[0]

    def heldout(self, sites):
        """One array of losses for each lane's sorted left-out sites."""
        ends = np.concatenate([[0], np.cumsum([len(part) for part in sites])])
        padded = np.concatenate([ends, np.full(lanes.N_LANES - self.n, ends[-1])])
        density = lanes.heldout_lanes(
            *self._arguments(), self.fast.starts, np.concatenate(sites), padded
        )
        losses = np.split(-np.log(density), ends[1:-1])
        return [
            part - self.peak[self.fast.classes.of_site[at], b]
            for b, (part, at) in enumerate(zip(losses, sites, strict=True))
        ]

    def curvature(self, ratio_score):
        """The parts of the score's variance, their last axis cut to L lanes."""
        padded = np.zeros((*ratio_score.shape[:2], lanes.N_LANES))
        padded[:, :, : self.n] = ratio_score
        parts = lanes.curvature_lanes(
            *self._arguments(), padded, self.fast.classes.score_at, self.fast.starts
        )
        return [part[..., : self.n] for part in parts]
