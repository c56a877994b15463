"""Hessians that can be solved with: one matrix, or one for each fold.

Everything that a method asks of a Hessian is in `Solvable` and `FoldSolver`; dense matrices are
here, matrices that are only multiplied with in `krylov`, and a model may have a structure of its
own.
"""

from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve, lu_factor, lu_solve
from scipy.linalg.lapack import dpocon

from ..checks import NotFinite, one_line
from ..parallel import blas_for

HELD = 2**25  # entries of fold Hessians that are in memory together: a quarter of a gigabyte
CONDITIONED = 1e-7  # least over largest eigenvalue above which an inverse is as good as a factor


class IndefiniteHessian(np.linalg.LinAlgError):
    """The Hessian is not positive definite: no minimum, or a parameter that is not identified."""


class Solvable(Protocol):
    """A matrix H (D, D), or the Jacobian of an estimating equation, that solves."""

    def __rmatmul__(self, rows: Any) -> Any:
        """rows @ H, rows (..., D)."""

    def solve(self, columns: np.ndarray) -> np.ndarray:
        """H^-1 columns, (D,) or (D, n). Raises IndefiniteHessian."""

    @property
    def indefinite(self) -> bool:
        """Whether H has a direction without positive curvature; False for a Jacobian."""

    def damped(self, damping: float) -> "Solvable":
        """H + damping I."""


class DenseHessian:
    """A symmetric matrix in memory, solved by its Cholesky factor."""

    __repr__ = one_line
    __array_ufunc__ = None  # numpy leaves `rows @ hessian` to us

    def __init__(self, matrix: np.ndarray):
        self.matrix = np.asarray(matrix, float)
        self.shape = self.matrix.shape

    def __array__(self, dtype=None, copy=None):
        return self.matrix if dtype is None else self.matrix.astype(dtype)

    def __rmatmul__(self, rows):
        with blas_for(np.size(rows) * len(self.matrix)):
            return rows @ self.matrix

    def __matmul__(self, columns):
        return self.matrix @ columns

    @cached_property
    def factor(self) -> tuple[np.ndarray, Any]:
        """(U, False), H = U'U, as `cho_solve` takes it; LinAlgError where none exists."""
        if not np.isfinite(self.matrix).all():
            raise NotFinite("the Hessian holds nan or infinity")
        with blas_for(self.matrix.size * len(self.matrix)):
            return cho_factor(self.matrix, check_finite=False)

    @cached_property
    def indefinite(self) -> bool:
        """Whether the Cholesky factor does not exist."""
        try:
            return self.factor is None
        except np.linalg.LinAlgError:
            return True

    def solve(self, columns: np.ndarray) -> np.ndarray:
        """H^-1 columns, (D,) or (D, n). Raises IndefiniteHessian."""
        if self.indefinite:
            smallest = np.linalg.eigvalsh(self.matrix)[0]
            raise IndefiniteHessian(
                f"the Hessian's smallest eigenvalue is {smallest:.3g}: fit to convergence, check "
                "that the data identify every parameter, or pass damping > "
                f"{max(-smallest, 0.0):.3g}"
            )
        few = columns.ndim == 1 or columns.shape[1] <= len(self.matrix)
        with blas_for(columns.size * len(self.matrix)):
            if few or self.inverse is None:
                return cho_solve(self.factor, columns, check_finite=False)
            return self.inverse @ columns

    @cached_property
    def conditioned(self) -> bool:
        """Whether H is positive definite, and far from singular."""
        if self.indefinite:
            return False
        share, _ = dpocon(self.factor[0], np.linalg.norm(self.matrix, 1), uplo="U")
        return bool(share > CONDITIONED)

    @cached_property
    def inverse(self) -> np.ndarray | None:
        """H^-1, to multiply with in half the time; None where it is not `conditioned`."""
        return invert(self.matrix) if self.conditioned else None

    def damped(self, damping: float) -> "DenseHessian":
        """H + damping I."""
        return type(self)(self.matrix + damping * np.eye(len(self.matrix))) if damping else self


def invert(matrix: np.ndarray) -> np.ndarray:
    """Invert a matrix."""
    with blas_for(matrix.size * len(matrix)):
        return np.linalg.inv(matrix)


