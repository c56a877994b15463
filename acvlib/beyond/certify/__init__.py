"""What a result guarantees: bounds, not estimates, of how far its folds are from their refits.

With a fold's gradient g at some point, a matrix H and |v| = sqrt(v' H v), let |F'''[u, v, v]| be at
most R |u| F''[v, v], and F'' at least kappa H at the point. Along a ray F'' falls by exp(-R t) at
most; the slope is at least kappa (1 - exp(-R t)) / R - nu, where nu^2 = g' H^-1 g. If R nu < kappa
it is positive from d = -log(1 - R nu / kappa) / R on: F, which is convex, has its minimum within d
of the point. If H is F'' itself that is within d - nu of the end of the Newton step.

Single rows of a regression are looked at from the fit, by leverages. Other folds are looked at from
their own params: by a gradient and the fit's Hessian, of which curvature keeps a share where rows
are left out, and exp(-M) where scores move by M; or by gradients and Hessians of their own.
The chapter "What the approximation guarantees" has the proof, and what rounding adds.

Source: Bach (2010), Propositions 1 and 2.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...check import refit_unreliable
from ...declared import declared
from ...models import FAMILIES, GLM, LinearChainCRF
from ...models.glm.families import Multinomial
from ...parallel import pieces
from ...results import AResult, CVResult
from .chains import Chain
from .regressions import Regression
from .verified import UNIT, UP, Metric, NotCertified, excess, gamma

FEW = 32  # params up to which a Hessian of a fold's own costs less than a refit
SHARES = (0.97, 0.9, 0.75, 0.5, 0.25, 0.1, 1e-2, 1e-4, 1e-6)  # of the fit's curvature
STEPS = 4  # of Newton's method from a fold's params, until R nu is
FAR = 0.05  # at most


@dataclass(frozen=True)
class Certificate:
    """Bounds of each fold's exact refit, which are infinite where nothing is proved.

    theta_errors (n_folds,): of the distance of the result's params from the refit's, in standard
    errors of the full fit. lower, upper: the result with bounds in place of its losses; their
    means bound those of the refits. refitted (n_folds,): folds that were refitted to be certified.
    """

    result: CVResult = field(repr=False)
    theta_errors: np.ndarray = field(repr=False)
    lower: CVResult = field(repr=False)
    upper: CVResult = field(repr=False)
    refitted: np.ndarray = field(repr=False)

    @property
    def certified(self) -> np.ndarray:
        """(n_folds,) bool: which folds have bounds."""
        return np.isfinite(self.theta_errors)

    @property
    def loss_interval(self) -> np.ndarray:
        """Bounds (n_folds, 2) of the exact `fold_losses`."""
        return np.column_stack([self.lower.fold_losses, self.upper.fold_losses])

    @property
    def interval(self) -> np.ndarray:
        """Bounds (2,) of the exact `loss`."""
        return np.array([self.lower.loss, self.upper.loss])

    def __repr__(self):
        low, high = self.interval
        count = f"{self.certified.sum()} of {len(self.certified)} folds certified"
        return f"Certificate({count}; exact loss in [{low:.8g}, {high:.8g}])"


@declared
@np.errstate(all="ignore")  # what is not finite proves nothing
def certify(result: AResult, complete: bool = False, sharp: bool = False) -> Certificate:
    """Bound how far each fold of a result is from its exact refit, and what the refit's loss is.

    The result may come from any method and any fit, converged or not: a refit is the minimum of the
    fold's own objective in real numbers.

    Parameters
    ----------
    complete: refit the folds that are not certified otherwise.
    sharp: look at every fold by a gradient and a Hessian of its own: bounds are then close to the
        true errors.

    Raises
    ------
    NotCertified: a model other than a logistic, multinomial or Poisson regression (neither balanced
        nor with a site_penalty) and a `LinearChainCRF` of sentences; a fit whose Hessian is too
        near to a singular one; or, if `complete`, a fold without a bound.
    """
    search = _Search(result)
    every = np.arange(len(result.folds))
    if sharp:
        search.by_hessians(every)
    elif search.problem.single_rows and result.folds.sizes.max() == 1:
        search.keep(every, *search.problem.single_rows(search.points, result.folds))
    search.look()
    if not complete and len(search.problem.at) <= FEW:
        search.by_hessians(search.open)
    if complete and search.open.size:
        search.refit()
        search.look()
        search.by_hessians(search.open)
        if left := search.open.tolist():
            why = [f"{fold} (R nu = {search.reach[fold]:.3g})" for fold in left[:5]]
            raise NotCertified(f"{len(left)} refits have no finite bound: folds {', '.join(why)}")
    return search.certificate()


def _problem(fit):
    """What is known of a model of these types."""
    model = fit.model
    if type(model) is GLM:
        known = [FAMILIES[name] for name in ("logistic", "poisson", "poisson rate")]
        plain = not (model.balanced or model.site_penalty)
        if plain and (type(model.family) is Multinomial or model.family in known):
            return Regression(fit)
    if type(model) is LinearChainCRF and not model.scheme:
        return Chain(fit)
    raise NotCertified(
        f"{type(model).__name__}: certificates are of logistic, multinomial and Poisson GLMs, "
        "without balanced and site_penalty, and of LinearChainCRF of sentences. Use acv.exact, or "
        "acv.check_result, which estimates"
    )


class _Search:
    """Distances of all folds' params from their refits, as far as they are known."""

    def __init__(self, result: CVResult):
        self.result = result
        self.problem: Any = _problem(result.fit)
        n = len(result.folds)
        self.points = self.problem.inward(result.params)
        self.theta_errors = np.full(n, np.inf)
        self.reach, self.kept = np.full((2, n), np.nan)
        self.refitted = np.zeros(n, bool)
        self.ends = result.folds.scored.ends
        self.losses = np.tile([[-np.inf], [np.inf]], self.ends[-1])

    @property
    def open(self) -> np.ndarray:
        """The folds without a bound."""
        return np.flatnonzero(np.isinf(self.theta_errors))

    def finite(self, rows):
        """Those of some folds whose params are finite."""
        return rows[np.isfinite(self.points[rows]).all(axis=1)]

    def keep(self, rows, errors, reach):
        """Take bounds in standard errors, where these are smaller than what is known."""
        self.reach[rows] = reach
        errors = errors + self.problem.slack(self.result.params[rows])
        better = errors < self.theta_errors[rows]
        rows, errors = rows[better], errors[better]
        if rows.size:
            self.theta_errors[rows] = errors
            starts, sizes = self.ends[rows], np.diff(self.ends)[rows]
            places = np.repeat(starts - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
            folds = self.result.folds[rows]
            losses = self.problem.losses(self.points[rows], errors, folds)
            wider = gamma(2 * self.ends[-1]) * np.abs(losses)  # so that means of bounds are bounds
            self.losses[:, places] = losses + wider * [[-1.0], [1.0]]

    def look(self):
        """Put balls around the params of open folds, by their gradients and the fit's Hessian."""
        problem = self.problem
        rows = self.finite(self.open)
        for part in pieces(len(rows), problem.together):
            few = rows[part]
            folds = self.result.folds[few]
            gradients, noise, drifts = problem.gradients(self.points[few], folds)
            nu = UP * (problem.whole.dual(gradients) + noise)
            rates = problem.rates(folds)
            near = few[np.isnan(self.kept[few]) & (rates * nu * np.exp(drifts) < 1.0)]
            if near.size:
                self.kept[near] = problem.kept(self.result.folds[near], SHARES)
            left = np.exp(-drifts) * np.nan_to_num(self.kept[few])
            nu /= np.maximum(left, problem.floor)
            self.keep(few, UP * (1.0 + excess(UP * rates * nu)) * nu, UP * rates * nu)

    def by_hessians(self, rows):
        """Put balls around Newton steps of some folds, by Hessians of their own."""
        for row in self.finite(rows):
            start = point = self.points[[row]]
            for _ in range(STEPS):
                step, radius, reach = self._newton(row, point)
                point = point - step
                self.keep(np.array([row]), self._distance(start, point) + radius, reach)
                if not FAR < reach[0] < np.inf:
                    break

    def _newton(self, row, point):
        """(the step, how far from its end the refit is, R nu) of a fold at a point (1, D)."""
        problem = self.problem
        fold = self.result.folds[[row]]
        gradients, noise, _ = problem.gradients(point, fold)
        try:
            matrix = problem.hessian(point[0], fold)
            own = Metric(*matrix)
        except NotCertified:
            return 0.0, np.array([np.inf]), np.array([np.inf])
        share = np.sqrt(problem.whole.share(*matrix, SHARES)) / UP
        nu = own.dual(gradients) + noise / share
        reach = UP * problem.rates(fold) / share * nu
        step = gradients @ own.inverse
        terms = own.doubt * nu + 2.0 * noise / share + 4.0 * UNIT * (np.abs(step) @ own.sides)
        sums = (own.sides @ own.units) * (np.abs(gradients) @ own.units)
        radius = excess(reach) * nu + terms + gamma(point.size) * sums
        return step, UP * radius / share, reach

    def _distance(self, start, point):
        """Of two points in standard errors; the latter may be off by a unit of rounding."""
        whole = self.problem.whole
        return UP * whole.length(start - point) + 4.0 * UNIT * (np.abs(point) @ whole.sides)

    def refit(self):
        """Refit the folds without a bound."""
        self.refitted = np.isinf(self.theta_errors)
        self.result = refit_unreliable(self.result, self.refitted)
        self.points = self.problem.inward(self.result.params)

    def certificate(self):
        """What is known by now."""
        low, high = (self.result.folds.split(end) for end in self.losses)
        lower, upper = replace(self.result, losses=low), replace(self.result, losses=high)
        return Certificate(self.result, self.theta_errors, lower, upper, self.refitted)
