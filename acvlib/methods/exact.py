"""theta_o = argmin F(theta, w_o), continued from theta_hat: what every other rung approximates."""

import warnings
from collections import Counter

import numpy as np

from .. import derivatives as curvature
from ..fit import TOLERANCE, UnconvergedFit
from ..solvers.chords import refine_by_chords
from ..solvers.newton import refine
from ..solvers.newton_cg import newton_cg
from .run import Run


def exact(model, fit, folds, tolerance=TOLERANCE):
    """Each fold refitted from the full fit until its Newton decrement is at most `tolerance`.

    A cold start may reach another local optimum, so exact means the continuation from the full fit. The
    first move is a frozen step, kept where it descends, or a Newton step where the model's fast path has all
    folds' Hessians. diagnostics: decrement, smallest_eigenvalue of the fold's Hessian at the end (`fold_chords`:
    at the full fit), steps, converged, and for an estimating equation residual, |r| at the end; folds that did not
    converge are warned of once.
    """
    run = Run("exact", model, fit, folds, tolerance=tolerance)
    state = _refits(model, fit, run, tolerance)
    if not state.converged.all():
        message = f"exact: {(~state.converged).sum()} of {len(run.folds)} folds did not converge"
        worst = state.decrement[~state.converged].max()
        warnings.warn(f"{message}; largest decrement {worst:.2g}", UnconvergedFit, stacklevel=2)
    names = ["decrement", "smallest_eigenvalue", "steps", "converged"] + [
        "residual"
    ] * curvature.is_equation(model)
    diagnostics = {name: getattr(state, name) for name in names}
    return run.finish(state.params, state.evaluations + Counter(hessian=1), **diagnostics)


def _refits(model, fit, run, tolerance):
    if (
        own := curvature.fold_solutions(model, run.start_params(), run.folds, tolerance)
    ) is not None:
        return own
    if curvature.is_matrix_free(model):
        return newton_cg(model, _newton_start(model, fit, run), run.folds, tolerance)
    chords = curvature.fold_chords(model, fit, run.folds)
    if chords is None:
        return refine(
            model, run.start_params(), run.folds, tolerance, _first_inverse(model, fit, run.folds)
        )
    state = refine_by_chords(chords, tolerance)
    rows = np.flatnonzero(~state.converged)
    if rows.size:  # from the full fit, as Newton's method needs a start that descends
        state.replace(
            rows, refine(model, run.start_params()[rows], [run.folds[i] for i in rows], tolerance)
        )
    return state


def _newton_start(model, fit, run):
    """Each fold's Newton step, in which all folds share work, where it descends; the full fit otherwise."""
    before, _ = curvature.fold_gradients(model, run.start_params(), run.folds)
    moved = curvature.newton_params(model, fit, run.folds).params
    after, _ = curvature.fold_gradients(model, moved, run.folds)
    return np.where((after < before)[:, None], moved, run.start_params())


def _first_inverse(model, fit, folds):
    """[(1 - m) H]^-1 for each fold, so that its first move is the frozen step; None where H is indefinite."""
    hessian = curvature.hessian(model, fit.params, np.ones(model.n_sites))
    if not curvature.is_equation(model) and np.linalg.eigvalsh(hessian)[0] <= 0.0:
        return None
    return np.linalg.inv(hessian) / curvature.kept_share(model, folds)[:, None, None]
