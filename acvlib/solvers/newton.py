"""Newton's method on all folds in lockstep: the engine of `fit` and `exact`.

    theta_o <- theta_o - |H_o|^-1 dF/dtheta(theta_o, w_o)

A fold keeps its Hessian H_o while its decrement falls by the factor `Derivatives.chord_rate` a step
(a chord step costs one gradient) and gets a new one otherwise; a step that does not descend is
halved. A fold has converged when its decrement is at most the tolerance, or tiny and no longer
falling, and the Hessian it is measured by is positive definite and was taken within
`Derivatives.fresh` standard errors, or when the contraction of its chord steps proves as much.
"""

import numpy as np

from ..derivatives import Derivatives, at
from ..folds import Folds
from ..model import Refits
from .inverse import FoldSolver, folds_at_once

MAX_STEPS = 60
ROUNDING = 0.25  # share of the tolerance that the gradients of chord steps may lose
ROUNDED = 1e-9  # standard errors within which a decrement that has stopped falling is rounding
SLACK = 1e-10  # relative rounding error of an objective, below which descent cannot be seen


class _Kept:
    """The Hessian that each fold uses: which solver, and which of its rows."""

    def __init__(self, n_folds, first):
        self.solvers = {0: first}
        self.solver = np.zeros(n_folds, int)
        self.row = np.arange(n_folds)

    def replace(self, rows, solver):
        number = max(self.solvers) + 1
        self.solvers[number] = solver
        self.solver[rows] = number
        self.row[rows] = np.arange(len(rows))
        for unused in set(self.solvers) - set(self.solver):  # frees their memory
            del self.solvers[unused]

    def ask(self, function, rows):
        """function(solver, rows of the solver, places among `rows`) of those in use, in order."""
        numbers = self.solver[rows]
        in_use = np.unique(numbers)
        if len(in_use) == 1:
            return function(self.solvers[in_use[0]], self.row[rows], slice(None))
        places = [np.flatnonzero(numbers == number) for number in in_use]
        pairs = zip(in_use, places, strict=True)
        parts = [function(self.solvers[number], self.row[rows[own]], own) for number, own in pairs]
        return np.concatenate(parts)[np.argsort(np.concatenate(places))]

    def descend(self, vectors, rows):
        return self.ask(lambda solver, own, at: solver.descend(vectors[at], own), rows)

    def contraction(self, before, after, rows):
        return self.ask(
            lambda solver, own, at: solver.contraction(before[at], after[at], own), rows
        )

    def indefinite(self, rows):
        return self.ask(lambda solver, own, _: solver.indefinite[own], rows)


