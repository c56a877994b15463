"""Derivatives of a regression in closed form, for one weighting or many folds."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...concordance import Concordance
from ...derivatives import Derivatives
from ...folds import Folds
from ...folds.checks import end_to_end
from ...model import override
from ...parallel import one_blas_thread
from ...results import Fit
from ...solvers.inverse import FoldSolver, SameForAll, Solvable
from .concordance import concordance_of
from .folds import Bases, SingleSites, SiteVectors, hessians_around
from .hessians import JointHessian, TargetHessian
from .likelihoods import Gaussian
from .point import Point, in_params
from .sums import SINGLE, many_grams, over_sites, row_sums, slope_changes


class RegressionDerivatives(Derivatives):
    """What a fold omits is taken from sums over the sites of each class, weighted anew."""

    hessians_first = True

    def __init__(self, model: Any):
        super().__init__(model)
        self._x = model.design
        self._y = model.y
        self._classes = model.balance.classes
        self._one_class = model.balance.n_classes == 1
        self._likelihood = model.likelihood
        self._pull = model.pull
        self._last: Point | None = None

    def _at(self, params):
        """The point at params (D,), kept for the next question about it."""
        point = self._last
        if point is None or not np.array_equal(point.params, params):
            point = Point(self.model, params)
            self._last = point  # another thread may replace it
        return point

    @override
    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """(F, Q' (w s slope) X + ridge theta)."""
        model = self.model
        point = self._at(params)
        relative = model.balance.relative(weights)
        losses = model.full_weights * self._likelihood.loss(point.scores, self._y)
        pulls = model.ridge(weights @ model.sample_weight) * params
        with one_blas_thread:
            gradient = in_params(self.model, (point.slope * relative) @ self._x)
        return float(relative @ losses + 0.5 * pulls @ params), gradient + pulls

    @override
    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        """sum_n w_n s_n C_n (x) x_n x_n' + diag(ridge)."""
        point = self._at(params)
        return point.whole if (weights == 1.0).all() else point.hessian(weights)

    @override
    def cross_matrix(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """s (slope (x) x + pull theta) of each site, a column each; by autograd if balanced."""
        if not self._one_class:
            return super().cross_matrix(params, weights)
        slopes = self._likelihood.spread.T @ self._at(params).slope
        losses = slopes[:, None, :] * self._x.T
        penalty = np.outer(self._pull * params, self.model.sample_weight)
        return losses.reshape(len(params), self.n_sites) + penalty

    @override
    def weighted(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(F, gradients, Hessians), all in matrix products where there is one linear predictor."""
        model = self.model
        if model.n_outputs > 1 or not self._one_class:
            return super().weighted(params, weights)
        eta = params @ self._x.T + model.offset
        weights = weights * model.sample_weight
        ridge = model.ridge(weights.sum(axis=1, keepdims=True))
        values = row_sums(weights, self._likelihood.loss(eta[:, None], self._y))
        values += 0.5 * row_sums(ridge * params, params)
        with one_blas_thread:
            gradients = (weights * self._likelihood.residual(eta, self._y)) @ self._x
        curvature = self._likelihood.curvature(eta[None], self._y)[:, 0, 0]
        hessians = many_grams(self._x, weights * curvature)
        hessians += ridge[:, None, :] * np.eye(params.shape[1])
        return values, gradients + ridge * params, hessians

    # folds

    @override
    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """-sum_o of the sites' gradients, and what the classes' weights change."""
        balance = self.model.balance
        sums = self._less_omitted(params, folds, np.ones((len(folds), balance.n_classes)))
        if not self._one_class:
            sums += self._at(params).gradients(balance.slopes(folds))
        if self._pull.any():
            sums -= self._omitted_weight(folds) * self._pull * params
        return sums

    @override
    def fold_gradients(
        self, params: np.ndarray, folds: Folds, values: bool = True
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """(F, dF/dparams) of each fold."""
        if len(folds) == 1:
            return super().fold_gradients(params, folds, values)
        factors = self.model.balance.factors(folds)
        if params.ndim == 1:
            gradients = self._less_omitted(params, folds, factors)
            distinct = factors[:1] if self._one_class else factors
            gradients += self._at(params).gradients(distinct)
            found = self._at(params).kept_losses(folds, factors) if values else None
        else:
            sums = self._kept_sums(params, folds, factors, values)
            gradients = in_params(self.model, sums[:, 1:].reshape(len(folds), -1, self._x.shape[1]))
            found = sums[:, 0] if values else None
        pulls = self._fold_ridge(folds) * params
        gradients += pulls
        if found is not None:
            found += 0.5 * np.sum(pulls * params, axis=-1)
        return found, gradients

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
        family = self._likelihood.family
        at = self._at(centre)
        mean = family.mean(at.scores[0])
        slopes = slope_changes(family, self._x, mean, at.curvature[:, 0, 0], moves)
        slopes += (at.slope @ self._x)[0]
        slopes -= self._omitted_sums(params, folds, np.ones((len(folds), 1)), False)[:, 1:]
        slopes += self._fold_ridge(folds) * params
        return slopes

    def _single_is_enough(self, moves, centre, accuracy):
        """Whether single precision is accurate enough, and there are moves enough to gain by it."""
        family = getattr(self._likelihood, "family", None)
        if family is None or family.change is None or len(moves) <= len(centre):
            return False
        return SINGLE * self._at(centre).distances(moves).max() <= accuracy

    @override
    def fold_hessians(
        self, params: np.ndarray, folds: Folds, damping: float = 0.0, whole: Solvable | None = None
    ) -> FoldSolver:
        """H(w_o): downdates of few Hessians where the params are (D,).

        Raises LinAlgError where one of a single predictor is singular.
        """
        if len(folds) == 1 and not folds.sizes[0]:
            everywhere = self._at(np.atleast_2d(params)[0]).whole.damped(damping)
            if not everywhere.indefinite:
                return SameForAll(everywhere, np.ones(1))
        together = params.ndim == 1 and bool(folds.sizes.all())
        if isinstance(self._likelihood, Gaussian):
            params = np.atleast_2d(params)[0]  # as good as any other
        elif not together:
            return super().fold_hessians(params, folds, damping, whole)
        point = self._at(params)
        if isinstance(whole, JointHessian | TargetHessian):
            point.whole = whole
        return hessians_around(point, folds, damping, together)

    @override
    def fold_expansion(
        self, params: np.ndarray, folds: Folds, damping: float = 0.0, whole: Solvable | None = None
    ) -> tuple[np.ndarray | SiteVectors, FoldSolver]:
        """The gradients of single sites as `SiteVectors`, whose steps take half the time."""
        hessians = self.fold_hessians(params, folds, damping, whole)
        if not isinstance(hessians, SingleSites):
            return self.fold_gradients(params, folds, values=False)[1], hessians
        sites, keys, base_of = hessians.bases
        point = self._at(params)
        factors = keys[:, :-1]
        slopes = point.slope[:, sites] * factors[base_of, self._classes[sites]]
        total = self.model.sample_weight.sum() - keys[:, -1:]
        rest = point.gradients(factors) + self.model.ridge(total) * params
        return SiteVectors(rest, -slopes.T @ self._likelihood.spread), hessians

    @override
    def concordance(self, fit: Fit) -> Concordance:
        """By how far scores move apart, and the steepness of the loss."""
        return concordance_of(self.model, fit, self._share_inverses)

    @override
    def portions(self, folds: Folds, n_params: int) -> list[slice]:
        """All at once where the folds share a few matrices."""
        if self._share_inverses(folds):
            return [slice(0, len(folds))]
        return super().portions(folds, self._x.shape[1] if self.model.quadratic else n_params)

    @override
    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray] | np.ndarray:
        """-log p(y_n | x_n; params) of the scored sites."""
        sites, sizes = end_to_end(folds.scored)
        if params.ndim == 1:
            scores = self._at(params).scores[:, sites]
        else:
            scores = self.model.own_scores(params, sites, sizes)
        losses = self._likelihood.loss(scores, self._y[sites])
        if isinstance(folds.scored, np.ndarray):
            return losses.reshape(folds.scored.shape)
        return np.split(losses, np.cumsum(sizes)[:-1])

    @override
    def heldout_gradients(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """Q' sum_o slope x of the scored sites."""
        scored = Folds(folds.scored)
        sites, sizes = end_to_end(scored)
        scores = self.model.own_scores(params, sites, sizes)
        slopes = self._likelihood.residual(scores, self._y[sites])
        return in_params(self.model, self._sums_of(scored.indicator(self.n_sites), slopes))

    @override
    def prior_gradients(self, params: np.ndarray) -> np.ndarray:
        """prior theta."""
        return self.model.prior * params

    # one point

    def _omitted_weight(self, folds):
        """(n_folds, 1)."""
        return (folds.indicator(self.n_sites) @ self.model.sample_weight)[:, None]

    def _fold_ridge(self, folds):
        """(n_folds, D), or (D,) where no weight changes it."""
        if not self._pull.any():
            return self.model.prior
        return self.model.ridge(self.model.sample_weight.sum() - self._omitted_weight(folds))

    def _less_omitted(self, params, folds, kept):
        """-kept (n_folds, C) times the gradients of the sites that a fold omits, (n_folds, D)."""
        omitted = folds.indicator(self.n_sites)
        sites = omitted.indices
        shares = kept[np.repeat(np.arange(len(folds)), folds.sizes), self._classes[sites]]
        slopes = self._at(params).slope[:, sites] * -shares
        return in_params(self.model, self._sums_of(omitted, slopes))

    def _sums_of(self, omitted, slopes):
        """sum_o slope_k x of slopes (K, .) of all omitted sites, (n_folds, K, D')."""
        sums = []
        for slope in slopes:
            omitted.data = slope
            sums.append(omitted @ self._x)
        return sums[0][:, None] if len(sums) == 1 else np.stack(sums, axis=1)

    def _share_inverses(self, folds):
        return Bases.of(self.model, folds) is not None

    # many points

    def _kept_sums(self, params, folds, factors, values):
        """[sum loss, sum residual x'] over the sites that each fold keeps, (n_folds, 1 + K D')."""

        def sums(few, sites):
            shares = factors[few][:, self._classes[sites]] * self.model.full_weights[sites]
            scores = self.model.scores(params[few], self._x[sites]) + self.model.offset[sites]
            residuals = self._likelihood.residual(scores, self._y[sites]) * shares[:, None]
            losses = np.zeros(len(shares))
            if values:
                losses = row_sums(self._likelihood.loss(scores, self._y[sites]), shares)
            products = np.tensordot(residuals, self._x[sites], axes=1)
            return np.column_stack([losses, products.reshape(len(losses), -1)])

        kept = over_sites(sums, len(folds), self.n_sites)
        return kept - self._omitted_sums(params, folds, factors, values)

    def _omitted_sums(self, params, folds, factors, values):
        """The same sums over each fold's own sites, at its own params."""
        omitted = folds.indicator(self.n_sites)
        sites = omitted.indices
        scores = self.model.own_scores(params, sites, folds.sizes)
        fold = np.repeat(np.arange(len(folds)), folds.sizes)
        shares = factors[fold, self._classes[sites]] * self.model.full_weights[sites]
        losses = np.zeros(len(folds))
        if values:
            omitted.data = shares * self._likelihood.loss(scores, self._y[sites])
            losses = omitted @ np.ones(self.n_sites)
        residuals = shares * self._likelihood.residual(scores, self._y[sites])
        products = self._sums_of(omitted, residuals)
        return np.column_stack([losses, products.reshape(len(losses), -1)])
