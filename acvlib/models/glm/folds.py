"""H(w_o) of folds of a regression: downdates of few matrices where folds are small, else its own.

H(w_o) = sum_n w_on s_n C_n (x) z_n z_n' + diag(ridge)
"""

from collections.abc import Sequence

import numpy as np

from ...folds import Folds
from ...solvers.inverse import FoldSolver, absolute_solve
from .downdates import SINGULAR, Bases, Downdates, fold_keys
from .hessians import Hessian
from .point import Point
from .separation import singular
from .sums import gram


def hessians_around(point: Point, folds: Folds, damping: float, together: bool) -> FoldSolver:
    """H(w_o) + damping I; together: by what the folds share, if they share some.

    Raises LinAlgError where one of uncoupled predictors is singular.
    """
    model = point.model
    bases = Bases.of(model, folds) if together else None
    if bases is not None:
        downdates = Downdates(point, folds, bases, damping)
        if downdates.sharp:
            return downdates
    hessians = []
    for fold, key in zip(folds, fold_keys(model, folds), strict=True):
        weights = key[model.balance.classes[fold]]
        less = gram(model.columns.standard[fold], point.curvature[fold] * weights[:, None, None])
        hessians.append(point.mixed(key[:-1], key[-1]).less(less).damped(damping))
    if model.likelihood.coupled == 1:
        for number, each in enumerate(hessians):
            if not each.conditioned and each.least_share < SINGULAR:
                raise singular(folds, number)
    return Blocks(hessians, point)


class Blocks(FoldSolver):
    """Hessians of the folds' own, around one point or, if that is None, at many."""

    def __init__(self, hessians: Sequence[Hessian], point: Point | None = None):
        self.point = point
        self.hessians = hessians

    @property
    def indefinite(self) -> np.ndarray:
        """(n_folds,)."""
        return np.array([hessian.indefinite for hessian in self.hessians])

    def solve(self, vectors: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """|H(w_o)|^-1 times one vector a fold."""
        few = self.hessians if rows is None else [self.hessians[row] for row in rows]
        columns = self.hessians[0].columns
        pairs = zip(few, columns.standard_gradient(vectors), strict=True)
        solved = [hessian.each(_solved, vector) for hessian, vector in pairs]
        return columns.outward(np.array(solved).reshape(vectors.shape))


def _solved(part, rows):
    """|M|^-1 rows, (B,) or (n, B)."""
    if not part.indefinite:
        return part.solve(rows.T).T
    return np.array([absolute_solve(part.matrix, row) for row in np.atleast_2d(rows)])
