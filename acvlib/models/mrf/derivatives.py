"""Closed forms of a `HiddenMRF`; each is tested against autograd.

With S_k = sum_t w_t 1{z_t = k} (x_t - e_t rate_k), the derivative of the weighted log joint in log
rate k, e_t the exposure, w_t the weight of a count, its sample weight included, and
N_k = sum_t w_t e_t 1{z_t = k}, all moments given the counts that are kept (Louis 1982):

    dF/dtheta_k = -E[S_k],   d2F/dtheta_k dtheta_l = 1{k = l} rate_k E[N_k] - Cov(S_k, S_l)
"""

import numpy as np
from joblib import delayed

from ...derivatives import Derivatives
from ...folds import weights as fold_weights
from ...inference.graph import SumMoments
from ...model import override
from ...parallel import threads, track
from ...solvers.inverse import DenseFolds, DenseHessian


class MRFDerivatives(Derivatives):
    """Derivatives of one HiddenMRF. Folds run in threads; those at one point share its sums.

    Where all folds are at one point, each sums out anew only what its sites touch, which is 2.5
    times faster; gradients and Hessians are found together, as Newton's method asks for both.
    """

    hessians_first = True
    chord_rate = 0.5
    fresh = 1.0  # spares every other fold a Hessian, which costs two gradients

    def __init__(self, model):
        super().__init__(model)
        self._kept = (None, None, None)

    @override
    def value_and_gradient(self, params, weights):
        """(F, dF/dparams (K,))."""
        moments = self._sum_moments(params, weights, covariances=False).whole
        return -moments.log_partition, -moments.mean[: len(params)]

    @override
    def hessian(self, params, weights):
        """d2F/dparams2 (K, K)."""
        moments = self._sum_moments(params, weights).whole
        return DenseHessian(self._curvature(moments, params, weights))

    @override
    def fold_gradients(self, params, folds, values=True):
        """(F (n_folds,), dF/dparams (n_folds, K))."""
        if params.ndim == 1:
            return self._at_one_point(params, folds)[:2]
        rows = self._each(self._fold_gradient, params, folds, "gradients")
        return _columns(rows)

    @override
    def fold_hessians(self, params, folds, damping=0.0, whole=None):
        """H(w_o) + damping I of each fold."""
        if params.ndim == 1:
            matrices = self._at_one_point(params, folds)[2]
        else:
            matrices = np.array(self._each(self._fold_hessian, params, folds, "Hessians"))
        return DenseFolds(matrices + damping * np.eye(self.model.n_states))

    @override
    def heldout(self, params, folds):
        """-log p(x_t | x outside the fold) of the scored sites of each fold."""
        return folds.pick(self._each(self._fold_heldout, params, folds, "held-out losses"))

    def _each(self, function, params, folds, label):
        points = np.broadcast_to(params, (len(folds), params.shape[-1]))
        jobs = track(list(zip(points, folds, strict=True)), label)
        return threads()(delayed(function)(point, fold) for point, fold in jobs)

    def _at_one_point(self, params, folds):
        """F, dF/dparams and d2F/dparams2 of all folds, kept: they are asked for one at a time."""
        known_folds, known_params, known = self._kept
        if known_folds is folds and np.array_equal(known_params, params):
            return known
        shared = self._sum_moments(params, np.ones(self.n_sites))

        def derivatives(params, fold):
            weights = fold_weights(self.n_sites, fold)
            moments = shared.renewed(*self._problem(params, weights))
            gradient = -moments.mean[: len(params)]
            hessian = self._curvature(moments, params, weights)
            return -moments.log_partition, gradient, hessian

        found = _columns(self._each(derivatives, params, folds, "derivatives"))
        self._kept = (folds, np.array(params), found)
        return found

    def _sum_moments(self, params, weights, covariances=True):
        pairs = np.argwhere(np.tri(len(params))) if covariances else []
        return SumMoments(*self._problem(params, weights), pairs, self.model.elimination)

    def _problem(self, params, weights):
        """Node and edge potentials, and the S_k and all N_k but the last, (2 K - 1, n, K)."""
        node, edge, observation = self.model.weighted_potentials(params, weights)
        model = self.model
        exposure = model.exposure[:, None]
        indicators = np.eye(len(params))[:, None, :] * observation[:, None]
        slopes = indicators * (model.counts[:, None] - exposure * np.exp(params))
        return node, edge, np.concatenate([slopes, indicators[:-1] * exposure])

    def _curvature(self, moments, params, weights):
        """d2F/dparams2 (K, K) from moments."""
        k = len(params)
        observation = self.model._factor_weights(weights).observation
        others = moments.mean[k:]
        occupancy = np.append(others, observation @ self.model.exposure - others.sum())
        lower = np.zeros((k, k))
        lower[np.tril_indices(k)] = moments.covariance
        covariance = lower + np.tril(lower, -1).T
        return np.diag(np.exp(params) * occupancy) - covariance


def _columns(rows):
    """Tuples, one a fold, as an array of each of their parts."""
    return tuple(np.array(part) for part in zip(*rows, strict=True))
