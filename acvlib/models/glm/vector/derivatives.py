"""Derivatives of a model with several linear predictors, in closed form."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....concordance import Concordance
from ....folds import Folds
from ....folds.checks import end_to_end
from ....parallel import pieces
from ....protocol import Fit, override
from ....solvers.inverse import FoldSolver, Solvable, folds_at_once
from ..kept_point import KeepsPoint
from ..sums import over_sites, row_sums
from .concordance import VectorConcordance
from .point import OwnHessians, Point, SingleSites, Vectors


class VectorDerivatives(KeepsPoint):
    """What a fold omits is taken from sums over the sites of each class, weighted anew."""

    _point_of = Point

    def __init__(self, model: Any):
        super().__init__(model)
        self._x = model.design
        self._classes = model.balance.classes
        self._prior = model.prior.ravel()

    # one weighting

    @override
    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """(F, Q' (w s residual) X + prior theta)."""
        model = self.model
        point = self._at(params)
        relative = model.balance.relative(weights)
        losses = model.family.loss(point.scores, model.y)
        value = (relative * model.full_weights) @ losses + 0.5 * self._prior @ params**2
        gradient = self._in_params((point.slope * relative) @ self._x)
        return float(value), gradient + self._prior * params

    @override
    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        """sum_n w_n s_n C_n (x) x_n x_n' + diag(prior)."""
        point = self._at(params)
        return point.whole if (weights == 1.0).all() else point.hessian(weights)

    # folds

    @override
    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """-sum_o of the sites' gradients, and what the classes' weights change."""
        kept = np.ones((len(folds), self.model.balance.n_classes))
        return self._combined(params, folds, self.model.balance.slopes(folds), kept)

    @override
    def fold_gradients(
        self, params: np.ndarray, folds: Folds, values: bool = True
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """(F, dF/dparams) of each fold."""
        factors = self.model.balance.factors(folds)
        if params.ndim == 1:
            gradients = self._combined(params, folds, factors, factors)
            found = self._values(params, folds, factors) if values else None
        else:
            sums = self._kept_sums(params, folds, factors)
            gradients = self._in_params(sums[:, 1:].reshape(len(folds), -1, self._x.shape[1]))
            found = sums[:, 0]
        gradients += self._prior * params
        if values:
            found = found + 0.5 * params**2 @ self._prior
        return found, gradients

    @override
    def fold_hessians(
        self,
        params: np.ndarray,
        folds: Folds,
        damping: float = 0.0,
        whole: Solvable | None = None,
    ) -> FoldSolver:
        """H(w_o): downdates of a few inverses for single sites at one point."""
        if params.ndim == 1 and folds.sizes.all():
            factors = self.model.balance.factors(folds)
            single = self._single(folds, factors)
            if single is not None:
                return self._downdates(self._at(params), *single, damping=damping)
            return self._around(self._at(params), folds, factors, damping)
        weights = [folds[[i]].indicator(self.n_sites).toarray()[0] for i in range(len(folds))]
        points = [
            Point(self.model, point)
            for point in np.broadcast_to(params, (len(folds), params.shape[-1]))
        ]
        pairs = zip(points, weights, strict=True)
        return OwnHessians([point.hessian(1.0 - w).damped(damping) for point, w in pairs])

    @override
    def fold_expansion(
        self,
        params: np.ndarray,
        folds: Folds,
        damping: float = 0.0,
        whole: Solvable | None = None,
    ) -> tuple[np.ndarray | Vectors, FoldSolver]:
        """The gradients of single sites as `Vectors`, whose steps take half the time."""
        found = self._single(folds, self.model.balance.factors(folds))
        if found is None:
            return super().fold_expansion(params, folds, damping, whole)
        sites, bases, base_of = found
        point = self._at(params)
        shares = bases[base_of, self._classes[sites]]
        slopes = -(point.slope[:, sites] * shares).T @ self.model.family.spread
        rest = self._mixtures(point, bases) + self._prior * params
        return Vectors(rest, slopes), self._downdates(point, *found, damping=damping)

    @override
    def concordance(self, fit: Fit) -> Concordance:
        """By how far scores move apart."""
        return VectorConcordance(self.model, fit, self._share_inverses)

    def _share_inverses(self, folds):
        return self._single(folds, self.model.balance.factors(folds)) is not None

    @override
    def portions(self, folds: Folds, n_params: int) -> list[slice]:
        """All at once where the folds share a few matrices."""
        if self._share_inverses(folds):
            return [slice(0, len(folds))]
        dim = self._x.shape[1] if self.model.quadratic else n_params
        return pieces(len(folds), folds_at_once(dim))

    @override
    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray]:
        """-log p(y_n | x_n; params) of the scored sites."""
        sites, sizes = end_to_end(folds.scored)
        if params.ndim == 1:
            scores = self._at(params).scores[:, sites]
        else:
            scores = self.model.own_scores(params, sites, sizes)
        losses = self.model.family.loss(scores, self.model.y[sites])
        return np.split(losses, np.cumsum(sizes)[:-1])

    # one point

    def _in_params(self, sums):
        """Q' sums (..., K, D') as (..., D)."""
        own = sums if self.model.quadratic else self.model.family.spread.T @ sums
        return own.reshape(*sums.shape[:-2], -1)

    def _mixtures(self, point, factors):
        """The gradients (n, D) of the losses, of classes weighted by factors (n, C)."""
        rows = [(point.slope * (self._classes == c)) @ self._x for c in range(factors.shape[1])]
        return factors @ self._in_params(np.array(rows))

    def _combined(self, params, folds, factors, kept):
        """The same less kept (n_folds, C) times the gradients of the sites that a fold omits."""
        point = self._at(params)
        omitted = folds.indicator(self.n_sites)
        sites = omitted.indices
        shares = kept[np.repeat(np.arange(len(folds)), folds.sizes), self._classes[sites]]
        sums = np.empty((len(folds), len(point.slope), self._x.shape[1]))
        for k, slope in enumerate(point.slope):
            omitted.data = shares * slope[sites]
            sums[:, k] = omitted @ self._x
        return self._mixtures(point, factors) - self._in_params(sums)

    def _values(self, params, folds, factors):
        """The sums of losses (n_folds,) that are kept."""
        losses = self.model.full_weights * self.model.family.loss(
            self._at(params).scores, self.model.y
        )
        members = self._classes[:, None] == np.arange(factors.shape[1])
        parts = losses[:, None] * members
        kept = parts.sum(axis=0) - folds.indicator(self.n_sites) @ parts
        return row_sums(kept, factors)

    # single sites, and larger folds

    def _single(self, folds, factors):
        """(sites, factors (B, C) of the bases, the base of each); None if they share no few."""
        if folds.table is None or folds.table.shape[1] > 1:
            return None
        sites = folds.table[:, 0]
        bases, base_of = np.unique(factors.round(14), axis=0, return_inverse=True)
        if len(bases) > factors.shape[1]:
            return None
        return sites, bases, base_of.ravel()

    def _downdates(self, point, sites, bases, base_of, *, damping):
        shares = bases[base_of, self._classes[sites]]
        curvature = point.curvature[sites] * shares[:, None, None]
        hessians = [point.mixed(factors).damped(damping) for factors in bases]
        return SingleSites(point, sites, hessians, base_of, curvature)

    def _around(self, point, folds, factors, damping):
        family = self.model.family
        hessians = []
        for fold, own in zip(folds, factors, strict=True):
            shares = own[self._classes[fold]]
            gram = family.gram(self._x[fold], point.curvature[fold] * shares[:, None, None])
            hessians.append(point.mixed(own).less(gram).damped(damping))
        return OwnHessians(hessians, point)

    # many points

    def _kept_sums(self, params, folds, factors):
        """[sum loss, sum residual x'] over the sites that each fold keeps, (n_folds, 1 + K D')."""
        model = self.model
        coefficients = model.coefficients(params)
        n_scores = coefficients.shape[1]
        packed = np.concatenate([coefficients.reshape(len(folds), -1), factors], axis=1)

        def sums(few, sites):
            own = few[:, : -factors.shape[1]].reshape(-1, n_scores, self._x.shape[1])
            weights = (
                few[:, -factors.shape[1] :][:, self._classes[sites]] * model.full_weights[sites]
            )
            return self._sums(own, weights, sites)

        kept = over_sites(sums, packed, self.n_sites)
        for row, fold in enumerate(folds):
            weights = factors[row, self._classes[fold]] * model.full_weights[fold]
            kept[row] -= self._sums(coefficients[[row]], weights[None], fold)[0]
        return kept

    def _sums(self, coefficients, weights, sites):
        """The same over some sites, for coefficients (n, K, D') and weights (n, len(sites))."""
        x = self._x[sites]
        y = self.model.y[sites]
        scores = coefficients @ x.T
        losses = row_sums(self.model.family.loss(scores, y), weights)
        residuals = self.model.family.residual(scores, y) * weights[:, None]
        return np.column_stack([losses, (residuals @ x).reshape(len(losses), -1)])
