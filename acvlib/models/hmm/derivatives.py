"""Fast paths of an `HMM` under scheme A, named as in `curvature`; each is tested against autograd of the objective."""

import numpy as np
from joblib import delayed
from scipy.special import logsumexp

from ...folds import indicator
from ...folds import weights as fold_weights
from ...parallel import threads, track
from ...weighting import check
from .curvature import Curvature
from .posterior import Posterior
from .products import SeparateProducts, SharedProducts

DENSE = 300  # parameters up to which a Hessian is formed, which takes less time than many products


class HMMFast:
    """Values and derivatives of one HMM by the kernels of `scaled_chain` and `active_chain`."""

    def __init__(self, model):
        self.model, self.by_sequence = model, model.sites == "sequences"
        if model.n_params <= DENSE:
            self.hessian_products = None

    def posterior(self, params, weights):
        """The `Posterior` at params (D,) and site weights (n_sites,)."""
        check(weights, self.model.n_sites)
        return Posterior(self.model, params, weights)

    # one weighting

    def value_and_gradient(self, params, weights):
        """(F, dF/dparams)."""
        posterior = self.posterior(params, weights)
        return posterior.value(), posterior.gradient()

    def hessian(self, params, weights):
        """d2F/dparams2 (D, D), from D products."""
        return Curvature(self.posterior(params, weights)).multiply(np.eye(len(params)))

    def hessian_and_cross(self, params, weights):
        """(H, J (D, n_sites))."""
        posterior = self.posterior(params, weights)
        curvature = Curvature(posterior)
        cross = -self._sequence_scores(params).T if self.by_sequence else curvature.cross_matrix()
        return curvature.multiply(np.eye(len(params))), cross

    # many folds

    def fold_gradients(self, params, folds):
        """(F (n_folds,), dF/dparams (n_folds, D))."""
        if self.by_sequence and len(folds) > 1 and _all_equal(params):
            return self._shared_gradients(params[0], folds)
        values, gradients = zip(
            *self._each(self._fold_gradient, params, folds, "gradients"), strict=True
        )
        return np.array(values), np.array(gradients)

    def fold_hessians(self, params, folds):
        """d2F/dparams2 (n_folds, D, D)."""
        if self.by_sequence and len(folds) > 1 and _all_equal(params):
            return self._shared_hessians(params[0], folds)
        return np.array(self._each(self._fold_hessian, params, folds, "Hessians"))

    def fold_cross(self, params, folds):
        """J (w_o - 1) at params (D,) and w = 1 for each fold, (n_folds, D)."""
        if self.by_sequence:
            scores = self._sequence_scores(params)
            return np.array([scores[fold].sum(axis=0) for fold in folds])
        posterior = self.posterior(params, np.ones(self.model.n_sites))
        return Curvature(posterior).cross(-indicator(folds, self.model.n_sites).toarray())

    def hessian_products(self, params, folds):
        """H(w_o) of each fold at its params (n_folds, D), without any matrix: see `curvature.hessian_products`."""
        if self.by_sequence and len(folds) > 1 and _all_equal(params):
            return SharedProducts(self.posterior(params[0], np.ones(self.model.n_sites)), folds)
        n_sites = self.model.n_sites
        pairs = zip(params, folds, strict=True)
        return SeparateProducts(
            [self.posterior(p, fold_weights(n_sites, fold)) for p, fold in pairs]
        )

    def fold_heldout_losses(self, params, folds):
        """One array of held-out losses for each fold."""
        return self._each(self.heldout_loss, params, folds, "held-out losses")

    def heldout_loss(self, params, fold):
        """As in the model."""
        model = self.model
        if self.by_sequence:
            return self.sequence_losses(params, model.frames.take(fold))
        posterior = Posterior(model, params, fold_weights(model.n_sites, fold))
        density = posterior.point.log_density[fold]
        return -logsumexp(density, b=posterior.smoothed.gamma[fold], axis=1)

    def sequence_losses(self, params, frames):
        """-log p(x_n; params) of the sequences of any `Frames`."""
        return -Posterior(
            self.model, params, np.ones(len(frames.starts) - 1), frames
        ).smoothed.log_z

    def _each(self, function, params, folds, label):
        jobs = zip(params, track(folds, label), strict=True)
        return threads()(delayed(function)(p, fold) for p, fold in jobs)

    def _fold_gradient(self, params, fold):
        return self.value_and_gradient(params, fold_weights(self.model.n_sites, fold))

    def _fold_hessian(self, params, fold):
        return self.hessian(params, fold_weights(self.model.n_sites, fold))

    def _shared_gradients(self, params, folds):
        posterior = self.posterior(params, np.ones(self.model.n_sites))
        scores, log_z = (
            self._sequence_scores(params, np.unique(np.concatenate(folds))),
            posterior.smoothed.log_z,
        )
        value, gradient = posterior.value(), posterior.gradient()
        values = np.array([value + log_z[fold].sum() for fold in folds])
        return values, np.array([gradient + scores[fold].sum(axis=0) for fold in folds])

    def _shared_hessians(self, params, folds):
        curvature, unit = (
            Curvature(self.posterior(params, np.ones(self.model.n_sites))),
            np.eye(len(params)),
        )
        whole = curvature.multiply(unit)
        return np.array(
            [whole - sum(curvature.of_sequence(n).multiply(unit) for n in fold) for fold in folds]
        )

    def _sequence_scores(self, params, numbers=None):
        """d log p(x_n) / dparams, (N, D); only of some sequences n if given, 0 elsewhere."""
        scores = np.zeros((self.model.n_sites, len(params)))
        for n in range(len(scores)) if numbers is None else numbers:
            scores[n] = Posterior(
                self.model, params, np.ones(1), self.model.frames.take([n])
            ).score()
        return scores


def _all_equal(params):
    return len(params) > 0 and bool((params == params[:1]).all())
