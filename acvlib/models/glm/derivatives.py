"""Derivatives of a GLM in closed form, for one weighting or many folds; tested against autograd."""

from collections.abc import Sequence

import numpy as np

from ...derivatives import Derivatives
from ...folds import Folds
from ...folds import weights as fold_weights
from ...parallel import blas_for, in_threads, pieces
from ...protocol import override
from ...solvers.inverse import DenseFolds, DenseHessian, FoldSolver, Solvable
from .folds import Blocks, Expansion, SingleSites
from .sums import SINGLE, SITES, gram, many_grams, over_sites, slope_changes

Array = np.ndarray


class GLMDerivatives(Derivatives):
    """F is linear in the weights: what a fold omits is taken from the sum over all sites."""

    hessians_first = True

    def __init__(self, model):
        super().__init__(model)
        self._x = model.design
        self._y = model.y
        self._s = model.sample_weight
        self._offset = model.offset
        self._family = model.family
        self._penalised = model.penalised
        self._pull = model.site_penalty * model.penalised  # comes with each unit of weight

    # one weighting

    @override
    def value_and_gradient(self, params: Array, weights: Array) -> tuple[float, Array]:
        """(F, X'(w s slope) + lambda beta)."""
        weights = weights * self._s
        eta = self._eta(params)
        beta = self._penalised * params
        ridge = self._ridge(weights.sum())
        value = weights @ self._family.loss(eta, self._y) + 0.5 * ridge * (beta @ beta)
        gradient = (weights * self._family.slope(eta, self._y)) @ self._x + ridge * beta
        return float(value), gradient

    @override
    def hessian(self, params: Array, weights: Array) -> Solvable:
        """X' diag(w s curvature) X + lambda P."""
        ridge = self._ridge(weights @ self._s)
        with blas_for(self._x.size * len(params)):
            matrix = gram(self._x, weights * self._curvature(params))
        return DenseHessian(matrix + np.diag(ridge * self._penalised))

    @override
    def cross_matrix(self, params: Array, weights: Array) -> Array:
        """s (slope x + site_penalty beta) of each site, a column each."""
        pull = self._pull * params
        return self._slope(params) * self._x.T + self._s * pull[:, None]

    # folds

    @override
    def cross(self, params: Array, folds: Folds) -> Array:
        """-sum_o s (slope x + site_penalty beta)."""
        slope = -self._slope(params)[:, None]
        if _are_single(folds):
            sites = folds.table[:, 0]
            sums = self._x[sites]
            sums *= slope[sites]
        else:
            sums = folds.indicator(self.n_sites) @ (slope * self._x)
        if self.model.site_penalty:
            sums -= _sums(folds, self._s)[:, None] * (self._pull * params)
        return sums

    @override
    def fold_gradients(
        self, params: Array, folds: Folds, values: bool = True
    ) -> tuple[Array | None, Array]:
        """(F, dF/dparams) of each fold."""
        if len(folds) == 1:
            weights = fold_weights(self.n_sites, folds[0])
            value, gradient = self.value_and_gradient(params.ravel(), weights)
            return np.array([value]), gradient[None]
        if params.ndim == 1:
            return self._shared_gradients(params, folds)

        def sums(points, sites):
            return self._sums(points, sites, values)

        all_losses, all_slopes = over_sites(sums, params, self.n_sites)
        losses, slopes = self._own(params, folds)
        ridge = self._fold_ridge(folds)
        beta = self._penalised * params
        penalties = 0.5 * ridge * np.einsum("nd,nd->n", beta, beta)
        return all_losses - losses + penalties, all_slopes - slopes + ridge[:, None] * beta

    @override
    def chord_gradients(self, params: Array, folds: Folds, centre: Array, accuracy: float) -> Array:
        """dF/dparams, in single precision where that is as accurate: in half the time.

        Only the change from the centre is, which is small, and so is its rounding error.
        """
        moves = params - centre
        enough = len(folds) > len(centre) and self._family.change is not None
        if not enough or SINGLE * self._furthest(moves, centre) > accuracy:
            return super().chord_gradients(params, folds, centre, accuracy)
        mean = self._family.mean(self._eta(centre))
        slopes = slope_changes(self._family, self._x, mean, self._curvature(centre), moves)
        slopes += self._slope(centre) @ self._x
        slopes -= self._own(params, folds)[1]
        slopes += self._fold_ridge(folds)[:, None] * (self._penalised * params)
        return slopes

    @override
    def fold_hessians(
        self,
        params: Array,
        folds: Folds,
        damping: float = 0.0,
        whole: Solvable | None = None,
    ) -> FoldSolver:
        """H(w_o): downdates of one H where the params are (D,). Raises LinAlgError if singular."""
        if params.ndim == 1 and folds.sizes.all():
            return self._downdates(params, folds, damping, whole)
        points = np.broadcast_to(params, (len(folds), len(self._penalised)))
        pairs = zip(points, folds, strict=True)
        hessians = [self.hessian(p, fold_weights(self.n_sites, o)) for p, o in pairs]
        return DenseFolds(np.array([hessian.damped(damping).matrix for hessian in hessians]))

    @override
    def newton_steps(
        self,
        params: Array,
        folds: Folds,
        damping: float = 0.0,
        whole: Solvable | None = None,
    ) -> tuple[Array, Array]:
        """The steps of single sites share a matrix product: half the time of the general way."""
        if not self._share_an_inverse(folds):
            return super().newton_steps(params, folds, damping, whole)
        slope = self._slope(params)
        ridge = self._fold_ridge(folds[:1])
        gradient = slope @ self._x + ridge * self._penalised * params
        downdates = self._downdates(params, folds, damping, whole)
        return downdates.newton(gradient, slope), downdates.indefinite

    @override
    def portions(self, folds: Folds, n_params: int) -> list[slice]:
        """All at once where the folds share one matrix."""
        if self._share_an_inverse(folds):
            return [slice(0, len(folds))]
        return super().portions(folds, n_params)

    @override
    def heldout(self, params: Array, folds: Folds) -> Sequence[Array] | Array:
        """-log p(y_n | x_n; params) of the scored sites."""
        scored = folds.scored
        is_table = isinstance(scored, np.ndarray)
        if params.ndim == 1:
            losses = self._family.loss(self._eta(params), self._y)
            return losses[scored] if is_table else [losses[sites] for sites in scored]
        if is_table:
            return self._family.loss(self._own_eta(params, scored), self._y[scored])
        return [self.model.heldout_loss(p, o) for p, o in zip(params, scored, strict=True)]

    @override
    def weighted(self, params: Array, weights: Array) -> tuple[Array, Array, Array]:
        """(F, gradients, Hessians), all in matrix products."""
        eta = params @ self._x.T + self._offset
        weights = weights * self._s
        ridge = self._ridge(weights.sum(axis=1))[:, None]
        beta = self._penalised * params
        losses = weights * self._family.loss(eta, self._y)
        values = losses.sum(axis=1) + 0.5 * (ridge * beta**2).sum(axis=1)
        gradients = (weights * self._family.slope(eta, self._y)) @ self._x + ridge * beta
        grams = many_grams(self._x, weights * self._family.curvature(eta, self._y))
        return values, gradients, grams + ridge[:, None] * np.diag(self._penalised)

    # one point

    def _eta(self, params):
        return self._x @ params + self._offset

    def _slope(self, params):
        return self._s * self._family.slope(self._eta(params), self._y)

    def _curvature(self, params):
        eta = self._y if self.model.quadratic else self._eta(params)  # the same everywhere
        return self._s * self._family.curvature(eta, self._y)

    def _ridge(self, total):
        """The penalty lambda that goes with a total weight."""
        return self.model.penalty + self.model.site_penalty * total

    def _fold_ridge(self, folds):
        return self._ridge(self._s.sum() - _sums(folds, self._s))

    def _furthest(self, moves, centre):
        """The longest of the moves, in standard errors."""
        hessian = self.hessian(centre, np.ones(self.n_sites))
        return np.sqrt(np.einsum("nd,nd->n", moves @ hessian, moves).max())

    def _share_an_inverse(self, folds):
        """Whether the folds are single sites that take the same penalty with them."""
        if not _are_single(folds):
            return False
        return not self.model.site_penalty or np.ptp(self._s[folds.table]) == 0.0

    def _downdates(self, params, folds, damping, whole):
        if whole is None:
            whole = self.hessian(params, np.ones(self.n_sites))
        expansion = Expansion(
            params=params,
            hessian=np.asarray(whole.damped(damping)),
            x=self._x,
            s=self._s,
            curvature=self._curvature(params),
            pull=self._pull,
            self_concordant=self._family.self_concordant,
        )
        if self._share_an_inverse(folds):
            return SingleSites(expansion, folds.table[:, 0])
        return Blocks(expansion, folds)

    def _shared_gradients(self, params, folds):
        """`fold_gradients` at params (D,)."""
        value, gradient = self.value_and_gradient(params, np.ones(self.n_sites))
        losses = self._s * self._family.loss(self._eta(params), self._y)
        penalties = 0.5 * _sums(folds, self._s) * (self._pull @ params**2)
        gradients = self.cross(params, folds)
        gradients += gradient
        return value - _sums(folds, losses) - penalties, gradients

    # many points

    def _sums(self, params, sites, values=True):
        """Sums of s loss, if wanted, and s slope x over some sites, a row for each of params."""
        x = self._x[sites]
        eta = params @ x.T
        eta += self._offset[sites]
        slope = self._family.slope(eta, self._y[sites])
        slope *= self._s[sites]
        if not values:
            return np.zeros(len(params)), slope @ x
        return self._family.loss(eta, self._y[sites]) @ self._s[sites], slope @ x

    def _own(self, params, folds):
        """The same sums over each fold's own sites, at its own params."""
        if folds.table is None:
            pairs = zip(params, folds, strict=True)
            parts = [self._sums(point[None], sites) for point, sites in pairs]
            return tuple(np.concatenate(part) for part in zip(*parts, strict=True))
        sites = folds.table
        eta = self._own_eta(params, sites)
        losses = self._s[sites] * self._family.loss(eta, self._y[sites])
        slopes = self._s[sites] * self._family.slope(eta, self._y[sites])
        return losses.sum(axis=1), np.einsum("fm,fmd->fd", slopes, self._x[sites])

    def _own_eta(self, params, sites):
        """eta of sites (n_folds, size), each row at its own params."""

        def products(cut):
            return np.einsum("fmd,fd->fm", self._x[sites[cut]], params[cut])

        parts = in_threads(products, pieces(len(sites), SITES))
        return np.concatenate(parts) + self._offset[sites]


def _are_single(folds):
    return folds.table is not None and folds.table.shape[1] == 1


def _sums(folds, values):
    """Sum the values (n_sites,) of each fold's sites, (n_folds,)."""
    if folds.table is not None:
        return values[folds.table].sum(axis=1)
    return np.array([values[sites].sum() for sites in folds])
