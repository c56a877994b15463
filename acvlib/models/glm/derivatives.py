"""Derivatives of a regression in closed form, for one weighting or many folds.

Where F is linear in the weights, what folds omit is taken from sums over all sites; where classes
are balanced, folds are seen one by one. Sums are over standard columns z; params and derivatives
that come and go are those of x.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...derivatives import Derivatives
from ...folds import Folds
from ...parallel import each_fold, in_blas_threads, pieces
from ...results import Fit
from ...solvers.inverse import DenseFolds, FoldSolver, Solvable
from .hessians import DIGITS, HELD, LOST, SINGULAR, Downdates, Point, gram, leverages

FOLDS = 128  # folds, and sites, handled together: the work array stays in the cache
SITES = 512
SINGLE = 5e-7  # relative error of slopes that change in float32, in standard errors; tested


class GLMDerivatives(Derivatives):
    """Those of a `GLM`."""

    hessians_first = True
    _last: Point | None = None

    def _at(self, params):
        """The point at params (D,), kept for the next question about it."""
        point = self._last
        if point is None or not np.array_equal(point.params, params):
            point = Point(self.model, params)
            self._last = point  # another thread may replace it
        return point

    def value_and_gradient(self, params: np.ndarray, weights: np.ndarray):
        """(F, (w s slope) (x) z + ridge theta)."""
        model = self.model
        point = self._at(params)
        losses = model.sample_weight * model.family.losses(point.eta, model.responses)
        each = model.balanced_weights(weights)
        total = weights @ model.sample_weight
        value = each @ losses + 0.5 * model.ridge(total) @ params**2
        return float(value), model.columns.gradient(point.gradient(each, total))

    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        """sum_n w_n s_n C_n (x) z_n z_n' + diag(ridge)."""
        point = self._at(params)
        return point.whole if (weights == 1.0).all() else point.hessian(weights)

    def cross_matrix(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """s (slope (x) z + pull theta) of each site, a column each."""
        if self.model.balanced:
            return super().cross_matrix(params, weights)
        return -self.cross(params, Folds(np.arange(self.n_sites)[:, None])).T

    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """-sum_o of the sites' gradients."""
        model = self.model
        if model.balanced:
            return super().cross(params, folds)
        omitted = folds.indicator(self.n_sites) @ model.sample_weight
        sums = self._fold_sums(params, folds, model.sample_weight)
        return omitted[:, None] * (-model.pull * params) - sums

    def fold_gradients(
        self, params: np.ndarray, folds: Folds, values: bool = True
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """(F, dF/dparams) of each fold; F one by one."""
        model = self.model
        if values or len(folds) == 1 or model.balanced:
            return super().fold_gradients(params, folds, values)
        if params.ndim == 1:  # F is linear in the weights
            total = model.sample_weight.sum()
            whole = self._at(params).gradient(np.ones(self.n_sites), total)
            return None, model.columns.gradient(whole) + self.cross(params, folds)
        known = model.family.slope, model.responses, model.sample_weight
        return None, self._kept_sums(*known, params, folds)

    def chord_gradients(
        self, params: np.ndarray, folds: Folds, centre: np.ndarray, accuracy: float
    ) -> np.ndarray:
        """dF/dparams, in single precision where that is as accurate: in half the time.

        Only the change from the centre is, which is small, and so is its rounding error.
        """
        change = self.model.family.change
        point = self._at(centre)
        moves = params - centre
        lengths = np.sqrt(np.einsum("nd,nd->n", moves @ point.whole, moves))
        unknown = change is None or len(params) <= len(centre)
        if unknown or SINGLE * lengths.max() > accuracy:
            return super().chord_gradients(params, folds, centre, accuracy)
        mean = self.model.family.mean(point.eta[0]).astype(np.float32)
        curvature = point.curvature[:, 0, 0].astype(np.float32)
        _, gradients = self.fold_gradients(centre, folds, False)
        return gradients + self._kept_sums(change, mean, curvature, moves, folds)

    def _kept_sums(self, slope, known, weights, points, folds):
        """sum weight slope(points x_n, known_n) (x) x_n over what each fold keeps, + ridge points.

        What it omits may be so large there that no digit of a sum over all sites is right.
        """
        model = self.model
        z = model.columns.standard.astype(weights.dtype, copy=False)
        theta = model.standard(points).reshape(len(points), -1, z.shape[1]).astype(z.dtype)
        omitted = folds.indicator(self.n_sites)

        def of_points(few: slice):
            total = np.zeros(theta[few].shape)
            gone = omitted[few].tocsc().tocoo()  # in the order of sites
            for sites in pieces(self.n_sites, SITES):
                slopes = slope(np.tensordot(theta[few], z[sites], axes=(-1, 1)), known[..., sites])
                slopes *= weights[sites]
                here = slice(*np.searchsorted(gone.col, [sites.start, sites.stop]))
                slopes[gone.row[here], :, gone.col[here] - sites.start] = 0.0
                total += np.tensordot(slopes, z[sites], axes=1)
            return total.reshape(len(total), -1)

        sums = in_blas_threads(of_points, pieces(len(points), FOLDS), "gradients")
        kept = model.sample_weight.sum() - omitted @ model.sample_weight
        return model.columns.gradient(np.concatenate(sums)) + model.ridge(kept[:, None]) * points

    def _fold_sums(self, params, folds, weights):
        """sum_o weight slope (x) x over the sites that each fold omits, (n_folds, D)."""
        model = self.model
        omitted = folds.indicator(self.n_sites)
        sites = omitted.indices
        eta = self._scores(params, sites, folds.sizes)
        sums = []
        for slope in model.family.slope(eta, model.responses[..., sites]):
            omitted.data = slope * weights[sites]
            sums.append(omitted @ model.columns.standard)
        return model.columns.gradient(sums[0] if len(sums) == 1 else np.hstack(sums))

    def _scores(self, params, sites, sizes):
        """eta (q, .) of sites, the first sizes[0] at params[0] and so on, or all at params (D,)."""
        if params.ndim == 1:
            return self._at(params).eta[:, sites]
        return own_scores(self.model, params - self.model.level, sites, sizes)

    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray] | np.ndarray:
        """-log p(y_n | x_n; params) of the scored sites."""
        sites = folds.scored.sites
        eta = self._scores(params, sites, folds.scored.sizes)
        return folds.split(self.model.family.losses(eta, self.model.responses[..., sites]))

    def prior_gradients(self, params: np.ndarray) -> np.ndarray:
        """prior theta."""
        return self.model.prior * params

    def fold_hessians(
        self, params: np.ndarray, folds: Folds, damping: float = 0.0, whole: Solvable | None = None
    ) -> FoldSolver:
        """H(w_o) + damping I: downdates of one matrix where folds are small, else one each."""
        model = self.model
        columns = model.columns
        basis = columns.basis(model.n_outputs)
        if model.balanced or (params.ndim == 2 and not model.quadratic):

            def matrix(point: np.ndarray, fold: np.ndarray) -> np.ndarray:
                return self._at(point).hessian(self._without(fold)).damped(damping).matrix

            return DenseFolds(np.array(each_fold(matrix, params, folds, "Hessians")), basis=basis)
        point = self._at(np.atleast_2d(params)[0])  # of a quadratic F as good as any other
        if whole is not None:
            point.whole = whole
        if self._share_a_matrix(folds):
            downdates = Downdates(point, folds, damping)
            if downdates.sharp:
                return downdates
        matrices = np.tile(point.whole.damped(damping).matrix, (len(folds), 1, 1))
        for matrix, fold in zip(matrices, folds.omitted, strict=True):
            matrix -= gram(columns.standard[fold], point.curvature[fold])
            matrix -= np.diag(model.sample_weight[fold].sum() * model.standard_pull)
        left = DenseFolds(matrices, basis=basis)
        bounded = model.quadratic or model.prior.any() or model.pull.any()  # not: `check_refits`
        if bounded and (lost := np.flatnonzero(left.shares < DIGITS)).size:
            model.check_refits(np.broadcast_to(params, (len(folds), model.n_params)), folds)
            lost_fold = LOST.format(folds.name(lost[0]))
            raise np.linalg.LinAlgError(lost_fold if folds.sizes[lost[0]] else SINGULAR)
        return left

    def _share_a_matrix(self, folds):
        """Whether folds are of one row, or of few beside the columns, and of one weight at need."""
        model = self.model
        rows = folds.sizes.max()
        few = rows == 1 or 0 < 2 * rows <= model.columns.standard.shape[1]
        weights = folds.indicator(self.n_sites) @ (model.site_penalty * model.sample_weight)
        return few and not model.balanced and np.ptp(weights) <= 1e-14 * weights.max()

    def portions(self, folds: Folds, n_params: int) -> list[slice]:
        """All at once where the folds are of one row and share a matrix."""
        if folds.sizes.max() == 1 and self._share_a_matrix(folds):
            return [slice(0, len(folds))]
        return super().portions(folds, n_params)

    def traces(self, fit: Fit) -> tuple[np.ndarray, np.ndarray]:
        """(tr H^-1 H_n, leverages of its row (n, q, q)) of each site, of no balanced classes."""
        model = self.model
        inverse = np.linalg.inv(fit.hessian.matrix)
        of_rows = leverages(inverse, model.columns.standard)
        of_losses = np.einsum("nij,nji->n", self._at(fit.params).curvature, of_rows)
        return of_losses + model.sample_weight * (model.standard_pull @ np.diag(inverse)), of_rows

    def newton_bounds(
        self, fit: Fit, folds: Folds
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Of single rows, where |F'''[u, v, v]| <= R |u| F''[v, v].

        The refit is within -log(1 - R s) / R - s of the end of a step of length s.

        Source: Bach (2010), Propositions 1 and 2.
        """
        model = self.model
        single = folds.sizes.max() == 1 and self._share_a_matrix(folds)
        if not (model.family.self_concordant and single):
            return None
        try:
            hessians = self.fold_hessians(fit.params, folds, 0.0, fit.hessian)
            ends = hessians.newton_ends(self, fit.params, folds)
        except np.linalg.LinAlgError:  # a fold without a Newton step
            return None
        traces, of_rows = self.traces(fit)
        spreads = model.family.spreads(of_rows) * model.observed  # of scores, a standard error
        sites = folds.omitted.sites
        second, first = np.sort(spreads)[-2:]
        rates = np.where(spreads[sites] < first, first, second)
        share = np.sqrt(np.maximum(1.0 - traces[sites], 0.0))
        steps = fit.standard_errors_between(ends, fit.params)
        slopes = self._fold_sums(ends, Folds(folds.scored), np.ones(self.n_sites))
        lengths = np.sqrt(np.einsum("nd,nd->n", slopes, fit.hessian.solve(slopes.T).T))
        with np.errstate(all="ignore"):  # far out the bounds are infinite
            reach = np.minimum(rates * steps / share, 1.0)
            radius = (-np.log1p(-reach) / np.maximum(reach, 1e-9) - 1.0) * steps / share
            change = (lengths + 0.5 * radius) * radius * np.exp(first * radius)
        return ends, radius, change


def own_scores(model: Any, params: np.ndarray, sites: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """eta (q, n) of sites (n,), the first sizes[0] at params[0] (D,) and so on."""
    theta = model.columns.inward(params).reshape(len(params), model.n_outputs, -1)
    fold = np.repeat(np.arange(len(sizes)), sizes)

    def of_rows(rows: slice):
        z = model.columns.standard[span(sites[rows])]
        return np.einsum("nqd,nd->nq", theta[span(fold[rows])], z)

    tiles = pieces(len(sites), max(16, HELD // model.n_params))
    return np.concatenate(in_blas_threads(of_rows, tiles)).T


def span(rows: np.ndarray) -> np.ndarray | slice:
    """The rows as a slice, which copies nothing, where they follow one another."""
    follow = len(rows) > 0 and bool((np.diff(rows) == 1).all())
    return slice(rows[0], rows[0] + len(rows)) if follow else rows
