"""q(theta, w) = sum_ij w_i w_j W_ij (f_i - f_j)^2 = theta' M(w) theta: the pairwise term of manifold regularisation.

f = Phi theta. With d = W w the weighted degrees, M(w) = 2 [Phi' diag(w d) Phi - (w Phi)' W (w Phi)].
"""

from functools import cached_property

import autograd.numpy as anp
import numpy as np

from ...folds import indicator


class ManifoldEnergy:
    """q for features Phi (p, D) and an affinity of as many points; sums over pairs are kept for models to share.

    All that a model needs for many folds takes one product with all rows of W, and one with those in folds.
    """

    def __init__(self, features, affinity):
        self.features, self.affinity = np.asarray(features, float), affinity
        if self.features.ndim != 2 or len(self.features) != affinity.n_points:
            raise ValueError(
                f"features {self.features.shape} must have a row for each of {affinity.n_points} points"
            )
        if not np.isfinite(self.features).all():
            raise ValueError("features hold NaN or infinity")
        self._kept = {}

    @cached_property
    def _products(self):
        """(W 1 (p,), W Phi (p, D))."""
        both = self.affinity.product(np.hstack([np.ones((len(self.features), 1)), self.features]))
        return both[:, 0].copy(), both[:, 1:]

    @cached_property
    def full(self):
        """M(1) (D, D)."""
        degree, product = self._products
        return 2.0 * (self._gram(degree) - self.features.T @ product)

    def value(self, params, weights):
        """q as a float; differentiable by autograd in params (D,) and weights (p,)."""
        f = anp.dot(self.features, params)
        both = self.affinity_times(weights), self.affinity_times(weights * f)
        return 2.0 * (anp.sum(weights * f**2 * both[0]) - anp.sum(weights * f * both[1]))

    def affinity_times(self, vector):
        """W @ vector (p,), differentiable by autograd; W is formed, so that this is for small p."""
        return anp.dot(self._dense, vector)

    @cached_property
    def _dense(self):
        return self.affinity.entries(np.arange(len(self.features)))

    def matrix(self, weights):
        """M(w) (D, D) for any weights (p,)."""
        if (weights == 1.0).all():
            return self.full
        weighted = weights[:, None] * np.hstack([np.ones((len(weights), 1)), self.features])
        product = self.affinity.product(weighted)
        return 2.0 * (self._gram(weights * product[:, 0]) - weighted[:, 1:].T @ product[:, 1:])

    def fold_matrices(self, folds):
        """M(w_o) of each fold, (n_folds, D, D); kept until folds are asked for of which none is known."""
        keys = [fold.tobytes() for fold in folds]
        new = [fold for key, fold in zip(keys, folds, strict=True) if key not in self._kept]
        if len(new) == len(folds):
            self._kept = {}
        if new:
            left_out = self._products_with_folds(new).T
            self._kept |= {
                f.tobytes(): self._without(f, column)
                for f, column in zip(new, left_out, strict=True)
            }
        return np.array([self._kept[key] for key in keys])

    def _products_with_folds(self, folds):
        """W 1_o for each fold o, (p, n_folds)."""
        sites = np.unique(np.concatenate(folds))
        left_out = indicator(folds, len(self.features))[:, sites].toarray()
        return self.affinity.transposed_product(left_out.T, sites)

    def _without(self, fold, left_out):
        """M(1) less the pairs of which one, or both, are in the fold."""
        degree, product = self._products
        own, cross = self.features[fold], self.features[fold].T @ product[fold]
        inside = own.T @ self.affinity.entries(fold) @ own
        lost = (degree - left_out)[fold]
        gram = self._gram(left_out) + (own * lost[:, None]).T @ own
        return self.full - 2.0 * (gram - cross - cross.T + inside)

    def site_gradients(self, params, sites):
        """d2q / dw_i dparams at w = 1 for each site, (len(sites), D): 4 sum_j W_ij (f_i - f_j) (phi_i - phi_j)."""
        degree, product = self._products
        own, f = self.features[sites], self.features @ params
        moved = self.affinity.product(f[:, None] * self.features, sites)
        pull = degree[sites] * f[sites] - product[sites] @ params
        return 4.0 * (pull[:, None] * own - f[sites, None] * product[sites] + moved)

    def _gram(self, weights):
        return (self.features * weights[:, None]).T @ self.features
