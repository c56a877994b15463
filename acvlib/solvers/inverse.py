"""Hessians that can be solved with: one matrix, or one for each fold.

Everything that a method asks of a Hessian is in `Solvable` and `FoldSolver`; dense matrices are
here, matrices that are only multiplied with in `krylov`, and a model may have a structure of its
own.
"""

from contextlib import suppress
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.linalg.lapack import dpocon

from ..checks import NotFinite, one_line
from ..parallel import blas_for

HELD = 2**25  # entries of fold Hessians that are in memory together: a quarter of a gigabyte
PIVOT = 1e-15  # times D: of a diagonal entry, what rounding alone may leave of it in a factor
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
    """A symmetric matrix H = A' M A in memory, solved by its Cholesky factor.

    basis: A, upper triangular, of params whose units or levels H would lose digits to; None for I.
    """

    __repr__ = one_line
    __array_ufunc__ = None  # numpy leaves `rows @ hessian` to us

    def __init__(self, matrix: np.ndarray, basis: np.ndarray | None = None):
        self.matrix = np.asarray(matrix, float)
        self.basis = basis
        self.shape = self.matrix.shape

    def __array__(self, dtype=None, copy=None):
        plain = self.basis is None
        return np.asarray(self.matrix if plain else np.eye(len(self.matrix)) @ self, dtype)

    def __rmatmul__(self, rows):
        with blas_for(np.size(rows) * len(self.matrix)):
            if self.basis is None:
                return rows @ self.matrix
            return rows @ self.basis.T @ self.matrix @ self.basis

    def __matmul__(self, columns):
        return np.asarray(self) @ columns

    @cached_property
    def factor(self) -> tuple[np.ndarray, Any]:
        """(U, False), H = U'U, as `cho_solve` takes it; LinAlgError where none exists."""
        if not np.isfinite(self.matrix).all():
            raise NotFinite("the Hessian holds nan or infinity")
        with blas_for(self.matrix.size * len(self.matrix)):
            upper = cholesky(self.matrix, check_finite=False)
            if _is_singular(upper, self.matrix):
                raise np.linalg.LinAlgError("singular, but for rounding")
            return upper if self.basis is None else upper @ self.basis, False

    @cached_property
    def indefinite(self) -> bool:
        """Whether the Cholesky factor does not exist, or is rounding alone in some direction."""
        try:
            return self.factor is None
        except np.linalg.LinAlgError:
            return True

    def solve(self, columns: np.ndarray) -> np.ndarray:
        """H^-1 columns, (D,) or (D, n). Raises IndefiniteHessian."""
        if self.indefinite:
            smallest, *_, largest = 2 * np.linalg.eigvalsh(self).tolist()
            needed = max(-smallest, PIVOT * len(self.matrix) * largest)
            raise IndefiniteHessian(
                f"the Hessian's smallest eigenvalue is {smallest:.3g}: fit to convergence, check "
                f"that the data identify every parameter, or pass damping > {needed:.3g}"
            )
        few = columns.ndim == 1 or columns.shape[1] <= len(self.matrix)
        with blas_for(columns.size * len(self.matrix)):
            if few or self.inverse is None:
                return cho_solve(self.factor, columns, check_finite=False)
            return self.inverse @ columns

    @cached_property
    def share(self) -> float:
        """Of the largest eigenvalue, the least, about; 0 where H is not positive definite."""
        if self.indefinite:
            return 0.0
        return _share(self.factor[0], self)

    @property
    def conditioned(self) -> bool:
        """Whether H is positive definite, and far from singular."""
        return self.share > CONDITIONED

    @cached_property
    def inverse(self) -> np.ndarray | None:
        """H^-1, to multiply with in half the time; None where it is not `conditioned`."""
        return invert(np.asarray(self)) if self.conditioned else None

    def damped(self, damping: float) -> "DenseHessian":
        """H + damping I."""
        if not damping:
            return self
        inward = np.eye(len(self.matrix)) if self.basis is None else np.linalg.inv(self.basis)
        return type(self)(self.matrix + damping * inward.T @ inward, self.basis)


def _is_singular(factor, matrix):
    """Whether some column depends on those before it, but for rounding: in any units."""
    left = np.diagonal(factor) ** 2
    return bool((left <= PIVOT * len(matrix) * np.diagonal(matrix)).any())


def _share(upper, matrix):
    return float(dpocon(upper, np.linalg.norm(matrix, 1), uplo="U")[0])


def invert(matrix: np.ndarray) -> np.ndarray:
    """Invert a matrix."""
    with blas_for(matrix.size * len(matrix)):
        return np.linalg.inv(matrix)


class DenseJacobian(DenseHessian):
    """A square matrix without symmetry: that of an estimating equation."""

    indefinite = False

    def solve(self, columns: np.ndarray) -> np.ndarray:
        """matrix^-1 columns, (D,) or (D, n)."""
        return np.linalg.solve(self.matrix, columns)


