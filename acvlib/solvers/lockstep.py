"""Quasi-Newton steps of all folds in lockstep: one Hessian at first, which gradients alone mend.

    theta_o <- theta_o - B_o dF/dtheta(theta_o, w_o),    B_o = [(1 - m) H]^-1, then by BFGS

A move that raises F is shortened. A fold has converged when its decrement sqrt(g' B_o g) is at most
the tolerance, and the step to it has confirmed B_o by shrinking the decrement as it said; but not
if it met negative curvature on the way. From a start in general position it is then at a minimum,
and moves once more, which brings it nearer than the decrement says and costs nothing.

Source: Nocedal and Wright (2006), algorithm 6.1; Lee et al. (2016).
"""

import numpy as np

from ..derivatives import Derivatives
from ..folds import Folds
from ..model import Refits
from ..weighting import unit_of

MAX_STEPS = 40
SLACK = 1e-10  # relative rounding error of an objective, below which descent cannot be seen
ROUNDED = 1e-9  # standard errors within which a decrement is rounding
CONFIRMED = 0.3  # of its decrement, to which a step must bring a fold for B_o to be trusted
CURVED = 1e-8  # curvature along a move, relative to that of B_o, below which it mends nothing
SHORTER = 0.25  # of a move that raised F


def lockstep(
    derivatives: Derivatives,
    params: np.ndarray,
    folds: Folds,
    tolerance: float,
    inverses: np.ndarray,
    found: Refits,
    looks: int | None = None,
) -> None:
    """Refit each fold from params (D,) or (n, D), without a Hessian of its own; write to `found`.

    inverses (n, D, D): the first B_o, overwritten. Folds that have not converged are for `newton`.
    looks: at most so many steps, whether they descend or not.
    """
    n = len(folds)
    unit = unit_of(derivatives.model)
    rounded = ROUNDED * unit
    found.params[:] = params
    values, gradients = derivatives.fold_gradients(params, folds, looks is None)
    values = np.array(values)
    gradients = np.array(gradients)
    found.evaluations["gradient"] += n
    scale = np.ones(n)
    rows = np.arange(n)
    upwards = np.ones(n, bool)
    for _ in range(looks or MAX_STEPS):
        moves = -times(inverses[rows], gradients[rows])
        before = found.decrement[rows]
        found.decrement[rows] = np.sqrt(np.maximum(-_dots(moves, gradients[rows]), 0.0))
        small = found.decrement[rows] <= np.maximum(tolerance, rounded)
        confirmed = found.decrement[rows] <= np.maximum(CONFIRMED * before, rounded)
        confirmed &= np.isfinite(before)
        found.converged[rows] = small & confirmed & upwards[rows]
        going = ~(small & confirmed)
        found.params[rows[found.converged[rows]]] += moves[found.converged[rows]]
        rows = rows[going]
        if not rows.size:
            break
        moves = scale[rows, None] * moves[going]
        ends = found.params[rows] + moves
        value, gradient = derivatives.fold_gradients(ends, folds[rows], looks is None)
        found.evaluations["gradient"] += len(rows)
        changes = gradient - gradients[rows]
        changes[~np.isfinite(changes).all(axis=1)] = 0.0  # of a move that went too far
        upwards[rows] &= mend(inverses, rows, moves, changes)
        good = np.isfinite(gradient).all(axis=1)
        if looks is None:
            good = value <= values[rows] + SLACK * (unit**2 + abs(values[rows]))
        scale[rows] = np.where(good, 1.0, SHORTER * scale[rows])
        taken = rows[good]
        found.params[taken] += moves[good]
        if looks is None:
            values[taken] = value[good]
        gradients[taken] = gradient[good]
        found.steps[taken] += 1
    found.residual[:] = np.linalg.norm(gradients, axis=1)


def mend(
    inverses: np.ndarray, rows: np.ndarray, moves: np.ndarray, changes: np.ndarray
) -> np.ndarray:
    """Learn from the change of the gradient along each move where F is curved upwards: which are.

    B <- (I - s y'/y's) B (I - y s'/y's) + s s'/y's
       = B + s u' + u s',   u = [s (1 + y'By/y's) / 2 - By] / y's
    """
    turned = times(inverses[rows], changes)
    along = _dots(moves, changes)
    curvature = _dots(changes, turned)
    curved = along > CURVED * curvature
    s, By, ys, yBy = (each[curved] for each in (moves, turned, along[:, None], curvature[:, None]))
    half = s[:, :, None] * ((0.5 * s * (1.0 + yBy / ys) - By) / ys)[:, None]
    half += half.swapaxes(1, 2).copy()
    inverses[rows[curved]] += half
    return curved


def times(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return (matrices @ vectors[..., None])[..., 0]


def _dots(a, b):
    return np.einsum("ni,ni->n", a, b)
