"""Derivatives of a GLM in closed form, for one weighting or many folds; tested against autograd."""

from collections.abc import Sequence

import numpy as np

from ...derivatives import Derivatives
from ...folds import Folds
from ...folds import weights as fold_weights
from ...parallel import blas_for, in_blas_threads, in_threads, pieces
from ...protocol import override
from ...solvers.inverse import DenseFolds, DenseHessian, FoldSolver, Solvable
from .folds import Blocks, Expansion, SingleSites

FOLDS = 128  # folds, and sites, handled together: the work array stays in the cache
SITES = 512
SINGLE = 5e-7  # relative error of a change of gradient in single precision, in standard errors


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
    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """(F, X'(w s slope) + lambda beta)."""
        weights = weights * self._s
        eta = self._eta(params)
        beta = self._penalised * params
        ridge = self._ridge(weights.sum())
        value = weights @ self._family.loss(eta, self._y) + 0.5 * ridge * (beta @ beta)
        gradient = (weights * self._family.slope(eta, self._y)) @ self._x + ridge * beta
        return float(value), gradient

    @override
    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        """X' diag(w s curvature) X + lambda P."""
        ridge = self._ridge(weights @ self._s)
        with blas_for(self._x.size * len(params)):
            gram = _gram(self._x, weights * self._curvature(params))
        return DenseHessian(gram + np.diag(ridge * self._penalised))

    @override
    def cross_matrix(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """s (slope x + site_penalty beta) of each site, a column each."""
        pull = self._pull * params
        return self._slope(params) * self._x.T + self._s * pull[:, None]

    # folds

    @override
    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
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
        self, params: np.ndarray, folds: Folds, values: bool = True
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """(F, dF/dparams) of each fold."""
        if len(folds) == 1:
            weights = fold_weights(self.n_sites, folds[0])
            value, gradient = self.value_and_gradient(params.ravel(), weights)
            return np.array([value]), gradient[None]
        if params.ndim == 1:
            return self._shared_gradients(params, folds)
        cuts = pieces(len(folds), FOLDS)
        tiles = in_blas_threads(lambda cut: self._tile(params[cut], values), cuts, "gradients")
        all_losses, all_slopes = (np.concatenate(part) for part in zip(*tiles, strict=True))
        losses, slopes = self._own(params, folds)
        ridge = self._fold_ridge(folds)
        beta = self._penalised * params
        penalties = 0.5 * ridge * np.einsum("nd,nd->n", beta, beta)
        return all_losses - losses + penalties, all_slopes - slopes + ridge[:, None] * beta

    @override
    def chord_gradients(
        self, params: np.ndarray, folds: Folds, centre: np.ndarray, accuracy: float
    ) -> np.ndarray:
        """dF/dparams, its change from the centre in single precision where that is as accurate.

        The change is small, and so is its rounding error. With many folds that takes half the time.
        """
        moves = params - centre
        enough = len(folds) > len(centre) and self._family.change is not None
        if not enough or SINGLE * self._furthest(moves, centre) > accuracy:
            return super().chord_gradients(params, folds, centre, accuracy)
        x = self._x.astype(np.float32)
        mean = self._family.mean(self._eta(centre)).astype(np.float32)
        curvature = self._curvature(centre).astype(np.float32)

        def changes(cut):
            total = np.zeros(moves[cut].shape)
            few = moves[cut].astype(np.float32)
            for rows in pieces(self.n_sites, SITES):
                change = self._family.change(mean[rows], few @ x[rows].T)
                change *= curvature[rows]
                total += change @ x[rows]
            return total

        all_slopes = np.concatenate(
            in_blas_threads(changes, pieces(len(folds), FOLDS), "gradients")
        )
        all_slopes += self._slope(centre) @ self._x
        ridge = self._fold_ridge(folds)[:, None]
        return all_slopes - self._own(params, folds)[1] + ridge * (self._penalised * params)

    @override
    def fold_hessians(
        self,
        params: np.ndarray,
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
        params: np.ndarray,
        folds: Folds,
        damping: float = 0.0,
        whole: Solvable | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
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
    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray] | np.ndarray:
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
    def weighted(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(F, gradients, Hessians), all in matrix products."""
        eta = params @ self._x.T + self._offset
        weights = weights * self._s
        ridge = self._ridge(weights.sum(axis=1))[:, None]
        beta = self._penalised * params
        losses = weights * self._family.loss(eta, self._y)
        values = losses.sum(axis=1) + 0.5 * (ridge * beta**2).sum(axis=1)
        gradients = (weights * self._family.slope(eta, self._y)) @ self._x + ridge * beta
        grams = _many_grams(self._x, weights * self._family.curvature(eta, self._y))
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

    def _tile(self, params, values):
        """Sums of s loss, if wanted, and of s slope x over all sites, at each of params (n, D)."""
        losses = np.zeros(len(params))
        slopes = np.zeros(params.shape)
        for rows in pieces(self.n_sites, SITES):
            eta = params @ self._x[rows].T
            eta += self._offset[rows]
            if values:
                losses += self._family.loss(eta, self._y[rows]) @ self._s[rows]
            slope = self._family.slope(eta, self._y[rows])
            slope *= self._s[rows]
            slopes += slope @ self._x[rows]
        return losses, slopes

    def _own(self, params, folds):
        """Sums of s loss and s slope x over each fold's own sites, each at its params (n, D)."""
        if folds.table is not None:
            return self._table_sums(params, folds.table)
        pairs = zip(params, folds, strict=True)
        parts = [self._table_sums(point[None], sites[None]) for point, sites in pairs]
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))

    def _table_sums(self, params, sites):
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


def _gram(x, weights):
    """X' diag(weights) X for weights >= 0, half of it computed, block by block of rows."""
    if np.ptp(weights) == 0.0:  # no weighted copy of x
        return weights[0] * (x.T @ x)
    gram = np.zeros((x.shape[1], x.shape[1]))
    root = np.sqrt(weights)[:, None]
    for rows in pieces(len(x), 2048):
        block = x[rows] * root[rows]
        gram += block.T @ block
    return gram


def _many_grams(x, weights):
    """X' diag(w) X for each row w of weights (n, n_sites), (n, D, D), as one matrix product."""
    dim = x.shape[1]
    grams = np.zeros((len(weights), dim**2))
    for rows in pieces(len(x), SITES):
        products = x[rows, :, None] * x[rows, None, :]
        grams += weights[:, rows] @ products.reshape(-1, dim**2)
    return grams.reshape(-1, dim, dim)
