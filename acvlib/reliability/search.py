"""Estimates of how far folds are from their refits, by quasi-Newton steps towards these."""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.linalg import LinAlgError

from ..concordance import NotConcordant, balls
from ..derivatives import Derivatives, is_equation, kept_share
from ..results import CVResult

LOOKS = 5  # gradients that an undecided fold may cost
DOUBT = 5.0  # an estimate below the limit may be too small by this multiple of the last move,
EXCESS = 0.7  # and one above the limit too large by this
NEAR = 0.02  # standard errors: a fold that is nearer to its refit has the refit's loss
FLAT = 0.02  # share of the full fit's curvature that a fold is taken to have at least
FAILURES = (LinAlgError, ValueError)  # of models at points that are far off
HUGE = 1e100  # what is larger counts as not finite: its square would not be


@dataclass
class _Looks:
    """Undecided folds: where each was looked at before, where next, and what is known there."""

    rows: np.ndarray
    before: np.ndarray
    slopes: np.ndarray  # the gradients at `before`
    points: np.ndarray
    losses: np.ndarray  # at `points`

    def some(self, chosen: np.ndarray) -> "_Looks":
        return _Looks(*(each[chosen] for each in vars(self).values()))


class Search:
    """Points that approach the optima of folds, from the params that a method gave them."""

    def __init__(self, derivatives: Derivatives, result: CVResult):
        self.fit = result.fit
        self.derivatives = derivatives
        self.folds = result.folds
        self.is_equation = is_equation(derivatives.model)
        self.share = kept_share(derivatives.model, self.folds)
        self.result = result
        self.start = result.params
        self.losses = result.fold_losses
        known = self.losses[np.isfinite(self.losses)]
        self.spread = (known.std() if known.size else 0.0) or 1.0
        self.gradients = 0

    def errors(self, part: slice, limit: float) -> np.ndarray:
        """Estimate the errors of params and of losses of some folds, (2, n)."""
        errors = self._bounds(part)
        proved = (errors <= limit).all(axis=0) & np.isfinite(self.losses[part])
        errors[:, ~proved] = np.inf
        looks = self._first(part.start + np.flatnonzero(~proved))
        for _ in range(LOOKS):
            if not looks.rows.size:
                break
            after = self._look(looks)
            last = self._sizes(after.points - looks.points, after.losses - looks.losses)
            rows = looks.rows
            total = self._sizes(after.points - self.start[rows], after.losses - self.losses[rows])
            errors[:, rows - part.start] = total
            looks = after.some(_is_undecided(total / limit, last / limit))
        return errors

    def _bounds(self, part):
        """Errors that are bounded without a gradient, (2, n); inf where none is."""
        folds = self.folds[part]
        if self._concordance is None or not self._concordance.cheap(folds):
            return np.full((2, len(folds)), np.inf)
        points = self.start[part]
        found = balls(self.derivatives, self._concordance, self.fit.params, points, folds)
        theta = self._distances(points - found.centre) + found.radius
        ends = self._concordance.loss_range(found.centre, found.radius, folds)
        low, high = (self._scored(end, part) for end in ends)
        loss = np.maximum(high - self.losses[part], self.losses[part] - low)
        return np.array([theta, loss / self.spread])

    @cached_property
    def _concordance(self):
        with suppress(NotConcordant):
            return self.derivatives.concordance(self.fit)
        return None

    def _scored(self, losses, part):
        """The mean loss of each fold."""
        folds = self.folds[part]
        return replace(self.result, folds=folds, losses=folds.split(losses)).fold_losses

    def _first(self, rows):
        """The full fit, where the slopes are known, and the params that were given."""
        rows = rows[_are_finite(self.start[rows])]
        before = np.tile(self.fit.params, (len(rows), 1))
        slopes = before
        if rows.size:
            slopes = self.derivatives.cross(self.fit.params, self.folds[rows]) + self._gradient
        return _Looks(rows, before, slopes, self.start[rows], self.losses[rows])

    @cached_property
    def _gradient(self):
        """dF/dparams (D,) of the full fit, which is not quite 0."""
        everywhere = np.ones(self.derivatives.n_sites)
        return self.derivatives.value_and_gradient(self.fit.params, everywhere)[1]

    def _look(self, looks):
        """A quasi-Newton step from the points, by the gradients there."""
        folds = self.folds[looks.rows]
        slopes = self._slopes(looks.points, folds)
        finite = _are_finite(slopes)
        slopes[~finite] = 0.0
        if self.is_equation:
            steps = self._newton(slopes, looks.rows)
        else:
            steps = self._quasi_newton(looks, slopes)
        steps[~finite] = np.inf
        points = looks.points - steps
        losses = looks.losses.copy()
        moved = np.flatnonzero(finite & (self._distances(steps) > NEAR))
        if moved.size:
            losses[moved] = self._fold_losses(points[moved], folds[moved])
        return _Looks(looks.rows, looks.points, slopes, points, losses)

    def _slopes(self, points, folds):
        """The fold gradients; nan where the model cannot compute one."""
        self.gradients += len(folds)
        gradients = self.derivatives.fold_gradients
        return _or_nan(lambda *some: gradients(*some, values=False)[1], points, folds, points.shape)

    def _newton(self, slopes, rows):
        """H^-1 g, H of the full fit and the share of it that the fold keeps."""
        return self.fit.hessian.solve(slopes.T).T / self.share[rows][:, None]

    def _quasi_newton(self, looks, slopes):
        """B^-1 g, B^-1 = (I - r s y') H^-1 (I - r y s') + r s s', r = 1 / y's, a row a fold.

        s, y: the change of params and of gradients. Where y's falls below FLAT s'Hs, y is mixed
        with Hs until it does not: Powell's damped update, for which B is positive definite.
        """
        share = self.share[looks.rows][:, None]
        s = looks.points - looks.before
        y = slopes - looks.slopes
        whole = share * (s @ self.fit.metric)
        along = _products(s, y)
        curvature = _products(s, whole)
        flat = along < FLAT * curvature
        mixed = (1.0 - FLAT) * curvature / np.where(flat, curvature - along, 1.0)
        keep = np.where(flat, mixed, 1.0)[:, None]
        y = keep * y + (1.0 - keep) * whole
        along = _products(s, y)
        r = np.where(along > 0.0, 1.0 / np.where(along > 0.0, along, 1.0), 0.0)
        down = r * _products(s, slopes)
        steps = self._newton(slopes - down[:, None] * y, looks.rows)
        return steps + (down - r * _products(y, steps))[:, None] * s

    def _distances(self, moves):
        return self.fit.standard_errors_between(moves, 0.0)

    def _sizes(self, moves, losses):
        """Lengths of moves in standard errors, changes of losses in standard deviations."""
        sizes = np.array([self._distances(moves), np.abs(losses) / self.spread])
        return np.where(np.isfinite(sizes), sizes, np.inf)

    def _fold_losses(self, points, folds):
        """The fold losses; nan where the model cannot compute one."""
        return _or_nan(self._losses_at, points, folds, len(folds))

    def _losses_at(self, points, folds):
        losses = self.derivatives.heldout(points, folds)
        return replace(self.result, folds=folds, params=points, losses=losses).fold_losses


def _or_nan(function, points, folds, shape):
    """function(points, folds), a row a fold; nan where it fails at a point that is far off."""
    try:
        return function(points, folds)
    except FAILURES:  # of some fold: which, is found out one by one
        found = np.full(shape, np.nan)
    for row in range(len(folds)):
        with suppress(*FAILURES):
            found[row] = function(points[[row]], folds[[row]])[0]
    return found


def _products(a, b):
    return np.einsum("ij,ij->i", a, b)


def _are_finite(rows):
    return (np.abs(rows) < HUGE).all(axis=1)


def _is_undecided(total, last):
    """Whether errors (2, n), in units of the limit, may lie on its other side."""
    safe = (total + DOUBT * last < 1.0).all(axis=0)
    lost = (total - EXCESS * last > 1.0).any(axis=0) | np.isinf(total).any(axis=0)
    return ~(safe | lost)
