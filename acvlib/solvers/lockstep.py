"""Quasi-Newton steps of all folds in lockstep: one Hessian at first, which gradients alone mend.

    theta_o <- theta_o - B_o dF/dtheta(theta_o, w_o),    B_o = [(1 - m) H]^-1, then by BFGS

No B_o is formed: `first` solves with the first one, and the updates are kept as pairs of vectors.
A move that raises F is shortened. A fold has converged when its decrement sqrt(g' B_o g) is at most
the tolerance, and the step to it has confirmed B_o by shrinking the decrement as it said; but not
if it met negative curvature on the way. From a start in general position it is then at a minimum,
and moves once more, which brings it nearer than the decrement says and costs nothing.

Source: Nocedal and Wright (2006), algorithms 6.1 and 7.4; Lee et al. (2016).
"""

import numpy as np

from ..derivatives import Derivatives
from ..folds import Folds
from ..model import Refits
from .inverse import FoldSolver

MAX_STEPS = 40
SLACK = 1e-10  # relative rounding error of an objective, below which descent cannot be seen
ROUNDED = 1e-9  # standard errors within which a decrement is rounding
CONFIRMED = 0.3  # of its decrement, to which a step must bring a fold for B_o to be trusted
CURVED = 1e-8  # curvature along a move, relative to that of B_o, below which no pair is kept
SHORTER = 0.25  # of a move that raised F


class _Inverse:
    """B_o of every fold."""

    def __init__(self, first):
        self.first = first
        self.pairs = []

    def multiply(self, vectors: np.ndarray, rows: np.ndarray):
        """B_o times one vector a fold of the rows."""
        shares = []
        for moves, changes, weights in reversed(self.pairs):
            share = weights[rows] * _dots(moves[rows], vectors)
            vectors = vectors - share[:, None] * changes[rows]
            shares.append(share)
        out = self.first.solve(vectors, rows)
        for (moves, changes, weights), share in zip(self.pairs, reversed(shares), strict=True):
            excess = share - weights[rows] * _dots(changes[rows], out)
            out = out + excess[:, None] * moves[rows]
        return out

    def mend(self, rows: np.ndarray, moves: np.ndarray, changes: np.ndarray, n_folds: int):
        """Keep the change of the gradient along each move where F is curved upwards: which are."""
        along = _dots(moves, changes)
        curved = along > CURVED * _dots(changes, self.multiply(changes, rows))
        kept = rows[curved]
        pair = np.zeros((2, n_folds, moves.shape[1]))
        pair[:, kept] = moves[curved], changes[curved]
        weights = np.zeros(n_folds)
        weights[kept] = 1.0 / along[curved]
        self.pairs.append((*pair, weights))
        return curved


def lockstep(
    derivatives: Derivatives,
    params: np.ndarray,
    folds: Folds,
    tolerance: float,
    first: FoldSolver,
    found: Refits,
) -> None:
    """Refit each fold from params (D,) or (n, D), without a Hessian of its own; write to `found`.

    first: what solves with the first B_o^-1. Folds that have not converged are for `newton`.
    """
    n = len(folds)
    found.params[:] = params
    values, gradients = (np.array(part) for part in derivatives.fold_gradients(params, folds))
    found.evaluations["gradient"] += n
    inverse = _Inverse(first)
    scale = np.ones(n)
    rows = np.arange(n)
    upwards = np.ones(n, bool)
    for _ in range(MAX_STEPS):
        moves = -inverse.multiply(gradients[rows], rows)
        before = found.decrement[rows]
        found.decrement[rows] = np.sqrt(np.maximum(-_dots(moves, gradients[rows]), 0.0))
        small = found.decrement[rows] <= np.maximum(tolerance, ROUNDED)
        confirmed = np.isfinite(before) & (found.decrement[rows] <= CONFIRMED * before)
        found.converged[rows] = small & confirmed & upwards[rows]
        going = ~(small & confirmed)
        found.params[rows[found.converged[rows]]] += moves[found.converged[rows]]
        rows = rows[going]
        if not rows.size:
            break
        moves = scale[rows, None] * moves[going]
        value, gradient = derivatives.fold_gradients(found.params[rows] + moves, folds[rows])
        found.evaluations["gradient"] += len(rows)
        changes = gradient - gradients[rows]
        changes[~np.isfinite(changes).all(axis=1)] = 0.0  # of a move that went too far: no pair
        upwards[rows] &= inverse.mend(rows, moves, changes, n)
        good = value <= values[rows] + SLACK * (1.0 + abs(values[rows]))
        scale[rows] = np.where(good, 1.0, SHORTER * scale[rows])
        taken = rows[good]
        found.params[taken] += moves[good]
        values[taken] = value[good]
        gradients[taken] = gradient[good]
        found.steps[taken] += 1
    found.residual[:] = np.linalg.norm(gradients, axis=1)


def _dots(a, b):
    return np.einsum("ni,ni->n", a, b)
