"""Which folds of a result not to trust, found without refitting them, and exact refits of these.

At the params that a method gave a fold the gradient g of the fold's own objective is not quite 0.
The step -B^-1 g estimates how far the fold's optimum still is. B is the full fit's H, corrected by
a BFGS update so that it has the curvature that the fold's gradient shows between the full fit and
these params: of one left-out row of a GLM that is the fold's own Hessian. A fold whose estimate
lies near the limit is looked at again, from the point that the estimate leads to. Where a model
bounds the errors without a gradient, folds whose bounds are below the limit are not looked at.
"""

import time
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from ..checks import one_line, real_number
from ..declared import Positive, declared
from ..methods.exact import exact
from ..parallel import pieces
from ..results import AResult, CVResult
from .search import Search

PORTION = 4096  # folds whose gradients are in memory together


@dataclass(frozen=True)
class ResultCheck:
    """What `check_result` found of each fold.

    unreliable (n_folds,) bool; theta_errors: the estimated distance of each fold's params from its
    refit's, in standard errors of the full fit; loss_errors: that of its loss from the refit's, in
    standard deviations of the fold losses (either an upper bound, where no gradient was needed);
    gradients: how many were computed; seconds.
    """

    __repr__ = one_line
    unreliable: np.ndarray
    theta_errors: np.ndarray = field(repr=False)
    loss_errors: np.ndarray = field(repr=False)
    gradients: int
    seconds: float

    def reason(self, fold: int) -> str:
        """Say how far off a fold is."""
        theta = self.theta_errors[fold]
        if not np.isfinite(theta):
            return "its params, or its objective there, are not finite"
        deviations = f"{self.loss_errors[fold]:.2g} standard deviations of the fold losses"
        return f"params about {theta:.2g} standard errors off, loss about {deviations}"

    def __str__(self):
        rows = np.flatnonzero(self.unreliable)
        count = f"{rows.size} of {len(self.unreliable)} folds are unreliable"
        named = [f"fold {row}: {self.reason(row)}" for row in rows[:3]]
        more = [f"and {rows.size - 3} more"] if rows.size > 3 else []
        return "; ".join([count, *named, *more])


@declared
def check_result(result: AResult, limit: Positive = 0.5) -> ResultCheck:
    """Estimate how far each fold is from its exact refit, at the price of one gradient for most.

    A fold is unreliable where its params are more than `limit` standard errors from the refit's, or
    its loss more than `limit` standard deviations of the fold losses; where they are not finite; or
    where its Hessian is indefinite, by which no step leads to a minimum.

    Raises
    ------
    ValueError : a limit that is not positive
    """
    started = time.perf_counter()
    parts = pieces(len(result.folds), PORTION)
    search = Search(result.fit.derivatives, result)
    with np.errstate(all="ignore"):  # a step that went far off may overflow: it is marked
        found = [search.errors(part, limit) for part in parts]
    theta, loss = np.concatenate(found, axis=1)
    unreliable = ~((theta <= limit) & (loss <= limit))
    if result.indefinite is not None:
        unreliable |= result.indefinite
    return ResultCheck(
        unreliable=unreliable,
        theta_errors=theta,
        loss_errors=loss,
        gradients=search.gradients,
        seconds=time.perf_counter() - started,
    )


@declared
def refit_unreliable(result: AResult, check: ResultCheck | np.ndarray | None = None) -> CVResult:
    """Replace the unreliable folds of a result by exact refits; the costs of both are added.

    check: what `check_result` found (it is called, if None), or flags (n_folds,) of your own.
    `diagnostics["refitted"]` of what is returned says which folds were.

    Raises
    ------
    ValueError : flags that are not one bool a fold
    """
    if check is None:
        check = check_result(result)
    if isinstance(check, ResultCheck):
        unreliable = check.unreliable
        spent = Counter({"gradient": check.gradients})
        seconds = check.seconds
    else:
        unreliable = np.asanyarray(check)
        spent = Counter()
        seconds = 0.0
    _check_flags(unreliable, len(result.folds))
    rows = np.flatnonzero(unreliable)
    result = replace(
        result,
        method=f"{result.method}, {rows.size} folds refitted",
        seconds=result.seconds + seconds,
        evaluations=Counter(result.evaluations) + spent,
        diagnostics={"refitted": unreliable},
    )
    if not rows.size:
        return result
    return _with_refits(result, exact(result.fit, result.folds[rows]), rows)


def _check_flags(flags, n_folds):
    if np.ma.isMaskedArray(flags) or flags.dtype != bool or flags.shape != (n_folds,):
        got = f"{flags.dtype} {flags.shape}"
        raise ValueError(f"the flags must be ({n_folds},) bool, one a fold; got {got}")


def _with_refits(result, refits, rows):
    params = result.params.copy()
    params[rows] = refits.params
    indefinite = result.indefinite
    if indefinite is not None:
        indefinite = indefinite.copy()
        indefinite[rows] = refits.indefinite
    losses = list(result.losses)
    for row, refitted in zip(rows, refits.losses, strict=True):
        losses[row] = refitted
    return replace(
        result,
        params=params,
        losses=losses,
        indefinite=indefinite,
        seconds=result.seconds + refits.seconds,
        evaluations=result.evaluations + refits.evaluations,
    )
