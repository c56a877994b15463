"""Closed forms of a `GLM`, named as in `curvature`; each is tested against autograd of the objective."""

import numpy as np
from numba import njit

from ...folds import is_table
from ...folds import weights as fold_weights
from ...parallel import blas_beside_threads, blas_for, in_threads, pieces
from . import folds as glm_folds
from .chords import FoldChords
from .separation import check_folds
from .sums import TILE, over_sites


class GLMFast:
    """Values and derivatives of one GLM, for one weighting or for many folds at once."""

    def __init__(self, model):
        self.model, self.x, self.penalised = model, model.design, model.penalised
        self.y, self.offset, self.s = model.y, model.offset, model.sample_weight
        self.family = model.family

    @property
    def _work(self):
        """Multiplications in one product of all rows with a (D, D) matrix."""
        return self.x.size * self.x.shape[1]

    # one weighting

    def eta(self, params):
        """The linear predictor (n,)."""
        return self.x @ params + self.offset

    def ridge(self, total):
        """The penalty lambda that goes with a total weight."""
        return self.model.penalty + self.model.site_penalty * total

    def value_and_gradient(self, params, weights):
        """(F, dF/dparams)."""
        eta, weights = self.eta(params), weights * self.s
        ridge, beta = self.ridge(weights.sum()), self.penalised * params
        value = weights @ self.family.loss(eta, self.y) + 0.5 * ridge * beta @ beta
        return float(value), (weights * self.family.slope(eta, self.y)) @ self.x + ridge * beta

    def hessian(self, params, weights):
        """X' diag(w s curvature) X + lambda P."""
        weights = weights * self.s
        eta = (
            np.zeros(len(self.y)) if self.model.quadratic else self.eta(params)
        )  # the same curvature everywhere
        curvature = weights * self.family.curvature(eta, self.y)
        with blas_for(self._work):
            gram = weighted_gram(self.x, curvature)
        return gram + np.diag(self.ridge(weights.sum()) * self.penalised)

    def hessian_and_cross(self, params, weights):
        """(H, J), J = s slope x + s site_penalty beta for each site."""
        slope = self.s * self.family.slope(self.eta(params), self.y)
        cross = (
            slope * self.x.T + self.s * (self.model.site_penalty * self.penalised * params)[:, None]
        )
        return self.hessian(params, weights), cross

    # many folds at once

    def fold_gradients(self, params, folds):
        """(F (n_folds,), dF/dparams (n_folds, D))."""
        if len(folds) == 1:
            value, gradient = self.value_and_gradient(
                params[0], fold_weights(len(self.y), folds[0])
            )
            return np.array([value]), gradient[None]
        if (params == params[:1]).all():
            return glm_folds.shared_gradients(self, params[0], folds)
        values, gradients = over_sites(self._losses_and_slopes, params, len(self.y))
        own_values, own_gradients = self._own(params, folds)
        ridge, beta = self._fold_ridge(folds), params * self.penalised
        values = values - own_values + 0.5 * ridge * (beta * params).sum(axis=1)
        return values, gradients - own_gradients + ridge[:, None] * beta

    def slopes(self, params):
        """sum_n s_n slope_n x_n for each row of params (n, D)."""
        return over_sites(self._slopes, params, len(self.y))[0]

    def gradients(self, params, folds, slopes):
        """dF/dparams (n_folds, D), where `slopes` are those of all sites."""
        return (
            slopes
            - self._own(params, folds)[1]
            + self._fold_ridge(folds)[:, None] * (params * self.penalised)
        )

    def fold_hessians(self, params, folds):
        """d2F/dparams2 (n_folds, D, D)."""
        return np.array(
            [
                self.hessian(p, fold_weights(len(self.y), fold))
                for p, fold in zip(params, folds, strict=True)
            ]
        )

    def fold_heldout_losses(self, params, folds):
        """-log p(y_n | x_n) of the left-out sites: a table for a table of folds."""
        if is_table(folds):
            return self.family.loss(self._own_eta(params, folds), self.y[folds])
        return [self.model.heldout_loss(p, fold) for p, fold in zip(params, folds, strict=True)]

    def jackknife_params(self, fit, folds, damping):
        """theta - H^-1 J (w_o - 1)."""
        self.check_folds(folds)
        with blas_beside_threads(self._work):
            return glm_folds.jackknife_params(self, fit, folds, damping)

    def newton_params(self, fit, folds, damping):
        """`curvature.NewtonSteps`' fields, with a lower bound of H(w_o)'s smallest eigenvalue."""
        self.check_folds(folds)
        with blas_beside_threads(self._work):
            return glm_folds.downdates(
                self, glm_folds.Expansion(self, fit), folds, damping
            ).newton()

    def fold_chords(self, fit, folds):
        """H(w_o) of all folds at the fit, with their Newton steps."""
        self.check_folds(folds)
        return FoldChords(self, fit, folds)

    def weighted_derivatives(self, params, weights):
        """(F, gradient, Hessian) at each row of params (n, D) and weights (n, n_sites)."""
        eta, weights = params @ self.x.T + self.offset, weights * self.s
        ridge, beta = self.ridge(weights.sum(axis=1)), self.penalised * params
        values = (weights * self.family.loss(eta, self.y)).sum(axis=1) + 0.5 * ridge * (
            beta**2
        ).sum(axis=1)
        gradients = (weights * self.family.slope(eta, self.y)) @ self.x + ridge[:, None] * beta
        hessians = many_grams(self.x, weights * self.family.curvature(eta, self.y))
        return values, gradients, hessians + ridge[:, None, None] * np.diag(self.penalised)

    def check_folds(self, folds):
        """Raises NoFiniteOptimum for a fold that leaves one class, where there is an intercept."""
        if self.model.intercept:
            check_folds(np.where(self.s > 0, self.family.free_direction(self.y), 2), folds)

    def _slopes(self, params, sites):
        eta = params @ self.x[sites].T
        eta += self.offset[sites]
        slopes = self.family.slope(eta, self.y[sites])
        slopes *= self.s[sites]
        return (slopes @ self.x[sites],)

    def _losses_and_slopes(self, params, sites):
        eta = params @ self.x[sites].T + self.offset[sites]
        return self.family.loss(eta, self.y[sites]) @ self.s[sites], *self._slopes(params, sites)

    def _own(self, params, folds):
        """(loss (n_folds,), gradient (n_folds, D)) of each fold's own sites, without the penalty."""
        if not is_table(folds):
            rows = [self._own(p[None], fold[None]) for p, fold in zip(params, folds, strict=True)]
            return [np.concatenate(part) for part in zip(*rows, strict=True)]
        eta, y, s = self._own_eta(params, folds), self.y[folds], self.s[folds]
        slopes = s * self.family.slope(eta, y)
        return (s * self.family.loss(eta, y)).sum(axis=1), np.einsum(
            "fm,fmd->fd", slopes, self.x[folds]
        )

    def _own_eta(self, params, folds):
        """The linear predictor of a table's sites, (n_folds, size)."""
        cuts = pieces(len(folds), 2**14)
        eta = np.concatenate(
            in_threads(lambda cut: _row_products(self.x, folds[cut], params[cut]), cuts)
        )
        return eta + self.offset[folds]

    def _fold_ridge(self, folds):
        """The penalty lambda of each fold, (n_folds,)."""
        return self.ridge(self.s.sum() - glm_folds.left_out_weight(self.s, folds))


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _row_products(x, folds, params):
    """x[n] @ params[f] for each site n of each fold f, without a copy of x's rows."""
    products = np.empty(folds.shape)
    for f in range(folds.shape[0]):
        for m in range(folds.shape[1]):
            total = 0.0
            for d in range(params.shape[1]):
                total += x[folds[f, m], d] * params[f, d]
            products[f, m] = total
    return products


def weighted_gram(x, weights):
    """X' diag(weights) X for weights >= 0, half of it computed, block by block of rows."""
    if (weights == weights[0]).all():  # no weighted copy of x
        return weights[0] * (x.T @ x)
    gram, root = np.zeros((x.shape[1], x.shape[1])), np.sqrt(weights)
    for cut in pieces(len(x), 2048):
        block = x[cut] * root[cut, None]
        gram += block.T @ block
    return gram


def many_grams(x, weights):
    """X' diag(w) X for each row w of weights (n, n_sites), (n, D, D), as one matrix product."""
    dim, grams = x.shape[1], np.zeros((len(weights), x.shape[1] ** 2))
    for cut in pieces(len(x), TILE[1]):
        products = x[cut, :, None] * x[cut, None, :]
        grams += weights[:, cut] @ products.reshape(-1, dim**2)
    return grams.reshape(-1, dim, dim)
