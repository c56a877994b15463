"""Newton's method with Levenberg's damping for the clustering of the genomics model.

A step solves [H + damping diag(|H|)] step = -gradient, the diagonal bounded from below; damping
rises until the matrix is positive definite and the objective falls, and drops again after a step,
so that the last steps are Newton's.
"""

from typing import NamedTuple

import numpy as np

from acvlib.solvers.inverse import DenseHessian

from .mixture import GeneMixture, Positions

MAX_STEPS = 200
GRADIENT = 1e-9  # norm that ends the search
SLACK = 1e-12  # relative rounding error of the objective, below which descent cannot be seen
FLOOR = 1e-6  # of the largest: the least diagonal entry that damping goes by
GIVE_UP = 1e8  # damping beyond which no step will descend


class Minimum(NamedTuple):
    """Where a search ended; decrement: the distance left, in standard errors, inf at a saddle."""

    params: np.ndarray
    indefinite: bool
    decrement: float
    steps: int


def minimise(mixture: GeneMixture, start: np.ndarray, positions: Positions) -> Minimum:
    """Minimise the objective of a mixture from `start`."""
    params = start
    damping = 0.0
    for steps in range(MAX_STEPS + 1):
        gradient = mixture.gradient(params, positions)
        hessian = DenseHessian(mixture.hessian(params, positions))
        if np.linalg.norm(gradient) <= GRADIENT or damping > GIVE_UP or steps == MAX_STEPS:
            break
        params, damping = _step(mixture, params, positions, gradient, hessian.matrix, damping)
    indefinite = hessian.indefinite
    decrement = np.inf if indefinite else np.sqrt(gradient @ hessian.solve(gradient))
    return Minimum(params, indefinite, float(decrement), steps)


def _step(mixture, params, positions, gradient, hessian, damping):
    """(new params, damping for the next step); the same params where no damping brings descent."""
    value = mixture.objective(params, positions)
    highest = value + SLACK * (1.0 + abs(value))
    diagonal = np.abs(np.diag(hessian))
    scale = np.maximum(diagonal, FLOOR * diagonal.max())
    while damping <= GIVE_UP:
        damped = DenseHessian(hessian + np.diag(damping * scale))
        if not damped.indefinite:
            trial = params - damped.solve(gradient)
            if mixture.objective(trial, positions) <= highest:
                return trial, damping / 10.0 if damping > 1e-3 else 0.0
        damping = max(4.0 * damping, 1e-4)
    return params, damping
