"""Bounds that hold for the real numbers behind floats.

Sums of n terms, in any order, are off by gamma(n) times the sum of the terms' sizes at most. Terms
are right to a few units in the last place; underflow counts as nothing. Source: Higham (2002).
"""

from contextlib import suppress
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

UNIT = 2.0**-53
UP = 1.0 + 1e-13  # outweighs the rounding of a few operations on positive numbers
LOOSEST = 0.1  # doubt of an inverse that is of no use
LARGE = 0.2  # share of a matrix that is lost, from which on eigenvalues tell
SIDES = np.array([[-1.0], [1.0]])  # of an interval


class NotCertified(ValueError):
    """Nothing is proved of a model, or not of some fold."""


def gamma(n: int) -> float:
    """The relative error of a sum of n terms, and of a few operations on each."""
    return UP * (n + 8) * UNIT / (1.0 - (n + 8) * UNIT)


def norms(rows: np.ndarray) -> np.ndarray:
    """|v| of rows v (..., D)."""
    return np.sqrt(np.einsum("...i,...i->...", rows, rows))


def highest(matrix: np.ndarray, doubt: float = 0.0) -> float:
    """Above 0 and the eigenvalues of all symmetric matrices within `doubt` of one (D, D).

    A Cholesky factor that exists proves that no eigenvalue is below what rounding may have added.
    Source: Rump (2006), Theorem 2.3.
    """
    if not np.isfinite(matrix).all():
        return np.inf
    dim = len(matrix)
    slack = 8.0 * gamma(dim) * dim * (np.abs(matrix).sum() + 1e-150)
    above = max(np.linalg.eigvalsh(matrix)[-1], 0.0) + 2.0 * slack
    with suppress(np.linalg.LinAlgError):
        np.linalg.cholesky(above * np.eye(dim) - matrix)
        return UP * (above + slack + doubt)
    return np.inf


class Metric:
    """A matrix H > 0 (D, D) with |H - matrix|_ij <= error sqrt(terms_i terms_j), and some W.

    doubt q bounds |I - W H W'|, so that H^-1 is between W'W / (1 + q) and W'W / (1 - q).
    """

    def __init__(self, matrix: np.ndarray, terms: Any, error: float):
        diagonal = np.diag(matrix)
        longer = 1.0 + gamma(2 * len(matrix))  # than sums of D positive terms
        self.matrix = 0.5 * (matrix + matrix.T)
        self.terms = np.maximum(terms, diagonal)
        self.error = error + 2.0 * UNIT
        self.sides = np.sqrt(diagonal + self.error * self.terms) * longer
        self.white = np.full_like(self.matrix, np.nan)
        with suppress(ValueError):
            root = np.linalg.cholesky(self.matrix)
            self.white = solve_triangular(root, np.eye(len(root)), lower=True)
        _, _, self.doubt = self._lost(self.matrix, self.terms, self.error)
        if not self.doubt < LOOSEST:  # nan, too
            raise NotCertified(f"the Hessian is too near to a singular one: {self.doubt:.1g}")
        self.inverse = self.white.T @ self.white
        self.units = norms(self.white.T) * longer / np.sqrt(1.0 - self.doubt)

    def _lost(self, matrix, terms, error):
        """(I - W matrix W', how far that is off, above the length of both)."""
        image = self.white @ matrix @ self.white.T
        left = np.eye(len(image)) - 0.5 * (image + image.T)
        sizes = np.abs(self.white) @ np.sqrt(terms)
        doubt = (gamma(2 * len(image)) + error) * (sizes @ sizes)
        return left, doubt, 1.01 * float(norms(left.ravel()) + doubt)

    def dual(self, rows: np.ndarray) -> np.ndarray:
        """sqrt(v' H^-1 v) of rows v (n, D)."""
        slack = gamma(2 * len(self.units)) * (np.abs(rows) @ self.units)
        return UP * (norms(rows @ self.white.T) / np.sqrt(1.0 - self.doubt) + slack)

    def length(self, rows: np.ndarray) -> np.ndarray:
        """sqrt(v' H v) of rows v (n, D)."""
        squares = np.maximum(np.einsum("ni,ni->n", rows @ self.matrix, rows), 0.0)
        slack = gamma(2 * len(self.units)) + self.error
        return UP * np.sqrt(squares + slack * (np.abs(rows) @ np.sqrt(self.terms)) ** 2)

    def share(self, matrix: np.ndarray, terms: Any = None, error: float = 0.0) -> float:
        """A share of H that another such matrix is above, or 0.

        Of no terms: a matrix that is H less another one, which has no larger terms and errors.
        """
        if terms is None:
            terms, error = self.terms, 3.0 * self.error
        left, doubt, lost = self._lost(matrix, np.maximum(terms, np.diag(matrix)), error)
        lost = lost if lost < LARGE else highest(left, doubt)
        return max(1.0 - lost, 0.0) / (UP + self.doubt)


def choices_range(losses: np.ndarray, errors: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """Ends (2, n) of -log p, known up to errors > 0, where scores move apart by so much."""
    ends = np.maximum(losses + SIDES * errors, 0.0)
    odds = ends + np.log(-np.expm1(-ends))
    odds += SIDES * (moves + 1e-14 * (1.0 + np.abs(odds)))
    return np.logaddexp(0.0, odds) * (1.0 + SIDES * (UP - 1.0)) + [[0.0], [1e-300]]
