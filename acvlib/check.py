"""Which folds of a result not to trust, found by rough refits, and exact refits of these.

From the params that a method gave a fold its refit is continued, until a tenth of the limit is left
to its optimum: by quasi-Newton steps, which take two gradients where these params are near it. What
then seems to be off by half the limit or more, and not by the limit, is refitted to the end.
Single rows of a regression whose errors the fit's leverages bound below the limit take none.
"""

import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .checks import one_line, warn
from .declared import Positive, declared
from .methods.exact import exact, refit_folds
from .results import TOLERANCE, AResult, CVResult
from .trials import FAILURES, UnconvergedFit
from .weighting import unit_of

LOOKS = 5  # steps of a fold
DOUBT = 8.0  # times the last step is added to the error of a fold that has not converged
NEARER = 0.1  # of the limit, to which refits are continued
CLOSE = 0.5  # of the limit: what is within, and no nearer, is refitted to the end
TINY = 1e-300  # beside a divisor that may be 0
HUGE = 1e100  # what is larger counts as not finite: its square would not be


@dataclass(frozen=True, eq=False)
class ResultCheck:
    """What `check_result` found of each fold.

    unreliable (n_folds,) bool; theta_errors: the estimated distance of each fold's params from its
    refit's, in the standard errors of `exact`; loss_errors: that of its loss from the refit's, in
    standard deviations of the fold losses (either an upper bound, where no gradient was needed);
    gradients: how many were computed; seconds; result: what was checked.
    """

    __repr__ = one_line
    unreliable: np.ndarray
    theta_errors: np.ndarray = field(repr=False)
    loss_errors: np.ndarray = field(repr=False)
    gradients: int
    seconds: float
    result: CVResult = field(repr=False)

    def __str__(self):
        rows = np.flatnonzero(self.unreliable)
        told = [f"{rows.size} of {len(self.unreliable)} folds are unreliable"]
        for fold in rows[:3]:
            says = "its params, or its objective there, are not finite"
            if np.isfinite(self.theta_errors[fold]):
                says = f"params about {self.theta_errors[fold]:.2g} standard errors off, loss "
                says += f"about {self.loss_errors[fold]:.2g} standard deviations of the fold losses"
            told.append(f"{self.result.folds.name(fold)}: {says}")
        if rows.size > 3:
            told.append(f"and {rows.size - 3} more")
        return "; ".join(told)


@declared
def check_result(result: AResult, limit: Positive = 0.5) -> ResultCheck:
    """Estimate how far each fold is from its exact refit, at the price of two gradients for most.

    A fold is unreliable where its params are more than `limit` standard errors from the refit's, or
    its loss more than `limit` standard deviations of the fold losses; where they are not finite; or
    where its Hessian is indefinite, by which no step leads to a minimum.
    """
    started = time.perf_counter()
    fit = result.fit
    errors = np.full((2, len(result.folds)), np.inf)
    with np.errstate(all="ignore"):  # a step that went far off may overflow: it is marked
        bounds = fit.derivatives.newton_bounds(fit, result.folds)
        if bounds is not None:
            ends, radius, change = bounds
            errors = _errors(result, np.arange(len(ends)), ends)
            errors += [radius, change / _spread(result)]
        finite = (abs(result.params) < HUGE).all(axis=1)
        unit = unit_of(fit.model)
        limits = np.array([[unit * limit], [limit]])
        rows = np.flatnonzero(finite & ~(errors <= limits).all(axis=0))
        gradients = _continue(result, rows, NEARER * limit, errors)
        is_close = (errors[:, rows] > CLOSE * limits).any(axis=0)
        close = rows[is_close & (errors[:, rows] <= limits).all(axis=0)]
        gradients += _continue(result, close, TOLERANCE, errors, None)
    unreliable: Any = ~(errors <= limits).all(axis=0)
    if result.indefinite is not None:
        unreliable |= result.indefinite
    theta, loss = errors
    seconds = time.perf_counter() - started
    return ResultCheck(unreliable, theta / unit, loss, gradients, seconds, result)


