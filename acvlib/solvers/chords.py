"""Chord steps on many folds in lockstep, where a model can solve by every fold's Hessian at the full fit.

theta_o <- theta_o - H(w_o)^-1 dF/dtheta(theta_o, w_o), with H(w_o) taken at theta_hat once and for all.
"""

from collections import Counter

import numpy as np

MAX_STEPS = 20
ROUNDING = 0.25  # share of the tolerance that may be lost to rounding
SLOW = 0.5  # a fold whose decrement does not even halve in a step is left to Newton's method


class Chords:
    """The state of n folds, with the attributes of `refine.Refinement`: what `exact` reports."""

    def __init__(self, start, smallest_eigenvalue, n_hessians):
        n = len(start)
        self.params, self.smallest_eigenvalue = start, smallest_eigenvalue
        self.decrement, self.steps, self.converged = (
            np.full(n, np.inf),
            np.ones(n, int),
            np.zeros(n, bool),
        )
        self.evaluations = Counter(gradient=n, hessian=n_hessians)

    def judge(self, rows, decrement, tolerance):
        """Records the decrements of the folds; returns which of them go on."""
        falling = decrement <= SLOW * self.decrement[rows]
        self.decrement[rows] = decrement
        self.converged[rows] = decrement <= tolerance
        return falling & ~self.converged[rows]

    def step(self, rows, move, contraction, tolerance):
        """Takes the moves; returns which folds are not at their optimum by what a chord step contracts at most."""
        after = self.params[rows] + move
        certain = contraction(self.params[rows], after) * self.decrement[rows]
        self.params[rows] = after
        self.steps[rows] += 1
        sure = certain <= tolerance
        self.decrement[rows[sure]], self.converged[rows[sure]] = certain[sure], True
        return ~sure

    def replace(self, rows, other):
        """Takes the state of some folds from a `Refinement` of theirs."""
        for name in ("params", "smallest_eigenvalue", "decrement", "steps", "converged"):
            getattr(self, name)[rows] = getattr(other, name)
        self.evaluations += other.evaluations


def refine_by_chords(chords, tolerance):
    """Each fold's optimum by chord steps from its Newton step; `chords` as in `curvature.fold_chords`.

    The decrement, or where it is enough an upper bound on it, is measured by H(w_o) at the full fit. Folds with
    an indefinite Hessian, or that do not contract, are handed back with converged = False.
    """
    state = Chords(chords.start, chords.smallest_eigenvalue, getattr(chords, "n_hessians", 1))
    rows = np.flatnonzero(chords.smallest_eigenvalue > 0.0)
    for _ in range(MAX_STEPS):
        gradients = chords.gradients(state.params[rows], rows, ROUNDING * tolerance)
        move = -chords.solve(gradients, rows)
        state.evaluations["gradient"] += len(rows)
        decrement = np.sqrt(np.maximum(-np.einsum("ni,ni->n", move, gradients), 0.0))
        on = state.judge(rows, decrement, tolerance)
        rows, move = rows[on], move[on]
        rows = rows[state.step(rows, move, chords.contraction, tolerance)]
        if not rows.size:
            break
    return state
