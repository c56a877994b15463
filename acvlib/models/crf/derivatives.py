"""Fast paths of a `LinearChainCRF`, named as in `curvature`; each is tested against autograd of the objective."""

import warnings

import numpy as np

from ...parallel import in_threads
from .chains import SPREAD
from .terms import Data, SentenceTerms, TokenTerms

MAX_STEPS, SETTLED = (
    60,
    1e-4,
)  # of Newton's method on all data; the decrement at which chords start well


class CRFFast:
    """Values and derivatives for one weighting or for many folds at once; `terms`: what a fold takes out."""

    def __init__(self, model):
        self.model, self.data = model, Data(model)
        self.terms = (TokenTerms if model.scheme else SentenceTerms)(self.data)
        self.total_observed, self.everything = (
            self.data.observed.sum(axis=0),
            np.ones(len(self.data.starts) - 1),
        )

    # one weighting

    def value_and_gradient(self, params, weights):
        """(F, dF/dparams)."""
        value, gradient = self.terms.value_and_gradient(params, np.asarray(weights, float))
        return float(
            value
        ) + 0.5 * self.model.ridge * params @ params, gradient + self.model.ridge * params

    def hessian(self, params, weights):
        """d2F/dparams2 (D, D)."""
        return self.terms.hessian(params, weights) + self.model.ridge * np.eye(len(params))

    def full(self, params):
        """(F, dF/dparams) with all weights 1, without a look at hidden labels."""
        log_z, features = self.data.chains.sums(params, self.everything)
        value = log_z.sum() - self.total_observed @ params - self.data.emitted.sum()
        gradient = features - self.total_observed + self.model.ridge * params
        return value + 0.5 * self.model.ridge * params @ params, gradient

    # many folds at once

    def fold_gradients(self, params, folds):
        """(F (n_folds,), dF/dparams (n_folds, D)); of no folds too, where all have an indefinite Hessian."""
        if not len(params):
            return np.empty(0), np.empty_like(params)
        values, gradients = self._full_at_each(params)
        own = in_threads(self._own, list(zip(params, folds, strict=True)))
        return values - [value for value, _ in own], gradients - np.array(
            [gradient for _, gradient in own]
        )

    def _own(self, pair):
        params, fold = pair
        return self.terms.own(params, fold) if len(fold) else (0.0, np.zeros_like(params))

    def _full_at_each(self, params):
        """`full` of every row of params (n, D)."""
        if (params == params[:1]).all():
            value, gradient = self.full(params[0])
            return np.full(len(params), value), np.tile(gradient, (len(params), 1))
        log_z, features = self.data.chains.many_sums(params)
        penalty = 0.5 * self.model.ridge * (params**2).sum(axis=1)
        values = log_z - params @ self.total_observed - self.data.emitted.sum() + penalty
        return values, features - self.total_observed + self.model.ridge * params

    def fold_hessians(self, params, folds):
        """d2F/dparams2 (n_folds, D, D)."""
        if len(params) > 1 and (params == params[:1]).all():
            return FoldHessians(self, params[0], folds).hessians(np.arange(len(folds)))
        ridge = self.model.ridge * np.eye(params.shape[1])
        return np.array(
            [self.fold_covariance(p, fold) + ridge for p, fold in zip(params, folds, strict=True)]
        )

    def fold_covariance(self, params, fold):
        """The fold's Hessian without the ridge."""
        total = self.data.chains.covariance(params, self.everything)
        return total - self.terms.own_covariance(params, fold) if len(fold) else total

    def fold_heldout_losses(self, params, folds):
        """One array of losses for each fold; nan where its params are out of range, which is warned of once."""
        losses = in_threads(
            lambda pair: self.terms.heldout(*pair), list(zip(params, folds, strict=True))
        )
        if stray := sum(np.isnan(each).any() for each in losses):
            message = f"{stray} of {len(folds)} folds have params that differ by more than {SPREAD:g} nats"
            warnings.warn(
                f"{message}: their losses are nan; raise the ridge, or refit them exactly",
                stacklevel=2,
            )
        return losses

    def jackknife_params(self, fit, folds, damping):
        """theta + H^-1 `fold_cross`."""
        hessian = fit.metric + damping * np.eye(len(fit.params))
        return fit.params + np.linalg.solve(hessian, self.fold_cross(fit.params, folds).T).T

    def fold_cross(self, params, folds):
        """sum over each fold of d2F / dparams dw at w = 1, (n_folds, D)."""
        return np.array(in_threads(lambda fold: self.terms.slope(params, fold), list(folds)))

    def newton_params(self, fit, folds, damping):
        """(theta - H(w_o)^-1 dF/dtheta(w_o), H(w_o)'s smallest eigenvalue or a lower bound of its sign)."""
        start, rows = np.tile(fit.params, (len(folds), 1)), np.arange(len(folds))
        hessians = FoldHessians(
            self, fit.params, folds, fit.metric + damping * np.eye(len(fit.params))
        )
        _, gradients = self.fold_gradients(start, folds)
        return start - hessians.solve(gradients, rows), hessians.smallest_eigenvalues()

    def fold_chords(self, fit, folds):
        """What `curvature.fold_chords` asks for, around the optimum of all data."""
        return FoldChords(self, self.settle(fit), folds)

    def settle(self, fit):
        """(params, H) at the optimum of all data, by Newton's method from `fit`, halving steps that do not descend.

        F is strictly convex with all weights 1, so the optimum is the one that every start leads to.
        """
        params, hessian = fit.params, fit.metric
        value, gradient = self.full(params)
        for _ in range(MAX_STEPS):
            step = np.linalg.solve(hessian, gradient)
            if gradient @ step <= SETTLED**2:
                break
            params, value, gradient = self._descend(params, step, value)
            hessian = self.hessian(params, np.ones(self.model.n_sites))
        return params, hessian

    def _descend(self, params, step, value):
        scale = 1.0
        new_value, gradient = self.full(params - step)
        while not new_value <= value + 1e-10 * abs(value):  # nan where it strayed
            scale *= 0.5
            new_value, gradient = self.full(params - scale * step)
        return params - scale * step, new_value, gradient


