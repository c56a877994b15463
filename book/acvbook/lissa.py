"""LiSSA: solve with a Hessian that is only sampled, a few sites at a time.

    x_(k+1) = b + x_k - (H_k + damping) x_k / scale,   H_k from a random sample

x / scale tends to (H + damping)^-1 b. Zhu and Liu (2021), Section 6.3, print the step without
`scale`, which converges only where H + damping is smaller than 2. The operator is as in `krylov`,
and may have `sampled(rng, size)`: the same from a few sites.

Source: Agarwal, Bullins and Hazan (2017).
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from acvlib.solvers.krylov import conjugate_gradient

POWER_STEPS = 20  # products that find the largest eigenvalue
MARGIN = 2.0  # times the largest eigenvalue: samples have larger ones than H


class Disagreement(UserWarning):
    """The recursion did not converge: its result is not that of conjugate gradients."""


@dataclass
class Estimates:
    """Solutions x (n, D), the mean of the repetitions, and how far each row may be off.

    spread (n,): root mean square distance of the repetitions from x, over |x|; residual (n,):
    |b - (H + damping) x| / |b| with all of H; distance (n,): from conjugate gradients, over |x|;
    agrees (n,): whether that is at most the tolerance; products: how many, sampled ones included;
    scale: as used.
    """

    x: np.ndarray
    spread: np.ndarray
    residual: np.ndarray
    distance: np.ndarray
    agrees: np.ndarray
    products: int
    scale: float


def lissa(
    products: Any,
    b: np.ndarray,
    rng: np.random.Generator,
    damping: float = 0.0,
    size: int | None = None,
    depth: int = 200,
    repetitions: int = 2,
    scale: float | None = None,
    tolerance: float = 0.1,
) -> Estimates:
    """Solve (H + damping) x = b for each row of b (n, D), and check it by conjugate gradients.

    size: of a sample, all of H if None; depth: steps of the recursion; scale: above the largest
    eigenvalue of every sampled H + damping, from power iterations if None. Rows that do not agree
    are marked, and warned of once; a recursion that diverges gives inf.
    """
    b = np.asarray(b, float)
    scale = scale or MARGIN * (largest_eigenvalue(products, b.shape[1], rng) + damping)
    repetitions = 1 if size is None else repetitions  # all of H gives the same each time
    with np.errstate(over="ignore", invalid="ignore"):
        rows = [
            _recursion(products, b, rng, damping, size, depth, scale) for _ in range(repetitions)
        ]
    runs = np.array(rows)
    reference = conjugate_gradient(products, b, damping=damping)
    found = _compared(products, b, runs, reference, damping, tolerance)
    found.products = repetitions * depth * len(b) + reference.products
    found.scale = scale
    lost = (~found.agrees).sum()
    if lost:
        message = f"lissa: {lost} of {len(b)} rows differ from conjugate gradients by more than"
        remedy = "more depth, samples or damping needed"
        warnings.warn(f"{message} {tolerance:g}: {remedy}", Disagreement, stacklevel=2)
    return found


def _recursion(products, b, rng, damping, size, depth, scale):
    """One repetition, (n, D)."""
    x = b
    rows = np.arange(len(b))
    for _ in range(depth):
        operator = products if size is None else products.sampled(rng, size)
        x = b + x - (operator.multiply(x, rows) + damping * x) / scale
    return x / scale


def _compared(products, b, runs, reference, damping, tolerance):
    """`Estimates` of the runs (repetitions, n, D); a row that is not finite becomes inf."""
    finite = np.isfinite(runs).all(axis=(0, 2))
    runs = np.where(finite[:, None], runs, 0.0)
    x = runs.mean(axis=0)
    left = b - products.multiply(x, np.arange(len(b))) - damping * x
    size = _length(reference.x)
    distance = np.where(finite, _length(x - reference.x) / size, np.inf)
    spread = np.sqrt(np.mean(_length(runs - x) ** 2, axis=0)) / size
    return Estimates(
        x=np.where(finite[:, None], x, np.inf),
        spread=np.where(finite, spread, np.inf),
        residual=np.where(finite, _length(left) / _length(b), np.inf),
        distance=distance,
        agrees=(distance <= tolerance) & (reference.curvature > 0.0),
        products=0,
        scale=0.0,
    )


def _length(vectors):
    return np.linalg.norm(vectors, axis=-1)


def largest_eigenvalue(
    products: Any, dim: int, rng: np.random.Generator, shift: float = 0.0
) -> float:
    """Estimate that of the first row's H, or of shift - H, from below, by power iterations."""
    v = rng.standard_normal((1, dim))
    row = np.zeros(1, int)
    for _ in range(POWER_STEPS):
        v = v / np.linalg.norm(v)
        product = products.multiply(v, row)
        v = shift * v - product if shift else product
    return float(np.linalg.norm(v))
