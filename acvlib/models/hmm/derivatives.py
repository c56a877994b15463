"""Derivatives of an `HMM` under scheme A: with Hessians in memory, or as products with vectors."""

from functools import cached_property, partial
from typing import Any

import numpy as np

from ...derivatives import Derivatives, at
from ...folds import Folds
from ...folds import weights as fold_weights
from ...parallel import each_fold, pieces
from ...solvers.inverse import DenseFolds, DenseHessian
from .curvature import AT_ONCE, Curvature, block_solve, factor_of
from .posterior import heldout_loss, hidden_states, states_of_sequences

SHARE = 0.2  # of a block's diagonal: a smaller loss leaves the preconditioner as it is


class HMMDerivatives(Derivatives):
    """By smoothing; Hessians are formed up to the model's `dense_limit`.

    Folds of whole sequences at one point are differences between the whole and a fold's own share.
    """

    def __init__(self, model):
        super().__init__(model)
        self.matrix_free = model.n_params > model.dense_limit

    def value_and_gradient(self, params: np.ndarray, weights: np.ndarray):
        hidden = hidden_states(self.model, params, weights)
        return hidden.value(), hidden.gradient()

    def cross(self, params: np.ndarray, folds: Folds):
        if self.model.sites == "sequences":
            return -self._of_folds_alone(params, folds)[1]
        whole = Curvature(hidden_states(self.model, params, np.ones(self.n_sites)))
        left_out = folds.indicator(self.n_sites)
        parts = pieces(left_out.shape[0], AT_ONCE)
        return np.concatenate([whole.lost(left_out[part].toarray()) for part in parts])

    def fold_gradients(self, params: np.ndarray, folds: Folds, values: bool = True):
        if not self._shared(params, folds):
            return super().fold_gradients(params, folds, values)
        whole = self._whole(params)
        of_folds = self._of_folds_alone(params, folds)
        return whole.value() - of_folds[0], whole.gradient() - of_folds[1]

    def hessian(self, params: np.ndarray, weights: np.ndarray):
        if self.matrix_free:
            return super().hessian(params, weights)
        return DenseHessian(_dense(hidden_states(self.model, params, weights)))

    def fold_hessians(
        self, params: np.ndarray, folds: Folds, damping: float = 0.0, whole: Any = None
    ):
        if self.matrix_free or not self._shared(params, folds):
            return super().fold_hessians(params, folds, damping, whole)
        whole = self.hessian(params, np.ones(self.n_sites)) if whole is None else whole

        def alone(point: np.ndarray, fold: np.ndarray):
            return _dense(states_of_sequences(self.model, point, fold))

        lost = each_fold(alone, params, folds, "Hessians")
        return DenseFolds(np.asarray(whole.damped(damping)) - np.array(lost))

    def products(self, params: np.ndarray, folds: Folds):
        if self._shared(params, folds):
            own = [Curvature(states_of_sequences(self.model, params, fold)) for fold in folds]
            return Products([Curvature(self._whole(params))], own, folds)
        points = []
        for i, fold in enumerate(folds):
            weights = fold_weights(self.n_sites, fold)
            points.append(Curvature(hidden_states(self.model, at(params, i), weights)))
        return Products(points)

    def heldout(self, params: np.ndarray, folds: Folds):
        losses = each_fold(partial(heldout_loss, self.model), params, folds, "held-out losses")
        return folds.pick(losses)

    def prior_gradients(self, params: np.ndarray):
        law = self.model.chain_prior
        slopes = []
        for chain, rows in map(self.model.split, params):
            of_chain = law.minus_log_prior(law.log_p(chain))[1]
            slopes.append(self.model.join(of_chain, self.model.emission.minus_log_prior(rows)[1]))
        return np.array(slopes)

    def _shared(self, params, folds):
        """Whether folds at one point differ by the sequences that each leaves out."""
        return self.model.sites == "sequences" and params.ndim == 1 and folds.sizes.min() > 0

    def _whole(self, params):
        return hidden_states(self.model, params, np.ones(self.n_sites))

    def _of_folds_alone(self, params, folds):
        """(values (n,), gradients (n, D)) of the sequences of each fold alone."""

        def alone(point: np.ndarray, fold: np.ndarray):
            hidden = states_of_sequences(self.model, point, fold)
            return hidden.value(), hidden.gradient()

        values, gradients = zip(*each_fold(alone, params, folds, "gradients"), strict=True)
        return np.array(values), np.array(gradients)


def _dense(hidden):
    return Curvature(hidden).multiply(np.eye(hidden.model.n_params))


class Products:
    """`Derivatives.products`: a `Curvature` for each fold, or one of all, less each fold's own.

    own: of each fold's sequences alone.
    """

    def __init__(self, points, own=None, folds=None):
        self.points = points
        self.own = own
        self.folds = folds

    @cached_property
    def rough(self) -> Any:
        """The same with rough points; None of these, which have none."""
        points = [point.rough for point in self.points]
        return Products(points, self.own, self.folds) if all(points) else None

    def multiply(self, vectors: np.ndarray, rows: np.ndarray):
        if self.own is None:
            return self._each(Curvature.multiply, vectors, rows)
        out = self.points[0].multiply(vectors, [self.folds[row] for row in rows])
        for i, row in enumerate(rows):
            out[i] -= self.own[row].complete(vectors[i : i + 1])[0]
        return out

    def precondition(self, vectors: np.ndarray, rows: np.ndarray):
        """The inverse complete-data information, of all but for blocks that a fold changes."""
        if self.own is None:
            return self._each(Curvature.precondition, vectors, rows)
        out = self.points[0].precondition(vectors)
        for i, row in enumerate(rows):
            for place, factor in self._changed[row]:
                out[i, place] = block_solve(factor, vectors[i, place])
        return out

    def evaluate(self):
        hidden = [point.hidden for point in self.points]
        return np.array([h.value() for h in hidden]), np.array([h.gradient() for h in hidden])

    def _each(self, function, vectors, rows):
        out = np.empty_like(vectors)
        for row in np.unique(rows):
            here = rows == row
            out[here] = function(self.points[row], vectors[here])
        return out

    @cached_property
    def _changed(self):
        """The blocks of each fold that lose more than SHARE of a diagonal entry, factorised."""
        changed = []
        for own in self.own:
            changed.append([])
            for (place, matrix), (_, lost) in zip(self.points[0].blocks, own.blocks, strict=True):
                if (np.diag(lost) > SHARE * np.diag(matrix)).any():
                    changed[-1].append((place, factor_of(matrix - lost)))
        return changed
