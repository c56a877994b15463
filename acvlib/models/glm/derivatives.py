"""Derivatives of a regression in closed form, for one weighting or many folds.

Sums are over standard columns z; params and derivatives that come and go are those of x.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...derivatives import Derivatives
from ...folds import Folds
from ...folds import weights as fold_weights
from ...parallel import each_fold, in_blas_threads, pieces
from ...results import Fit
from ...solvers.inverse import FoldSolver, Solvable
from .hessians import Downdates, OwnHessians, Point, gram, leverages, own_scores

FOLDS = 128  # folds, and sites, handled together: the work array stays in the cache
SITES = 512
SINGLE = 5e-7  # relative error of slopes that change in float32, in standard errors; tested


class RegressionDerivatives(Derivatives):
    """Of any F; folds one by one."""

    hessians_first = True
    _last: Point | None = None

    def _at(self, params):
        """The point at params (D,), kept for the next question about it."""
        point = self._last
        if point is None or not np.array_equal(point.params, params):
            point = Point(self.model, params)
            self._last = point  # another thread may replace it
        return point

    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """(F, (w s slope) (x) z + ridge theta)."""
        model = self.model
        point = self._at(params)
        each = model.balanced_weights(weights)
        losses = model.sample_weight * model.family.losses(point.eta, model.responses)
        pulls = model.ridge(weights @ model.sample_weight) * params
        gradient = model.columns.gradient(point.gradient(each))
        return float(each @ losses + 0.5 * pulls @ params), gradient + pulls

    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        """sum_n w_n s_n C_n (x) z_n z_n' + diag(ridge)."""
        point = self._at(params)
        return point.whole if (weights == 1.0).all() else point.hessian(weights)

    def fold_hessians(
        self, params: np.ndarray, folds: Folds, damping: float = 0.0, whole: Solvable | None = None
    ) -> FoldSolver:
        """H(w_o) + damping I."""
        matrices = each_fold(self._fold_matrix, params, folds, "Hessians")
        return OwnHessians(self.model.columns, np.array(matrices), damping)

    def _fold_matrix(self, params, fold):
        return Point(self.model, params).hessian(fold_weights(self.n_sites, fold)).matrix

    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray] | np.ndarray:
        """-log p(y_n | x_n; params) of the scored sites."""
        sites, sizes = folds.scored.sites, folds.scored.sizes
        eta = self._scores(params, sites, sizes)
        return folds.split(self.model.family.losses(eta, self.model.responses[..., sites]))

    def prior_gradients(self, params: np.ndarray) -> np.ndarray:
        """prior theta."""
        return self.model.prior * params

    def _scores(self, params, sites, sizes):
        """eta (q, .) of sites, the first sizes[0] at params[0] and so on, or all at params (D,)."""
        if params.ndim == 1:
            return self._at(params).eta[:, sites]
        return own_scores(self.model, params, sites, sizes)

    def _fold_sums(self, params, folds, weights):
        """sum_o weight slope (x) z over the sites that each fold omits, (n_folds, D)."""
        model = self.model
        omitted = folds.indicator(self.n_sites)
        sites = omitted.indices
        eta = self._scores(params, sites, folds.sizes)
        sums = []
        for slope in model.family.slope(eta, model.responses[..., sites]):
            omitted.data = slope * weights[sites]
            sums.append(omitted @ model.columns.standard)
        return sums[0] if len(sums) == 1 else np.hstack(sums)


