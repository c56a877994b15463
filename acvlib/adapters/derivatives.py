"""Derivatives of an `AdaptedModel`: folds side by side as lanes of the other library's functions.

A call has at most 16 lanes, and fewer where their weights and derivatives would take more than
32 megabytes; what the function itself needs comes on top, for each lane.
"""

import numpy as np

from ..derivatives import Derivatives
from ..protocol import override
from ..solvers.inverse import DenseFolds, DenseHessian
from ..solvers.operators import HessianOperator


class AdaptedDerivatives(Derivatives):
    """Derivatives of one AdaptedModel; Hessians are formed up to its `dense_limit`."""

    def __init__(self, model):
        super().__init__(model)
        self.matrix_free = model.n_params > model.dense_limit
        self._calculus = model.calculus
        self._entries = model.n_params + model.n_sites

    @override
    def value_and_gradient(self, params, weights):
        """(F, dF/dparams (D,))."""
        values, gradients = self._at("value_and_gradient", params[None], weights[None])
        return float(values[0]), gradients[0]

    @override
    def hessian(self, params, weights):
        """d2F/dparams2 (D, D), or its products with vectors where `matrix_free`."""
        if self.matrix_free:
            return HessianOperator(Products(self, params[None], weights[None]), len(params))
        return DenseHessian(self._along_units(params, weights, keep=1)[0])

    @override
    def cross_matrix(self, params, weights):
        """J (D, n_sites), by rows or by columns, of which there are fewer."""
        if len(params) <= self.n_sites:
            return self._along_units(params, weights)[1]

        def arguments(rows):
            return *_repeated(rows, params, weights), _units(rows, self.n_sites)

        (columns,) = self._calculus("cross_product", self.n_sites, arguments, self._entries)
        return columns.T

    @override
    def cross(self, params, folds):
        """J (w_o - 1) of each fold, by a product each where folds are fewer than parameters."""
        if len(folds) >= len(params):
            return super().cross(params, folds)

        def arguments(rows):
            point, ones = _repeated(rows, params, np.ones(self.n_sites))
            return point, ones, self._weights(folds, rows) - 1.0

        (found,) = self._calculus("cross_product", len(folds), arguments, self._entries)
        return found

    @override
    def fold_gradients(self, params, folds, values=True):
        """(F (n_folds,), dF/dparams (n_folds, D))."""

        points = np.broadcast_to(params, (len(folds), params.shape[-1]))

        def arguments(rows):
            return points[rows], self._weights(folds, rows)

        return self._calculus("value_and_gradient", len(folds), arguments, self._entries)

    @override
    def fold_hessians(self, params, folds, damping=0.0, whole=None):
        """H(w_o) + damping I of each fold."""
        if self.matrix_free:
            return super().fold_hessians(params, folds, damping, whole)
        n_params = params.shape[-1]
        points = np.broadcast_to(params, (len(folds), n_params))

        def arguments(rows):
            fold, unit = np.divmod(rows, n_params)
            return points[fold], self._weights(folds, fold), _units(unit, n_params)

        count = len(folds) * n_params
        (products,) = self._calculus("product", count, arguments, self._entries, keep=1)
        matrices = products.reshape(len(folds), n_params, n_params)
        return DenseFolds(matrices + damping * np.eye(n_params))

    @override
    def heldout(self, params, folds):
        """The held-out losses of each fold's scored sites; folds of one size go together."""
        losses = [np.empty(0)] * len(folds)
        points = np.broadcast_to(params, (len(folds), params.shape[-1]))
        for size in np.unique(folds.sizes):
            alike = np.flatnonzero(folds.sizes == size)
            sites = np.array([folds[fold] for fold in alike])
            (found,) = self._at("heldout", points[alike], sites)
            for fold, own in zip(alike, found, strict=True):
                losses[fold] = own
        return folds.pick(losses)

    @override
    def products(self, params, folds):
        """H(w_o) of each fold at its params."""
        points = np.broadcast_to(params, (len(folds), params.shape[-1]))
        return Products(self, points, self._weights(folds, np.arange(len(folds))))

    def _weights(self, folds, rows):
        return 1.0 - folds[rows].indicator(self.n_sites).toarray()

    def _along_units(self, params, weights, keep=None):
        """[H (D, D), J (D, n_sites)], row by row, or the first of them."""

        def arguments(rows):
            return *_repeated(rows, params, weights), _units(rows, len(params))

        return self._calculus("product", len(params), arguments, self._entries, keep)

    def _at(self, name, *rows_of, keep=None):
        """A function of rows of arrays that are at hand."""

        def arguments(rows):
            return [array[rows] for array in rows_of]

        return self._calculus(name, len(rows_of[0]), arguments, self._entries, keep)


class Products:
    """H at rows of params (n, D) and weights (n, n_sites), as products with vectors."""

    rough = None

    def __init__(self, derivatives, params, weights):
        self._run = derivatives._at
        self.params = params
        self.weights = weights

    def evaluate(self):
        """(F (n,), dF/dparams (n, D))."""
        return self._run("value_and_gradient", self.params, self.weights)

    def multiply(self, vectors, rows):
        """H v of each vector (B, D), of the rows that they belong to."""
        points = self.params[rows], self.weights[rows]
        return self._run("product", *points, vectors, keep=1)[0]

    def precondition(self, vectors, rows):
        """The vectors themselves."""
        return vectors.copy()


def _repeated(rows, *arrays):
    """The same arrays for each of the rows."""
    return [np.broadcast_to(array, (len(rows), *array.shape)) for array in arrays]


def _units(places, size):
    """Rows of the identity (size, size)."""
    units = np.zeros((len(places), size))
    units[np.arange(len(places)), places] = 1.0
    return units
