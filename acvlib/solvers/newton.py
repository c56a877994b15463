"""Safeguarded Newton's method on many folds in lockstep: the engine of `fit` and `exact`.

A fold keeps its Hessian while the decrement falls tenfold a step (a chord step costs one gradient) and
gets a new one otherwise; a step that does not descend is halved. A fold has converged when its decrement
is at most the tolerance and its Hessian, taken within a tenth of a standard error, is positive definite.
"""

from collections import Counter

import numpy as np

from .. import derivatives as curvature

MAX_STEPS = 60
FRESH = 0.1  # standard errors that a fold may move before its Hessian counts as old
SLACK = 1e-10  # relative rounding error of an objective, below which descent cannot be seen


class Refinement:
    """The state of n folds: params, decrement, lowest, steps, converged, one entry a fold.

    lowest: the smallest eigenvalue of a Hessian that is not positive definite, inf of one that is, nan if unknown.
    """

    def __init__(self, model, params, folds, inverse=None):
        n, dim = len(folds), params.shape[1]
        self.model, self.folds, self.params = model, folds, np.array(params, float)
        self.values, self.gradients = curvature.fold_gradients(model, self.params, folds)
        self.inverse = np.empty((n, dim, dim)) if inverse is None else inverse
        self.drift = np.full(n, np.inf if inverse is None else 0.0)  # since the Hessian was taken
        self.lowest, self.decrement = np.full(n, np.nan), np.full(n, np.inf)
        self.scale, self.steps, self.converged = np.ones(n), np.zeros(n, int), np.zeros(n, bool)
        self.evaluations = Counter(gradient=n, hessian=0)
        self.precision = None  # of an equation's residuals, which its decrement is measured by
        if curvature.is_equation(model):
            self.precision = curvature.residual_precision(model, self.params.mean(axis=0))
            self.evaluations["hessian_and_cross"] += 1

    @property
    def smallest_eigenvalue(self):
        """Of each fold's latest Hessian, (n,); nan where none was taken, and for an estimating equation."""
        positive, values = self.lowest == np.inf, self.lowest.copy()
        values[positive] = 1.0 / np.linalg.eigvalsh(self.inverse[positive])[:, -1]
        return values

    @property
    def residual(self):
        """|gradient| of each fold, which is |r| for an estimating equation."""
        return np.linalg.norm(self.gradients, axis=1)

    def select(self, rows):
        return [self.folds[i] for i in rows]

    def renew_hessians(self, rows):
        """A new |H|^-1 for the folds that moved away from theirs; H^-1 for an estimating equation."""
        stale = rows[self.drift[rows] > FRESH]
        if not stale.size:
            return
        hessians = curvature.fold_hessians(self.model, self.params[stale], self.select(stale))
        self.inverse[stale], self.lowest[stale] = _inverse(self.model, hessians)
        self.drift[stale] = 0.0
        self.evaluations["hessian"] += len(stale)

    def moves(self, rows):
        """Newton moves of the folds; records their decrements and marks slow folds for a new Hessian."""
        move = -np.einsum("nij,nj->ni", self.inverse[rows], self.gradients[rows])
        decrement = _decrement(move, self.gradients[rows], self.precision)
        self.drift[rows[decrement > 0.1 * self.decrement[rows]]] = np.inf
        self.decrement[rows] = decrement
        return move

    def mark_converged(self, rows, tolerance):
        """Marks folds at their optimum; one that only seems so gets its own Hessian first."""
        small, fresh = self.decrement[rows] <= tolerance, self.drift[rows] <= FRESH
        known = ~np.isnan(self.lowest[rows]) | curvature.is_equation(self.model)
        self.converged[rows] = small & fresh & known & ~(self.lowest[rows] <= 0.0)
        self.drift[rows[small & ~known]] = np.inf

    def step(self, rows, move):
        """Takes the moves that descend and halves the others."""
        trial = self.params[rows] + self.scale[rows, None] * move
        values, gradients = curvature.fold_gradients(self.model, trial, self.select(rows))
        self.evaluations["gradient"] += len(rows)
        good = values <= self.values[rows] + SLACK * (1.0 + np.abs(self.values[rows]))
        taken, refused = rows[good], rows[~good]
        self.params[taken], self.values[taken], self.gradients[taken] = (
            trial[good],
            values[good],
            gradients[good],
        )
        self.drift[taken] += self.scale[taken] * self.decrement[taken]
        self.steps[taken] += 1
        self.scale[taken] = 1.0
        self.scale[refused] *= 0.5
        borrowed = (self.drift[refused] > 0.0) | np.isnan(self.lowest[refused])
        self.drift[refused[borrowed]] = np.inf  # the Hessian was not this point's own


def refine(model, params, folds, tolerance, inverse=None):
    """Each fold's optimum near params (n_folds, D), as a `Refinement`.

    inverse (n_folds, D, D): approximate inverse Hessians for the first step, if known. A model with a solver of its
    own (`curvature.fold_solutions`) is left to it.
    """
    if (own := curvature.fold_solutions(model, params, folds, tolerance)) is not None:
        return own
    state, rows = Refinement(model, params, folds, inverse), np.arange(len(folds))
    for _ in range(MAX_STEPS):
        state.renew_hessians(rows)
        move = state.moves(rows)
        state.mark_converged(rows, tolerance)
        rows, move = rows[~state.converged[rows]], move[~state.converged[rows]]
        if not rows.size:
            break
        state.step(rows, move)
    return state


def _inverse(model, hessians):
    """(|H|^-1, `lowest`) of each Hessian; H^-1 and nan for an estimating equation."""
    if curvature.is_equation(model):
        return np.linalg.inv(hessians), np.full(len(hessians), np.nan)
    try:
        np.linalg.cholesky(hessians)  # ten times faster than their eigenvalues
        return np.linalg.inv(hessians), np.full(len(hessians), np.inf)
    except np.linalg.LinAlgError:
        return _absolute_inverse(*np.linalg.eigh(hessians))


def _absolute_inverse(values, vectors):
    safe = np.maximum(np.abs(values), 1e-12 * np.abs(values).max(axis=1, keepdims=True))
    inverse = (vectors / safe[:, None, :]) @ vectors.transpose(0, 2, 1)
    return inverse, np.where(values[:, 0] > 0.0, np.inf, values[:, 0])


def _decrement(moves, gradients, precision):
    """sqrt(g' H^-1 g), or sqrt(r' (J J')^+ r) for an equation: either way a number of standard errors."""
    squared = -np.einsum("ni,ni->n", moves, gradients)
    if precision is not None:
        squared = np.einsum("ni,ij,nj->n", gradients, precision, gradients)
    return np.sqrt(np.maximum(squared, 0.0))