class _Lockstep:
    """The state of n folds, one entry or row a fold; what is known of them, in `found`."""

    def __init__(self, derivatives, params, folds, first, accuracy, found):
        n = len(folds)
        self.found = found
        self.derivatives = derivatives
        self.folds = folds
        self.centre = at(params, 0)
        self.accuracy = accuracy  # of the gradients of chord steps
        self.convex = bool(derivatives.defaults.convex)
        self.precision = derivatives.residual_precision(at(params, 0))
        self.values, self.gradients = derivatives.fold_gradients(params, folds)
        self.params = found.params
        self.params[:] = params
        self.borrowed = np.full(n, first is not None)  # the Hessian is not the fold's own
        self.kept = _Kept(n, first or derivatives.fold_hessians(params, folds))
        self.drift = np.zeros(n)  # since the Hessian was taken; inf where a new one is due
        self.decrement = found.decrement
        self.scale = np.ones(n)
        self.rounded = np.zeros(n, bool)  # the decrement is tiny and has stopped falling
        self.steps = found.steps
        self.converged = found.converged
        self.evaluations = found.evaluations
        self.evaluations.update(gradient=n, hessian=0 if first else n)
        if self.precision is not None:
            self.evaluations["cross"] += 1

    def renew_hessians(self, rows):
        """Give a new Hessian to the folds that one is due to: as many as memory has place for.

        The others go on with chord steps until it is their turn.
        """
        oldest = np.inf if self.convex else self.derivatives.fresh
        drift = self.drift[rows]
        old = (drift > oldest) | np.isinf(drift)
        stale = rows[old][: folds_at_once(self.params.shape[1])]
        if not stale.size:
            return
        solver = self.derivatives.fold_hessians(self.params[stale], self.folds[stale])
        self.kept.replace(stale, solver)
        self.borrowed[stale] = False
        self.drift[stale] = 0.0
        self.evaluations["hessian"] += len(stale)

    def moves(self, rows):
        """Newton or chord moves of the folds, and their decrements; slow ones are due a Hessian."""
        gradients = self.gradients[rows]
        move = -self.kept.descend(gradients, rows)
        decrement = self._decrements(move, gradients)
        slow = decrement > self.derivatives.chord_rate * self.decrement[rows]
        rounded = (decrement <= ROUNDED) & (decrement > 0.9 * self.decrement[rows])
        self.rounded[rows] = rounded
        self.decrement[rows] = decrement
        self.drift[rows[slow & ~rounded]] = np.inf
        return move

    def _decrements(self, moves, gradients):
        """sqrt(g' H^-1 g), or sqrt(r' (J J')^+ r) for an equation: a number of standard errors."""
        if self.precision is None:
            squared = -np.einsum("ni,ni->n", moves, gradients)
        else:
            squared = np.einsum("ni,ni->n", gradients @ self.precision, gradients)
        return np.sqrt(np.maximum(squared, 0.0))

    def mark_converged(self, rows, tolerance):
        """Mark the folds at their optimum; one that only seems so is due a Hessian of its own."""
        small = self.rounded[rows] | (self.decrement[rows] <= tolerance)
        own = ~self.borrowed[rows] | (self.precision is not None)
        fresh = self.convex | (self.drift[rows] <= self.derivatives.fresh)
        sound = own & ~self.kept.indefinite(rows)
        self.converged[rows] = small & fresh & sound
        self.drift[rows[small & ~own]] = np.inf

    def step(self, rows, move, tolerance):
        """Take the moves that are proved or seen to descend, and halve the others."""
        trial = self.params[rows] + self.scale[rows, None] * move
        bound = self.kept.contraction(self.params[rows], trial, rows)
        proved = (bound < 1.0) & (self.scale[rows] == 1.0)
        after = np.where(proved, bound, 1.0) * self.decrement[rows]
        done = proved & (after <= tolerance) & ~self.borrowed[rows]
        self.params[rows[done]] = trial[done]
        self.decrement[rows[done]] = after[done]
        self.steps[rows[done]] += 1
        self.converged[rows[done]] = True
        if not done.all():
            self._try(rows[~done], trial[~done], proved[~done])

    def _try(self, rows, trial, proved):
        """Move to the trial params where that is `proved` to descend, or does not raise F."""
        wanted = not proved.all()
        values, gradients = self._evaluate(trial, rows, wanted)
        good = proved | (values <= self._limits(rows)) if wanted else proved
        taken = rows[good]
        refused = rows[~good]
        self.params[taken] = trial[good]
        self.values[taken] = values[good]
        self.gradients[taken] = gradients[good]
        self.drift[taken] += self.scale[taken] * self.decrement[taken]
        self.steps[taken] += 1
        self.scale[taken] = 1.0
        self.scale[refused] *= 0.5
        elsewhere = (self.drift[refused] > 0.0) | self.borrowed[refused]
        self.drift[refused[elsewhere]] = np.inf  # the Hessian was not this point's own

    def _evaluate(self, params, rows, wanted):
        self.evaluations["gradient"] += len(rows)
        folds = self.folds[rows]
        if wanted:
            return self.derivatives.fold_gradients(params, folds)
        values = np.full(len(rows), np.nan)
        near = (self.centre, self.accuracy)
        return values, self.derivatives.chord_gradients(params, folds, *near)

    def _limits(self, rows):
        """What F may be after a step, up to rounding."""
        unknown = rows[np.isnan(self.values[rows])]
        if unknown.size:
            self.values[unknown] = self._evaluate(self.params[unknown], unknown, True)[0]
        return self.values[rows] + SLACK * (1.0 + np.abs(self.values[rows]))

    def refits(self):
        """What is known of the folds at the end."""
        self.found.indefinite[:] = self.kept.indefinite(np.arange(len(self.folds)))
        self.found.residual[:] = np.linalg.norm(self.gradients, axis=1)
        return self.found


def newton(
    derivatives: Derivatives,
    params: np.ndarray,
    folds: Folds,
    tolerance: float,
    first: FoldSolver | None = None,
    found: Refits | None = None,
) -> Refits:
    """Refit each fold from params (D,), or (n, D), until its decrement is at most `tolerance`.

    first: Hessians for the first step that are not the folds' own, if they are at hand; found:
    `Refits.unfinished` to write to.
    """
    if found is None:
        found = Refits.unfinished(len(folds), params.shape[-1])
    state = _Lockstep(derivatives, params, folds, first, ROUNDING * tolerance, found)
    rows = np.arange(len(folds))
    for _ in range(MAX_STEPS):
        state.renew_hessians(rows)
        move = state.moves(rows)
        state.mark_converged(rows, tolerance)
        going = ~state.converged[rows]
        rows = rows[going]
        if rows.size:
            state.step(rows, move[going], tolerance)
        rows = rows[~state.converged[rows]]
        if not rows.size:
            break
    return state.refits()
