"""A regression at one point, in standard params: what the folds there have in common."""

from functools import cached_property
from typing import Any

import numpy as np

from ...folds import Folds
from ...parallel import one_blas_thread
from .hessians import Hessian
from .sums import by_rows, gram, row_sums


class Point:
    """Linear predictors eta (q, n), and what follows from them, at params (D,)."""

    def __init__(self, model: Any, params: np.ndarray):
        self.model = model
        self.params = params.copy()
        self.standard = model.columns.inward(params)

    @cached_property
    def eta(self) -> np.ndarray:
        """Those of the sites, (q, n)."""
        with one_blas_thread:
            return self.model.predictors(self.standard)

    @cached_property
    def slope(self) -> np.ndarray:
        """(q, n) the losses' derivatives in eta, times the sites' weights at w = 1."""
        model = self.model
        return model.likelihood.slope(self.eta, model.responses) * model.full_weights

    @cached_property
    def curvature(self) -> np.ndarray:
        """The losses' second derivatives in coupled eta, times the same: (n, k, k)."""
        model = self.model
        curvature = model.likelihood.curvature(self.eta, model.responses)
        return curvature * model.full_weights[:, None, None]

    def gradients(self, factors: np.ndarray) -> np.ndarray:
        """Those (n, D) of the losses, of classes weighted by factors (n, C)."""
        model = self.model
        with one_blas_thread:
            members = [model.balance.classes == c for c in range(factors.shape[1])]
            sums = np.array([(self.slope * kind) @ model.columns.standard for kind in members])
        return factors @ sums.reshape(len(members), -1)

    def kept_losses(self, folds: Folds, factors: np.ndarray) -> np.ndarray:
        """The sums of losses (n_folds,) that are kept, of classes so weighted."""
        model = self.model
        losses = model.full_weights * model.likelihood.loss(self.eta, model.responses)
        parts = losses[:, None] * (model.balance.classes[:, None] == np.arange(factors.shape[1]))
        kept = parts.sum(axis=0) - folds.indicator(model.n_sites) @ parts
        return row_sums(kept, factors)

    def hessian(self, weights: np.ndarray) -> Hessian:
        """H at weights (n_sites,)."""
        model = self.model
        curvature = self.curvature * model.balance.relative(weights)[:, None, None]
        ridge = model.standard_ridge(weights @ model.sample_weight)
        return Hessian(model.columns, gram(model.columns.standard, curvature), ridge)

    @cached_property
    def whole(self) -> Hessian:
        """H at weights 1."""
        return self.hessian(np.ones(self.model.n_sites))

    def mixed(self, factors: np.ndarray, omitted: float = 0.0) -> Hessian:
        """H with the classes weighted by factors (C,), the penalty without an omitted weight."""
        if len(factors) == 1 and not omitted:
            return self.whole
        total = self.whole.gram
        if len(factors) > 1:
            pairs = zip(factors, self._class_grams, strict=True)
            total = sum(factor * each for factor, each in pairs)
        ridge = self.model.standard_ridge(self.model.sample_weight.sum() - omitted)
        return Hessian(self.model.columns, total, ridge)

    @cached_property
    def _class_grams(self):
        model = self.model
        members = [model.balance.classes == c for c in range(model.balance.n_classes)]
        return [gram(model.columns.standard[m], self.curvature[m]) for m in members]

    def distances(self, moves: np.ndarray) -> np.ndarray:
        """How many standard errors long each of moves (n, D) of standard params is."""

        def squares(rows):
            return row_sums(self.whole.multiply(moves[rows]), moves[rows])

        return np.sqrt(by_rows(squares, len(moves)))
