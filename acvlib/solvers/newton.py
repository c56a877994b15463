"""Newton's and a quasi-Newton method on all folds in lockstep: engines of `fit` and of `exact`.

    theta_o <- theta_o - |H_o|^-1 dF/dtheta(theta_o, w_o)

A fold keeps its Hessian H_o while its decrement falls by the factor `Derivatives.chord_rate` a step
(a chord step costs one gradient) and gets a new one otherwise. A step after which F has risen, or
the decrement where F is convex, is halved. A fold has converged when its decrement is at most the
tolerance and, unless F is convex, has fallen by that factor (or is tiny and no longer falls), and
the Hessian it is measured by is positive definite and of a point within `Derivatives.fresh`
standard errors.

Quasi-Newton steps have one Hessian at first, which gradients alone mend (`lockstep`):

    theta_o <- theta_o - B_o dF/dtheta(theta_o, w_o),    B_o = [(1 - m) H]^-1, then by BFGS

A move that raises F is shortened. A fold has converged when its decrement sqrt(g' B_o g) is at most
the tolerance, and the step to it has confirmed B_o by shrinking the decrement as it said; but not
if it met negative curvature on the way. From a start in general position it is then at a minimum,
and moves once more, which brings it nearer than the decrement says and costs nothing.

Source: Nocedal and Wright (2006), algorithm 6.1; Lee et al. (2016).
"""

from typing import Any

import numpy as np

from ..derivatives import Derivatives, at
from ..folds import Folds
from ..model import Refits
from ..weighting import unit_of
from .inverse import dots, folds_at_once

MAX_STEPS = 60
MOST_QUASI = 40
ROUNDING = 0.25  # share of the tolerance that the gradients of chord steps may lose
ROUNDED = 1e-9  # standard errors within which a decrement is rounding
SLACK = 1e-10  # relative rounding error of an objective, below which descent cannot be seen
CONFIRMED = 0.3  # of its decrement, to which a step must bring a fold for B_o to be trusted
CURVED = 1e-8  # curvature along a move, relative to that of B_o, below which it mends nothing
SHORTER = 0.25  # of a move that raised F


def newton(
    derivatives: Derivatives,
    params: np.ndarray,
    folds: Folds,
    tolerance: float,
    found: Refits | None = None,
) -> Refits:
    """Refit each fold from params (D,), or (n, D), until its decrement is at most `tolerance`.

    found: `Refits.unfinished` to write to.
    """
    n = len(folds)
    found = found or Refits.unfinished(n, params.shape[-1])
    state = _Lockstep(derivatives, params, folds, tolerance, found)
    found.evaluations["hessian"] += n
    rows = state.chords(np.arange(n), derivatives.fold_hessians(params, folds))
    together = folds_at_once(params.shape[-1])
    while rows.size:  # those that ask for a new Hessian: as many as memory has place for
        part = rows[:together]
        found.evaluations["hessian"] += len(part)
        asking = state.chords(part, derivatives.fold_hessians(found.params[part], folds[part]))
        rows = np.append(rows[together:], asking)
    found.residual[:] = np.linalg.norm(state.gradients, axis=1)
    return found