def _continue(result, rows, tolerance, errors, looks=LOOKS):
    """Write to `errors` what refits from where the result left folds say; return the gradients."""
    if not rows.size:
        return 0
    errors[:, rows] = np.inf
    try:
        starts = result.params[rows]
        refits = refit_folds(result.fit, result.folds[rows], tolerance, starts, looks)
        result.fit.derivatives.defaults.check_refits(refits.params, result.folds[rows])
        theta, loss = _errors(result, rows, refits.params)
        left = np.where(refits.converged, 1.0, DOUBT) * refits.decrement
        share = left / np.maximum(np.maximum(theta, left), TINY)  # of the way that was gone
        errors[:, rows] = theta + left, loss * (1.0 + share)
    except (np.linalg.LinAlgError, ValueError):  # of some fold: which, ever smaller parts say
        parts = np.array_split(rows, 2) if rows.size > 1 else ()
        return sum(_continue(result, part, tolerance, errors, looks) for part in parts)
    return refits.evaluations["gradient"]


def _errors(result, rows, ends):
    """How far folds are from `ends` in standard errors, and how far their losses from those there.

    (2, n), the latter in standard deviations of the fold losses; inf where they are not finite.
    """
    folds = result.folds[rows]
    losses = result.fit.derivatives.heldout(ends, folds)
    change = replace(result, folds=folds, losses=losses).fold_losses - result.fold_losses[rows]
    lengths = result.fit.standard_errors_between(ends, result.params[rows])
    errors = np.array([lengths, abs(change) / _spread(result)])
    return np.where(np.isfinite(errors), errors, np.inf)


def _spread(result):
    finite = result.fold_losses[np.isfinite(result.fold_losses)]
    return finite.std() or 1.0 if finite.size else 1.0


@declared
def refit_unreliable(result: AResult, check: ResultCheck | np.ndarray | None = None) -> CVResult:
    """Replace the unreliable folds of a result by exact refits; the costs of both are added.

    check: what `check_result` found (it is called, if None), or flags (n_folds,) of your own.
    `diagnostics["refitted"]` of what is returned says which folds were. Params and losses of those
    that cannot be refitted are nan, which is warned of.
    """
    check = check_result(result) if check is None else check
    seconds = result.seconds
    evaluations = Counter(result.evaluations)
    if isinstance(check, ResultCheck):
        of = check.result
        alike = of.folds.same_as(result.folds) and np.array_equal(of.params, result.params, True)
        if not alike:
            raise ValueError("this check is of another result: give acv.check_result of this one")
        seconds += check.seconds
        evaluations["gradient"] += check.gradients
        check = check.unreliable
    flags = np.asanyarray(result.folds.lined_up(check))
    if np.ma.isMaskedArray(flags) or (flags.dtype, flags.shape) != (bool, (len(result.folds),)):
        got = f"{flags.dtype} {flags.shape}"
        raise ValueError(f"the flags must be ({len(result.folds)},) bool, one a fold; got {got}")
    rows = np.flatnonzero(flags)
    params = result.params.copy()
    losses = list(result.losses)
    indefinite = None if result.indefinite is None else result.indefinite.copy()
    refits = _refits(result, rows) if rows.size else None
    params[rows] = np.nan if refits is None else refits.params
    lost = [np.full(size, np.nan) for size in result.folds.scored.sizes[rows]]
    for row, refitted in zip(rows, lost if refits is None else refits.losses, strict=True):
        losses[row] = refitted
    if refits is not None:
        if indefinite is not None:
            indefinite[rows] = refits.indefinite
        seconds += refits.seconds
        evaluations += refits.evaluations
    return replace(
        result,
        method=f"{result.method}, {rows.size} folds refitted",
        params=params,
        losses=losses,
        seconds=seconds,
        evaluations=evaluations,
        indefinite=indefinite,
        diagnostics={"refitted": flags},
    )


def _refits(result, rows):
    """Exact refits of some folds, or None, with a warning, if there are none."""
    try:
        return exact(result.fit, result.folds.part(rows))
    except FAILURES as error:
        count = f"the losses of {len(rows)} of {len(rows)} folds are nan"
        warn(f"exact: {count}. {error}", UnconvergedFit)
        return None
