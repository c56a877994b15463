"""Chord steps of a `GLM`: every fold's gradient in two matrix products, and how far a step can be trusted."""

import numpy as np

from ...folds import is_table
from .folds import ROWS, Expansion, downdates
from .sums import SINGLE, SlopeChanges, over_sites


class FoldChords:
    """What `curvature.fold_chords` promises, for a GLM."""

    def __init__(self, fast, fit, folds):
        self._fast, self._fit, self._folds = fast, fit, folds
        self._expansion = Expansion(fast, fit)
        self._changes = SlopeChanges(fast, self._expansion)
        hessians = downdates(fast, self._expansion, folds)
        self.start, self.smallest_eigenvalue, _ = hessians.newton()
        self.solve = hessians.solve
        self._reach = self._largest_reach()

    def _largest_reach(self):
        """max_n sqrt(x_n' H^-1 x_n): no eta moves further than this for a step of one standard error."""
        root = np.linalg.cholesky(np.linalg.inv(self._fit.metric))
        rows = range(0, len(self._fast.x), ROWS)
        return np.sqrt(
            max(((self._fast.x[i : i + ROWS] @ root) ** 2).sum(axis=1).max() for i in rows)
        )

    def gradients(self, params, rows, accuracy):
        """dF/dparams at each fold's params and weights, (len(rows), D); single precision where that is accurate."""
        folds = self._folds[rows] if is_table(self._folds) else [self._folds[i] for i in rows]
        return self._fast.gradients(params, folds, self._slopes(params, accuracy))

    def _slopes(self, params, accuracy):
        furthest = self._fit.standard_errors_between(params, self._fit.params).max()
        if self._fast.family.change is None or SINGLE * furthest > accuracy:
            return self._fast.slopes(params)
        return (
            self._expansion.slopes @ self._fast.x
            + over_sites(self._changes, params, len(self._fast.y))[0]
        )

    def contraction(self, before, after):
        """exp(M) - 1, M < 1 a bound on how far any eta is from the fit along the step, by self-concordance.

        Every curvature stays within exp(+-M) of its value at the fit, hence the averaged Hessian H' of the step
        has |I - H(w_o)^-1/2 H' H(w_o)^-1/2| <= exp(M) - 1.
        """
        if not self._fast.family.self_concordant:
            return np.full(len(after), np.inf)
        moves = [
            self._fit.standard_errors_between(params, self._fit.params)
            for params in (before, after)
        ]
        furthest = self._reach * np.maximum(*moves)
        return np.where(furthest < 1.0, np.expm1(np.minimum(furthest, 1.0)), np.inf)
