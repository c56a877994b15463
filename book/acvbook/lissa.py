"""LiSSA: solve with a Hessian that is only sampled, a few sites at a time.

    x_(k+1) = b + x_k - (H_k + damping) x_k / scale,   H_k from a random sample

x / scale tends to (H + damping)^-1 b. Zhu and Liu (2021), Section 6.3, print the step without
`scale`, which converges only where H + damping is smaller than 2. The operator is as in `krylov`,
and may have `sampled(rng, size)`: the same from a few sites.

Source: Agarwal, Bullins and Hazan (2017).
"""

from typing import Any, NamedTuple

import numpy as np

from acvlib.solvers.krylov import conjugate_gradient

POWER_STEPS = 20  # products that find the largest eigenvalue
MARGIN = 2.0  # times the largest eigenvalue: samples have larger ones than H


def lissa(
    products: Any,
    b: np.ndarray,
    rng: np.random.Generator,
    damping: float = 0.0,
    size: int | None = None,
    depth: int = 200,
    scale: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """(x, distance) of (H + damping) x = b for each row of b (n, D): x is inf where the recursion
    diverged; distance: from conjugate gradients, over |x|.

    size: of a sample, all of H if None; depth: steps of the recursion; scale: above the largest
    eigenvalue of every sampled H + damping, from power iterations if None.
    """
    x = b = np.asarray(b, float)
    rows = np.arange(len(b))
    scale = scale or MARGIN * (largest_eigenvalue(products, b.shape[1], rng) + damping)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(depth):
            operator = products if size is None else products.sampled(rng, size)
            x = b + x - (operator.multiply(x, rows) + damping * x) / scale
        x = x / scale
        x[~np.isfinite(x).all(axis=1)] = np.inf
    reference = conjugate_gradient(products, b, damping=damping).x
    return x, np.linalg.norm(x - reference, axis=1) / np.linalg.norm(reference, axis=1)


def steps_needed(condition: float, dim: int, rng: np.random.Generator) -> int:
    """Steps until `lissa` agrees with conjugate gradients, to a tenth, for eigenvalues from
    1 / condition to 1, evenly in their logarithms: a fifth more at each trial.
    """
    spectrum, depth = Diagonal(np.geomspace(1.0 / condition, 1.0, dim)), 1
    b = rng.standard_normal((1, dim))
    while lissa(spectrum, b, rng, depth=depth, scale=MARGIN)[1] > 0.1:
        depth = depth + 1 + depth // 5
    return depth


class Diagonal(NamedTuple):
    """An operator with these eigenvalues (D,)."""

    eigenvalues: np.ndarray

    def multiply(self, vectors, rows):
        return vectors * self.eigenvalues

    def precondition(self, vectors, rows):
        return vectors.copy()


def largest_eigenvalue(products: Any, dim: int, rng: np.random.Generator) -> float:
    """Estimate that of the first row's H from below, by power iterations."""
    v = rng.standard_normal((1, dim))
    for _ in range(POWER_STEPS):
        v = products.multiply(v / np.linalg.norm(v), np.zeros(1, int))
    return float(np.linalg.norm(v))
