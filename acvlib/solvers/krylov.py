"""Conjugate gradients for many right-hand sides together, one operator for each, and Hessians that
are never formed but solved by them.

The operator of row i is products.multiply(vectors, numbers) and its preconditioner, an approximate
inverse, products.precondition(vectors, numbers); both take and return (len(numbers), D) for the
operators of these numbers. It may have `rough`, a cheaper operator close to it, from which `solve`
takes its steps.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from joblib import delayed, effective_n_jobs

from ..checks import one_line, warn
from ..parallel import threads
from .inverse import HELD, FoldSolver, IndefiniteHessian, dots

FLAT = 1e-3  # curvature, relative to the preconditioner's, that counts as no less curved
MAX_ITERATIONS = 1000
NEARER = 0.7  # of its residual, to which a correction by the rough operator must bring a row
PORTION = 128  # right-hand sides that one worker solves together, fewer where they are long


class UnsolvedSystem(UserWarning):
    """A linear system is left unsolved: the step that it gives is inaccurate."""


class Solutions:
    """Solutions x (n, D) of n systems with right-hand sides b, and what was met on the way.

    residual (n,): |b - H x| / |b|, 0 of b = 0; curvature (n,): the least p'Hp / p'Mp of a direction
    p, M the preconditioner's inverse, whose sign is that of H's smallest eigenvalue; products: how
    many were taken; norm (n,): |x| in the norm of M; decrease (n,): b'x - x'H x / 2; escape (n, D):
    the direction of negative curvature that a row met, of length 1 in that norm, else 0.
    """

    def __init__(self, b: np.ndarray) -> None:
        self.x = np.zeros_like(b)
        self.residual = (b != 0.0).any(axis=1).astype(float)
        self.curvature = np.full(len(b), np.inf)
        self.norm = np.zeros(len(b))
        self.decrease = np.zeros(len(b))
        self.escape = np.zeros_like(b)
        self.products = 0


def conjugate_gradient(
    products: Any,
    b: np.ndarray,
    tolerance: float | np.ndarray = 1e-6,
    damping: float = 0.0,
    radius: float = np.inf,
    numbers: np.ndarray | None = None,
) -> Solutions:
    """Solve (H_i + damping) x_i = b_i for each row of b (n, D), to |residual| <= tolerance |b|.

    numbers (n,): of each row's operator, 0 ... n - 1 by default.

    A row that has converged takes no further products. A row that meets negative curvature goes
    along it to `radius`, a trust region in the preconditioner's norm, and stops there, as does one
    that would leave it otherwise; without a radius it takes the step that the absolute curvature
    calls for.

    Source: Steihaug (1983); Nash (2000).
    """
    found = Solutions(b)
    numbers = np.arange(len(b)) if numbers is None else numbers
    size = np.linalg.norm(b, axis=1)
    tolerance = np.broadcast_to(tolerance, len(b))
    rows = np.flatnonzero(found.residual > tolerance)
    r = b[rows]
    z = products.precondition(r, numbers[rows])
    p = z.copy()  # z may be r itself
    rz = dots(r, z)
    pp = rz.copy()  # p'Mp; x'Mp and x'Mx are 0
    xp, xx = np.zeros((2, len(rows)))
    for _ in range(MAX_ITERATIONS):
        if not rows.size:
            break
        product = products.multiply(p, numbers[rows])
        if damping:
            product = product + damping * p
        found.products += len(rows)
        curved = dots(p, product)
        last = curved <= 0.0
        found.escape[rows[last]] = p[last] / np.sqrt(pp[last])[:, None]
        found.curvature[rows] = np.minimum(found.curvature[rows], curved / pp)
        alpha = rz / np.where(last, np.maximum(-curved, FLAT * pp), curved)
        to_edge = (np.sqrt(np.maximum(xp**2 + pp * (radius**2 - xx), 0.0)) - xp) / pp
        last |= alpha >= to_edge
        alpha = np.where(last & (to_edge < np.inf), to_edge, alpha)
        found.x[rows] += alpha[:, None] * p
        r -= alpha[:, None] * product
        xx += alpha * (2.0 * xp + alpha * pp)
        found.residual[rows] = np.sqrt(dots(r, r)) / size[rows]
        found.norm[rows] = np.sqrt(np.maximum(xx, 0.0))
        xp += alpha * pp
        going = ~last & (found.residual[rows] > tolerance[rows])
        ended = rows[~going]
        if ended.size:
            found.decrease[ended] = 0.5 * dots(found.x[ended], b[ended] + r[~going])
            rows, r, p, rz, pp, xp, xx = (each[going] for each in (rows, r, p, rz, pp, xp, xx))
        z = products.precondition(r, numbers[rows])
        before = rz
        rz = dots(r, z)
        beta = rz / before
        p *= beta[:, None]
        p += z
        xp *= beta
        pp = rz + beta**2 * pp
    found.decrease[rows] = 0.5 * dots(found.x[rows], b[rows] + r)
    return found


def solve(
    products: Any,
    b: np.ndarray,
    tolerance: float = 1e-6,
    damping: float = 0.0,
    numbers: np.ndarray | None = None,
) -> Solutions:
    """Solve as `conjugate_gradient`, by refinement where `products.rough` is a cheaper operator.

    Residuals come from the accurate operator, corrections from conjugate gradients on the rough
    one, until the residuals are small. A row whose rough operator is indefinite stops at its first
    correction. A row that a correction does not bring nearer is solved by the accurate operator
    alone: its least curvature is below what the two differ by, and may be negative.

    Warns of rows that are left above the tolerance (`UnsolvedSystem`).
    """
    found = Solutions(b)
    numbers = np.arange(len(b)) if numbers is None else numbers
    if getattr(products, "rough", None) is not None:
        _refine(products, b, tolerance, damping, numbers, found)
    alone = np.flatnonzero((found.residual > tolerance) & (found.curvature > 0.0))
    accurate = conjugate_gradient(products, b[alone], tolerance, damping, numbers=numbers[alone])
    for name in ("x", "residual", "curvature"):
        getattr(found, name)[alone] = getattr(accurate, name)
    found.products += accurate.products
    unsolved = (found.residual > tolerance) & (found.curvature > 0.0)
    if unsolved.any():
        count = f"{unsolved.sum()} of {len(b)} linear systems are left with relative residuals"
        size = f"up to {found.residual[unsolved].max():.2g}, above {tolerance:.2g}"
        after = f"after {MAX_ITERATIONS} products with the Hessian: steps are no better than that"
        warn(
            f"{count} {size}, {after}. Scale the parameters alike, or pass damping", UnsolvedSystem
        )
    return found


def _refine(products, b, tolerance, damping, numbers, found):
    """Write to `found` how far the rough operator brings each row."""
    size = np.linalg.norm(b, axis=1)
    rows = np.flatnonzero(found.residual)
    left = b[rows]
    accuracy = 0.5 * np.sqrt(tolerance)
    while rows.size:
        step = conjugate_gradient(products.rough, left, accuracy, damping, numbers=numbers[rows])
        found.x[rows] += step.x
        found.curvature[rows] = np.minimum(found.curvature[rows], step.curvature)
        product = products.multiply(found.x[rows], numbers[rows])
        left = b[rows] - product - damping * found.x[rows]
        before = found.residual[rows]
        after = np.linalg.norm(left, axis=1) / size[rows]
        found.residual[rows] = after
        found.products += step.products + len(rows)
        more = (after > tolerance) & (step.curvature > 0.0) & (after < NEARER * before)
        rows = rows[more]
        left = left[more]
        accuracy = np.minimum(0.7 * tolerance / found.residual[rows], 0.5)  # what is still wanted


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
        product = self.products.multiply(flat, np.zeros(len(flat), int))
        return (product + self.damping * flat).reshape(np.shape(rows))

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
        numbers = np.zeros(len(rows), int)
        return solve(self.products, rows, self.tolerance, self.damping, numbers=numbers)

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

    def solve(self, vectors: np.ndarray, rows: Any = slice(None)) -> np.ndarray:
        """H(w_o)^-1 times one vector a fold; where H is indefinite, see `conjugate_gradient`."""
        rows = np.arange(len(self._curvature))[rows]

        def portion(part: np.ndarray):
            found = solve(self.products(rows[part]), vectors[part], damping=self.damping)
            self._curvature[rows[part]] = found.curvature
            return found.x

        return np.concatenate(in_portions(portion, vectors))


def in_portions(function: Callable, vectors: np.ndarray) -> list:
    """[function(numbers) for portions of the vectors (n, D)], in joblib's workers."""
    n, size = vectors.shape
    together = min(PORTION, max(1, HELD // size))
    n_portions = max(-(-n // together), min(effective_n_jobs(None), n))
    return threads()(delayed(function)(part) for part in np.array_split(np.arange(n), n_portions))
