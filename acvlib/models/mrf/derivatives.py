"""Closed forms of a `HiddenMRF`; each is tested against autograd.

With S_k = sum_t w_t 1{z_t = k} (x_t - rate_k), the derivative of the weighted log joint in log rate
k, and N_k = sum_t w_t 1{z_t = k}, all moments given the counts that are kept (Louis 1982):

    dF/dtheta_k = -E[S_k],   d2F/dtheta_k dtheta_l = 1{k = l} rate_k E[N_k] - Cov(S_k, S_l)
"""

import numpy as np
from joblib import delayed

from ...derivatives import Derivatives
from ...folds import weights as fold_weights
from ...inference.graph import SumMoments
from ...parallel import threads, track
from ...protocol import override
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
        node, edge, sums = self._problem(params, weights)
        slopes = sums[: self.model.n_states]
        found = SumMoments(node, edge, slopes, [], self.model.elimination).whole
        return -found.log_partition, -found.mean

    @override
    def hessian(self, params, weights):
        """d2F/dparams2 (K, K)."""
        found = self._sum_moments(params, weights).whole
        return DenseHessian(self._derivatives(found, params, weights)[2])

    @override
    def fold_gradients(self, params, folds, values=True):
        """(F (n_folds,), dF/dparams (n_folds, K))."""
        if params.ndim == 1:
            values, gradients, _ = self._at_one_point(params, folds)
            return values, gradients
        pairs = self._each(self._fold_gradient, params, folds, "gradients")
        found, gradients = zip(*pairs, strict=True)
        return np.array(found), np.array(gradients)

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

    def _problem(self, params, weights):
        """Node and edge potentials, and the S_k and all N_k but the last, (2 K - 1, n, K)."""
        model = self.model
        node, edge, observation = model.weighted_potentials(params, weights)
        indicators = np.eye(model.n_states)[:, None, :] * observation[:, None]
        slopes = indicators * (model.counts[:, None] - np.exp(params))
        return node, edge, np.concatenate([slopes, indicators[:-1]])

    def _sum_moments(self, params, weights):
        pairs = np.argwhere(np.tri(self.model.n_states))
        return SumMoments(*self._problem(params, weights), pairs, self.model.elimination)

    def _derivatives(self, found, params, weights):
        """(F, dF/dparams, d2F/dparams2) from moments."""
        k = self.model.n_states
        others = found.mean[k:]
        n_observed = self.model.scheme(weights, self.model.edges).observation.sum()
        occupancy = np.append(others, n_observed - others.sum())
        hessian = np.diag(np.exp(params) * occupancy)
        rows, columns = np.tril_indices(k)
        hessian[rows, columns] -= found.covariance
        hessian[columns, rows] = hessian[rows, columns]
        return -found.log_partition, -found.mean[:k], hessian

    def _at_one_point(self, params, folds):
        """F, dF/dparams and d2F/dparams2 of all folds, kept: they are asked for one at a time."""
        known_folds, known_params, known = self._kept
        if known_folds is folds and np.array_equal(known_params, params):
            return known
        shared = self._sum_moments(params, np.ones(self.n_sites))

        def derivatives(params, fold):
            weights = fold_weights(self.n_sites, fold)
            found = shared.renewed(*self._problem(params, weights))
            return self._derivatives(found, params, weights)

        rows = self._each(derivatives, params, folds, "derivatives")
        found = [np.array(part) for part in zip(*rows, strict=True)]
        self._kept = (folds, params, found)
        return found
