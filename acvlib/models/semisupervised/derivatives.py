"""Closed forms of a `SemiSupervised` model, named as in `curvature`; each is tested against autograd."""

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ...folds import weights as fold_weights


class SemiSupervisedFast:
    """Values and derivatives; those of folds take their pairwise terms from the energy, which keeps them."""

    def __init__(self, model, loss):
        self.model, self.loss, self.energy = model, loss, model.energy
        self.at, self.s, self.p = model.labelled, len(model.labelled), model.n_sites
        self.x, self.y = model.labelled_features, model.y[self.at]

    def value_and_gradient(self, params, weights):
        """(F, dF/dparams)."""
        return self._value_and_gradient(params, weights[self.at], self._pairwise(weights))

    def hessian(self, params, weights):
        """d2F/dparams2 (D, D)."""
        return self._hessian(params, weights[self.at], self._pairwise(weights))

    def fold_gradients(self, params, folds):
        """(F (n_folds,), dF/dparams (n_folds, D))."""
        both = [
            self._value_and_gradient(p, *terms)
            for p, terms in zip(params, self._fold_terms(folds), strict=True)
        ]
        values, gradients = zip(*both, strict=True)
        return np.array(values), np.array(gradients)

    def fold_hessians(self, params, folds):
        """d2F/dparams2 (n_folds, D, D)."""
        return np.array(
            [
                self._hessian(p, *terms)
                for p, terms in zip(params, self._fold_terms(folds), strict=True)
            ]
        )

    def jackknife_params(self, fit, folds, damping):
        """theta - H^-1 J (w_o - 1), with J of the folds' own sites alone."""
        factor = cho_factor(np.asarray(fit.metric) + damping * np.eye(len(fit.params)))
        return (
            fit.params + cho_solve(factor, self._fold_sums(fit.params, folds, self.site_cross).T).T
        )

    def heldout_expansion(self, params, move, fold):
        """The held-out losses at params + move, to first order, (len(fold),)."""
        x, y = self.energy.features[fold], self.model.y[fold]
        return self.loss.value(x @ params, y) + self.loss.slope(x @ params, y) * (x @ move)

    def printed_cross(self, params, folds):
        """g(w_o) of Theorem 3.1 as printed, (n_folds, D): the normalisers are the fold's, and fixed."""
        pointwise, pairwise = (
            self._fold_sums(params, folds, f) for f in (self._own_slopes, self._own_pairs)
        )
        left = np.array([len(fold) for fold in folds])[:, None]
        return -self.s * (pointwise / (self.s - left) + pairwise / (self.p - left) ** 2)

    def site_cross(self, params, sites):
        """d2F / dw_i dparams at w = 1 for each site, (len(sites), D), with the normalisers' own derivative."""
        slopes, pairs = self._own_slopes(params, sites), self._own_pairs(params, sites)
        mean = self.model.gamma_s * self._slopes(params) @ self.x / self.s
        labelled = self.model.observed[sites, None]
        cross = (slopes - labelled * mean) / self.s
        if self.model.gamma_p:
            cross = (
                cross
                + pairs / self.p**2
                - 4.0 * self.model.gamma_p * self.energy.full @ params / self.p**3
            )
        return self.s * cross

    def _own_slopes(self, params, sites):
        """gamma_S dloss/dparams of each site, 0 of an unlabelled one."""
        x, y = self.energy.features[sites], self.model.y[sites]
        slope = np.where(np.isnan(y), 0.0, self.loss.slope(x @ params, np.nan_to_num(y)))
        return self.model.gamma_s * slope[:, None] * x

    def _own_pairs(self, params, sites):
        """2 gamma_P sum_j dloss_ij/dparams of each site."""
        if not self.model.gamma_p:
            return np.zeros((len(sites), len(params)))
        return self.model.gamma_p * self.energy.site_gradients(params, sites)

    def _fold_sums(self, params, folds, function):
        """Sums of `function(params, sites)` over each fold, each site worked out once; (n_folds, D)."""
        sites, places = np.unique(np.concatenate(folds), return_inverse=True)
        ends = np.cumsum([len(fold) for fold in folds])[:-1]
        rows = function(params, sites)
        return np.array([rows[at].sum(axis=0) for at in np.split(places, ends)])

    def _pairwise(self, weights):
        """gamma_P M(w) / (sum w)^2."""
        return (
            self.model.gamma_p
            and self.model.gamma_p * self.energy.matrix(weights) / weights.sum() ** 2
        )

    def _fold_terms(self, folds):
        """(weights of the labelled points, pairwise matrix) of each fold."""
        if self.model.gamma_p:
            matrices = self.energy.fold_matrices(folds)
        for number, fold in enumerate(folds):
            scale = self.model.gamma_p / (self.p - len(fold)) ** 2
            yield (
                fold_weights(self.p, fold)[self.at],
                scale * matrices[number] if self.model.gamma_p else 0.0,
            )

    def _quadratic(self, pairwise):
        """What F / s has beside its losses is theta' Q theta: Q (D, D)."""
        return pairwise + self.model.gamma_i * self.model.penalty

    def _slopes(self, params):
        return self.loss.slope(self.x @ params, self.y)

    def _value_and_gradient(self, params, weights, pairwise):
        share = self.model.gamma_s * weights / weights.sum()
        quadratic = self._quadratic(pairwise) @ params
        value = share @ self.loss.value(self.x @ params, self.y) + params @ quadratic
        return self.s * float(value), self.s * (
            (share * self._slopes(params)) @ self.x + 2.0 * quadratic
        )

    def _hessian(self, params, weights, pairwise):
        share = self.model.gamma_s * weights / weights.sum()
        curvature = share * self.loss.curvature(self.x @ params, self.y)
        return self.s * ((self.x * curvature[:, None]).T @ self.x + 2.0 * self._quadratic(pairwise))