class _Lockstep:
    """What is known of n folds, one entry or row a fold."""

    def __init__(self, derivatives, params, folds, tolerance, found):
        n = len(folds)
        self.derivatives = derivatives
        self.folds = folds
        self.tolerance = tolerance
        self.unit = unit_of(derivatives.model)
        self.found = found
        self.centre = at(params, 0)
        self.convex = bool(derivatives.defaults.convex)
        self.equation = derivatives.is_equation
        if self.equation:
            self.precision, self.fixed = derivatives.residual_precision(self.centre)
        self.values, self.gradients = derivatives.fold_gradients(params, folds, not self.convex)
        self.tries = np.zeros(n, int)
        found.params[:] = params
        found.evaluations["gradient"] += n
        if self.equation:
            found.evaluations["cross"] += 1

    def chords(self, part: np.ndarray, hessians: Any):
        """Step by one Hessian a fold until each converges; return those that ask for another."""
        found = self.found
        found.indefinite[part] = hessians.indefinite
        if self.convex and found.indefinite[part].any():
            self.convex = False  # F is at w = 1 alone, and decrements may rise on the way
            self.values, self.gradients = self._evaluate(found.params, slice(None))
        drift = np.zeros(len(part))
        scale = np.ones(len(part))
        asks = np.zeros(len(part), bool)
        on = np.arange(len(part))  # places in `part` that go on
        moves, decrement = self._moves(hessians, on, self.gradients[part])
        while on.size:
            rows = part[on]
            before = found.decrement[rows]
            now = decrement[on]
            found.decrement[rows] = now
            rounded = (now <= ROUNDED * self.unit) & (now > 0.9 * before)
            small = rounded | (now <= self.tolerance)
            slow = (now > self.derivatives.chord_rate * before) & ~rounded
            found.converged[rows] = small & ~found.indefinite[rows] & (self.convex | ~slow)
            going = ~found.converged[rows] & (self.tries[rows] < MAX_STEPS)
            asks[on] = slow & going
            on = on[going]
            rows = part[on]
            if not on.size:
                break
            trial = found.params[rows] + scale[on, None] * moves[on]
            values, gradients = self._evaluate(trial, rows)
            ahead, after = self._moves(hessians, on, gradients)
            if self.convex:
                good = after <= np.maximum(decrement[on], ROUNDED * self.unit)
            else:
                known = self.values[rows]
                good = values <= known + SLACK * (self.unit**2 + np.abs(known))
                self.values[rows[good]] = values[good]
            taken, refused = on[good], on[~good]
            found.params[rows[good]] = trial[good]
            found.steps[rows[good]] += 1
            self.gradients[rows[good]] = gradients[good]
            drift[taken] += scale[taken] * decrement[taken]
            moves[taken] = ahead[good]
            decrement[taken] = after[good]
            scale[taken] = 1.0
            scale[refused] *= 0.5
            asks[refused] = drift[refused] > 0.0  # it is of another point
            if not self.convex:
                asks[taken] |= drift[taken] > self.derivatives.fresh
            on = on[~asks[on]]
        return part[asks]

    def _evaluate(self, params, rows):
        """(F, where it is looked at, gradients) of some folds."""
        self.tries[rows] += 1
        folds = self.folds[rows]
        self.found.evaluations["gradient"] += len(folds)
        if not self.convex:
            return self.derivatives.fold_gradients(params, folds)
        near = (self.centre, ROUNDING * self.tolerance)
        return None, self.derivatives.chord_gradients(params, folds, *near)

    def _moves(self, hessians, places, gradients):
        """Newton or chord moves, and their lengths in standard errors; inf of no finite gradient.

        sqrt(g' H^-1 g), or sqrt(r' (J J')^+ r) of an equation, and as far as no weight reaches r
        the move that it asks for, in shares of 1 + |params|.
        """
        finite = np.isfinite(gradients).all(axis=1)
        gradients = np.where(finite[:, None], gradients, 0.0)
        moves = -hessians.descend(gradients, places)
        weighed = gradients @ self.precision if self.equation else -moves
        squared = dots(weighed, gradients)
        if self.equation and self.fixed.any():
            fixed = hessians.descend(gradients @ self.fixed.T, places)
            squared += np.sum((fixed / (1.0 + abs(self.centre))) ** 2, axis=1)
        return moves, np.where(finite, np.sqrt(np.maximum(squared, 0.0)), np.inf)


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
    for _ in range(looks or MOST_QUASI):
        moves = -times(inverses[rows], gradients[rows])
        before = found.decrement[rows]
        found.decrement[rows] = np.sqrt(np.maximum(-dots(moves, gradients[rows]), 0.0))
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
    along = dots(moves, changes)
    curvature = dots(changes, turned)
    curved = along > CURVED * curvature
    s, By, ys, yBy = (each[curved] for each in (moves, turned, along[:, None], curvature[:, None]))
    half = s[:, :, None] * ((0.5 * s * (1.0 + yBy / ys) - By) / ys)[:, None]
    half += half.swapaxes(1, 2).copy()
    inverses[rows[curved]] += half
    return curved


def times(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return (matrices @ vectors[..., None])[..., 0]