class FoldHessians:
    """H(w_o) = H - own's Hessian at one point, made where it is needed and not kept: there may be many folds."""

    def __init__(self, fast, params, folds, hessian=None):
        self.fast, self.params, self.folds = fast, params, folds
        self.hessian = (
            fast.hessian(params, np.ones(fast.model.n_sites)) if hessian is None else hessian
        )

    def hessians(self, rows):
        """H(w_o) of the folds numbered `rows`, (n, D, D)."""
        own = in_threads(
            lambda row: self.fast.terms.own_covariance(self.params, self.folds[row]), list(rows)
        )
        return self.hessian - np.array(own)

    def solve(self, vectors, rows):
        """H(w_o)^-1 vectors, (n, D)."""
        if not len(rows):
            return vectors
        blocks = [slice(i, i + 64) for i in range(0, len(rows), 64)]
        return np.concatenate(
            [np.linalg.solve(self.hessians(rows[b]), vectors[b][..., None])[..., 0] for b in blocks]
        )

    def smallest_eigenvalues(self):
        """Of H(w_o); for sentences the ridge, which is a lower bound."""
        if self.fast.terms.linear:
            return np.full(len(self.folds), self.fast.model.ridge)
        rows = np.arange(len(self.folds))
        return np.concatenate(
            [
                np.linalg.eigvalsh(self.hessians(rows[i : i + 64]))[:, 0]
                for i in range(0, len(rows), 64)
            ]
        )


class FoldChords:
    """What `curvature.fold_chords` promises, around `settled` = (params, H)."""

    def __init__(self, fast, settled, folds):
        self._fast, self._folds = fast, folds
        self._hessians = FoldHessians(fast, settled[0], folds, settled[1])
        params = np.tile(settled[0], (len(folds), 1))
        self.start = params - self.solve(
            fast.fold_gradients(params, folds)[1], np.arange(len(folds))
        )
        self.smallest_eigenvalue = self._hessians.smallest_eigenvalues()

    def solve(self, vectors, rows):
        """H(w_o)^-1 vectors for the folds numbered `rows`."""
        return self._hessians.solve(vectors, rows)

    def gradients(self, params, rows, accuracy):
        """dF/dparams at each fold's params and weights, (len(rows), D)."""
        return self._fast.fold_gradients(params, [self._folds[i] for i in rows])[1]

    def contraction(self, before, after):
        """Not known: every fold's gradient is looked at again."""
        return np.full(len(after), np.inf)
