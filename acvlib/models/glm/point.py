"""A regression at one point."""

from functools import cached_property
from typing import Any

import numpy as np

from ...parallel import one_blas_thread
from .sums import by_rows, row_sums


def scaled(curvature: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Each site's curvature, a number or a matrix, times its weight."""
    return (curvature.T * weights).T


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

    @cached_property
    def reach(self) -> float:
        """How far scores of a site move (apart), at most, by a standard error."""
        model = self.model
        leverages = self.whole.leverages(model.design, model.n_outputs)
        return model.likelihood.spreads(leverages).max()
