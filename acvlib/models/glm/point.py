"""A regression at one point, and what the Hessians of folds there have in common."""

from functools import cached_property
from typing import Any

import numpy as np

from ...folds import Folds
from ...parallel import one_blas_thread
from ...solvers.inverse import FoldSolver
from .sums import by_rows, row_sums


def scaled(curvature: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Each site's curvature, a number or a matrix, times its weight."""
    return (curvature.T * weights).T


def in_params(model: Any, sums: np.ndarray) -> np.ndarray:
    """Q' sums (..., K, D') as (..., D)."""
    likelihood = model.likelihood
    own = sums if likelihood.identity else likelihood.spread.T @ sums
    return own.reshape(*sums.shape[:-2], model.n_params)


class Point:
    """Scores (K, n), and what follows from them, at params (D,)."""

    def __init__(self, model: Any, params: np.ndarray):
        self.model = model
        self.params = params.copy()

    @cached_property
    def scores(self) -> np.ndarray:
        """Those of the sites, (K, n)."""
        with one_blas_thread:
            return self.model.scores(self.params, self.model.design) + self.model.offset

    @cached_property
    def slope(self) -> np.ndarray:
        """(K, n) the losses' derivatives in the scores, times the sites' weights at w = 1."""
        return self.model.likelihood.residual(self.scores, self.model.y) * self.model.full_weights

    @cached_property
    def curvature(self) -> np.ndarray:
        """The losses' second derivatives in eta, times the same: (n, q, q); (n,) of targets."""
        curvature = self.model.likelihood.curvature(self.scores, self.model.y)
        return scaled(curvature, self.model.full_weights)

    def gradients(self, factors: np.ndarray) -> np.ndarray:
        """Those (n, D) of the losses, of classes weighted by factors (n, C)."""
        classes = self.model.balance.classes
        with one_blas_thread:
            members = [classes == c for c in range(factors.shape[1])]
            sums = np.array([(self.slope * own) @ self.model.design for own in members])
        return factors @ in_params(self.model, sums)

    def kept_losses(self, folds: Folds, factors: np.ndarray) -> np.ndarray:
        """The sums of losses (n_folds,) that are kept, of classes so weighted."""
        model = self.model
        losses = model.full_weights * model.likelihood.loss(self.scores, model.y)
        parts = losses[:, None] * (model.balance.classes[:, None] == np.arange(factors.shape[1]))
        kept = parts.sum(axis=0) - folds.indicator(model.n_sites) @ parts
        return row_sums(kept, factors)

    def hessian(self, weights: np.ndarray) -> Any:
        """H at weights (n_sites,)."""
        model = self.model
        curvature = scaled(self.curvature, model.balance.relative(weights))
        gram = model.likelihood.gram(model.design, curvature)
        return model.likelihood.hessian(gram, model.ridge(weights @ model.sample_weight))

    @cached_property
    def whole(self) -> Any:
        """H at weights 1."""
        return self.hessian(np.ones(self.model.n_sites))

    @cached_property
    def class_grams(self) -> list[np.ndarray]:
        """What each class adds to H at weights 1."""
        model = self.model
        members = [model.balance.classes == c for c in range(model.balance.n_classes)]
        return [model.likelihood.gram(model.design[m], self.curvature[m]) for m in members]

    def mixed(self, factors: np.ndarray) -> Any:
        """H at weights 1 with the classes weighted by factors (C,)."""
        if len(factors) == 1:
            return self.whole
        gram = sum(factor * gram for factor, gram in zip(factors, self.class_grams, strict=True))
        return self.model.likelihood.hessian(gram, self.model.prior)

    def distances(self, moves: np.ndarray) -> np.ndarray:
        """How many standard errors long each of moves (n, D) is."""

        def squares(rows):
            return row_sums(moves[rows] @ self.whole, moves[rows])

        return np.sqrt(by_rows(squares, len(moves)))


class AroundOnePoint(FoldSolver):
    """Hessians at one point."""

    point: Point
