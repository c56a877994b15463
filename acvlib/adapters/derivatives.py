"""Derivatives of an `AdaptedModel`: folds side by side as lanes of the other library's functions.

A call has at most 16 lanes, and fewer where their weights and derivatives would take more than
32 megabytes; what the function itself needs comes on top, for each lane. By the transformations
that JAX and torch share,

(H v, J' v) = d/dt gradients of F(params + t v, weights) in params and in weights
J d = d/dt gradient of F(params, weights + t d) in params
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..derivatives import Derivatives
from ..model import override
from ..solvers.inverse import DenseFolds, DenseHessian
from ..solvers.operators import HessianOperator

LANES = (1, 16)  # rows of one call: each number is compiled, which takes a second or more
HELD = 2**22  # entries of the arguments and results of a call: 32 megabytes


class Calculus:
    """Functions of rows of arrays, by name; each compiled, for a number of lanes, when called."""

    def __init__(self, backend: Any, loss: Callable, heldout: Callable):
        self.backend = backend
        self.raw = {"loss": loss, "heldout": heldout}
        self._made = _transformed(backend, loss) | {"heldout": heldout}
        self._compiled: dict[str, Callable] = {}

    def __call__(
        self, name: str, n: int, *tables: Any, entries: int = 1, keep: int | None = None
    ) -> list:
        """Return the results of function `name` for n rows of its arguments, each table[rows].

        entries: of the arguments and results of one row, which bound how many go together; keep:
        how many of its results are wanted, all unless told.
        """
        if name not in self._compiled:
            batched = self.backend.vmap(self._made[name])
            self._compiled[name] = self.backend.compiled(batched)
        most = max(size for size in LANES if size == 1 or size * entries <= HELD)
        parts = []
        for start in range(0, n, most):
            left = min(n - start, most)
            size = min(size for size in LANES if size >= left)
            rows = np.minimum(np.arange(start, start + size), n - 1)  # the last one fills the rest
            found = self._compiled[name](*(table[rows] for table in tables))
            parts.append([part[:left] for part in found[:keep]])
        return [np.concatenate(part) for part in zip(*parts, strict=True)]


def _transformed(of, loss):
    """Functions of one row each."""

    def valued(params, weights):
        value = loss(params, weights)
        return value, value

    def value_and_gradient(params, weights):
        return of.grad(valued, has_aux=True)(params, weights)[::-1]

    def product(params, weights, vector):
        both = of.grad(loss, argnums=(0, 1))
        return of.jvp(lambda at: both(at, weights), (params,), (vector,))[1]

    def cross_product(params, weights, direction):
        return of.jvp(lambda at: of.grad(loss)(params, at), (weights,), (direction,))[1]

    return {each.__name__: each for each in (value_and_gradient, product, cross_product)}


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
        values, gradients = self._run("value_and_gradient", 1, params[None], weights[None])
        return float(values[0]), gradients[0]

    @override
    def hessian(self, params, weights):
        """d2F/dparams2 (D, D), or its products with vectors where `matrix_free`."""
        if self.matrix_free:
            return HessianOperator(Products(self, params[None], weights[None]), len(params))
        return DenseHessian(self._along_units("product", params, weights, keep=1)[0])

    @override
    def cross_matrix(self, params, weights):
        """J (D, n_sites), by rows or by columns, of which there are fewer."""
        if len(params) <= self.n_sites:
            return self._along_units("product", params, weights)[1]
        return self._along_units("cross_product", params, weights)[0].T

    @override
    def cross(self, params, folds):
        """J (w_o - 1) of each fold, by a product each where folds are fewer than parameters."""
        n = len(folds)
        if n >= len(params):
            return super().cross(params, folds)
        left_out = _Rows(lambda rows: self._weights(folds, rows) - 1.0)
        points = _repeated(n, params), _repeated(n, np.ones(self.n_sites))
        return self._run("cross_product", n, *points, left_out)[0]

    @override
    def fold_gradients(self, params, folds, values=True):
        """(F (n_folds,), dF/dparams (n_folds, D))."""
        weights = _Rows(lambda rows: self._weights(folds, rows))
        return self._run("value_and_gradient", len(folds), _repeated(len(folds), params), weights)

    @override
    def fold_hessians(self, params, folds, damping=0.0, whole=None):
        """H(w_o) + damping I of each fold."""
        if self.matrix_free:
            return super().fold_hessians(params, folds, damping, whole)
        n_params = params.shape[-1]
        points = _repeated(len(folds), params)
        units = np.eye(n_params)
        lanes = (
            _Rows(lambda rows: points[rows // n_params]),
            _Rows(lambda rows: self._weights(folds, rows // n_params)),
            _Rows(lambda rows: units[rows % n_params]),
        )
        (products,) = self._run("product", len(folds) * n_params, *lanes, keep=1)
        matrices = products.reshape(len(folds), n_params, n_params)
        return DenseFolds(matrices + damping * units)

    @override
    def heldout(self, params, folds):
        """The held-out losses of each fold's scored sites; folds of one size go together."""
        losses = [np.empty(0)] * len(folds)
        points = _repeated(len(folds), params)
        for size in np.unique(folds.sizes):
            alike = np.flatnonzero(folds.sizes == size)
            sites = np.array([folds[fold] for fold in alike])
            (found,) = self._run("heldout", len(alike), points[alike], sites)
            for fold, own in zip(alike, found, strict=True):
                losses[fold] = own
        return folds.pick(losses)

    @override
    def products(self, params, folds):
        """H(w_o) of each fold at its params."""
        weights = self._weights(folds, np.arange(len(folds)))
        return Products(self, _repeated(len(folds), params), weights)

    def _weights(self, folds, rows):
        return 1.0 - folds[rows].indicator(self.n_sites).toarray()

    def _along_units(self, name, params, weights, keep=None):
        """The products with each unit vector: of params [H (D, D), J (D, n_sites)], or J'."""
        n = len(params) if name == "product" else self.n_sites
        return self._run(name, n, _repeated(n, params), _repeated(n, weights), np.eye(n), keep=keep)

    def _run(self, name, n, *tables, keep=None):
        return self._calculus(name, n, *tables, entries=self._entries, keep=keep)


class Products:
    """H at rows of params (n, D) and weights (n, n_sites), as products with vectors."""

    rough = None

    def __init__(self, derivatives, params, weights):
        self._run = derivatives._run
        self.params = params
        self.weights = weights

    def evaluate(self):
        """(F (n,), dF/dparams (n, D))."""
        return self._run("value_and_gradient", len(self.params), self.params, self.weights)

    def multiply(self, vectors, rows):
        """H v of each vector (B, D), of the rows that they belong to."""
        points = self.params[rows], self.weights[rows]
        return self._run("product", len(rows), *points, vectors, keep=1)[0]

    def precondition(self, vectors, rows):
        """The vectors themselves."""
        return vectors.copy()


class _Rows:
    """A table whose rows are made when they are asked for."""

    def __init__(self, make):
        self.make = make

    def __getitem__(self, rows):
        return self.make(rows)


def _repeated(n, array):
    """One row n times, or the n rows as they are, without a copy."""
    return np.broadcast_to(array, (n, array.shape[-1]))
