"""Bounds that hold for the real numbers behind floats.

Sums of n terms, in any order, are off by gamma(n) times the sum of the terms' sizes at most. Terms
are right to a few units in the last place; underflow counts as nothing. Source: Higham (2002).
"""

from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np

UNIT = 2.0**-53
UP = 1.0 + 1e-13  # outweighs the rounding of a few operations on positive numbers
LOOSEST = 0.1  # doubt of an inverse that is of no use
SHARES = (0.9, 0.7, 0.4, 0.2, 0.1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-6)  # of a matrix
SIDES = np.array([[-1.0], [1.0]])  # of an interval


class NotCertified(ValueError):
    """Nothing is proved of a model, or not of some fold."""


def gamma(n: int) -> float:
    """The relative error of a sum of n terms, and of a few operations on each."""
    return UP * (n + 8) * UNIT / (1.0 - (n + 8) * UNIT)


def norms(rows: np.ndarray) -> np.ndarray:
    """|v| of rows v (..., D)."""
    return np.sqrt(np.einsum("...i,...i->...", rows, rows))


def are_above(matrices: np.ndarray, doubts: Any) -> bool:
    """Whether symmetric matrices (..., D, D) are all > E for symmetric |E| <= their doubts (...).

    Cholesky factors prove it that exist although more is taken from diagonals than rounding may
    have added. Source: Rump (2006), Theorem 2.3.
    """
    dim = matrices.shape[-1]
    traces = np.abs(np.diagonal(matrices, axis1=-2, axis2=-1)).sum(axis=-1)
    taken = UP * (doubts + gamma(dim) * traces)
    try:
        np.linalg.cholesky(matrices - taken[..., None, None] * np.eye(dim))
    except np.linalg.LinAlgError:
        return False
    return bool(np.isfinite(matrices).all())


class Metric:
    """A matrix H > 0 with |H - matrix|_ij <= error sqrt(terms_i terms_j), and an inverse R.

    doubt q bounds the row sums of |I - H R| once columns have length 1. R is symmetric: the
    eigenvalues of H^1/2 R H^1/2 are within 1 -+ q.
    """

    def __init__(self, matrix: np.ndarray, terms: np.ndarray, error: float, ridge: Any = 0.0):
        diagonal = np.diag(matrix)
        self.matrix = 0.5 * (matrix + matrix.T)
        self.ridge = np.broadcast_to(ridge, diagonal.shape)
        self.error = error + 2.0 * UNIT
        self.terms = np.sqrt(np.maximum(terms, diagonal))
        longer = 1.0 + gamma(2 * len(matrix))  # than sums of D positive terms by these
        self.sides = np.sqrt(diagonal) * longer
        scale = 2.0 ** np.round(-np.log2(self.sides))
        self.scales = scale[:, None] * scale
        unit = self.matrix * self.scales
        inverse = np.full_like(unit, np.nan)
        with suppress(np.linalg.LinAlgError):
            inverse = np.linalg.inv(unit)
        inverse = 0.5 * (inverse + inverse.T)
        sizes = self.terms * scale
        doubts = gamma(len(unit)) * np.abs(unit).sum(axis=1) + self.error * sizes * sizes.sum()
        doubts *= np.abs(inverse).sum(axis=0).max()
        doubts += np.abs(np.eye(len(unit)) - unit @ inverse).sum(axis=1)
        self.doubt = UP * float(doubts.max())
        if not self.doubt < LOOSEST:  # nan, too
            raise NotCertified(f"the Hessian is too near to a singular one: {self.doubt:.1g}")
        self.inverse = inverse * self.scales
        self.units = np.sqrt(np.diag(self.inverse) / (1.0 - self.doubt)) * longer

    @cached_property
    def least(self) -> float:
        """The share of H that the ridge alone keeps."""
        return self.share(np.diag(self.ridge))

    def dual(self, rows: np.ndarray) -> np.ndarray:
        """sqrt(v' H^-1 v) of rows v (n, D)."""
        squares = np.maximum(np.einsum("ni,ni->n", rows @ self.inverse, rows), 0.0)
        slack = gamma(2 * len(self.units)) * (np.abs(rows) @ self.units) ** 2
        return UP * np.sqrt((squares + slack) / (1.0 - self.doubt))

    def length(self, rows: np.ndarray) -> np.ndarray:
        """sqrt(v' H v) of rows v (n, D)."""
        squares = np.maximum(np.einsum("ni,ni->n", rows @ self.matrix, rows), 0.0)
        slack = (gamma(2 * len(self.units)) + self.error) * (np.abs(rows) @ self.terms) ** 2
        return UP * np.sqrt(squares + slack)

    def share(self, matrix: np.ndarray, terms: Any = 0.0, error: float = 0.0) -> float:
        """A share of H that another such matrix is above, not much less than the largest; or 0.

        Of no terms: a matrix that is H less another one, which has no larger terms and errors.
        """
        doubts = self.terms**2 + np.maximum(terms, np.diag(matrix))
        doubt = (error + 3.0 * self.error + 8.0 * UNIT) * (self.scales.diagonal() @ doubts)
        for share in SHARES:
            if are_above((matrix - share * self.matrix) * self.scales, doubt):
                return share
        return 0.0


def choices_range(losses: np.ndarray, errors: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """Ends (2, n) of -log p, known up to errors, where scores move apart by so much."""
    ends = np.maximum(losses + SIDES * errors, 0.0)
    odds = ends + np.log(-np.expm1(-ends))
    odds += SIDES * (moves + 1e-14 * (1.0 + np.abs(np.maximum(odds, -1e3))))
    return np.logaddexp(0.0, odds) * (1.0 + SIDES * (UP - 1.0)) + [[0.0], [1e-300]]


def counts_range(eta: np.ndarray, y: np.ndarray, moves: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Ends (2, n) of exp(eta) - y eta + rest where eta moves so far."""
    ends = eta + SIDES * moves
    places = np.array([np.clip(np.log(y), *ends), *ends])
    terms = np.array([np.exp(places), -y * places, rest + 0.0 * places])
    errors = 16.0 * UNIT * (1.0 + np.abs(terms).sum(axis=0)) * [[-1.0], [1.0], [1.0]]
    least, *ends = terms.sum(axis=0) + errors
    return np.array([least, np.maximum(*ends)])
