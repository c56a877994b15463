"""Derivatives of a `FeatureCRF`: Hessians as products with vectors."""

from functools import cached_property

import numpy as np

from ...folds import WHOLE, Folds
from ...model import FoldProducts, override
from ...solvers.inverse import Solvable
from ...solvers.operators import HessianOperator
from .derivatives import TaggingDerivatives
from .paths import Paths
from .preconditioner import Preconditioner


class FeatureDerivatives(TaggingDerivatives):
    """With Hessians as products with vectors."""

    matrix_free = True

    def __init__(self, model, preconditioner=None):
        super().__init__(model)
        self._preconditioner = preconditioner

    @override
    def anchored(self, params: np.ndarray) -> "FeatureDerivatives":
        """With the preconditioner of these params, which takes the time of many products."""
        return type(self)(self.model, self.products(params, WHOLE).preconditioners[0])

    @override
    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        if (np.asarray(weights) != 1.0).any():
            raise ValueError("the Hessian of a FeatureCRF is had at weights 1, or of folds")
        return _Convex(self.products(params[None], WHOLE), len(params))

    @override
    def products(self, params: np.ndarray, folds: Folds) -> FoldProducts:
        return FeatureProducts(self, params, folds)


class FeatureProducts:
    """`FoldProducts`: the Hessian of all sentences, less that of each fold's own terms.

    params (D,) for all folds, or a row for each.
    """

    rough: FoldProducts | None = None

    def __init__(self, derivatives, params, folds):
        self.model = derivatives.model
        self.anchor = derivatives._preconditioner
        self.params = np.atleast_2d(params)
        self.point = np.arange(len(folds)) if params.ndim == 2 else np.zeros(len(folds), int)
        self.whole = [Paths(self.model.tokens, self.model._parts(point)) for point in self.params]
        self.terms = []  # of each fold: (`Paths`, s of their sentences), own ones less
        for row, fold in enumerate(folds):
            point = self.point[row]
            terms = [(self.whole[point], self.model.sentence_weights)]
            if len(fold):
                touched = self.model._touched(folds[[row]])
                own = -self.model.sentence_weights[touched.sentence]
                terms.append((derivatives._paths(self.params[point], touched), own))
            self.terms.append(terms)

    def multiply(self, vectors, rows):
        out = np.empty_like(vectors)
        for i, row in enumerate(rows):
            parts = self.model._parts(vectors[i])
            both = sum(paths.multiply(own, parts) for paths, own in self.terms[row])
            out[i] = both[self.model.free]
        return out + self.model.ridge * vectors

    def precondition(self, vectors, rows):
        if self.anchor:
            return self.anchor.solve(vectors)
        out = np.empty_like(vectors)
        for point in np.unique(self.point[rows]):
            here = self.point[rows] == point
            out[here] = self.preconditioners[point].solve(vectors[here])
        return out

    @cached_property
    def preconditioners(self):
        """That of each point."""
        return [Preconditioner(self.model, paths) for paths in self.whole]

    def evaluate(self):
        """(F (n,), dF/dparams (n, D)) of the folds."""
        params = self.params[self.point]
        pull = self.model.ridge * params
        values = 0.5 * np.einsum("ni,ni->n", params, pull)
        gradients = np.array(pull)
        for row, terms in enumerate(self.terms):
            values[row] += sum(own @ paths.values for paths, own in terms)
            gradient = sum(paths.gradient(own) for paths, own in terms)
            gradients[row] += gradient[self.model.free]
        return values, gradients


class _Convex(HessianOperator):
    """The Hessian of a strictly convex F."""

    indefinite = False
