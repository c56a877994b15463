"""Derivatives of a regression in closed form, for one weighting or many folds."""

from collections.abc import Sequence

import numpy as np

from ...derivatives import Derivatives, each_fold
from ...folds import Folds
from ...folds import weights as fold_weights
from ...folds.checks import end_to_end
from ...model import override
from ...parallel import one_blas_thread
from ...results import Fit
from ...solvers.inverse import FoldSolver, SameForAll, Solvable
from .downdates import Bases, Downdates
from .folds import Blocks, hessians_around
from .hessians import Hessian
from .point import Point
from .sums import SINGLE, many_grams, over_sites, row_sums, slope_changes


class RegressionDerivatives(Derivatives):
    """What a fold omits is taken from sums over the sites of each class, weighted anew.

    Sums are over standard columns z; params and derivatives that come and go are those of x.
    """

    hessians_first = True
    _last: Point | None = None

    def _at(self, params):
        """The point at params (D,), kept for the next question about it."""
        point = self._last
        if point is None or not np.array_equal(point.params, params):
            point = Point(self.model, params)
            self._last = point  # another thread may replace it
        return point

    @property
    def _z(self):
        return self.model.columns.standard

    @override
    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """(F, (w s slope) (x) z + ridge theta)."""
        model = self.model
        point = self._at(params)
        relative = model.balance.relative(weights)
        losses = model.full_weights * model.likelihood.loss(point.eta, model.responses)
        pulls = model.ridge(weights @ model.sample_weight) * params
        with one_blas_thread:
            slopes = (point.slope * relative) @ self._z
        gradient = model.columns.gradient(slopes.ravel())
        return float(relative @ losses + 0.5 * pulls @ params), gradient + pulls

    @override
    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        """sum_n w_n s_n C_n (x) z_n z_n' + diag(ridge)."""
        point = self._at(params)
        return point.whole if (weights == 1.0).all() else point.hessian(weights)

    @override
    def cross_matrix(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """s (slope (x) z + pull theta) of each site, a column each; by autograd if balanced."""
        model = self.model
        if model.balance.n_classes > 1:
            return super().cross_matrix(params, weights)
        slopes = np.einsum("qn,nd->nqd", self._at(params).slope, self._z)
        losses = model.columns.gradient(slopes.reshape(self.n_sites, -1))
        return (losses + np.outer(model.sample_weight, model.pull * params)).T

    @override
    def weighted(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(F, gradients, Hessians), all in matrix products where there is one linear predictor."""
        model = self.model
        several = model.family == "multinomial" or model.n_outputs > 1
        if several or not model.columns.plain:
            return super().weighted(params, weights)
        eta = model.predictors(params)
        weights = weights * model.sample_weight
        pulls = model.ridge(weights.sum(axis=1, keepdims=True)) * np.ones_like(params)
        values = row_sums(weights, model.likelihood.loss(eta, model.responses))
        values += 0.5 * row_sums(pulls * params, params)
        with one_blas_thread:
            slopes = model.likelihood.slope(eta, model.responses)[:, 0]
            gradients = (weights * slopes) @ self._z + pulls * params
        curvature = weights * model.family.curvature(eta[:, 0], model.y)
        ridges = pulls[:, None, :] * np.eye(params.shape[1])
        return values, gradients, many_grams(self._z, curvature) + ridges

    # folds

    @override
    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """-sum_o of the sites' gradients, and what the classes' weights change."""
        model = self.model
        sums = self._less_omitted(params, folds, np.ones((len(folds), model.balance.n_classes)))
        if model.balance.n_classes > 1:
            sums += self._at(params).gradients(model.balance.slopes(folds))
        sums = model.columns.gradient(sums)
        if model.pull.any():
            sums -= self._omitted_weight(folds) * model.pull * params
        return sums

    @override
    def fold_gradients(
        self, params: np.ndarray, folds: Folds, values: bool = True
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """(F, dF/dparams) of each fold."""
        if len(folds) == 1:
            return super().fold_gradients(params, folds, values)
        factors = self.model.balance.factors(folds)
        losses = None
        if params.ndim == 1:
            gradients = self._less_omitted(params, folds, factors)
            gradients += self._at(params).gradients(
                factors if factors.shape[1] > 1 else factors[:1]
            )
            losses = self._at(params).kept_losses(folds, factors) if values else None
        else:
            sums = self._kept_sums(params, folds, factors, values)
            gradients = sums[:, 1:]
            losses = sums[:, 0] if values else None
        pulls = self._fold_ridge(folds) * params
        if losses is not None:
            losses = losses + 0.5 * np.sum(pulls * params, axis=-1)
        return losses, self.model.columns.gradient(gradients) + pulls

    @override
    def chord_gradients(
        self, params: np.ndarray, folds: Folds, centre: np.ndarray, accuracy: float
    ) -> np.ndarray:
        """dF/dparams, in single precision where that is as accurate: in half the time.

        Only the change from the centre is, which is small, and so is its rounding error.
        """
        model = self.model
        family = getattr(model.likelihood, "family", None)
        moves = model.columns.inward(params - centre)
        at = self._at(centre)
        unknown = family is None or family.change is None or model.n_outputs > 1
        if unknown or len(moves) <= len(centre) or SINGLE * at.distances(moves).max() > accuracy:
            return super().chord_gradients(params, folds, centre, accuracy)
        mean = family.mean(at.eta[0])
        slopes = slope_changes(family, self._z, mean, at.curvature[:, 0, 0], moves)
        slopes += (at.slope @ self._z)[0]
        slopes -= self._omitted_sums(params, folds, np.ones((len(folds), 1)), False)[:, 1:]
        return model.columns.gradient(slopes) + self._fold_ridge(folds) * params

    @override
    def fold_hessians(
        self, params: np.ndarray, folds: Folds, damping: float = 0.0, whole: Solvable | None = None
    ) -> FoldSolver:
        """H(w_o), those around one point by what they share.

        Raises LinAlgError where one of a single predictor is singular.
        """
        if len(folds) == 1 and not folds.sizes[0]:
            everywhere = self._at(np.atleast_2d(params)[0]).whole.damped(damping)
            if not everywhere.indefinite:
                return SameForAll(everywhere, np.ones(1))
        if params.ndim == 2 and not self.model.quadratic:
            hessians = each_fold(self._own_hessian, params, folds, "Hessians")
            return Blocks([each.damped(damping) for each in hessians])
        point = self._at(np.atleast_2d(params)[0])  # of a quadratic F as good as any other
        if isinstance(whole, Hessian):
            point.whole = whole
        return hessians_around(point, folds, damping, params.ndim == 1)

    def _own_hessian(self, params, fold):
        return Point(self.model, params).hessian(fold_weights(self.n_sites, fold))

    @override
    def fold_expansion(
        self, params: np.ndarray, folds: Folds, damping: float = 0.0, whole: Solvable | None = None
    ) -> tuple[np.ndarray | None, FoldSolver]:
        """The gradients are None where the Hessians know them, whose steps take half the time."""
        hessians = self.fold_hessians(params, folds, damping, whole)
        if isinstance(hessians, Downdates):
            return None, hessians
        return self.fold_gradients(params, folds, values=False)[1], hessians

    @override
    def leverages(self, fit: Fit, folds: Folds) -> tuple[np.ndarray, np.ndarray] | None:
        """The traces of curvature times leverage, which are the leverages of one predictor."""
        model = self.model
        if not (model.likelihood.self_concordant and self._share_inverses(folds)):
            return None
        leverages = fit.hessian.leverages(self._z)
        shares = 1.0 - np.einsum("nij,nji->n", self._at(fit.params).curvature, leverages)
        return model.likelihood.spreads(leverages) * model.observed, shares

    def _share_inverses(self, folds):
        """Whether folds are of one row, and share a few inverses."""
        return folds.sizes.max() == 1 and Bases.of(self.model, folds) is not None

    @override
    def portions(self, folds: Folds, n_params: int) -> list[slice]:
        """All at once where the folds share a few inverses."""
        if self._share_inverses(folds):
            return [slice(0, len(folds))]
        return super().portions(folds, self._z.shape[1] * self.model.likelihood.coupled)

    @override
    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray] | np.ndarray:
        """-log p(y_n | x_n; params) of the scored sites."""
        sites, sizes = end_to_end(folds.scored)
        if params.ndim == 1:
            eta = self._at(params).eta[:, sites]
        else:
            eta = self.model.own_scores(params, sites, sizes)
        return folds.split(self.model.likelihood.loss(eta, self.model.responses[..., sites]))

    @override
    def heldout_gradients(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """sum_o slope (x) z of the scored sites."""
        scored = Folds(folds.scored)
        sites, sizes = end_to_end(scored)
        eta = self.model.own_scores(params, sites, sizes)
        slopes = self.model.likelihood.slope(eta, self.model.responses[..., sites])
        return self.model.columns.gradient(self._sums_of(scored.indicator(self.n_sites), slopes))

    @override
    def prior_gradients(self, params: np.ndarray) -> np.ndarray:
        """prior theta."""
        return self.model.prior * params

    # sums over standard columns

    def _omitted_weight(self, folds):
        """(n_folds, 1)."""
        return (folds.indicator(self.n_sites) @ self.model.sample_weight)[:, None]

    def _fold_ridge(self, folds):
        """(n_folds, D), or (D,) where no weight changes it."""
        if not self.model.pull.any():
            return self.model.prior
        return self.model.ridge(self.model.sample_weight.sum() - self._omitted_weight(folds))

    def _less_omitted(self, params, folds, kept):
        """-kept (n_folds, C) times the gradients of the sites that a fold omits, (n_folds, D)."""
        omitted = folds.indicator(self.n_sites)
        sites = omitted.indices
        classes = self.model.balance.classes[sites]
        shares = kept[np.repeat(np.arange(len(folds)), folds.sizes), classes]
        return self._sums_of(omitted, self._at(params).slope[:, sites] * -shares)

    def _sums_of(self, omitted, slopes):
        """sum_o slope (x) z of slopes (q, .) of all omitted sites, (n_folds, D)."""
        sums = []
        for slope in slopes:
            omitted.data = slope
            sums.append(omitted @ self._z)
        return sums[0] if len(sums) == 1 else np.hstack(sums)

    def _kept_sums(self, params, folds, factors, values):
        """[sum loss, sum slope (x) z] over the sites that each fold keeps, (n_folds, 1 + D)."""
        model = self.model
        standard = model.columns.inward(params)

        def sums(few, sites):
            shares = factors[few][:, model.balance.classes[sites]] * model.full_weights[sites]
            eta = model.predictors(standard[few], sites)
            slopes = model.likelihood.slope(eta, model.responses[..., sites]) * shares[:, None]
            losses = np.zeros(len(shares))
            if values:
                losses = row_sums(model.likelihood.loss(eta, model.responses[..., sites]), shares)
            products = np.tensordot(slopes, self._z[sites], axes=1)
            return np.column_stack([losses, products.reshape(len(losses), -1)])

        kept = over_sites(sums, len(folds), self.n_sites)
        return kept - self._omitted_sums(params, folds, factors, values)

    def _omitted_sums(self, params, folds, factors, values):
        """The same sums over each fold's own sites, at its own params."""
        model = self.model
        omitted = folds.indicator(self.n_sites)
        sites = omitted.indices
        eta = model.own_scores(params, sites, folds.sizes)
        fold = np.repeat(np.arange(len(folds)), folds.sizes)
        shares = factors[fold, model.balance.classes[sites]] * model.full_weights[sites]
        losses = np.zeros(len(folds))
        if values:
            omitted.data = shares * model.likelihood.loss(eta, model.responses[..., sites])
            losses = omitted @ np.ones(self.n_sites)
        slopes = shares * model.likelihood.slope(eta, model.responses[..., sites])
        return np.column_stack([losses, self._sums_of(omitted, slopes)])