class FoldSolver:
    """The Hessians H(w_o) of n folds: what Newton and chord steps ask of them.

    `rows` numbers the folds of the vectors, all of them in order by default.
    """

    @property
    def indefinite(self) -> np.ndarray:
        """Whether each H(w_o) has negative curvature, as far as was met in solving, (n,)."""
        raise NotImplementedError

    def solve(self, vectors: np.ndarray, rows: Any = slice(None)) -> np.ndarray:
        """H(w_o)^-1 times one vector a fold, (len(rows), D)."""
        raise NotImplementedError

    def descend(self, vectors: np.ndarray, rows: Any = slice(None)) -> np.ndarray:
        """`solve` by |H(w_o)|, with the absolute eigenvalues; `solve` where all are positive."""
        return self.solve(vectors, rows)

    def inverses(self, dim: int) -> np.ndarray:
        """H(w_o)^-1 of all folds, (n, dim, dim)."""
        n = len(self.indefinite)
        return np.stack([self.solve(np.tile(unit, (n, 1))) for unit in np.eye(dim)], axis=2)

    def newton_ends(self, derivatives: Any, params: np.ndarray, folds: Any) -> np.ndarray:
        """Params (D,) - H(w_o)^-1 dF/dparams there of all folds, (n, D)."""
        _, gradients = derivatives.fold_gradients(params, folds, values=False)
        return params - self.solve(gradients)


class DenseFolds(FoldSolver):
    """One matrix (D, D) a fold, of one basis as in `DenseHessian`.

    symmetric: False for the Jacobians of an estimating equation, which are never `indefinite`.
    """

    def __init__(
        self, matrices: np.ndarray, symmetric: bool = True, basis: np.ndarray | None = None
    ):
        self.matrices = np.asarray(matrices, float)
        self.symmetric = symmetric
        self.inward = None if basis is None else np.linalg.inv(basis)

    @cached_property
    def factors(self) -> list[np.ndarray | None]:
        """Cholesky factors (D, D) of symmetric matrices that have one."""
        factors: list[np.ndarray | None] = [None] * len(self.matrices)
        with blas_for(self.matrices.shape[-1] ** 3):
            for number, matrix in enumerate(self.matrices if self.symmetric else ()):
                with suppress(np.linalg.LinAlgError):
                    factor = np.linalg.cholesky(matrix)
                    factors[number] = None if _is_singular(factor, matrix) else factor
        return factors

    @cached_property
    def indefinite(self) -> np.ndarray:
        """(n,)"""
        return np.array([self.symmetric and factor is None for factor in self.factors])

    @property
    def shares(self) -> np.ndarray:
        """(n,) of the largest eigenvalue of each, the least, about; 0 where it has no factor."""
        pairs = zip(self.factors, self.matrices, strict=True)
        return np.array([0.0 if f is None else _share(f.T, matrix) for f, matrix in pairs])

    def inverses(self, dim: int) -> np.ndarray:
        """matrix^-1 of all folds, (n, dim, dim)."""
        with blas_for(dim**3):
            inverses = np.linalg.inv(self.matrices)
            return inverses if self.inward is None else self.inward @ inverses @ self.inward.T

    def descend(self, vectors: np.ndarray, rows: Any = slice(None)) -> np.ndarray:
        """|matrix|^-1 times one vector a fold."""
        return self.solve(vectors, rows, self.symmetric)

    def solve(
        self, vectors: np.ndarray, rows: Any = slice(None), absolute: bool = False
    ) -> np.ndarray:
        """matrix^-1 times one vector a fold, by Cholesky factors where there are some."""
        out = np.array(vectors if self.inward is None else vectors @ self.inward)
        with blas_for(self.matrices.shape[-1] ** 2):
            for place, row in enumerate(np.arange(len(self.matrices))[rows]):
                factor = self.factors[row]
                try:
                    if factor is not None:
                        out[place] = cho_solve((factor.T, False), out[place], check_finite=False)
                    elif absolute:
                        values, vectors = np.linalg.eigh(self.matrices[row])
                        size = np.maximum(abs(values), 1e-12 * abs(values).max())
                        out[place] = vectors @ ((vectors.T @ out[place]) / size)
                    else:
                        out[place] = np.linalg.solve(self.matrices[row], out[place])
                except np.linalg.LinAlgError as error:
                    singular = f"the Hessian of fold {row} is singular at its params"
                    raise np.linalg.LinAlgError(singular) from error
        return out if self.inward is None else out @ self.inward.T


def folds_at_once(dim: int) -> int:
    """How many Hessians (dim, dim) are held in memory together."""
    return max(1, HELD // max(dim, 1) ** 2)


def dots(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The inner product of each row (n, D) of both, (n,)."""
    return np.einsum("ni,ni->n", a, b)
