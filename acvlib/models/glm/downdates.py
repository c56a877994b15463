"""H(w_o) of folds of few rows beside the columns, by one factor of H.

H(w_o) = U' (I - V_o V_o') U,  U'U = H,  V_o = U'^-1 X_o' diag(s curvature)^1/2
"""

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from ...folds import Folds
from ...folds.checks import end_to_end
from ...parallel import blas_for
from ...solvers.inverse import DenseHessian, least_share
from .hessians import JointHessian
from .point import AroundOnePoint, Point
from .sums import row_sums


class Downdates(AroundOnePoint):
    """Downdates of rank n_o of a base, H + damping I, that is far from singular."""

    def __init__(self, point: Point, folds: Folds, base: JointHessian):
        self.point = point
        self._base = base
        self._upper = base.factor[0]
        sites, sizes = end_to_end(folds.omitted)
        roots = np.sqrt(point.curvature[sites, 0, 0])
        halves = self._half_solve(point.model.design[sites] * roots[:, None])
        self._halves = np.split(halves, np.cumsum(sizes)[:-1])  # V_o' (n_o, D)
        self._left = [DenseHessian(np.eye(len(half)) - half @ half.T) for half in self._halves]

    @classmethod
    def of(cls, point: Point, folds: Folds, damping: float) -> "Downdates | None":
        """Those of folds of at most D / 2 rows and one predictor; None for others.

        And none where the base, or what a fold leaves of it, is near singular.
        """
        model = point.model
        if model.n_outputs > 1 or model.balance.n_classes > 1 or model.pull.any():
            return None
        if 2 * folds.sizes.max() > model.n_params:
            return None
        base = point.whole.damped(damping)
        if not base.conditioned:
            return None
        found = cls(point, folds, base)
        return found if all(left.conditioned for left in found._left) else None

    @property
    def indefinite(self) -> np.ndarray:
        """(n,) False: every loss is convex."""
        return np.zeros(len(self._left), bool)

    def solve(self, vectors: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """U^-1 [I + V_o (I - V_o' V_o)^-1 V_o'] U'^-1 times one vector a fold; nan of nan."""
        rows = np.arange(len(self._left)) if rows is None else rows
        solved = self._half_solve(vectors)
        for row, own in zip(rows, solved, strict=True):
            half = self._halves[row]
            own += cho_solve(self._left[row].factor, half @ own, check_finite=False) @ half
        return solve_triangular(self._upper, solved.T, check_finite=False).T

    def lengths(self, moves: np.ndarray) -> np.ndarray:
        """sqrt(|U m|^2 - |V_o' U m|^2)."""
        whitened = moves @ np.triu(self._upper).T
        pairs = zip(self._halves, whitened, strict=True)
        less = np.array([np.sum((half @ own) ** 2) for half, own in pairs])
        return np.sqrt(np.maximum(row_sums(whitened, whitened) - less, 0.0))

    def least_shares(self, factor: np.ndarray) -> np.ndarray:
        """The base's share times what a fold leaves of the base."""
        spare = [np.linalg.eigvalsh(left.matrix)[0] for left in self._left]
        return least_share(factor, self._base.matrix) * np.array(spare)

    def _half_solve(self, rows):
        """U'^-1 times each of the rows."""
        with blas_for(rows.size * len(self._upper)):
            return solve_triangular(self._upper, rows.T, trans="T", check_finite=False).T
