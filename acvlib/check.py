"""Which folds of a result not to trust, found without refitting them, and exact refits of these.

At the params that a method gave a fold the gradient g of the fold's own objective is not quite 0.
The step -B^-1 g estimates how far the fold's optimum still is. B is the full fit's H, corrected by
a BFGS update so that it has the curvature that the fold's gradient shows between the full fit and
these params: of one left-out row of a GLM that is the fold's own Hessian. A fold whose estimate
lies near the limit is looked at again, from the point that the estimate leads to. Single rows of a
regression whose errors the fit's leverages bound below the limit are not looked at.
"""

import time
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.linalg import LinAlgError

from .checks import one_line
from .declared import Positive, declared
from .derivatives import kept_share
from .methods.exact import exact
from .parallel import pieces
from .results import AResult, CVResult

PORTION = 4096  # folds whose gradients are in memory together
LOOKS = 8  # at a fold that is undecided
DOUBT = 8.0  # an estimate below the limit may be too small by this multiple of the last move,
EXCESS = 0.7  # and one above the limit too large by this
NEAR = 0.02  # standard errors: a fold that is nearer to its refit has the refit's loss
FLAT = 0.02  # share of the full fit's curvature that a fold is taken to have at least
HUGE = 1e100  # what is larger counts as not finite: its square would not be


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

    def __str__(self):
        rows = np.flatnonzero(self.unreliable)
        told = [f"{rows.size} of {len(self.unreliable)} folds are unreliable"]
        for fold in rows[:3]:
            theta = self.theta_errors[fold]
            off = f"params about {theta:.2g} standard errors off, loss about "
            off += f"{self.loss_errors[fold]:.2g} standard deviations of the fold losses"
            missing = "its params, or its objective there, are not finite"
            told.append(f"fold {fold}: {off if np.isfinite(theta) else missing}")
        if rows.size > 3:
            told.append(f"and {rows.size - 3} more")
        return "; ".join(told)


@declared
def check_result(result: AResult, limit: Positive = 0.5) -> ResultCheck:
    """Estimate how far each fold is from its exact refit, at the price of two gradients for most.

    A fold is unreliable where its params are more than `limit` standard errors from the refit's, or
    its loss more than `limit` standard deviations of the fold losses; where they are not finite; or
    where its Hessian is indefinite, by which no step leads to a minimum.

    Raises
    ------
    ValueError : a limit that is not positive
    """
    started = time.perf_counter()
    search = _Search(result)
    with np.errstate(all="ignore"):  # a step that went far off may overflow: it is marked
        for part in pieces(len(result.folds), PORTION):
            search.bound(part)
            proved = (search.errors[:, part] <= limit).all(axis=0)
            rows = part.start + np.flatnonzero(~proved | ~np.isfinite(search.losses[part]))
            search.look(rows, limit)
    theta, loss = search.errors
    unreliable = ~((theta <= limit) & (loss <= limit))
    if result.indefinite is not None:
        unreliable |= result.indefinite
    seconds = time.perf_counter() - started
    return ResultCheck(unreliable, theta, loss, search.gradients, seconds)


