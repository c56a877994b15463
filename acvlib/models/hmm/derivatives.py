"""Derivatives of an `HMM` under scheme A: with Hessians in memory, or as products with vectors."""

from functools import cached_property

import numpy as np
from joblib import delayed
from scipy.linalg import cho_factor

from ...derivatives import Derivatives, at, each_fold
from ...folds import weights as fold_weights
from ...inference import prefixes
from ...model import override
from ...parallel import parallel, pieces
from ...solvers.inverse import DenseFolds, DenseHessian
from .curvature import AT_ONCE, CompleteData, ScoreCovariance, block_solve, hessian
from .posterior import (
    filter_tables,
    heldout_gradient,
    hidden_states,
    prior_gradient,
    states_of_sequences,
)

SHARE = 0.2  # of a block's diagonal: a smaller loss leaves the preconditioner as it is


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
            return -self._own_gradients(params, folds)[1]
        covariance = ScoreCovariance(self._whole(params))
        left_out = folds.indicator(self.n_sites)
        parts = pieces(len(folds), AT_ONCE)
        return np.concatenate([covariance.cross(left_out[part].toarray()) for part in parts])

    @override
    def fold_gradients(self, params, folds, values=True):
        if not self._shared(params, folds):
            return super().fold_gradients(params, folds, values)
        whole = self._whole(params)
        own_values, own_gradients = self._own_gradients(params, folds)
        return whole.value() - own_values, whole.gradient() - own_gradients

    @override
    def hessian(self, params, weights):
        if self.matrix_free:
            return super().hessian(params, weights)
        return DenseHessian(hessian(hidden_states(self.model, params, weights)))

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
            own = [states_of_sequences(self.model, params, fold) for fold in folds]
            return SharedProducts(self._whole(params), own, folds)
        hidden = []
        for i, fold in enumerate(folds):
            weights = fold_weights(self.n_sites, fold)
            hidden.append(hidden_states(self.model, at(params, i), weights))
        return SeparateProducts(hidden)

    @override
    def heldout_gradients(self, params, folds):
        triples = zip(params, folds.omitted, folds.scored, strict=True)
        return np.array(parallel()(delayed(heldout_gradient)(self.model, *own) for own in triples))

    @override
    def prior_gradients(self, params):
        return np.array([prior_gradient(self.model, point) for point in params])

    @override
    def futures(self, params, starts, horizon, gap):
        n_sequences = len(self.model.sequences)
        if self.model.sites != "steps" or n_sequences > 1:
            sites = f'{n_sequences} sequences with sites="{self.model.sites}"'
            raise ValueError(f'{sites}: time runs through one, with sites="steps"')
        if (self.model.sample_weight != 1.0).any():
            raise ValueError("sample_weight: leave_future_out takes a model without")
        found = prefixes.futures(filter_tables(self._whole(params)), starts, horizon, gap)
        return prefixes.Futures(
            found.gradient[:, -len(params) :], found.log_p, found.slopes[..., -len(params) :]
        )

    def _shared(self, params, folds):
        """Whether folds at one point differ by the sequences that each leaves out."""
        return self.model.sites == "sequences" and params.ndim == 1 and folds.sizes.min() > 0

    def _whole(self, params):
        return hidden_states(self.model, params, np.ones(self.n_sites))

    def _own_gradients(self, params, folds):
        """(values (n,), gradients (n, D)) of the sequences of each fold alone."""
        pairs = each_fold(self._own_gradient, params, folds, "gradients")
        values, gradients = zip(*pairs, strict=True)
        return np.array(values), np.array(gradients)

    def _own_gradient(self, params, fold):
        own = states_of_sequences(self.model, params, fold)
        return own.value(), own.gradient()

    def _own_hessian(self, params, fold):
        return hessian(states_of_sequences(self.model, params, fold))


class SeparateProducts:
    """`FoldProducts` at params of their own, or with time steps left out.

    accurate: the products that these are a rough form of.
    """

    def __init__(self, hidden, accurate=None):
        self.hidden = hidden
        self.complete = accurate.complete if accurate else [CompleteData(one) for one in hidden]
        self.is_rough = accurate is not None
        self.rough = None if accurate else SeparateProducts(hidden, self)

    @cached_property
    def _covariances(self):
        return [ScoreCovariance(one, self.is_rough) for one in self.hidden]

    def multiply(self, vectors, rows):
        out = np.empty_like(vectors)
        for row, own in _each_row(rows):
            out[own] = self.complete[row].multiply(vectors[own])
            out[own] -= self._covariances[row].multiply(vectors[own])
        return out

    def precondition(self, vectors, rows):
        """The inverse complete-data information of each fold times its vector."""
        out = np.empty_like(vectors)
        for row, own in _each_row(rows):
            out[own] = self.complete[row].precondition(vectors[own])
        return out

    def evaluate(self):
        values = [hidden.value() for hidden in self.hidden]
        gradients = [hidden.gradient() for hidden in self.hidden]
        return np.array(values), np.array(gradients)


def _each_row(rows):
    """(row, its places) for each distinct one."""
    return [(row, np.flatnonzero(rows == row)) for row in np.unique(rows)]


class SharedProducts:
    """`FoldProducts` of sequences at the same params: one H of all, less each fold's own.

    own: `HiddenStates` of each fold's sequences alone.
    """

    def __init__(self, hidden, own, folds, accurate=None, share=SHARE):
        self.folds = folds
        self.share = share
        self.covariance = ScoreCovariance(hidden, accurate is not None)
        self.complete = accurate.complete if accurate else CompleteData(hidden)
        self.own = accurate.own if accurate else [CompleteData(one) for one in own]
        self.precondition = accurate.precondition if accurate else self._precondition
        self.rough = None if accurate else SharedProducts(hidden, own, folds, self)

    def multiply(self, vectors, rows):
        out = self.complete.multiply(vectors)
        out -= self.covariance.multiply(vectors, [self.folds[row] for row in rows])
        for i, row in enumerate(rows):
            out[i] -= self.own[row].multiply(vectors[i : i + 1])[0]
        return out

    def _precondition(self, vectors, rows):
        """The inverse complete-data information of all, but for blocks that a fold changes."""
        out = self.complete.precondition(vectors)
        for i, row in enumerate(rows):
            for place, factor in self._changed[row]:
                out[i, place] = block_solve(factor, vectors[i, place])
        return out

    @cached_property
    def _changed(self):
        """The blocks of each fold that lose more than a share of a diagonal entry, factorised."""
        changed = []
        for own in self.own:
            changed.append([])
            for (place, matrix), (_, lost) in zip(self.complete.blocks, own.blocks, strict=True):
                if (np.diag(lost) > self.share * np.diag(matrix)).any():
                    changed[-1].append((place, cho_factor(matrix - lost, lower=True)))
        return changed
