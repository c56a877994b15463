"""Closed forms of a `HiddenMRF`, named as in `curvature`; each is tested against autograd.

With S_k = sum_t w_t 1{z_t = k} (x_t - rate_k), the derivative of the weighted log joint in log rate k,

    dF/dtheta_k = -E[S_k],   d2F/dtheta_k dtheta_l = 1{k = l} rate_k sum_t w_t P(z_t = k) - Cov(S_k, S_l)

(Louis 1982), w the weights of the observations, all moments given the counts that are kept.
"""

from functools import cached_property

import numpy as np
from autograd import grad
from joblib import delayed

from ...folds import weights as fold_weights
from ...inference import graph
from ...parallel import threads, track
from ...weighting import check
from .folds import SharedPoint

SEVERAL = 4  # folds at one point from which on what they share is worth its price


class MRFFast:
    """Values and derivatives of one HiddenMRF, for one weighting or for fold after fold; folds in threads."""

    def __init__(self, model):
        self.model = model

    def value_and_gradient(self, params, weights):
        """(F, dF/dparams (K,))."""
        return Expansion(self.model, params, weights).value_and_gradient()

    def hessian(self, params, weights):
        """d2F/dparams2 (K, K)."""
        return Expansion(self.model, params, weights).hessian()

    def hessian_and_cross(self, params, weights):
        """(H (K, K), J (K, n))."""
        return Expansion(self.model, params, weights).hessian_and_cross()

    def fold_gradients(self, params, folds):
        """(F (n_folds,), dF/dparams (n_folds, K))."""
        rows = self._derivatives(params, folds, False, "gradients")
        return np.array([row[0] for row in rows]), np.array([row[1] for row in rows])

    def fold_hessians(self, params, folds):
        """d2F/dparams2 (n_folds, K, K)."""
        return np.array([row[2] for row in self._derivatives(params, folds, True, "Hessians")])

    def fold_heldout_losses(self, params, folds):
        """-log p(x_t | x outside the fold) of the left-out sites, fold after fold."""
        pairs = track(list(zip(params, folds, strict=True)), "held-out losses")
        return threads()(delayed(self.model.heldout_loss)(p, fold) for p, fold in pairs)

    def newton_params(self, fit, folds, damping):
        """(theta - [H(w_o) + damping]^-1 dF/dtheta(w_o), smallest eigenvalue of H(w_o) + damping)."""
        chords = FoldChords(self, fit, folds, damping)
        return chords.start, chords.smallest_eigenvalue

    def fold_chords(self, fit, folds):
        """H(w_o) of all folds at the fit, with their Newton steps."""
        return FoldChords(self, fit, folds)

    def expansions(self, params, folds):
        """(dF/dparams (n_folds, K), d2F/dparams2 (n_folds, K, K)), each fold's field summed out once for both."""
        rows = self._derivatives(params, folds, True, "gradients and Hessians")
        return np.array([row[1] for row in rows]), np.array([row[2] for row in rows])

    def _derivatives(self, params, folds, curved, label):
        """(F, dF/dparams, d2F/dparams2 or None) of each fold; together where all folds stand at one point."""
        together = len(folds) >= SEVERAL and (params == params[:1]).all()
        shared = SharedPoint(self.model, params[0], curved) if together else None
        pairs = track(list(zip(params, folds, strict=True)), label)
        jobs = (delayed(self._fold)(shared, curved, p, fold) for p, fold in pairs)
        return threads()(jobs)

    def _fold(self, shared, curved, params, fold):
        found = shared.fold(fold) if shared and shared.accurate else None
        return found or Expansion(
            self.model, params, fold_weights(self.model.n_sites, fold)
        ).derivatives(curved)


class Expansion:
    """F and its derivatives at one point, from one elimination."""

    def __init__(self, model, params, weights):
        check(weights, model.n_sites)
        self.model, self.weights, self.rates = model, weights, np.exp(params)
        self.factor = model.scheme(weights, model.edges)
        self.density = model.log_densities(params)
        self.posterior = graph.Posterior(
            *model.potentials(self.density, self.factor), model.elimination
        )
        self.slopes = (
            model.counts[:, None] - self.rates
        )  # of the log densities, each in its own log rate

    def value_and_gradient(self):
        kept = self.factor.observation[:, None] * self.posterior.marginals()[0]
        return -self.posterior.log_partition, -np.sum(kept * self.slopes, axis=0)

    @cached_property
    def expected(self):
        """The S_k of the module's equation, ready for covariances."""
        k = self.model.n_states
        moves = np.eye(k)[:, None, :] * self.factor.observation[:, None] * self.slopes
        return self.posterior.expect(moves, np.zeros((k, len(self.model.edges), k, k)))

    def derivatives(self, curved):
        """(F, dF/dparams, d2F/dparams2 or None)."""
        return *self.value_and_gradient(), self.hessian() if curved else None

    def hessian(self):
        return self._mean_curvature() - self.posterior.covariance(self.expected)

    def _mean_curvature(self):
        return np.diag(self.rates * (self.factor.observation @ self.posterior.marginals()[0]))

    def hessian_and_cross(self):
        """Both from how the marginals move with each parameter."""
        moved = self.posterior.tangents(self.expected)
        kept = self.factor.observation[:, None] * self.slopes
        covariance = np.array([np.sum(kept * d_gamma, axis=0) for d_gamma, _ in moved])
        return self._mean_curvature() - covariance, -np.array(
            [self._cross(k, *row) for k, row in enumerate(moved)]
        )

    def _cross(self, k, d_gamma, d_xi):
        """What the mean of each factor moves by with parameter k, times how its weight depends on each site's."""
        gamma, scheme, edges = self.posterior.marginals()[0], self.model.scheme, self.model.edges
        observation = np.sum(d_gamma * self.density, axis=1) + gamma[:, k] * self.slopes[:, k]
        edge = self.model.coupling * np.trace(d_xi, axis1=1, axis2=2)

        def moved(weights):
            factor = scheme(weights, edges)
            return factor.observation @ observation + factor.edge @ edge

        return grad(moved)(self.weights)


class FoldChords:
    """All folds' Hessians at the full fit, as `chords.refine_by_chords` wants them."""

    def __init__(self, fast, fit, folds, damping=0.0):
        self.fast, self.folds = fast, folds
        self.n_hessians = len(folds)
        params = np.tile(fit.params, (len(folds), 1))
        gradients, hessians = fast.expansions(params, folds)
        hessians = hessians + damping * np.eye(params.shape[1])
        self.smallest_eigenvalue = np.linalg.eigvalsh(hessians)[:, 0]
        self.inverse = np.linalg.inv(hessians)
        self.start = params - np.einsum("nij,nj->ni", self.inverse, gradients)

    def solve(self, vectors, rows):
        """H(w_o)^-1 times one vector a fold."""
        return np.einsum("nij,nj->ni", self.inverse[rows], vectors)

    def gradients(self, params, rows, accuracy):
        """dF/dparams at each fold's params."""
        return self.fast.fold_gradients(params, [self.folds[i] for i in rows])[1]

    def contraction(self, before, after):
        """Not known without another Hessian."""
        return np.full(len(after), np.inf)
