"""LiSSA: solving with a Hessian that is only sampled, a few sites at a time (Agarwal, Bullins and Hazan 2017).

    x_(k+1) = b + x_k - (H_k + damping) x_k / scale,  H_k from a random sample;  x / scale tends to
    (H + damping)^-1 b

The paper of Zhu and Liu (2021), Section 6.3, prints the step without `scale`, which converges only
where H + damping is smaller than 2. The operator is as in `krylov`, and may have `sampled(rng,
size)`: the same from a few sites.
"""

import warnings
from dataclasses import dataclass

import numpy as np

from .krylov import conjugate_gradient

POWER_STEPS = 20  # products that find the largest eigenvalue
MARGIN = 2.0  # times the largest eigenvalue: samples have larger ones than H


class Disagreement(UserWarning):
    """The recursion did not converge: its result is not that of conjugate gradients."""


@dataclass
class Estimates:
    """x (n, D), the mean of the repetitions; for each row: spread, their root mean square distance from it, over |x|;

    residual: |b - (H + damping) x| / |b| with all of H; distance: from conjugate gradients, over
    |x|; agrees: whether that is at most `tolerance`; products: how many, sampled ones included;
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
    products, b, rng, damping=0.0, size=None, depth=200, repetitions=2, scale=None, tolerance=0.1
):
    """(H + damping) x = b for each row of b (n, D), as `Estimates`, checked against `conjugate_gradient`.

    size: of a sample, all of H if None; depth: steps of the recursion; scale: above the largest
    eigenvalue of every sampled H + damping, from power iterations if None. Rows that do not agree
    are marked, and warned of once; a recursion that diverges gives inf.
    """
    b = np.asarray(b, float)
    scale = scale or MARGIN * (largest_eigenvalue(products, b.shape[1], rng) + damping)
    repetitions = 1 if size is None else repetitions  # all of H gives the same each time
    with np.errstate(over="ignore", invalid="ignore"):
        runs = np.array(
            [_recursion(products, b, rng, damping, size, depth, scale) for _ in range(repetitions)]
        )
    x = np.where(np.isfinite(runs).all(axis=0), runs.mean(axis=0), np.inf)
    reference = conjugate_gradient(products, b, damping=damping)
    found = _judged(products, b, x, runs, reference, damping, tolerance)
    found.products, found.scale = repetitions * depth * len(b) + reference.products, scale
    if not found.agrees.all():
        message = f"lissa: {(~found.agrees).sum()} of {len(b)} rows differ from conjugate gradients by more than"
        warnings.warn(
            f"{message} {tolerance:g}: more depth, samples or damping needed",
            Disagreement,
            stacklevel=2,
        )
    return found


def _recursion(products, b, rng, damping, size, depth, scale):
    """One repetition, (n, D)."""
    x, rows = b, np.arange(len(b))
    for _ in range(depth):
        operator = products if size is None else products.sampled(rng, size)
        x = b + x - (operator.multiply(x, rows) + damping * x) / scale
    return x / scale


def _judged(products, b, x, runs, reference, damping, tolerance):
    finite = np.isfinite(x).all(axis=1)
    safe, norm = np.where(finite[:, None], x, 0.0), np.linalg.norm
    left = b - products.multiply(safe, np.arange(len(b))) - damping * safe
    size = norm(reference.x, axis=1)
    distance = np.where(finite, norm(safe - reference.x, axis=1) / size, np.inf)
    spread = (
        np.sqrt(np.mean(norm(np.where(finite[:, None], runs - safe, 0.0), axis=2) ** 2, axis=0))
        / size
    )
    residual = np.where(finite, norm(left, axis=1) / norm(b, axis=1), np.inf)
    agrees = (distance <= tolerance) & (reference.smallest > 0.0)
    return Estimates(x, np.where(finite, spread, np.inf), residual, distance, agrees, 0, 0.0)


def largest_eigenvalue(products, dim, rng, shift=0.0):
    """Of the first row's H, or of shift - H, by power iterations from a random vector; a little below the true one."""
    v, row = rng.standard_normal((1, dim)), np.zeros(1, int)
    for _ in range(POWER_STEPS):
        v = v / np.linalg.norm(v)
        v = shift * v - products.multiply(v, row) if shift else products.multiply(v, row)
    return float(np.linalg.norm(v))
