"""What a result guarantees: bounds, not estimates, of how far its folds are from their refits.

`acvlib.concordance` has the proof. One-row folds of a GLM are first looked at from the full fit,
by the leverages that a Newton step has at hand; where this proves nothing, and folds of several
rows, from the params that the method gave them, by a gradient of their own and the Hessians around
the full fit, and again from where such steps lead; where that proves nothing, and folds of other
models, by a Hessian of their own, and from where Newton's method goes from there; and last, if that
is asked for, they are refitted.
"""

import time
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ..check import refit_unreliable
from ..concordance import EPSILON, Balls, Concordance, NotConcordant, balls
from ..declared import Positive, declared
from ..derivatives import Derivatives
from ..folds.checks import end_to_end
from ..results import AResult, CVResult

ANCHORS = ("fit", "own gradient", "own Hessian", "further step", "refit")
FIT, GRADIENT, HESSIAN, FURTHER, REFIT = range(5)  # from where, and by what, a fold was looked at
BY_CHORDS = (GRADIENT, FURTHER, FURTHER, FURTHER)  # by the Hessians around the full fit
BY_HESSIANS = (HESSIAN, FURTHER, FURTHER, FURTHER)  # by the folds' own
SHARE = 0.5  # of a wanted width that may be left to folds that are not made sharper


@dataclass(frozen=True)
class Certificate:
    """Bounds of each fold's exact refit; one entry or row a fold.

    certified (n_folds,) bool: whether the fold's objective is proved to have its minimum within
    the bounds, which are infinite elsewhere. theta_bound: the distance of the result's params from
    the refit's in the fold's own H, theta_errors: in standard errors of the full fit. centre
    (n_folds, D), radius: the refit's params are within radius standard errors of the centre.
    anchor: 0 to 4, a place in `ANCHORS`. slack: the share of the radius that is there for
    rounding. result: the certified `CVResult`, in which folds may have been refitted. lower, upper:
    the same with bounds in place of its losses. seconds: without refits.
    """

    result: CVResult = field(repr=False)
    certified: np.ndarray = field(repr=False)
    theta_bound: np.ndarray = field(repr=False)
    theta_errors: np.ndarray = field(repr=False)
    centre: np.ndarray = field(repr=False)
    radius: np.ndarray = field(repr=False)
    anchor: np.ndarray = field(repr=False)
    slack: np.ndarray = field(repr=False)
    lower: CVResult = field(repr=False)
    upper: CVResult = field(repr=False)
    seconds: float

    @cached_property
    def loss_interval(self) -> np.ndarray:
        """Bounds (n_folds, 2) of the exact `fold_losses`."""
        return np.column_stack([self.lower.fold_losses, self.upper.fold_losses])

    @cached_property
    def interval(self) -> np.ndarray:
        """Bounds (2,) of the exact `loss`; infinite unless every scored fold is certified."""
        return _mean_interval(self.lower, self.upper)

    @property
    def refitted(self) -> np.ndarray:
        """(n_folds,) bool: folds that were refitted to be certified."""
        return self.anchor == REFIT

    @property
    def width(self) -> float:
        """The length of `interval`."""
        return float(self.interval[1] - self.interval[0])

    def __repr__(self):
        return f"Certificate({self})"

    def __str__(self):
        low, high = self.interval
        count = f"{self.certified.sum()} of {len(self.certified)} folds certified"
        return f"{count}; exact loss in [{low:.8g}, {high:.8g}]"


@declared
def certify(
    result: AResult,
    complete: bool = False,
    width: Positive | None = None,
    sharp: bool = False,
) -> Certificate:
    """Bound how far each fold of a result is from its exact refit, and what the refit's loss is.

    The result may come from any method and any fit, converged or not: a refit is the minimum of the
    fold's own objective, wherever its search began. What is proved is proved of the objective in
    real numbers; a stated slack for rounding is part of every bound.

    Parameters
    ----------
    complete: refit what is not certified otherwise, so that `interval` is finite.
    width: refine folds, and refit some, the widest first, until `interval` is no longer than this.
    sharp: look at every fold from its own params, one-row folds too, whose bounds are then close to
        the true errors, at the price of a gradient and a Hessian each.

    Raises
    ------
    NotConcordant: a model of which nothing bounds the third derivatives, such as one with hidden
        states, or that is not convex; the message says which. Or a quadratic one, such as a
        Gaussian regression, whose refits cost no more than a proof.
    ValueError: a width that is not positive
    NoFiniteOptimum: a fold that is to be refitted and has no refit, as its data are separated
    """
    wanted = np.inf if width is None else width
    derivatives = result.fit.derivatives
    if derivatives.defaults.quadratic:
        name = type(derivatives.model).__name__
        raise NotConcordant(f"{name} is quadratic: use acv.exact, which is exact and as cheap")
    sought = _Search(derivatives, result)
    if sharp:
        sought.look(np.arange(len(result.folds)), HESSIAN)
    elif sought.known.cheap(result.folds):
        sought.look(np.arange(len(result.folds)), FIT)
    for anchor in BY_CHORDS if sought.known.shared else ():
        sought.look(sought.widest(wanted), anchor, chord=True)
    for anchor in BY_HESSIANS:
        sought.look(sought.widest(wanted), anchor)
    if complete or width is not None:
        sought.refit(sought.widest(wanted))
        if sought.certificate().width > wanted:  # rounding apart, of folds that were left wide
            sought.refit(np.flatnonzero(sought.anchor < REFIT))
    return sought.certificate()