class LinearDerivatives(RegressionDerivatives):
    """Of an F that is linear in the weights: what folds omit is taken from sums over all sites."""

    def cross_matrix(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """s (slope (x) z + pull theta) of each site, a column each."""
        model = self.model
        slopes = np.einsum("qn,nd->nqd", self._at(params).slope, model.columns.standard)
        losses = model.columns.gradient(slopes.reshape(self.n_sites, -1))
        return (losses + np.outer(model.sample_weight, model.pull * params)).T

    def weighted(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(F, gradients, Hessians), all in matrix products where there is one linear predictor."""
        model = self.model
        z = model.columns.standard
        n_params = z.shape[1]
        if model.n_outputs > 1 or not model.columns.plain:
            return super().weighted(params, weights)
        eta = model.predictors(params)[:, 0]
        each = weights * model.sample_weight
        pulls = model.ridge(each.sum(axis=1, keepdims=True)) * np.ones(n_params)
        values = (each * model.family.loss(eta, model.y)).sum(axis=1)
        gradients = (each * model.family.slope(eta, model.y)) @ z + pulls * params
        curvature = each * model.family.curvature(eta, model.y)
        hessians = pulls[:, None] * np.eye(n_params)
        for sites in pieces(self.n_sites, SITES):
            squares = z[sites, :, None] * z[sites, None]
            hessians += np.tensordot(curvature[:, sites], squares, axes=1)
        return values + 0.5 * (pulls * params**2).sum(axis=1), gradients, hessians

    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """-sum_o of the sites' gradients."""
        model = self.model
        sums = -model.columns.gradient(self._fold_sums(params, folds, model.sample_weight))
        if model.site_penalty:
            sums -= self._omitted_weight(folds)[:, None] * model.pull * params
        return sums

    def fold_gradients(
        self, params: np.ndarray, folds: Folds, values: bool = True
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """(F, dF/dparams) of each fold; F one by one."""
        if values or len(folds) == 1:
            return super().fold_gradients(params, folds, values)
        model = self.model
        if params.ndim == 1:
            whole = self._at(params).gradient(np.ones(self.n_sites))
        else:
            arrays = model.responses, model.offset

            def slope(eta: Any, y: Any, offset: Any):
                return model.family.slope(eta + offset, y)

            whole = self._whole_sums(slope, arrays, model.sample_weight, params, float)
        return None, self._less_omitted(whole, params, folds)

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
        curvature = point.curvature[:, 0, 0]
        whole = self._whole_sums(change, [mean], curvature, moves, np.float32)
        whole += point.gradient(np.ones(self.n_sites))
        return self._less_omitted(whole, params, folds)

    def _whole_sums(self, slope, arrays, weights, points, dtype):
        """sum_n weight slope(points z_n, arrays_n) (x) z_n over all sites, (n_folds, D)."""
        z = self.model.columns.standard
        theta = self.model.columns.inward(points).reshape(len(points), -1, z.shape[1])
        theta, z, weights = (each.astype(dtype, copy=False) for each in (theta, z, weights))

        def of_points(few: slice):
            total = np.zeros(theta[few].shape)
            for sites in pieces(self.n_sites, SITES):
                eta = np.tensordot(theta[few], z[sites], axes=(-1, 1))
                slopes = slope(eta, *(each[..., sites] for each in arrays))
                slopes *= weights[sites]
                total += np.tensordot(slopes, z[sites], axes=1)
            return total.reshape(len(total), -1)

        return np.concatenate(in_blas_threads(of_points, pieces(len(points), FOLDS), "gradients"))

    def _less_omitted(self, whole, params, folds):
        """dF/dparams of each fold, of sums over all sites in standard params, (n_folds, D)."""
        model = self.model
        sums = whole - self._fold_sums(params, folds, model.sample_weight)
        total = model.sample_weight.sum()
        if model.site_penalty:
            total = total - self._omitted_weight(folds)[:, None]
        return model.columns.gradient(sums) + model.ridge(total) * params

    def _omitted_weight(self, folds):
        return folds.indicator(self.n_sites) @ self.model.sample_weight

    def fold_hessians(
        self, params: np.ndarray, folds: Folds, damping: float = 0.0, whole: Solvable | None = None
    ) -> FoldSolver:
        """H(w_o) + damping I: downdates of one matrix where folds are small, else one each."""
        model = self.model
        if params.ndim == 2 and len(folds) > 1 and not model.quadratic:
            return super().fold_hessians(params, folds, damping)
        point = self._at(np.atleast_2d(params)[0])  # of a quadratic F as good as any other
        if whole is not None:
            point.whole = whole
        if params.ndim == 1 and self._share_a_matrix(folds):
            downdates = Downdates(point, folds, damping)
            if downdates.sharp:
                return downdates
        total = model.sample_weight.sum()
        matrices = []
        for fold, weight in zip(folds, self._omitted_weight(folds), strict=True):
            pull = model.standard_ridge(total) - model.standard_ridge(total - weight)
            omitted = gram(model.columns.standard[fold], point.curvature[fold]) + np.diag(pull)
            matrices.append(point.whole.matrix - omitted)
        return OwnHessians(model.columns, np.array(matrices), damping)

    def _share_a_matrix(self, folds):
        """Whether folds are of one row, or of few beside the columns, and of one weight at need."""
        rows = folds.sizes.max()
        few = rows == 1 or 0 < 2 * rows <= self.model.columns.standard.shape[1]
        if not (few and self.model.site_penalty):
            return few
        weights = self._omitted_weight(folds)
        return np.ptp(weights) <= 1e-14 * weights.max()

    def fold_expansion(
        self, params: np.ndarray, folds: Folds, damping: float = 0.0, whole: Solvable | None = None
    ) -> tuple[np.ndarray | None, FoldSolver]:
        """The gradients are None where the Hessians know them, whose steps take half the time."""
        hessians = self.fold_hessians(params, folds, damping, whole)
        if isinstance(hessians, Downdates):
            return None, hessians
        return self.fold_gradients(params, folds, values=False)[1], hessians

    def portions(self, folds: Folds, n_params: int) -> list[slice]:
        """All at once where the folds are of one row and share a matrix."""
        if folds.sizes.max() == 1 and self._share_a_matrix(folds):
            return [slice(0, len(folds))]
        return super().portions(folds, n_params)

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
        where = (fit.params, folds, 0.0, fit.hessian)
        try:
            ends = self.fold_hessians(*where).step_from(fit.params, None)
        except np.linalg.LinAlgError:  # a fold without a Newton step
            return None
        of_rows = leverages(np.linalg.inv(fit.hessian.matrix), model.columns.standard)
        traces = np.einsum("nij,nji->n", self._at(fit.params).curvature, of_rows)
        spreads = model.family.spreads(of_rows) * model.observed  # of scores, a standard error
        sites = folds.omitted.sites
        share = np.sqrt(np.maximum(1.0 - traces[sites], 0.0))
        steps = fit.standard_errors_between(ends, fit.params)
        second, first = np.sort(spreads)[-2:]
        rates = np.where(spreads[sites] < first, first, second)
        scored = self._fold_sums(ends, Folds(folds.scored), np.ones(self.n_sites))
        slopes = model.columns.gradient(scored)
        lengths = np.sqrt(np.einsum("nd,nd->n", slopes, fit.hessian.solve(slopes.T).T))
        with np.errstate(all="ignore"):  # far out the bounds are infinite
            reach = np.minimum(rates * steps / share, 1.0)
            radius = (-np.log1p(-reach) / np.maximum(reach, 1e-9) - 1.0) * steps / share
            change = (lengths + 0.5 * radius) * radius * np.exp(first * radius)
        return ends, radius, change
