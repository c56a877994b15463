"""Derivatives of an `AdaptedModel` by the transformations that JAX and torch share.

(H v, J' v) = d/dt gradients of F(params + t v, weights) in params and in weights

Folds and vectors go side by side as lanes of these functions: at most 16, and fewer where their
weights and derivatives would take more than 32 megabytes, beside what a function itself needs.
"""

import numpy as np

from ..derivatives import Derivatives
from ..model import override
from ..solvers.inverse import DenseFolds, DenseHessian

LANES = (1, 16)  # rows of one call: each number is compiled, which takes a second or more
HELD = 2**22  # entries of the arguments and results of a call: 32 megabytes


class AdaptedDerivatives(Derivatives):
    """Derivatives of one AdaptedModel."""

    def __init__(self, model):
        super().__init__(model)
        of = model.backend

        def loss(params, weights):
            return model.loss(model.unpack(params), weights)

        def valued(params, weights):
            value = loss(params, weights)
            return value, value

        def value_and_gradient(params, weights):
            return of.grad(valued, has_aux=True)(params, weights)[::-1]

        def product(params, weights, vector):
            both = of.grad(loss, argnums=(0, 1))
            gradients, products = of.jvp(lambda at: both(at, weights), (params,), (vector,))
            return *products, *gradients

        def heldout(params, sites):
            return model.heldout(model.unpack(params), sites)

        functions = (value_and_gradient, product, heldout)
        self._functions = {each.__name__: of.compiled(of.vmap(each)) for each in functions}

    def _rows(self, name, n, *tables, keep=None):
        """The first `keep` results of function `name` for n rows of its arguments.

        Each table is an array (n, ...) or makes one of row numbers.
        """
        entries = self.model.n_params + self.n_sites
        most = max(size for size in LANES if size == 1 or size * entries <= HELD)
        parts = []
        for start in range(0, n, most):
            left = min(n - start, most)
            size = min(size for size in LANES if size >= left)
            rows = np.minimum(np.arange(start, start + size), n - 1)  # the last one fills the rest
            lanes = [table(rows) if callable(table) else table[rows] for table in tables]
            results = self._functions[name](*lanes)[:keep]
            parts.append([np.array(result)[:left] for result in results])
        return [np.concatenate(part) for part in zip(*parts, strict=True)]

    def _products(self, params, weights, vectors, keep=None):
        """(H v, J' v, dF/dparams, dF/dweights) of each vector, at a point or a row for each."""
        n = len(vectors)
        tables = (weights if callable(weights) else repeated(n, weights), vectors)
        return self._rows("product", n, repeated(n, params), *tables, keep=keep)

    def _kept(self, folds):
        """The function of numbers of folds that makes w_o of these."""
        return lambda rows: 1.0 - folds[rows].indicator(self.n_sites).toarray()

    @override
    def value_and_gradient(self, params, weights):
        values, gradients = self._rows("value_and_gradient", 1, params[None], weights[None])
        return float(values[0]), gradients[0]

    @override
    def hessian(self, params, weights):
        return DenseHessian(self._products(params, weights, np.eye(len(params)), keep=1)[0])

    @override
    def cross_matrix(self, params, weights):
        return self._products(params, weights, np.eye(len(params)), keep=2)[1]

    @override
    def fold_gradients(self, params, folds, values=True):
        n = len(folds)
        return self._rows("value_and_gradient", n, repeated(n, params), self._kept(folds))

    @override
    def fold_hessians(self, params, folds, damping=0.0, whole=None):
        n, size = len(folds), params.shape[-1]
        fold = np.repeat(np.arange(n), size)
        kept = self._kept(folds)
        units = np.tile(np.eye(size), (n, 1))
        points = repeated(n, params)[fold]
        columns = self._products(points, lambda rows: kept(fold[rows]), units, keep=1)[0]
        return DenseFolds(columns.reshape(n, size, size) + damping * np.eye(size))

    @override
    def heldout(self, params, folds):
        """Folds of one size go together."""
        losses = [np.empty(0)] * len(folds)
        points = repeated(len(folds), params)
        for size in np.unique(folds.sizes):
            alike = np.flatnonzero(folds.sizes == size)
            sites = np.array([folds[fold] for fold in alike])
            (rows,) = self._rows("heldout", len(alike), points[alike], sites)
            for fold, row in zip(alike, rows, strict=True):
                losses[fold] = row
        return folds.pick(losses)


def repeated(n: int, array: np.ndarray) -> np.ndarray:
    """One row n times, or the n rows as they are, without a copy."""
    return np.broadcast_to(array, (n, array.shape[-1]))
