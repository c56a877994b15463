"""Conjugate gradients for many right-hand sides together, one operator for each.

The operator of row i is products.multiply(vectors, rows) and its preconditioner, an approximate
inverse, products.precondition(vectors, rows); both take and return (len(rows), D) for the rows of
right-hand sides asked for. It may have `rough`, a cheaper operator close to it, from which `solve`
takes its steps.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal

FLAT = 1e-3  # curvature, relative to the preconditioner's, that counts as no less curved
MAX_ITERATIONS = 1000
NEARER = 0.7  # of its residual, to which a correction by the rough operator must bring a row


class UnsolvedSystem(UserWarning):
    """A linear system is left unsolved: the step that it gives is inaccurate."""


@dataclass
class Solutions:
    """Solutions x (n, D) of n systems, and what was met on the way.

    residual (n,): |b - H x| / |b|; smallest (n,): see `conjugate_gradient`; products: how many were
    taken; with a trust region norm (n,), |x| in the preconditioner's norm, and decrease (n,),
    b'x - x'H x / 2; escape (n, D): the direction of negative curvature that a row met, of length 1
    in that norm, else 0.
    """

    x: np.ndarray
    residual: np.ndarray
    smallest: np.ndarray
    products: int = 0
    norm: Any = None
    decrease: Any = None
    escape: Any = None


def conjugate_gradient(
    products: Any,
    b: np.ndarray,
    tolerance: float | np.ndarray = 1e-6,
    max_iterations: int = MAX_ITERATIONS,
    damping: float = 0.0,
    radius: float = np.inf,
) -> Solutions:
    """Solve (H_i + damping) x_i = b_i for each row of b (n, D), to |residual| <= tolerance |b|.

    A row that has converged takes no further products. A row that meets negative curvature goes
    along it to `radius`, a trust region in the preconditioner's norm, and stops there, as does one
    that would leave it otherwise; without a radius it takes the step that the absolute curvature
    calls for. `smallest` is the least Ritz value of M^-1 H, M the preconditioner's inverse: an
    upper bound on the smallest eigenvalue, whose sign is H's; not above 0 where negative curvature
    was met.

    Source: Steihaug (1983); Nash (2000).
    """
    state = _State(products, np.asarray(b, float), damping, radius)
    for _ in range(max_iterations):
        state.keep((state.residual > tolerance)[state.rows])
        if not state.rows.size:
            break
        state.step()
    return state.solutions()


def solve(
    products: Any,
    b: np.ndarray,
    tolerance: float = 1e-6,
    damping: float = 0.0,
    max_iterations: int = MAX_ITERATIONS,
) -> Solutions:
    """Solve as `conjugate_gradient`, by refinement where `products.rough` is a cheaper operator.

    Residuals come from the accurate operator, corrections from conjugate gradients on the rough
    one, until the residuals are small. A row whose rough operator is indefinite stops at its first
    correction. A row that a correction does not bring nearer is solved by the accurate operator
    alone: its least curvature is below what the two differ by, and may be negative.

    Warns of rows that are left above the tolerance (`UnsolvedSystem`).
    """
    if getattr(products, "rough", None) is None:
        found = conjugate_gradient(products, b, tolerance, max_iterations, damping)
    else:
        found = _refined(products, b, tolerance, damping, max_iterations)
    unsolved = (found.residual > tolerance) & (found.smallest > 0.0)
    if unsolved.any():
        warnings.warn(
            f"{unsolved.sum()} of {len(b)} linear systems are left with relative residuals up to "
            f"{found.residual[unsolved].max():.2g}, above {tolerance:.2g}, after {max_iterations} "
            "products with the Hessian: steps are no better than that. Scale the parameters "
            "alike, or pass damping",
            UnsolvedSystem,
            stacklevel=2,
        )
    return found


def _refined(products, b, tolerance, damping, max_iterations):
    found = Solutions(np.zeros_like(b), np.zeros(len(b)), np.full(len(b), np.inf))
    size = np.linalg.norm(b, axis=1)
    rows = np.flatnonzero(size)
    found.residual[rows] = 1.0
    left = b[rows]
    accuracy = 0.5 * np.sqrt(tolerance)
    stalled = []
    while rows.size:
        rough = ChosenRows(products.rough, rows)
        step = conjugate_gradient(rough, left, accuracy, max_iterations, damping)
        found.x[rows] += step.x
        found.smallest[rows] = np.minimum(found.smallest[rows], step.smallest)
        left = b[rows] - products.multiply(found.x[rows], rows) - damping * found.x[rows]
        before = found.residual[rows]
        after = np.linalg.norm(left, axis=1) / size[rows]
        found.residual[rows] = after
        found.products += step.products + len(rows)
        more = (after > tolerance) & (step.smallest > 0.0)
        nearer = after < NEARER * before
        stalled.extend(rows[more & ~nearer])
        rows = rows[more & nearer]
        left = left[more & nearer]
        accuracy = np.minimum(0.7 * tolerance / found.residual[rows], 0.5)  # what is still wanted
    if stalled:
        rows = np.array(stalled)
        alone = conjugate_gradient(
            ChosenRows(products, rows), b[rows], tolerance, max_iterations, damping
        )
        found.x[rows] = alone.x
        found.residual[rows] = alone.residual
        found.smallest[rows] = alone.smallest
        found.products += alone.products
    return found


class ChosenRows:
    """Some rows of `products`, numbered anew; a row may be taken more than once."""

    def __init__(self, products: Any, chosen: np.ndarray):
        self.products = products
        self.chosen = chosen

    @property
    def rough(self) -> "ChosenRows | None":
        """The same rows of `products.rough`."""
        rough = getattr(self.products, "rough", None)
        return rough and ChosenRows(rough, self.chosen)

    def multiply(self, vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """As `products.multiply`."""
        return self.products.multiply(vectors, self.chosen[rows])

    def precondition(self, vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """As `products.precondition`."""
        return self.products.precondition(vectors, self.chosen[rows])


class _State:
    """The rows that are still iterated, and what is known of all.

    x, residual r and direction p are in the usual notation; pp, xp and xx are the products p'Mp,
    x'Mp and x'Mx in the preconditioner's norm.
    """

    ACTIVE = ("rows", "x", "r", "p", "rz", "pp", "xp", "xx")

    def __init__(self, products, b, damping, radius):
        n = len(b)
        self.products = products
        self.b = b
        self.damping = damping
        self.radius = radius
        self.size = np.linalg.norm(b, axis=1)
        self.rows = np.arange(n)
        self.x = np.zeros_like(b)
        self.r = b.copy()
        self.p = products.precondition(self.r, self.rows).copy()  # it may be r itself
        self.rz = _dots(self.r, self.p)
        self.pp = self.rz.copy()
        self.xp = np.zeros(n)
        self.xx = np.zeros(n)
        self.found = np.zeros_like(b)
        self.residual = np.where(self.size > 0.0, 1.0, 0.0)
        self.smallest = np.full(n, np.inf)
        self.norm = np.zeros(n)
        self.decrease = np.zeros(n)
        self.escape = np.zeros_like(b)
        self.count = 0
        self.lanczos = [([], []) for _ in b]  # alpha and beta of each row

    def keep(self, mask):
        """Go on with the rows of the mask alone."""
        if mask.all():
            return
        self.found[self.rows[~mask]] = self.x[~mask]
        for name in self.ACTIVE:
            setattr(self, name, getattr(self, name)[mask])

    def step(self):
        product = self.products.multiply(self.p, self.rows)
        if self.damping:
            product = product + self.damping * self.p
        self.count += len(self.rows)
        curvature = _dots(self.p, product)
        alpha, last = self._lengths(curvature)
        moved = alpha[:, None] * product
        self.r -= moved
        self.x += np.multiply(self.p, alpha[:, None], out=moved)
        self.xx += alpha * (2.0 * self.xp + alpha * self.pp)
        self._record(curvature)
        self._extend(alpha, last)

    def _lengths(self, curvature):
        """Step lengths, cut at the trust region, and which rows end with theirs."""
        bad = curvature <= 0.0
        safe = np.where(bad, np.maximum(-curvature, FLAT * self.pp), curvature)
        alpha = self.rz / safe
        if np.isinf(self.radius):
            return alpha, bad
        inside = self.xp**2 + self.pp * (self.radius**2 - self.xx)
        to_edge = (np.sqrt(np.maximum(inside, 0.0)) - self.xp) / self.pp
        last = bad | (alpha >= to_edge)
        return np.where(last, to_edge, alpha), last

    def _record(self, curvature):
        rows = self.rows
        self.residual[rows] = np.sqrt(_dots(self.r, self.r)) / self.size[rows]
        if np.isfinite(self.radius):
            self.norm[rows] = np.sqrt(np.maximum(self.xx, 0.0))
            self.decrease[rows] = 0.5 * _dots(self.x, self.b[rows] + self.r)
        bad = curvature <= 0.0
        negative = np.where(bad, curvature / self.pp, np.inf)
        self.smallest[rows] = np.minimum(self.smallest[rows], negative)
        self.escape[rows[bad]] = self.p[bad] / np.sqrt(self.pp[bad])[:, None]

    def _extend(self, alpha, last):
        """Find the next directions of the rows that go on."""
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
        self.xp = beta * (self.xp + alpha * self.pp)
        self.pp = rz + beta**2 * self.pp
        for row, a, b in zip(self.rows, alpha, beta, strict=True):
            alphas, betas = self.lanczos[row]
            alphas.append(a)
            betas.append(b)

    def solutions(self):
        self.found[self.rows] = self.x
        ritz = [_least_ritz_value(*row) for row in self.lanczos]
        return Solutions(
            x=self.found,
            residual=self.residual,
            smallest=np.minimum(self.smallest, ritz),
            products=self.count,
            norm=self.norm,
            decrease=self.decrease,
            escape=self.escape,
        )


def _least_ritz_value(alpha, beta):
    """The smallest eigenvalue of a run's Lanczos matrix; inf where nothing was run."""
    if not alpha:
        return np.inf
    alpha = np.array(alpha)
    beta = np.array(beta[:-1])
    diagonal = 1.0 / alpha
    diagonal[1:] += beta / alpha[:-1]
    return eigvalsh_tridiagonal(diagonal, np.sqrt(beta) / alpha[:-1])[0]


def _dots(a, b):
    return np.einsum("ni,ni->n", a, b)
