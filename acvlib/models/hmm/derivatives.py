"""Derivatives of an `HMM` under scheme A: with Hessians in memory, or without."""

import numpy as np

from ...derivatives import Derivatives, at, each_fold
from ...folds import Folds
from ...folds import weights as fold_weights
from ...parallel import pieces
from ...protocol import override
from ...solvers.inverse import DenseFolds, DenseHessian, FoldSolver, Solvable
from .curvature import AT_ONCE, Curvature
from .posterior import hidden_states, states_of_sequences
from .products import SeparateProducts, SharedProducts


class _Gradients(Derivatives):
    """What dense and matrix-free derivatives share.

    Folds of whole sequences at one point are differences between the whole and a fold's own share.
    """

    @override
    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """(F, dF/dparams (D,)) at weights (n_sites,)."""
        hidden = hidden_states(self.model, params, weights)
        return hidden.value(), hidden.gradient()

    @override
    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """J (w_o - 1) of each fold, (n_folds, D), J at params (D,) and weights 1."""
        if self.model.sites == "sequences":
            own = each_fold(self._own_gradient, params, folds, "gradients")
            return -np.array([gradient for _, gradient in own])
        curvature = Curvature(hidden_states(self.model, params, np.ones(self.n_sites)))
        left_out = folds.indicator(self.n_sites)
        parts = pieces(len(folds), AT_ONCE)
        return np.concatenate([curvature.cross(left_out[part].toarray()) for part in parts])

    @override
    def fold_gradients(
        self, params: np.ndarray, folds: Folds, values: bool = True
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """(F (n_folds,), dF/dparams (n_folds, D))."""
        if not self._shared(params, folds):
            return super().fold_gradients(params, folds, values)
        value, gradient = self.value_and_gradient(params, np.ones(self.n_sites))
        own = each_fold(self._own_gradient, params, folds, "gradients")
        own_values, own_gradients = zip(*own, strict=True)
        return value - np.array(own_values), gradient - np.array(own_gradients)

    def _shared(self, params, folds):
        """Whether folds at one point differ by the sequences that each leaves out."""
        return self.model.sites == "sequences" and params.ndim == 1 and folds.sizes.min() > 0

    def _own_gradient(self, params, fold):
        own = states_of_sequences(self.model, params, fold)
        return own.value(), own.gradient()


class HMMDerivatives(_Gradients):
    """Hessians in memory."""

    @override
    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        """d2F/dparams2 (D, D), from D products."""
        return DenseHessian(_dense(hidden_states(self.model, params, weights)))

    @override
    def fold_hessians(
        self,
        params: np.ndarray,
        folds: Folds,
        damping: float = 0.0,
        whole: Solvable | None = None,
    ) -> FoldSolver:
        """H(w_o) + damping I of each fold."""
        if not self._shared(params, folds):
            return super().fold_hessians(params, folds, damping)
        whole = self.hessian(params, np.ones(self.n_sites)) if whole is None else whole
        own = each_fold(self._own_hessian, params, folds, "Hessians")
        return DenseFolds(np.asarray(whole.damped(damping)) - np.array(own))

    def _own_hessian(self, params, fold):
        return _dense(states_of_sequences(self.model, params, fold))


class MatrixFreeHMMDerivatives(_Gradients):
    """Products with Hessians, which are too large to form."""

    matrix_free = True

    @override
    def products(self, params: np.ndarray, folds: Folds) -> SharedProducts | SeparateProducts:
        """H(w_o) of each fold as products with vectors."""
        if self._shared(params, folds):
            return SharedProducts(hidden_states(self.model, params, np.ones(self.n_sites)), folds)
        hidden = [
            hidden_states(self.model, at(params, i), fold_weights(self.n_sites, fold))
            for i, fold in enumerate(folds)
        ]
        return SeparateProducts(hidden)


def _dense(hidden):
    return Curvature(hidden).multiply(np.eye(hidden.model.n_params))
