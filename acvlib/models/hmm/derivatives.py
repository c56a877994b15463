"""Derivatives of an `HMM` under scheme A: with Hessians in memory, or without."""

import numpy as np

from ...derivatives import Derivatives, at, each_fold
from ...folds import weights as fold_weights
from ...parallel import pieces
from ...protocol import override
from ...solvers.inverse import DenseFolds, DenseHessian
from .curvature import AT_ONCE, Curvature
from .posterior import hidden_states, states_of_sequences
from .products import SeparateProducts, SharedProducts


class HMMDerivatives(Derivatives):
    """By smoothing; Hessians are formed up to the model's `dense_limit`.

    Folds of whole sequences at one point are differences between the whole and a fold's own share.
    """

    def __init__(self, model):
        super().__init__(model)
        self.matrix_free = model.n_params > model.dense_limit

    @override
    def value_and_gradient(self, params, weights):
        hidden = hidden_states(self.model, params, weights)
        return hidden.value(), hidden.gradient()

    @override
    def cross(self, params, folds):
        if self.model.sites == "sequences":
            own = each_fold(self._own_gradient, params, folds, "gradients")
            return -np.array([gradient for _, gradient in own])
        curvature = Curvature(hidden_states(self.model, params, np.ones(self.n_sites)))
        left_out = folds.indicator(self.n_sites)
        parts = pieces(len(folds), AT_ONCE)
        return np.concatenate([curvature.cross(left_out[part].toarray()) for part in parts])

    @override
    def fold_gradients(self, params, folds, values=True):
        if not self._shared(params, folds):
            return super().fold_gradients(params, folds, values)
        value, gradient = self.value_and_gradient(params, np.ones(self.n_sites))
        own = each_fold(self._own_gradient, params, folds, "gradients")
        own_values, own_gradients = zip(*own, strict=True)
        return value - np.array(own_values), gradient - np.array(own_gradients)

    @override
    def hessian(self, params, weights):
        if self.matrix_free:
            return super().hessian(params, weights)
        return DenseHessian(_dense(hidden_states(self.model, params, weights)))

    @override
    def fold_hessians(self, params, folds, damping=0.0, whole=None):
        if self.matrix_free or not self._shared(params, folds):
            return super().fold_hessians(params, folds, damping, whole)
        whole = self.hessian(params, np.ones(self.n_sites)) if whole is None else whole
        own = each_fold(self._own_hessian, params, folds, "Hessians")
        return DenseFolds(np.asarray(whole.damped(damping)) - np.array(own))

    @override
    def products(self, params, folds):
        if self._shared(params, folds):
            return SharedProducts(hidden_states(self.model, params, np.ones(self.n_sites)), folds)
        hidden = []
        for i, fold in enumerate(folds):
            weights = fold_weights(self.n_sites, fold)
            hidden.append(hidden_states(self.model, at(params, i), weights))
        return SeparateProducts(hidden)

    def _shared(self, params, folds):
        """Whether folds at one point differ by the sequences that each leaves out."""
        return self.model.sites == "sequences" and params.ndim == 1 and folds.sizes.min() > 0

    def _own_gradient(self, params, fold):
        own = states_of_sequences(self.model, params, fold)
        return own.value(), own.gradient()

    def _own_hessian(self, params, fold):
        return _dense(states_of_sequences(self.model, params, fold))


def _dense(hidden):
    return Curvature(hidden).multiply(np.eye(hidden.model.n_params))
