"""Solving with Hessians that are only ever multiplied: many right-hand sides together, one operator for each.

The operator of row i is products.multiply(vectors, rows) and its preconditioner, an approximate inverse,
products.precondition(vectors, rows); both take and return (len(rows), D) for the rows of right-hand sides asked for.
It may have `rough`, a cheaper operator close to it, from which `solve` then takes its steps.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import delayed, effective_n_jobs

from ..parallel import threads
from .inverse import FoldSolver, IndefiniteHessian

FLAT = 1e-3  # curvature, relative to the preconditioner's, below which a direction counts as no less curved
MAX_ITERATIONS, MAX_REFINEMENTS = 1000, 20
PORTION = 128  # right-hand sides that one worker solves together


@dataclass
class Solutions:
    """x (n, D); residual (n,): |b - H x| / |b|; smallest (n,): see `conjugate_gradient`; products: how many.

    norm, decrease (n,): |x| in the preconditioner's norm, and b'x - x'H x / 2, with a trust region. escape (n, D): the
    direction of negative curvature that a row met, of length 1 in that norm, else 0.
    """

    x: np.ndarray
    residual: np.ndarray
    smallest: np.ndarray
    products: int = 0
    norm: np.ndarray = None
    decrease: np.ndarray = None
    escape: np.ndarray = None


def conjugate_gradient(
    products, b, tolerance=1e-6, max_iterations=MAX_ITERATIONS, damping=0.0, radius=np.inf
):
    """(H_i + damping) x_i = b_i for each row of b (n, D), to |residual| <= tolerance |b|, as `Solutions`.

    tolerance: one, or (n,). A row that has converged takes no further products. A row that meets a direction of
    negative curvature goes along it to `radius`, a trust region in the preconditioner's norm, and stops there, as does
    one that would leave it otherwise; without a radius it takes the step that the absolute curvature calls for.
    `smallest` is the least Ritz value of M^-1 H, M the preconditioner's inverse: an upper bound on the smallest
    eigenvalue, whose sign is H's; not above 0 where negative curvature was met. Source: Steihaug (1983); Nash (2000).
    """
    state = _State(products, np.asarray(b, float), damping, radius)
    for _ in range(max_iterations):
        state.drop_converged(tolerance)
        if not state.rows.size:
            break
        state.step()
    return state.solutions()


def solve(products, b, tolerance=1e-6, damping=0.0):
    """As `conjugate_gradient`, by iterative refinement where `products.rough` is a cheaper operator near to it.

    Residuals come from the accurate operator, corrections from conjugate gradients on the rough one, until the
    residuals are small; a row whose rough operator is indefinite stops at its first correction.
    """
    rough = getattr(products, "rough", None)
    if rough is None:
        return conjugate_gradient(products, b, tolerance, damping=damping)
    found = Solutions(np.zeros_like(b), np.zeros(len(b)), np.full(len(b), np.inf))
    rows = np.flatnonzero(b.any(axis=1))
    r = b[rows]
    accuracy = 0.5 * np.sqrt(tolerance)
    for _ in range(MAX_REFINEMENTS):
        step = conjugate_gradient(_Rows(rough, rows), r, accuracy, damping=damping)
        found.x[rows] += step.x
        found.smallest[rows] = np.minimum(found.smallest[rows], step.smallest)
        r = b[rows] - products.multiply(found.x[rows], rows) - damping * found.x[rows]
        found.residual[rows] = np.linalg.norm(r, axis=1) / np.linalg.norm(b[rows], axis=1)
        found.products += step.products + len(rows)
        more = (found.residual[rows] > tolerance) & (step.smallest > 0.0)
        rows, r = rows[more], r[more]
        if not rows.size:
            break
        accuracy = np.minimum(
            0.7 * tolerance / found.residual[rows], 0.5
        )  # no more than is still wanted
    return found


class _Rows:
    """Some rows of `products`, numbered anew; a row may be taken more than once."""

    def __init__(self, products, chosen):
        self.products, self.chosen = products, chosen

    @property
    def rough(self):
        rough = getattr(self.products, "rough", None)
        return rough and _Rows(rough, self.chosen)

    def multiply(self, vectors, rows):
        return self.products.multiply(vectors, self.chosen[rows])

    def precondition(self, vectors, rows):
        return self.products.precondition(vectors, self.chosen[rows])


class _State:
    """Arrays of the rows that are still iterated, and the solutions of all."""

    def __init__(self, products, b, damping, radius):
        self.products, self.b, self.damping, self.radius = products, b, damping, radius
        self.found, self.rows = np.zeros_like(b), np.arange(len(b))
        self.size = np.linalg.norm(b, axis=1)
        self.x, self.r = np.zeros_like(b), b.copy()
        self.residual = np.where(self.size > 0.0, 1.0, 0.0)
        self.smallest, self.count = np.full(len(b), np.inf), 0
        self.steps = [([], []) for _ in b]  # alpha and beta of each row: its Lanczos matrix
        z = products.precondition(self.r, self.rows)
        self.p, self.rz = z.copy(), _dots(self.r, z)
        self.pp, self.xp, self.xx = (
            self.rz.copy(),
            np.zeros(len(b)),
            np.zeros(len(b)),
        )  # in the preconditioner's norm
        self.norm, self.decrease = np.zeros(len(b)), np.zeros(len(b))
        self.escape = np.zeros_like(b)

    def drop_converged(self, tolerance):
        self.keep((self.residual > tolerance)[self.rows])

    def keep(self, mask):
        if mask.all():
            return
        self.found[self.rows[~mask]] = self.x[~mask]
        for name in ("rows", "x", "r", "p", "rz", "pp", "xp", "xx"):
            setattr(self, name, getattr(self, name)[mask])

    def step(self):
        hp = self.products.multiply(self.p, self.rows)
        if self.damping:
            hp = hp + self.damping * self.p
        self.count += len(self.rows)
        curvature = _dots(self.p, hp)
        alpha, last = self._lengths(curvature)
        moved = alpha[:, None] * hp
        self.r -= moved
        self.x += np.multiply(self.p, alpha[:, None], out=moved)
        self.xx += alpha * (2.0 * self.xp + alpha * self.pp)
        self._record(curvature)
        self._extend(alpha, last)

    def _lengths(self, curvature):
        """(step lengths, which rows end with theirs): of conjugate gradients, cut at the trust region."""
        bad = curvature <= 0.0
        alpha = self.rz / np.where(bad, np.maximum(-curvature, FLAT * self.pp), curvature)
        if np.isinf(self.radius):
            return alpha, bad
        to_edge = (
            np.sqrt(np.maximum(self.xp**2 + self.pp * (self.radius**2 - self.xx), 0.0)) - self.xp
        )
        to_edge /= self.pp
        last = bad | (alpha >= to_edge)
        return np.where(last, to_edge, alpha), last

    def _record(self, curvature):
        rows = self.rows
        self.residual[rows] = np.sqrt(_dots(self.r, self.r)) / self.size[rows]
        if np.isfinite(self.radius):
            self.norm[rows] = np.sqrt(np.maximum(self.xx, 0.0))
            self.decrease[rows] = 0.5 * _dots(self.x, self.b[rows] + self.r)
        negative = np.where(curvature <= 0.0, curvature / self.pp, np.inf)
        self.smallest[rows] = np.minimum(self.smallest[rows], negative)
        bad = curvature <= 0.0
        self.escape[rows[bad]] = self.p[bad] / np.sqrt(self.pp[bad])[:, None]

    def _extend(self, alpha, last):
        """The next directions, of rows that go on."""
        alpha = alpha[~last]
        self.keep(~last)
        if not self.rows.size:
            return
        z = self.products.precondition(self.r, self.rows)
        rz = _dots(self.r, z)
        beta = rz / self.rz
        self.p *= beta[:, None]
        self.p += z
        self.rz = rz
        self.xp, self.pp = beta * (self.xp + alpha * self.pp), rz + beta**2 * self.pp
        for row, a, b in zip(self.rows, alpha, beta, strict=True):
            self.steps[row][0].append(a)
            self.steps[row][1].append(b)

    def solutions(self):
        smallest = np.minimum(self.smallest, [_least_ritz_value(*steps) for steps in self.steps])
        self.found[self.rows] = self.x
        return Solutions(
            self.found, self.residual, smallest, self.count, self.norm, self.decrease, self.escape
        )


def _least_ritz_value(alpha, beta):
    """The smallest eigenvalue of the Lanczos matrix of a conjugate-gradient run; inf where nothing was run."""
    if not alpha:
        return np.inf
    alpha, beta = np.array(alpha), np.array(beta[:-1])
    diagonal = 1.0 / alpha + np.concatenate([[0.0], beta / alpha[:-1]])
    off = np.sqrt(beta) / alpha[:-1]
    return np.linalg.eigvalsh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))[0]


def _dots(a, b):
    return np.einsum("ni,ni->n", a, b)


class HessianOperator:
    """A Hessian (D, D) that is only multiplied with, solved by conjugate gradients: a `Solvable`."""

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

    @property
    def indefinite(self) -> bool:
        """Whether a random vector meets negative curvature."""
        probe = np.random.default_rng(0).standard_normal((1, self.shape[0]))
        return bool(self.solutions(probe).smallest.min() <= 0.0)

    def solve(self, columns: np.ndarray) -> np.ndarray:
        """H^-1 columns, (D,) or (D, n). Raises IndefiniteHessian."""
        found = self.solutions(np.atleast_2d(columns.T))
        if found.smallest.min() <= 0.0:
            raise IndefiniteHessian(
                f"the Hessian has negative curvature (least Ritz value {found.smallest.min():.3g} "
                "of the preconditioned one): fit to convergence, or pass damping"
            )
        return found.x.T.reshape(columns.shape)

    def solutions(self, rows: np.ndarray) -> Solutions:
        """`Solutions` of all rows (n, D), whether or not H is definite."""
        parts = in_portions(lambda part: self._solutions(rows[part]), len(rows))
        names = ("x", "residual", "smallest")
        joined = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
        return Solutions(*joined, sum(part.products for part in parts))

    def _solutions(self, rows):
        products = _Rows(self.products, np.zeros(len(rows), int))
        return solve(products, rows, self.tolerance, damping=self.damping)

    def damped(self, damping: float) -> "HessianOperator":
        """H + damping I."""
        damping = self.damping + damping
        return HessianOperator(self.products, self.shape[0], damping, self.tolerance)


class KrylovFolds(FoldSolver):
    """H(w_o) of many folds, solved by conjugate gradients: `products(rows)` gives those of some folds."""

    def __init__(self, products: Callable, n_folds: int, damping: float = 0.0):
        self.products = products
        self.damping = damping
        self._smallest = np.full(n_folds, np.inf)

    @property
    def indefinite(self) -> np.ndarray:
        """(n_folds,) whether solving met negative curvature."""
        return self._smallest <= 0.0

    def solve(self, vectors: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """H(w_o)^-1 times one vector a fold; where H is indefinite, see `conjugate_gradient`."""
        rows = np.arange(len(vectors)) if rows is None else rows

        def portion(part):
            found = solve(self.products(rows[part]), vectors[part], damping=self.damping)
            self._smallest[rows[part]] = found.smallest
            return found.x

        return np.concatenate(in_portions(portion, len(vectors)))


def in_portions(function: Callable, n: int) -> list:
    """[function(numbers) for portions of 0 ... n - 1], in joblib's workers."""
    n_portions = max(-(-n // PORTION), min(effective_n_jobs(None), n))
    portions = np.array_split(np.arange(n), n_portions)
    return threads()(delayed(function)(rows) for rows in portions)
