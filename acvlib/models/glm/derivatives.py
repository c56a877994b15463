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

TILE_FOLDS = 128  # folds and sites handled together: the work array stays in the cache
TILE_SITES = 512


class GLMDerivatives(Derivatives):
    """F of a `GLM` is linear in the weights: what a fold omits is taken from the sum over all sites."""

    hessians_first = True

    def __init__(self, model):
        super().__init__(model)
        self._x = model.design
        self._y = model.y
        self._s = model.sample_weight
        self._family = model.family
        self._penalised = model.penalised

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
        weights = weights * self._s
        with blas_for(self._x.size * len(params)):
            gram = _gram(self._x, weights * self._curvature(params))
        return DenseHessian(gram + np.diag(self._ridge(weights.sum()) * self._penalised))

    @override
    def cross_matrix(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """s (slope x + site_penalty beta) of each site, a column each."""
        pull = self._pull * params
        return self._slope(params) * self._x.T + self._s * pull[:, None]

    # folds

    @override
    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """-sum_o s (slope x + site_penalty beta)."""
        slope = self._slope(params)
        if _are_single(folds):
            sites = folds.table[:, 0]
            omitted = slope[sites, None] * self._x[sites]
        else:
            omitted = folds.indicator(self.n_sites) @ (slope[:, None] * self._x)
        return -(omitted + self._omitted(folds, self._s)[:, None] * (self._pull * params))

    @override
    def fold_gradients(
        self, params: np.ndarray, folds: Folds, values: bool = True
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """(F, dF/dparams) of each fold: of all sites, less its own."""
        if len(folds) == 1:
            weights = fold_weights(self.n_sites, folds[0])
            value, gradient = self.value_and_gradient(params.ravel(), weights)
            return np.array([value]), gradient[None]
        if params.ndim == 1:
            return self._shared_gradients(params, folds)
        cuts = pieces(len(folds), TILE_FOLDS)
        tiles = in_blas_threads(lambda cut: self._sums(params[cut], values), cuts, "gradients")
        all_losses, all_slopes = (np.concatenate(part) for part in zip(*tiles, strict=True))
        losses, slopes = self._own(params, folds)
        ridge = self._ridge(self._s.sum() - self._omitted(folds, self._s))
        beta = self._penalised * params
        gradients = all_slopes - slopes + ridge[:, None] * beta
        penalty = 0.5 * ridge * np.einsum("nd,nd->n", beta, beta)
        return (all_losses - losses + penalty if values else None), gradients

    @override
    def fold_hessians(
        self,
        params: np.ndarray,
        folds: Folds,
        damping: float = 0.0,
        whole: Solvable | None = None,
    ) -> FoldSolver:
        """Downdates of one Hessian where all folds are at one point. Raises LinAlgError if singular."""
        if params.ndim == 2:
            pairs = zip(params, folds, strict=True)
            hessians = [self.hessian(p, fold_weights(self.n_sites, o)) for p, o in pairs]
            return DenseFolds(np.array([h.damped(damping).matrix for h in hessians]))
        if whole is None:
            whole = self.hessian(params, np.ones(self.n_sites))
        expansion = Expansion(
            params=params,
            hessian=np.asarray(whole.damped(damping)),
            x=self._x,
            s=self._s,
            curvature=self._s * self._curvature(params),
            pull=self._pull,
            self_concordant=self._family.self_concordant,
        )
        if self._share_an_inverse(folds):
            return SingleSites(expansion, folds.table[:, 0])
        return Blocks(expansion, folds)

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
        if isinstance(scored, np.ndarray):
            eta = self._own_eta(np.broadcast_to(params, (len(folds), self._x.shape[1])), scored)
            return self._family.loss(eta, self._y[scored])
        rows = np.broadcast_to(params, (len(folds), self._x.shape[1]))
        return [self.model.heldout_loss(p, o) for p, o in zip(rows, scored, strict=True)]

    @override
    def weighted(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same for many weightings, in matrix products."""
        eta = params @ self._x.T + self.model.offset
        weights = weights * self._s
        ridge = self._ridge(weights.sum(axis=1))[:, None]
        beta = self._penalised * params
        losses = weights * self._family.loss(eta, self._y)
        values = losses.sum(axis=1) + 0.5 * (ridge * beta**2).sum(axis=1)
        gradients = (weights * self._family.slope(eta, self._y)) @ self._x + ridge * beta
        grams = _many_grams(self._x, weights * self._family.curvature(eta, self._y))
        return values, gradients, grams + ridge[:, None] * np.diag(self._penalised)

    # helpers

    def _eta(self, params):
        return self._x @ params + self.model.offset

    def _slope(self, params):
        return self._s * self._family.slope(self._eta(params), self._y)

    def _curvature(self, params):
        """(n,) without sample weights."""
        eta = self._y if self.model.quadratic else self._eta(params)  # the same everywhere
        return self._family.curvature(eta, self._y)

    @property
    def _pull(self):
        """The diagonal (D,) of the penalty that comes with each unit of weight."""
        return self.model.site_penalty * self._penalised

    def _ridge(self, total):
        """The penalty lambda that goes with a total weight."""
        return self.model.penalty + self.model.site_penalty * total

    def _omitted(self, folds, values):
        """The sum of values (n_sites,) over the sites of each fold, (n_folds,)."""
        if folds.table is not None:
            return values[folds.table].sum(axis=1)
        return np.array([values[sites].sum() for sites in folds])

    def _share_an_inverse(self, folds):
        """Whether the folds are single sites that take the same penalty with them."""
        if not _are_single(folds):
            return False
        return not self.model.site_penalty or np.ptp(self._s[folds.table]) == 0.0

    def _shared_gradients(self, params, folds):
        """`fold_gradients` at params (D,)."""
        value, gradient = self.value_and_gradient(params, np.ones(self.n_sites))
        losses = self._s * self._family.loss(self._eta(params), self._y)
        penalty = 0.5 * self._omitted(folds, self._s) * (self._pull @ params**2)
        return value - self._omitted(folds, losses) - penalty, gradient + self.cross(params, folds)

    def _sums(self, params, values):
        """Sums of s loss and s slope x over all sites, a row for each of params (n, D)."""
        losses = np.zeros(len(params))
        slopes = np.zeros_like(params)
        for rows in pieces(self.n_sites, TILE_SITES):
            y, s, x = self._y[rows], self._s[rows], self._x[rows]
            eta = params @ x.T
            eta += self.model.offset[rows]
            if values:
                losses += self._family.loss(eta, y) @ s
            slope = self._family.slope(eta, y)
            slope *= s
            slopes += slope @ x
        return losses, slopes

    def _own(self, params, folds):
        """Sums of s loss and s slope x over each fold's own sites, each at its params (n, D)."""
        if folds.table is None:
            parts = [self._own(p[None], Folds(o[None])) for p, o in zip(params, folds, strict=True)]
            return tuple(np.concatenate(part) for part in zip(*parts, strict=True))
        table = folds.table
        eta = self._own_eta(params, table)
        s = self._s[table]
        slopes = s * self._family.slope(eta, self._y[table])
        losses = s * self._family.loss(eta, self._y[table])
        return losses.sum(axis=1), np.einsum("fm,fmd->fd", slopes, self._x[table])

    def _own_eta(self, params, table):
        """eta (n_folds, size) of a table's sites, each at its fold's params."""

        def products(cut):
            return np.einsum("fmd,fd->fm", self._x[table[cut]], params[cut])

        cuts = pieces(len(table), TILE_SITES)
        return np.concatenate(in_threads(products, cuts)) + self.model.offset[table]


def _are_single(folds):
    return folds.table is not None and folds.table.shape[1] == 1


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
    for rows in pieces(len(x), TILE_SITES):
        products = x[rows, :, None] * x[rows, None, :]
        grams += weights[:, rows] @ products.reshape(-1, dim**2)
    return grams.reshape(-1, dim, dim)
