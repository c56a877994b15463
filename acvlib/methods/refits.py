"""Refits of all folds from the full fit: at once, or in parts on many machines."""

import numpy as np
from scipy.linalg import solve_triangular

from ..derivatives import Derivatives, at, is_equation, kept_share
from ..folds import WHOLE, Folds
from ..model import Refits
from ..parallel import pieces, spread
from ..results import Fit
from ..solvers.inverse import SameForAll
from ..solvers.lockstep import lockstep
from ..solvers.newton import newton
from ..solvers.newton_cg import newton_cg
from .run import Run

PARTS = 64  # for any number of workers, which thus changes no bit
NUDGE = 0.01  # standard errors off the start: no symmetry then leads a descent to a saddle
SETTLED = 1e-4  # standard errors from the optimum within which all folds may start


def refit_folds(
    derivatives: Derivatives,
    fit: Fit,
    folds: Folds,
    tolerance: float,
    found: Refits,
    starts: np.ndarray | None = None,
) -> None:
    """Write every fold's own optimum to `found`, by the solver that suits the model.

    starts: (n_folds, D) near the optima, in place of the fit's params.
    """
    own = derivatives.refits(fit.params, folds, tolerance)
    if own is not None:
        found.take(slice(None), own)
    elif derivatives.matrix_free:
        start = _descended(derivatives, fit, folds) if starts is None else starts
        newton_cg(derivatives, start, folds, tolerance, found=found)
    else:
        start = _start(derivatives, fit) if starts is None else starts
        for part in derivatives.portions(folds, len(fit.params)):
            _refit_part(derivatives, fit, folds[part], tolerance, at(start, part), found.part(part))


def _refit_part(derivatives, fit, folds, tolerance, start, found):
    """Write the optima of some folds: by gradients alone, and by Newton's method what is left."""
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


def refit_in_parts(run: Run, found: Refits) -> None:
    """`refit_folds` part by part, on the machines that joblib has; written to `found`."""
    n_folds = len(run.folds)
    parts = pieces(n_folds, -(-n_folds // PARTS))
    tasks = [(run.fit, run.folds[part], run.settings["tolerance"]) for part in parts]
    refits = spread(_refit, tasks, "processes", "exact")
    for part, refitted in zip(parts, refits, strict=True):
        found.take(part, refitted)


def _refit(fit, folds, tolerance):
    found = Refits.unfinished(len(folds), len(fit.params))
    refit_folds(fit.derivatives, fit, folds, tolerance, found)
    return found
