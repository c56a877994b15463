"""Derivatives of a GLM in closed form, for one weighting or many folds; tested against autograd."""

from collections.abc import Sequence

import numpy as np

from ...concordance import Concordance, NotConcordant
from ...folds import Folds
from ...folds.checks import end_to_end
from ...parallel import one_blas_thread
from ...protocol import Fit, override
from ...solvers.inverse import DenseHessian, FoldSolver, Solvable, invert
from .concordance import GLMConcordance
from .folds import Blocks, Point, SingleSites, SiteVectors
from .kept_point import KeepsPoint
from .sums import SINGLE, by_rows, many_grams, over_sites, row_sums, slope_changes, taken


class GLMDerivatives(KeepsPoint):
    """F is linear in the weights: what a fold omits is taken from the sum over all sites."""

    _point_of = Point

    def __init__(self, model):
        super().__init__(model)
        self._x = model.design
        self._y = model.y
        self._s = model.sample_weight
        self._offset = model.offset
        self._family = model.family
        self._pull = model.pull

    # one weighting, or a row for each of many

    @override
    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """(F, X'(w s slope) + lambda beta)."""
        eta = self._at(params).eta
        value, gradient = self._values_and_gradients(params, weights * self._s, eta)
        return float(value), gradient

    @override
    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        """X' diag(w s curvature) X + lambda P."""
        return DenseHessian(self._at(params).hessian(weights))

    @override
    def cross_matrix(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """s (slope x + site_penalty beta) of each site, a column each."""
        losses = self._at(params).slope * self._x.T
        penalty = np.outer(self._pull * params, self._s)
        return losses + penalty

    @override
    def weighted(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(F, gradients, Hessians), all in matrix products."""
        eta = params @ self._x.T + self._offset
        weights = weights * self._s
        values, gradients = self._values_and_gradients(params, weights, eta)
        hessians = many_grams(self._x, weights * self._family.curvature(eta, self._y))
        ridge = self.model.ridge(weights.sum(axis=1))
        hessians += ridge[..., None] * np.eye(ridge.shape[-1])
        return values, gradients, hessians

    def _values_and_gradients(self, params, weights, eta):
        ridge = self.model.ridge(weights.sum(axis=-1))
        losses = weights * self._family.loss(eta, self._y)
        slopes = weights * self._family.slope(eta, self._y)
        penalty = 0.5 * np.sum(ridge * params**2, axis=-1)
        with one_blas_thread:
            gradients = slopes @ self._x
        gradients += ridge * params
        return losses.sum(axis=-1) + penalty, gradients

    # folds

    @override
    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """-sum_o s (slope x + site_penalty beta)."""
        omitted = folds.indicator(self.n_sites)
        total = omitted @ self._s
        omitted.data = -taken(self._at(params).slope, omitted.indices)
        sums = omitted @ self._x
        if self.model.site_penalty:
            sums -= total[:, None] * (self._pull * params)
        return sums

    @override
    def solved_cross(self, params: np.ndarray, folds: Folds, hessian: Solvable) -> np.ndarray:
        """H^-1 J (w_o - 1), for single sites without J in memory."""
        inverse = getattr(hessian, "inverse", None)
        if inverse is None or not self._share_an_inverse(folds):
            return super().solved_cross(params, folds, hessian)
        sites = folds.table[:, 0]
        at = self._at(params)
        pull = self._s[sites[0]] * self._pull * params
        opposite = SiteVectors(pull[None], taken(at.slope, sites))
        unchanged = SingleSites(at, sites, inverse, np.zeros(self.n_sites))
        return unchanged.step_from(np.zeros_like(params), opposite)

    @override
    def fold_gradients(
        self, params: np.ndarray, folds: Folds, values: bool = True
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """(F, dF/dparams) of each fold."""
        if len(folds) == 1:
            return super().fold_gradients(params, folds, values)
        if params.ndim == 1:
            return self._gradients_at_one_point(params, folds)

        def sums(points, sites):
            return self._sums(points, sites, values)

        kept = over_sites(sums, params, self.n_sites)
        kept -= self._omitted_sums(params, folds)
        pull = self._fold_ridge(folds) * params
        kept[:, 0] += 0.5 * row_sums(pull, params)
        kept[:, 1:] += pull
        return kept[:, 0], kept[:, 1:]

    @override
    def chord_gradients(
        self, params: np.ndarray, folds: Folds, centre: np.ndarray, accuracy: float
    ) -> np.ndarray:
        """dF/dparams, in single precision where that is as accurate: in half the time.

        Only the change from the centre is, which is small, and so is its rounding error.
        """
        moves = params - centre
        if not self._single_is_enough(moves, centre, accuracy):
            return super().chord_gradients(params, folds, centre, accuracy)
        at = self._at(centre)
        mean = self._family.mean(at.eta)
        slopes = slope_changes(self._family, self._x, mean, at.curvature, moves)
        slopes += self._total_slope(centre)
        slopes -= self._omitted_sums(params, folds)[:, 1:]
        slopes += self._fold_ridge(folds) * params
        return slopes

    def _single_is_enough(self, moves, centre, accuracy):
        """Whether single precision is accurate enough, and there are moves enough to gain by it."""
        if self._family.change is None or len(moves) <= len(centre):
            return False
        return SINGLE * self._at(centre).distances(moves).max() <= accuracy

    @override
    def fold_hessians(
        self,
        params: np.ndarray,
        folds: Folds,
        damping: float = 0.0,
        whole: Solvable | None = None,
    ) -> FoldSolver:
        """H(w_o): downdates of one H where the params are (D,). Raises LinAlgError if singular."""
        if params.ndim == 2 or not folds.sizes.all():
            return super().fold_hessians(params, folds, damping, whole)
        point = self._at(params)
        matrix = point.whole if whole is None else np.asarray(whole)
        damped = matrix + damping * np.eye(len(matrix)) if damping else matrix
        if self._share_an_inverse(folds):
            sites = folds.table[:, 0]
            base = invert(damped - point.pull(sites[:1]))
            return SingleSites(point, sites, base, point.curvature)
        return Blocks(point, damped, folds)

    @override
    def fold_expansion(
        self,
        params: np.ndarray,
        folds: Folds,
        damping: float = 0.0,
        whole: Solvable | None = None,
    ) -> tuple[np.ndarray | SiteVectors, FoldSolver]:
        """The gradients of single sites as `SiteVectors`, whose steps take half the time."""
        if not self._share_an_inverse(folds):
            return super().fold_expansion(params, folds, damping, whole)
        rest = self._total_slope(params) + self._fold_ridge(folds[:1]) * params
        slopes = taken(self._at(params).slope, folds.table[:, 0])
        H = self.fold_hessians(params, folds, damping, whole)
        return SiteVectors(np.atleast_2d(rest), -slopes), H

    @override
    def concordance(self, fit: Fit) -> Concordance:
        """By the steepness of the loss."""
        family = self._family
        if not (family.self_concordant or family.steepness):
            raise NotConcordant(f"no bound on |third| / curvature of {family.name} is known")
        return GLMConcordance(self.model, fit, self._share_an_inverse)

    @override
    def portions(self, folds: Folds, n_params: int) -> list[slice]:
        """All at once where the folds share one matrix."""
        if self._share_an_inverse(folds):
            return [slice(0, len(folds))]
        return super().portions(folds, n_params)

    @override
    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray] | np.ndarray:
        """-log p(y_n | x_n; params) of the scored sites."""
        sites, sizes = end_to_end(folds.scored)
        if params.ndim == 1:
            eta = self._at(params).eta[sites]
        else:
            eta = self._own_eta(params, sites, sizes)
        losses = self._family.loss(eta, self._y[sites])
        if isinstance(folds.scored, np.ndarray):
            return losses.reshape(folds.scored.shape)
        return np.split(losses, np.cumsum(sizes)[:-1])

    @override
    def heldout_gradients(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """sum_o slope x of the scored sites."""
        scored = Folds(folds.scored)
        sites, sizes = end_to_end(scored)
        slopes = scored.indicator(self.n_sites)
        slopes.data = self._family.slope(self._own_eta(params, sites, sizes), self._y[sites])
        return slopes @ self._x

    @override
    def prior_gradients(self, params: np.ndarray) -> np.ndarray:
        """lambda(0) beta."""
        return self.model.ridge(np.zeros(len(params))) * params

    # one point

    def _total_slope(self, params):
        with one_blas_thread:
            return self._at(params).slope @ self._x

    def _fold_ridge(self, folds):
        omitted = folds.indicator(self.n_sites) @ self._s
        return self.model.ridge(self._s.sum() - omitted)

    def _share_an_inverse(self, folds):
        """Whether the folds are single sites that take the same penalty with them."""
        if folds.table is None or folds.table.shape[1] > 1:
            return False
        if not self.model.site_penalty:
            return True
        return np.ptp(self._s[folds.table]) == 0.0

    def _gradients_at_one_point(self, params, folds):
        value, gradient = self.value_and_gradient(params, np.ones(self.n_sites))
        losses = self._family.loss(self._at(params).eta, self._y)
        losses += 0.5 * self._pull @ params**2
        omitted = folds.indicator(self.n_sites)
        gradients = self.cross(params, folds)
        gradients += gradient
        return value - omitted @ (self._s * losses), gradients

    # many points

    def _sums(self, params, sites, values):
        """Sum [s loss, or 0 for no values, s slope x] over some sites, for each of params."""
        x = self._x[sites]
        y = self._y[sites]
        s = self._s[sites]
        eta = params @ x.T
        eta += self._offset[sites]
        slope = self._family.slope(eta, y)
        slope *= s
        losses = self._family.loss(eta, y) @ s if values else np.zeros(len(params))
        return np.column_stack([losses, slope @ x])

    def _omitted_sums(self, params, folds):
        """The same sums over each fold's own sites, at its own params."""
        omitted = folds.indicator(self.n_sites)
        sites = omitted.indices
        y = self._y[sites]
        s = self._s[sites]
        eta = self._own_eta(params, sites, folds.sizes)
        omitted.data = s * self._family.loss(eta, y)
        losses = omitted @ np.ones(self.n_sites)
        omitted.data = s * self._family.slope(eta, y)
        return np.column_stack([losses, omitted @ self._x])

    def _own_eta(self, params, sites, sizes):
        """eta of the sites, the first sizes[0] at params[0] and so on."""
        folds = np.repeat(np.arange(len(params)), sizes)

        def products(piece):
            x = taken(self._x, sites[piece])
            return row_sums(x, taken(params, folds[piece]))

        return by_rows(products, len(sites), 2**14) + self._offset[sites]
