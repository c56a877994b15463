"""Weights of classes that balance them anew in each training set.

    b_c(w) = sum_n w_n s_n / (K sum_{n in c} w_n s_n)

Source: King and Zeng (2001); scikit-learn's class_weight="balanced".
"""

from typing import Any

import autograd.numpy as anp
import numpy as np

from ...folds import Folds


class Balance:
    """b_c(w) / b_c(1) of classes (n,) weighted by s (n,): always 1 where all are one class."""

    def __init__(self, classes: np.ndarray, sample_weight: np.ndarray):
        self.classes = classes
        self.n_classes = classes.max() + 1
        members = classes == np.arange(self.n_classes)[:, None]
        self._shares = (members * sample_weight).T  # (n, C)
        self._totals = self._shares.sum(axis=0)
        self.full = self._of(self._totals)[classes] if self.n_classes > 1 else np.ones(len(classes))

    def relative(self, weights: Any) -> Any:
        """w_n b(w) / b(1) of each site, weights (..., n); differentiable by autograd."""
        if self.n_classes == 1:
            return weights
        factors = self._of(anp.dot(weights, self._shares)) / self._of(self._totals)
        return weights * factors[..., self.classes]

    def factors(self, folds: Folds) -> np.ndarray:
        """b_c(w_o) / b_c(1) of each fold, (n_folds, C)."""
        if self.n_classes == 1:
            return np.ones((len(folds), 1))
        return self._of(self._totals - self._omitted(folds)) / self._of(self._totals)

    def slopes(self, folds: Folds) -> np.ndarray:
        """The derivative of the same in the weights, times w_o - 1, (n_folds, C)."""
        omitted = self._omitted(folds)
        whole = omitted.sum(axis=1, keepdims=True) / self._totals.sum()
        return omitted / self._totals - whole

    def _of(self, totals):
        return anp.sum(totals, axis=-1, keepdims=True) / (self.n_classes * totals)

    def _omitted(self, folds):
        return folds.indicator(len(self.classes)) @ self._shares
