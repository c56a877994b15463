"""theta_o = argmin F(theta, w_o), continued from theta_hat: what other methods approximate."""

import warnings
from collections import Counter
from dataclasses import fields
from typing import Any

import numpy as np

from ..derivatives import Derivatives, is_equation, kept_share
from ..fit import TOLERANCE, UnconvergedFit
from ..folds import WHOLE, Folds
from ..protocol import CVResult, Fit, Refits
from ..solvers.inverse import SameForAll
from ..solvers.newton import newton
from ..solvers.newton_cg import newton_cg
from .run import Run

SETTLED = 1e-4  # standard errors from the optimum within which all folds may start


def exact(model: Any, fit: Fit, folds: Folds, tolerance: float = TOLERANCE) -> CVResult:
    """Refit each fold from the full fit until its Newton decrement is at most `tolerance`.

    A cold start may reach another local optimum, so exact means the continuation from the full fit.
    The first move is a frozen step, or a Newton step where the model has all folds' Hessians
    cheaply; folds of a convex model start from the optimum of all data, even where the fit is not
    there yet. A decrement below 1e-9 need only stop falling: the rest is rounding. Hessians are in
    memory as in `newton_step`. Folds that did not converge are warned of once.

    diagnostics: decrement, steps, converged and, for an estimating equation, residual, |r| at the
    end; `indefinite`: whether the fold's last Hessian is.
    """
    run = Run("exact", model, fit, folds, tolerance=tolerance)
    found = refit_folds(run.derivatives, fit, run.folds, tolerance)
    run.derivatives.defaults.check_refits(found.params, run.folds)
    if not found.converged.all():
        lost = f"{(~found.converged).sum()} of {len(run.folds)} folds did not converge"
        worst = found.decrement[~found.converged].max()
        warnings.warn(f"exact: {lost}; largest decrement {worst:.2g}", UnconvergedFit, stacklevel=2)
    diagnostics = {name: getattr(found, name) for name in ("decrement", "steps", "converged")}
    if is_equation(model):
        diagnostics["residual"] = found.residual
    return run.finish(found.params, found.evaluations, found.indefinite, **diagnostics)


def refit_folds(derivatives: Derivatives, fit: Fit, folds: Folds, tolerance: float) -> Refits:
    """Every fold's own optimum, by the solver that suits the model."""
    own = derivatives.refits(fit.params, folds, tolerance)
    if own is not None:
        return own
    if derivatives.matrix_free:
        return newton_cg(derivatives, _descended(derivatives, fit, folds), folds, tolerance)
    start = _start(derivatives, fit)
    parts = derivatives.portions(folds, len(start))
    return _joined([_refit(derivatives, fit, start, folds[part], tolerance) for part in parts])


def _refit(derivatives, fit, start, folds, tolerance):
    if derivatives.hessians_first or fit.hessian.indefinite:
        return newton(derivatives, start, folds, tolerance)
    first = SameForAll(fit.hessian, kept_share(derivatives.model, folds))
    return newton(derivatives, start, folds, tolerance, first)


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


def _joined(parts):
    """One `Refits` of those of several portions of the folds."""
    if len(parts) == 1:
        return parts[0]
    names = [field.name for field in fields(Refits) if field.name != "evaluations"]
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return Refits(**arrays, evaluations=sum((part.evaluations for part in parts), Counter()))