class _Search:
    """Balls of all folds, that become smaller as folds are looked at from nearer."""

    def __init__(self, derivatives: Derivatives, result: CVResult):
        self.started = time.perf_counter()
        self.derivatives = derivatives
        self.result = result
        self.known: Concordance = derivatives.concordance(result.fit)
        self.refitting = 0.0
        n = len(result.folds)
        self.anchor = np.zeros(n, int)
        self.balls: Balls = Balls(result.params, *np.full((5, n), np.inf))
        sizes = end_to_end(result.folds.scored).sizes
        self.ends = np.concatenate([[0], np.cumsum(sizes)])
        self.losses = np.tile([[-np.inf], [np.inf]], self.ends[-1])

    def look(self, rows: np.ndarray, anchor: int, chord: bool = False) -> None:
        """Put balls around the Newton steps of some folds, from one of ANCHORS.

        chord: by the Hessians around the full fit.
        """
        start = self.balls.centre if anchor == FURTHER else self.result.params
        if anchor != FIT:
            rows = rows[np.isfinite(start[rows]).all(axis=1)]
        if not rows.size:
            return
        for part in self.derivatives.portions(self.result.folds[rows], start.shape[1]):
            few = rows[part]
            own = self.result.fit.params if anchor == FIT else start[few]
            self._look_at(few, anchor, own, chord)

    def _look_at(self, rows, anchor, start, chord):
        every = len(rows) == len(self.anchor)
        folds = self.result.folds if every else self.result.folds[rows]
        points = self.result.params if every else self.result.params[rows]
        found = balls(self.derivatives, self.known, start, points, folds, chord)
        known = np.flatnonzero(np.isfinite(found.radius))
        if known.size == len(self.anchor):
            self._bound_losses(rows, found.centre, found.radius)
        elif known.size:
            self._bound_losses(rows[known], found.centre[known], found.radius[known])
        if every and np.isinf(self.balls.radius).all():
            self.balls = found
            self.anchor[:] = anchor
            return
        if self.balls.centre is self.result.params:  # which stays as it is
            self.balls = self.balls._replace(centre=self.balls.centre.copy())
        better = ~(found.radius > self.balls.radius[rows])
        for own, new in zip(self.balls, found, strict=True):
            own[rows[better]] = new[better]
        self.anchor[rows[better]] = anchor

    def _bound_losses(self, rows, centre, radius):
        every = len(rows) == len(self.anchor)
        folds = self.result.folds if every else self.result.folds[rows]
        low, high = self.known.loss_range(centre, radius, folds)
        sizes = np.diff(self.ends)[rows]
        skipped = self.ends[rows] - (np.cumsum(sizes) - sizes)
        places = np.repeat(skipped, sizes) + np.arange(sizes.sum())
        self.losses[0, places] = np.maximum(self.losses[0, places], low)
        self.losses[1, places] = np.minimum(self.losses[1, places], high)

    def refit(self, rows: np.ndarray) -> None:
        """Refit some folds exactly, and look at them from there."""
        if not rows.size:
            return
        started = time.perf_counter()
        flags = np.zeros(len(self.anchor), bool)
        flags[rows] = True
        self.result = refit_unreliable(self.result, flags)
        self.refitting += time.perf_counter() - started
        self.balls.radius[rows] = np.inf  # what was measured from the params that were
        self.look(rows, REFIT)

    def widest(self, width: float) -> np.ndarray:
        """The folds without a bound, and the widest others, so that the rest is narrow enough."""
        if np.isinf(width):
            return np.flatnonzero(np.isinf(self.balls.radius))
        widths = np.add.reduceat(self.losses[1] - self.losses[0], self.ends[:-1])
        order = np.argsort(widths)
        allowed = SHARE * width * self.ends[-1]
        left = np.cumsum(widths[order]) <= allowed
        return np.sort(order[~left])

    def certificate(self) -> Certificate:
        """What is known by now."""
        found = self.balls
        steps = np.zeros(len(found.radius))
        if found.gap.any():
            steps = self.result.fit.standard_errors_between(self.result.params, found.centre)
        losses = [self.result.folds.split(end) for end in self.losses]
        return Certificate(
            result=self.result,
            certified=np.isfinite(found.radius),
            theta_bound=found.gap + found.own_radius,
            theta_errors=steps + found.radius,
            centre=found.centre,
            radius=found.radius,
            anchor=self.anchor.copy(),
            slack=found.slack,
            lower=replace(self.result, losses=losses[0]),
            upper=replace(self.result, losses=losses[1]),
            seconds=time.perf_counter() - self.started - self.refitting,
        )


def _mean_interval(lower, upper):
    ends = np.array([lower.loss, upper.loss])
    size = max(np.abs(end._pairs[2]).mean() for end in (lower, upper))
    slack = len(lower._pairs[2]) * EPSILON * size
    return ends + np.array([-slack, slack]) if np.isfinite(slack) else ends
