"""Conjugate gradients for many right-hand sides together, one operator for each.

The operator of row i is products.multiply(vectors, rows) and its preconditioner, an approximate
inverse, products.precondition(vectors, rows); both take and return (len(rows), D) for the rows of
right-hand sides asked for. It may have `rough`, a cheaper operator close to it, from which `solve`
takes its steps.
"""

import warnings
from typing import Any

import numpy as np

FLAT = 1e-3  # curvature, relative to the preconditioner's, that counts as no less curved
MAX_ITERATIONS = 1000
NEARER = 0.7  # of its residual, to which a correction by the rough operator must bring a row


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
    max_iterations: int = MAX_ITERATIONS,
    damping: float = 0.0,
    radius: float = np.inf,
) -> Solutions:
    """Solve (H_i + damping) x_i = b_i for each row of b (n, D), to |residual| <= tolerance |b|.

    A row that has converged takes no further products. A row that meets negative curvature goes
    along it to `radius`, a trust region in the preconditioner's norm, and stops there, as does one
    that would leave it otherwise; without a radius it takes the step that the absolute curvature
    calls for.

    Source: Steihaug (1983); Nash (2000).
    """
    b = np.asarray(b, float)
    found = Solutions(b)
    size = np.linalg.norm(b, axis=1)
    tolerance = np.broadcast_to(tolerance, len(b))
    rows = np.flatnonzero(found.residual > tolerance)
    r = b[rows]
    z = products.precondition(r, rows)
    p = z.copy()  # z may be r itself
    rz = _dots(r, z)
    pp = rz.copy()  # p'Mp; x'Mp and x'Mx are 0
    xp, xx = np.zeros((2, len(rows)))
    for _ in range(max_iterations if rows.size else 0):
        product = products.multiply(p, rows)
        if damping:
            product = product + damping * p
        found.products += len(rows)
        curved = _dots(p, product)
        last = curved <= 0.0
        found.escape[rows[last]] = p[last] / np.sqrt(pp[last])[:, None]
        found.curvature[rows] = np.minimum(found.curvature[rows], curved / pp)
        alpha = rz / np.where(last, np.maximum(-curved, FLAT * pp), curved)
        if np.isfinite(radius):
            inside = np.maximum(xp**2 + pp * (radius**2 - xx), 0.0)
            to_edge = (np.sqrt(inside) - xp) / pp
            last |= alpha >= to_edge
            alpha = np.where(last, to_edge, alpha)
        found.x[rows] += alpha[:, None] * p
        r -= alpha[:, None] * product
        xx += alpha * (2.0 * xp + alpha * pp)
        found.residual[rows] = np.sqrt(_dots(r, r)) / size[rows]
        found.norm[rows] = np.sqrt(np.maximum(xx, 0.0))
        going = ~last & (found.residual[rows] > tolerance[rows])
        ended = rows[~going]
        found.decrease[ended] = 0.5 * _dots(found.x[ended], b[ended] + r[~going])
        xp += alpha * pp
        if ended.size:
            rows, r, p, rz, pp, xp, xx = (each[going] for each in (rows, r, p, rz, pp, xp, xx))
            if not rows.size:
                break
        z = products.precondition(r, rows)
        before = rz
        rz = _dots(r, z)
        beta = rz / before
        p *= beta[:, None]
        p += z
        xp *= beta
        pp = rz + beta**2 * pp
    found.decrease[rows] = 0.5 * _dots(found.x[rows], b[rows] + r)
    return found


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
    unsolved = (found.residual > tolerance) & (found.curvature > 0.0)
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
    found = Solutions(b)
    size = np.linalg.norm(b, axis=1)
    rows = np.flatnonzero(found.residual)
    left = b[rows]
    accuracy = 0.5 * np.sqrt(tolerance)
    stalled = []
    while rows.size:
        rough = ChosenRows(products.rough, rows)
        step = conjugate_gradient(rough, left, accuracy, max_iterations, damping)
        found.x[rows] += step.x
        found.curvature[rows] = np.minimum(found.curvature[rows], step.curvature)
        left = b[rows] - products.multiply(found.x[rows], rows) - damping * found.x[rows]
        before = found.residual[rows]
        after = np.linalg.norm(left, axis=1) / size[rows]
        found.residual[rows] = after
        found.products += step.products + len(rows)
        more = (after > tolerance) & (step.curvature > 0.0)
        nearer = after < NEARER * before
        stalled.extend(rows[more & ~nearer])
        rows = rows[more & nearer]
        left = left[more & nearer]
        accuracy = np.minimum(0.7 * tolerance / found.residual[rows], 0.5)  # what is still wanted
    if stalled:
        rows = np.array(stalled)
        chosen = ChosenRows(products, rows)
        alone = conjugate_gradient(chosen, b[rows], tolerance, max_iterations, damping)
        for name in ("x", "residual", "curvature"):
            getattr(found, name)[rows] = getattr(alone, name)
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


def _dots(a, b):
    return np.einsum("ni,ni->n", a, b)
