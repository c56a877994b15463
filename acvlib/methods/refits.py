"""Refits of all folds from the full fit: at once, or in parts on many machines."""

import numpy as np

from ..derivatives import Derivatives, at, kept_share
from ..folds import WHOLE, Folds
from ..model import Refits
from ..parallel import pieces, spread
from ..results import Fit
from ..solvers.inverse import SameForAll
from ..solvers.newton import newton
from ..solvers.newton_cg import newton_cg
from .run import Run

PARTS = 64  # for any number of workers, which thus changes no bit
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
            first = _first(derivatives, fit, folds[part])
            newton(derivatives, at(start, part), folds[part], tolerance, first, found.part(part))


def _first(derivatives, fit, folds):
    """The full fit's Hessian for all folds, unless they need their own from the first step on."""
    if derivatives.hessians_first or fit.hessian.indefinite:
        return None
    return SameForAll(fit.hessian, kept_share(derivatives.model, folds))


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
