"""Derivatives of an `HMM` under scheme A: with Hessians in memory, or as products with vectors."""

from functools import cached_property

import numpy as np
from joblib import delayed

from ...derivatives import Derivatives, at, each_fold
from ...folds import weights as fold_weights
from ...inference import prefixes
from ...parallel import parallel, pieces
from ...protocol import override
from ...solvers.inverse import DenseFolds, DenseHessian
from .curvature import AT_ONCE, Curvature
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
        curvature = Curvature(self._whole(params))
        left_out = folds.indicator(self.n_sites)
        parts = pieces(len(folds), AT_ONCE)
        return np.concatenate([curvature.cross(left_out[part].toarray()) for part in parts])

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
            return SharedProducts(self._whole(params), folds)
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
        return _dense(states_of_sequences(self.model, params, fold))


def _dense(hidden):
    return Curvature(hidden).multiply(np.eye(hidden.model.n_params))


class SeparateProducts:
    """`FoldProducts` at params of their own, or with time steps left out: a `Curvature` each."""

    def __init__(self, hidden, is_rough=False):
        self.hidden = hidden
        self.is_rough = is_rough
        self.rough = None if is_rough else SeparateProducts(hidden, True)

    @cached_property
    def _curvatures(self):
        return [Curvature(hidden, self.is_rough) for hidden in self.hidden]

    def multiply(self, vectors, rows):
        return self._by_row(Curvature.multiply, vectors, rows)

    def precondition(self, vectors, rows):
        """The inverse complete-data information of each fold times its vector."""
        return self._by_row(Curvature.precondition, vectors, rows)

    def _by_row(self, product, vectors, rows):
        """The product of each distinct row with its vectors, put back in order."""
        distinct = np.unique(rows)
        if len(distinct) == 1:
            return product(self._curvatures[distinct[0]], vectors)
        out = np.empty_like(vectors)
        for row in distinct:
            out[rows == row] = product(self._curvatures[row], vectors[rows == row])
        return out

    def evaluate(self):
        values = [hidden.value() for hidden in self.hidden]
        gradients = [hidden.gradient() for hidden in self.hidden]
        return np.array(values), np.array(gradients)


class SharedProducts:
    """`FoldProducts` of sequences at the same params: one H of all, less each fold's own."""

    def __init__(self, hidden, folds, is_rough=False, share=SHARE):
        self.hidden = hidden
        self.folds = folds
        self.is_rough = is_rough
        self.share = share
        self.rough = None if is_rough else SharedProducts(hidden, folds, True, share)

    @cached_property
    def _whole(self):
        return Curvature(self.hidden, self.is_rough)

    @cached_property
    def _own(self):
        """The `Curvature` of each fold's sequences alone."""
        own = []
        for fold in self.folds:
            hidden = states_of_sequences(self.hidden.model, self.hidden.params, fold)
            own.append(Curvature(hidden, self.is_rough))
        return own

    @cached_property
    def _changed(self):
        """The blocks of each fold that lose more than a share of a diagonal entry, without it."""
        changed = []
        for own in self._own:
            pairs = zip(self._whole.blocks, own.blocks, strict=True)
            changed.append([block.less(less) for block, less in pairs if self._loses(block, less)])
        return changed

    def _loses(self, block, less):
        return (np.diag(less.matrix) > self.share * np.diag(block.matrix)).any()

    def multiply(self, vectors, rows):
        out = self._whole.multiply(vectors, [self.folds[row] for row in rows])
        for i, row in enumerate(rows):
            out[i] -= self._own[row].complete(vectors[i : i + 1])[0]
        return out

    def precondition(self, vectors, rows):
        """The same, but for the blocks that a fold changes little."""
        out = self._whole.precondition(vectors)
        for i, row in enumerate(rows):
            for block in self._changed[row]:
                out[i, block.place] = block.solve(vectors[i : i + 1])[0]
        return out
