"""Derivatives of an `AdaptedModel` by the transformations that JAX and torch share.

(H v, J' v) = d/dt gradients of F(params + t v, weights) in params and in weights
J d = d/dt gradient of F(params, weights + t d) in params

Folds go side by side as lanes of these functions: at most 16, and fewer where their weights and
derivatives would take more than 32 megabytes; what a function itself needs comes on top.
"""

from functools import partial
from typing import Any

import numpy as np

from ..derivatives import Derivatives
from ..model import override
from ..solvers.inverse import DenseFolds, DenseHessian
from ..solvers.operators import HessianOperator

LANES = (1, 16)  # rows of one call: each number is compiled, which takes a second or more
HELD = 2**22  # entries of the arguments and results of a call: 32 megabytes


def transformed(of: Any, loss: Any) -> dict:
    """Functions of one row each, of a library's grad and jvp."""

    def valued(params, weights):
        value = loss(params, weights)
        return value, value

    def value_and_gradient(params, weights):
        return of.grad(valued, has_aux=True)(params, weights)[::-1]

    def product(params, weights, vector):
        both = of.grad(loss, argnums=(0, 1))
        gradients, products = of.jvp(lambda at: both(at, weights), (params,), (vector,))
        return *products, *gradients

    def cross_product(params, weights, direction):
        return of.jvp(lambda at: of.grad(loss)(params, at), (weights,), (direction,))[1]

    return {each.__name__: each for each in (value_and_gradient, product, cross_product)}


class AdaptedDerivatives(Derivatives):
    """Derivatives of one AdaptedModel; Hessians are formed up to its `dense_limit`."""

    def __init__(self, model):
        super().__init__(model)
        self.matrix_free = model.n_params > model.dense_limit
        of = model.backend
        functions = transformed(of, lambda params, *rest: model.loss(model.unpack(params), *rest))
        functions["heldout"] = lambda params, *rest: model.heldout(model.unpack(params), *rest)
        self._functions = {name: of.compiled(of.vmap(each)) for name, each in functions.items()}

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

    def _left_out(self, folds, rows):
        """w_o - 1 of some folds."""
        return -folds[rows].indicator(self.n_sites).toarray()

    @override
    def value_and_gradient(self, params, weights):
        values, gradients = self._rows("value_and_gradient", 1, params[None], weights[None])
        return float(values[0]), gradients[0]

    @override
    def hessian(self, params, weights):
        products = Products(self, params[None], lambda rows: repeated(len(rows), weights))
        size = len(params)
        if self.matrix_free:
            return HessianOperator(products, size)
        return DenseHessian(products.multiply(np.eye(size), np.zeros(size, int)))

    @override
    def cross_matrix(self, params, weights):
        n = len(params)
        tables = repeated(n, params), repeated(n, weights), np.eye(n)
        return self._rows("product", n, *tables, keep=2)[1]

    @override
    def cross(self, params, folds):
        """J (w_o - 1) of each fold, by a product each where folds are fewer than parameters."""
        n = len(folds)
        if n >= len(params):
            return super().cross(params, folds)
        tables = repeated(n, params), repeated(n, np.ones(self.n_sites))
        return self._rows("cross_product", n, *tables, partial(self._left_out, folds))[0]

    @override
    def fold_gradients(self, params, folds, values=True):
        return self.products(params, folds).evaluate()

    @override
    def fold_hessians(self, params, folds, damping=0.0, whole=None):
        if self.matrix_free:
            return super().fold_hessians(params, folds, damping, whole)
        n, size = len(folds), params.shape[-1]
        units = np.tile(np.eye(size), (n, 1))
        columns = self.products(params, folds).multiply(units, np.repeat(np.arange(n), size))
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

    @override
    def products(self, params, folds):
        points = repeated(len(folds), params)
        return Products(self, points, lambda rows: 1.0 + self._left_out(folds, rows))


class Products:
    """H at rows of params (n, D), of weights by row, as products with vectors."""

    rough = None

    def __init__(self, derivatives, params, weights):
        self._rows = derivatives._rows
        self.params = params
        self.weights = weights

    def evaluate(self):
        """(F (n,), dF/dparams (n, D))."""
        return self._rows("value_and_gradient", len(self.params), self.params, self.weights)

    def multiply(self, vectors, rows):
        """H v of each vector (B, D), of the rows that they belong to."""
        tables = lambda lanes: self.params[rows[lanes]], lambda lanes: self.weights(rows[lanes])
        return self._rows("product", len(rows), *tables, vectors, keep=1)[0]

    def precondition(self, vectors, rows):
        """The vectors themselves."""
        return vectors.copy()


def repeated(n: int, array: np.ndarray) -> np.ndarray:
    """One row n times, or the n rows as they are, without a copy."""
    return np.broadcast_to(array, (n, array.shape[-1]))
