"""Refits of all folds from the full fit: at once, or in parts on many machines."""

import numpy as np
from scipy.linalg import solve_triangular

from ..derivatives import at, is_equation, kept_share
from ..folds import WHOLE, Folds
from ..model import Refits
from ..parallel import pieces, spread
from ..results import Fit
from ..solvers.inverse import SameForAll
from ..solvers.lockstep import lockstep
from ..solvers.newton import newton
from ..solvers.newton_cg import newton_cg

PARTS = 64  # for any number of workers, which thus changes no bit
NUDGE = 0.01  # standard errors off the start: no symmetry then leads a descent to a saddle
SETTLED = 1e-4  # standard errors from the optimum within which all folds may start


def refit_folds(
    fit: Fit, folds: Folds, tolerance: float, starts: np.ndarray | None = None
) -> Refits:
    """Find every fold's own optimum, by the solver that suits the model.

    starts: (n_folds, D) near the optima, in place of the fit's params.
    """
    derivatives = fit.derivatives
    own = derivatives.refits(fit.params, folds, tolerance)
    if own is not None:
        return own
    if derivatives.matrix_free:
        start = _descended(derivatives, fit, folds) if starts is None else starts
        return newton_cg(derivatives, start, folds, tolerance)
    start = _start(derivatives, fit) if starts is None else starts
    found = Refits.unfinished(len(folds), len(fit.params))
    for part in derivatives.portions(folds, len(fit.params)):
        _refit_part(fit, folds[part], tolerance, at(start, part), found.part(part))
    return found


def _refit_part(fit, folds, tolerance, start, found):
    """Write the optima of some folds: by gradients alone, and by Newton's method what is left."""
    derivatives = fit.derivatives
    if derivatives.hessians_first or fit.hessian.indefinite:
        newton(derivatives, start, folds, tolerance, found=found)
        return
    first = SameForAll(fit.hessian, kept_share(derivatives.model, folds))
    if is_equation(derivatives.model):
        newton(derivatives, start, folds, tolerance, first, found)
        return
    draws = np.random.default_rng(0).standard_normal(len(fit.params))
    nudge = NUDGE * solve_triangular(fit.hessian.factor[0], draws) / np.linalg.norm(draws)
    lockstep(derivatives, start + nudge, folds, tolerance, first, found)
    left = np.flatnonzero(~found.converged)
    if left.size:
        steps = found.steps[left]
        found.take(left, newton(derivatives, found.params[left], folds[left], tolerance))
        found.steps[left] += steps


def _start(derivatives, fit):
    """The fit's params; the optimum of all data where these are not close to it and F is convex."""
    if not derivatives.defaults.convex or fit.newton_decrement <= SETTLED:
        return fit.params
    return newton(derivatives, fit.params, WHOLE, SETTLED).params[0]


def _descended(derivatives, fit, folds):
    """Each fold's Newton step, in which all folds share work, where it descends; else the fit."""
    before, gradients = derivatives.fold_gradients(fit.params, folds)
    moved = fit.params - derivatives.fold_hessians(fit.params, folds).solve(gradients)
    after, _ = derivatives.fold_gradients(moved, folds)
    return np.where((after < before)[:, None], moved, fit.params)


def refit_in_parts(fit: Fit, folds: Folds, tolerance: float) -> Refits:
    """`refit_folds` part by part, on the machines that joblib has."""
    found = Refits.unfinished(len(folds), len(fit.params))
    parts = pieces(len(folds), -(-len(folds) // PARTS))
    tasks = [(fit, folds[part], tolerance) for part in parts]
    refits = spread(refit_folds, tasks, "processes", "exact")
    for part, refitted in zip(parts, refits, strict=True):
        found.take(part, refitted)
    return found