class _Search:
    """Errors (2, n_folds) of params, in standard errors, and of losses, in standard deviations."""

    def __init__(self, result):
        self.result = result
        self.fit = result.fit
        self.derivatives = result.fit.derivatives
        self.losses = result.fold_losses
        finite = self.losses[np.isfinite(self.losses)]
        self.spread = (finite.std() if finite.size else 0.0) or 1.0
        self.share = kept_share(self.fit.model, result.folds)[:, None]
        self.errors = np.full((2, len(result.folds)), np.inf)
        self.gradients = 0

    def bound(self, part: slice) -> None:
        """Bound the errors of folds around their Newton steps, which takes no gradient."""
        folds = self.result.folds[part]
        bounds = self.derivatives.newton_bounds(self.fit, folds)
        if bounds is not None:
            ends, radius, change = bounds
            moves = self.result.params[part] - ends
            sizes = self._sizes(moves, self._losses(ends, folds) - self.losses[part])
            self.errors[:, part] = sizes + [radius, change / self.spread]

    def look(self, rows: np.ndarray, limit: float) -> None:
        """Follow quasi-Newton steps of folds towards their refits, until each is decided."""
        self.errors[:, rows] = np.inf
        rows = rows[_are_finite(self.result.params[rows])]
        if not rows.size:
            return
        points = self.result.params[rows]
        losses = self.losses[rows]
        before = np.broadcast_to(self.fit.params, points.shape)
        slopes = before
        if not self.derivatives.is_equation:
            slopes = self._gradients(self.fit.params, self.result.folds[rows])
        for _ in range(LOOKS):
            folds = self.result.folds[rows]
            gradients = _or_nan(self._gradients, points, folds, points.shape)
            steps = self._steps(rows, points - before, gradients - slopes, gradients)
            steps[~_are_finite(gradients)] = np.inf
            ends = points - steps
            after = losses.copy()
            moved = np.flatnonzero(
                _are_finite(steps) & (self.fit.standard_errors_between(steps, 0.0) > NEAR)
            )
            if moved.size:
                after[moved] = _or_nan(self._losses, ends[moved], folds[moved], moved.shape)
            last = self._sizes(steps, after - losses) / limit
            total = self._sizes(ends - self.result.params[rows], after - self.losses[rows])
            self.errors[:, rows] = total
            total = total / limit
            safe = (total + DOUBT * last < 1.0).all(axis=0)
            lost = (total - EXCESS * last > 1.0).any(axis=0) | np.isinf(total).any(axis=0)
            going = ~(safe | lost)
            if not going.any():
                break
            rows, before, slopes, points, losses = (
                each[going] for each in (rows, points, gradients, ends, after)
            )

    def _steps(self, rows, s, y, g):
        """B^-1 g, B^-1 = (I - r s y') H^-1 (I - r y s') + r s s', r = 1 / y's, a row a fold.

        s, y: the change of params and of gradients. Where y's falls below FLAT s'Hs, y is mixed
        with Hs until it does not: Powell's damped update, for which B is positive definite. An
        estimating equation has H alone.
        """
        share = self.share[rows]
        g = np.where(_are_finite(g)[:, None], g, 0.0)
        if self.derivatives.is_equation:
            return self.fit.hessian.solve(g.T).T / share
        whole = share * (s @ self.fit.metric)
        along = _dots(s, y)
        curvature = _dots(s, whole)
        flat = along < FLAT * curvature
        mixed = (1.0 - FLAT) * curvature / np.where(flat, curvature - along, 1.0)
        keep = np.where(flat, mixed, 1.0)[:, None]
        y = keep * y + (1.0 - keep) * whole
        along = _dots(s, y)
        r = np.where(along > 0.0, 1.0 / np.where(along > 0.0, along, 1.0), 0.0)
        down = r * _dots(s, g)
        steps = self.fit.hessian.solve((g - down[:, None] * y).T).T / share
        return steps + (down - r * _dots(y, steps))[:, None] * s

    def _gradients(self, points, folds):
        self.gradients += len(folds)
        return self.derivatives.fold_gradients(points, folds, values=False)[1]

    def _losses(self, points, folds):
        """The mean loss of each fold."""
        losses = self.derivatives.heldout(points, folds)
        return replace(self.result, folds=folds, losses=losses).fold_losses

    def _sizes(self, moves, losses):
        """Lengths of moves in standard errors, changes of losses in standard deviations."""
        lengths = self.fit.standard_errors_between(moves, 0.0)
        sizes = np.array([lengths, np.abs(losses) / self.spread])
        return np.where(np.isfinite(sizes), sizes, np.inf)


def _or_nan(function, points, folds, shape):
    """function(points, folds), a row a fold; nan where it fails at a point that is far off."""
    try:
        return function(points, folds)
    except (LinAlgError, ValueError):  # of some fold: which, is found out one by one
        n = len(folds)
        if n == 1:
            return np.full(shape, np.nan)
    each = [slice(row, row + 1) for row in range(n)]
    return np.concatenate([_or_nan(function, points[i], folds[i], (1, *shape[1:])) for i in each])


def _dots(a, b):
    return np.einsum("ij,ij->i", a, b)


def _are_finite(rows):
    return (np.abs(rows) < HUGE).all(axis=1)


@declared
def refit_unreliable(result: AResult, check: ResultCheck | np.ndarray | None = None) -> CVResult:
    """Replace the unreliable folds of a result by exact refits; the costs of both are added.

    check: what `check_result` found (it is called, if None), or flags (n_folds,) of your own.
    `diagnostics["refitted"]` of what is returned says which folds were.

    Raises
    ------
    ValueError : flags that are not one bool a fold
    """
    n_folds = len(result.folds)
    if check is None:
        check = check_result(result)
    flags = np.asanyarray(check.unreliable if isinstance(check, ResultCheck) else check)
    if np.ma.isMaskedArray(flags) or flags.dtype != bool or flags.shape != (n_folds,):
        got = f"{flags.dtype} {flags.shape}"
        raise ValueError(f"the flags must be ({n_folds},) bool, one a fold; got {got}")
    rows = np.flatnonzero(flags)
    params = result.params.copy()
    losses = list(result.losses)
    indefinite = None if result.indefinite is None else result.indefinite.copy()
    seconds = result.seconds
    evaluations = Counter(result.evaluations)
    if isinstance(check, ResultCheck):
        seconds += check.seconds
        evaluations += Counter(gradient=check.gradients)
    if rows.size:
        refits = exact(result.fit, result.folds[rows])
        params[rows] = refits.params
        for row, refitted in zip(rows, refits.losses, strict=True):
            losses[row] = refitted
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
