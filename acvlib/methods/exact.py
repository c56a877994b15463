"""theta_o = argmin F(theta, w_o), continued from theta_hat: what other methods approximate."""

import warnings
from collections import Counter
from contextlib import suppress
from os import PathLike
from typing import Any

import numpy as np

from ..checks import real_number
from ..derivatives import is_equation
from ..fit import TOLERANCE, UnconvergedFit
from ..folds import Folds
from ..protocol import CVResult, Fit, NoFiniteOptimum, Refits
from ..scores import Interrupted
from .refits import refit_folds, refit_in_parts
from .run import Run

REFIT = (
    "Refit only the others: result = acv.refit_unreliable(error.result, "
    '~error.result.diagnostics["converged"]), `error` being this exception (sys.last_value in a '
    "console)"
)
SCORE = (
    ". Then score all, which has not been done: dataclasses.replace(result, "
    "losses=acv.derivatives_of(model).heldout(result.params, result.folds))"
)


def exact(
    fit: Fit,
    folds: Folds,
    tolerance: float = TOLERANCE,
    *,
    client: Any = None,
    checkpoint: str | PathLike | None = None,
) -> CVResult:
    """Refit each fold from the full fit until its Newton decrement is at most `tolerance`.

    A cold start may reach another local optimum, so exact means the continuation from the full fit;
    `from_scratch` starts anew.
    The first move is a frozen step, or a Newton step where the model has all folds' Hessians
    cheaply; folds of a convex model start from the optimum of all data, even where the fit is not
    there yet. A decrement below 1e-9 need only stop falling: the rest is rounding. Hessians are in
    memory as in `newton_step`. Folds that did not converge are warned of once.

    Parameters
    ----------
    client: of a Dask cluster (extra `dask`), to whose workers model and fit are sent.
    checkpoint: a file that finished folds are written to, whole, every few seconds; the same call
        goes on from it if it is there, and refuses that of another model, fit or set of folds.
        `evaluations` counts what this call did.

    With client or checkpoint, folds are refitted in up to 64 parts. Params agree with those of a
    run without to the tolerance, and to the bit with each other, whatever the workers and
    interruptions.

    diagnostics: decrement, steps, converged and, for an estimating equation, residual, |r| at the
    end; `indefinite`: whether the fold's last Hessian is.

    Raises `Interrupted` on Ctrl-C: its `result` has the folds that have converged; all others have
    the full fit's params and nan losses.
    """
    tolerance = real_number("tolerance", tolerance, least=0.0)
    run = Run("exact", fit, folds, tolerance=tolerance)
    found = Refits.unfinished(len(run.folds), len(fit.params))
    scoring = False
    try:
        if client is None and checkpoint is None:
            refit_folds(run.derivatives, fit, run.folds, tolerance, found)
        else:
            refit_in_parts(run, found, client, checkpoint)
        scoring = True
        return finished(run, found)
    except KeyboardInterrupt as error:
        raise interrupted(run, found, REFIT, scoring) from error


def finished(run: Run, found: Refits) -> CVResult:
    """The result of refits; warns of those that did not converge."""
    run.derivatives.defaults.check_refits(found.params, run.folds)
    warn_of_refits(run, found, stacklevel=4)
    diagnostics = {name: getattr(found, name) for name in ("decrement", "steps", "converged")}
    if is_equation(run.derivatives.model):
        diagnostics["residual"] = found.residual
    return run.finish(found.params, found.evaluations, found.indefinite, **diagnostics)


def warn_of_refits(run: Run, found: Refits, stacklevel: int = 3) -> None:
    """Warn once of the folds that did not converge."""
    if not found.converged.all():
        lost = f"{(~found.converged).sum()} of {len(run.folds)} folds did not converge"
        worst = found.decrement[~found.converged].max()
        message = f"{run.method}: {lost}; largest decrement {worst:.2g}"
        warnings.warn(message, UnconvergedFit, stacklevel=stacklevel)


def interrupted(run: Run, found: Refits, remedy: str, scoring: bool = False) -> Interrupted:
    """What Ctrl-C leaves: the folds that have converged, scored unless it came while `scoring`."""
    converged = _sound(run, found)
    rows = np.flatnonzero(converged)
    params = np.where(converged[:, None], found.params, run.fit.params)
    decrement = np.where(converged, found.decrement, np.nan)
    losses = [np.full(len(sites), np.nan) for sites in run.folds.scored]
    advice = SCORE
    if not scoring:
        with suppress(KeyboardInterrupt):  # a second one does not wait for the scores
            score_some(run, params, rows, losses)
            advice = ""
    evaluations = found.evaluations + Counter(heldout=0 if advice else rows.size)
    result = run.finish(
        params,
        evaluations,
        losses=losses,
        decrement=decrement,
        steps=found.steps.copy(),
        converged=converged,
    )
    finished = f"{rows.size} of {len(run.folds)} folds are finished"
    return Interrupted(f"{finished}. {remedy}{advice}", result)


def _sound(run, found):
    """The folds that have converged; none, if one of them ran to infinity: going on tells which."""
    converged = found.converged.copy()
    rows = np.flatnonzero(converged)
    try:
        run.derivatives.defaults.check_refits(found.params[rows], run.folds[rows])
    except NoFiniteOptimum:
        converged[:] = False
    return converged


def score_some(run: Run, params: np.ndarray, rows: np.ndarray, losses: list) -> None:
    """Write the losses of some folds, at their params (n_folds, D)."""
    if rows.size:
        scored = run.derivatives.heldout(params[rows], run.folds[rows])
        for row, own in zip(rows, scored, strict=True):
            losses[row] = own