class DenseJacobian(DenseHessian):
    """A square matrix without symmetry, solved by LU: that of an estimating equation."""

    indefinite = False

    @cached_property
    def factor(self) -> tuple[np.ndarray, Any]:
        """As `lu_solve` takes it."""
        return lu_factor(self.matrix)

    def solve(self, columns: np.ndarray) -> np.ndarray:
        """matrix^-1 columns, (D,) or (D, n)."""
        return lu_solve(self.factor, columns)


class FoldSolver:
    """The Hessians H(w_o) of n folds: what Newton and chord steps ask of them.

    `rows` numbers the folds of the vectors, all of them in order if None.
    """

    @property
    def indefinite(self) -> np.ndarray:
        """Whether each H(w_o) has negative curvature, as far as was met in solving, (n,)."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.indefinite)

    def solve(self, vectors: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """H(w_o)^-1 times one vector a fold, (len(rows), D)."""
        raise NotImplementedError

    def step_from(self, params: np.ndarray, vectors: Any) -> np.ndarray:
        """params - H(w_o)^-1 times one vector a fold, from params (D,)."""
        return params - self.solve(vectors)

    def descend(self, vectors: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """`solve` by |H(w_o)|, with the absolute eigenvalues; `solve` where all are positive."""
        return self.solve(vectors, rows)


class DenseFolds(FoldSolver):
    """One matrix (D, D) a fold; `symmetric` False for the Jacobians of an estimating equation."""

    def __init__(self, matrices: np.ndarray, symmetric: bool = True):
        self.matrices = np.asarray(matrices, float)
        self.symmetric = symmetric

    @cached_property
    def factors(self) -> np.ndarray | None:
        """Cholesky factors (n, D, D); None where some matrix has none, and for Jacobians."""
        if not self.symmetric:
            return None
        try:
            with blas_for(self.matrices.shape[-1] ** 3):
                return np.linalg.cholesky(self.matrices)
        except np.linalg.LinAlgError:
            return None

    @cached_property
    def indefinite(self) -> np.ndarray:
        """(n,) False for Jacobians."""
        if self.factors is not None or not self.symmetric:
            return np.zeros(len(self.matrices), bool)
        return np.linalg.eigvalsh(self.matrices)[:, 0] <= 0.0

    def solve(self, vectors: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """matrix^-1 times one vector a fold."""
        rows = np.arange(len(self.matrices)) if rows is None else rows
        if self.factors is None:
            return np.linalg.solve(self.matrices[rows], vectors[..., None])[..., 0]
        pairs = zip(rows, vectors, strict=True)
        with blas_for(self.matrices.shape[-1] ** 2):
            solutions = [
                cho_solve((self.factors[i].T, False), v, check_finite=False) for i, v in pairs
            ]
        return np.array(solutions).reshape(vectors.shape)

    def descend(self, vectors: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """|matrix|^-1 times one vector a fold."""
        rows = np.arange(len(self.matrices)) if rows is None else rows
        out = np.empty_like(vectors)
        bad = self.indefinite[rows]
        out[~bad] = self.solve(vectors[~bad], rows[~bad])
        for place in np.flatnonzero(bad):
            out[place] = absolute_solve(self.matrices[rows[place]], vectors[place])
        return out


def absolute_solve(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """|matrix|^-1 vector, by the absolute eigenvalues of a symmetric matrix."""
    values, vectors = np.linalg.eigh(matrix)
    size = np.abs(values)
    size = np.maximum(size, 1e-12 * size.max())
    return vectors @ ((vectors.T @ vector) / size)


class SameForAll(FoldSolver):
    """One H for all folds, times the share that each keeps: the Hessian of a frozen step."""

    def __init__(self, hessian: Solvable, shares: np.ndarray):
        self.hessian = hessian
        self.shares = shares

    @property
    def indefinite(self) -> np.ndarray:
        """(n,) that of H."""
        return np.full(len(self.shares), self.hessian.indefinite)

    def solve(self, vectors: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """[(1 - m) H]^-1 times one vector a fold."""
        shares = self.shares if rows is None else self.shares[rows]
        return self.hessian.solve(vectors.T).T / shares[:, None]


def folds_at_once(dim: int) -> int:
    """How many Hessians (dim, dim) are held in memory together."""
    return max(1, HELD // max(dim, 1) ** 2)
