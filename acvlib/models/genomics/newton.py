"""Newton's method with Levenberg's damping for the clustering of the genomics model.

A step solves [H + damping diag(|H|)] step = -gradient by Cholesky, the diagonal bounded from below; damping rises
until the matrix is positive definite and the objective falls, and drops again after a step, so that the last steps
are Newton's.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

MAX_STEPS = 200
RESIDUAL = 1e-9  # norm of the gradient that ends the search
SLACK = 1e-12  # relative rounding error of the objective, below which descent cannot be seen
FLOOR = 1e-6  # of the largest: the least diagonal entry that damping goes by
GIVE_UP = 1e8  # damping beyond which no step will descend


class Minimum(NamedTuple):
    """params; smallest_eigenvalue of the Hessian; decrement in standard errors, inf at a saddle; steps taken."""

    params: np.ndarray
    smallest_eigenvalue: float
    decrement: float
    steps: int


def minimise(mixture, start, positions):
    """The `Minimum` of a `GeneMixture`'s objective that damped Newton steps reach from `start`."""
    params, damping, steps = start, 0.0, 0
    gradient, hessian = mixture.gradient(params, positions), mixture.hessian(params, positions)
    while np.linalg.norm(gradient) > RESIDUAL and damping <= GIVE_UP and steps < MAX_STEPS:
        params, damping = _step(mixture, params, positions, gradient, hessian, damping)
        gradient, hessian = mixture.gradient(params, positions), mixture.hessian(params, positions)
        steps += 1
    smallest = float(np.linalg.eigvalsh(hessian)[0])
    decrement = np.sqrt(gradient @ np.linalg.solve(hessian, gradient)) if smallest > 0.0 else np.inf
    return Minimum(params, smallest, float(decrement), steps)


def _step(mixture, params, positions, gradient, hessian, damping):
    """(new params, damping for the next step); params as they are where no damping brings descent."""
    value, diagonal = mixture.objective(params, positions), np.abs(np.diag(hessian))
    scale = np.maximum(diagonal, FLOOR * diagonal.max())
    while damping <= GIVE_UP:
        trial = params + _solve(hessian + np.diag(damping * scale), -gradient)
        if mixture.objective(trial, positions) <= value + SLACK * (1.0 + abs(value)):
            return trial, damping / 10.0 if damping > 1e-3 else 0.0
        damping = max(4.0 * damping, 1e-4)
    return params, damping


def _solve(matrix, right):
    """matrix^-1 right; nan, which no objective accepts, where the matrix is not positive definite."""
    try:
        return cho_solve(cho_factor(matrix), right)
    except np.linalg.LinAlgError:
        return np.full_like(right, np.nan)
