"""Hessians that are never formed: one, or one for each fold, solved by conjugate gradients."""

from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import delayed, effective_n_jobs

from ..checks import one_line
from ..parallel import threads
from .inverse import HELD, FoldSolver, IndefiniteHessian
from .krylov import ChosenRows, solve

PORTION = 128  # right-hand sides that one worker solves together, fewer where they are long


class HessianOperator:
    """A Hessian (D, D) that is only multiplied with: a `Solvable`, by conjugate gradients."""

    __repr__ = one_line
    __array_ufunc__ = None  # numpy leaves `rows @ operator` to us

    def __init__(self, products: Any, size: int, damping: float = 0.0, tolerance: float = 1e-6):
        self.products = products
        self.shape = (size, size)
        self.damping = damping
        self.tolerance = tolerance

    def __rmatmul__(self, rows):
        flat = np.reshape(rows, (-1, self.shape[0]))
        found = self.products.multiply(flat, np.zeros(len(flat), int))
        return (found + self.damping * flat).reshape(np.shape(rows))

    def __matmul__(self, columns):
        return (np.transpose(columns) @ self).T

    @property
    def indefinite(self) -> bool:
        """Whether a random vector meets negative curvature."""
        probe = np.random.default_rng(0).standard_normal((1, self.shape[0]))
        return bool(self._solutions(probe).curvature[0] <= 0.0)

    def solve(self, columns: np.ndarray) -> np.ndarray:
        """H^-1 columns, (D,) or (D, n). Raises IndefiniteHessian."""
        rows = np.atleast_2d(columns.T)
        parts = in_portions(lambda part: self._solutions(rows[part]), rows)
        least = min(part.curvature.min() for part in parts)
        if least <= 0.0:
            met = f"negative curvature ({least:.3g} of the preconditioner's)"
            raise IndefiniteHessian(f"the Hessian has {met}: fit to convergence, or pass damping")
        return np.concatenate([part.x for part in parts]).T.reshape(columns.shape)

    def _solutions(self, rows):
        products = ChosenRows(self.products, np.zeros(len(rows), int))
        return solve(products, rows, self.tolerance, damping=self.damping)

    def damped(self, damping: float) -> "HessianOperator":
        """H + damping I."""
        damping = self.damping + damping
        return HessianOperator(self.products, self.shape[0], damping, self.tolerance)


class KrylovFolds(FoldSolver):
    """H(w_o) of many folds by conjugate gradients; `products(rows)` gives those of some folds."""

    def __init__(self, products: Callable, n_folds: int, damping: float = 0.0):
        self.products = products
        self.damping = damping
        self._curvature = np.full(n_folds, np.inf)

    @property
    def indefinite(self) -> np.ndarray:
        """(n_folds,) whether solving met negative curvature."""
        return self._curvature <= 0.0

    def solve(self, vectors: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """H(w_o)^-1 times one vector a fold; where H is indefinite, see `conjugate_gradient`."""
        rows = np.arange(len(vectors)) if rows is None else rows

        def portion(part: slice):
            found = solve(self.products(rows[part]), vectors[part], damping=self.damping)
            self._curvature[rows[part]] = found.curvature
            return found.x

        return np.concatenate(in_portions(portion, vectors))


def in_portions(function: Callable, vectors: np.ndarray) -> list:
    """[function(numbers) for portions of the vectors (n, D)], in joblib's workers."""
    n, size = vectors.shape
    together = min(PORTION, max(1, HELD // size))
    n_portions = max(-(-n // together), min(effective_n_jobs(None), n))
    portions = np.array_split(np.arange(n), n_portions)
    return threads()(delayed(function)(rows) for rows in portions)
