"""What a result guarantees: bounds, not estimates, of how far its folds are from their refits.

With a fold's gradient g at a point, |v| = sqrt(v' H v) and nu^2 = g' H^-1 g, let F'' be at least
kappa H there and |F'''[u, v, v]| at most R |u| F''[v, v]. Along a ray F'' falls by exp(-R t) at
most, so that the slope is at least kappa (1 - exp(-R t)) / R - nu. If R nu < kappa it is positive
from d = -log(1 - R nu / kappa) / R on: F, which is convex, has its minimum within d of the point.
If H is F'' itself that is within d - nu of the end of the Newton step.

Single rows of a regression are looked at from the fit, by leverages. Other folds are looked at from
their own params: by a gradient and the fit's Hessian, of which curvature keeps a share where rows
are left out, and exp(-M) where scores move by M; or by gradients and Hessians of their own.
The chapter "What the approximation guarantees" has the proof, and what rounding adds.

Source: Bach (2010), Propositions 1 and 2.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...declared import declared
from ...methods.exact import exact
from ...models import FAMILIES, GLM, LinearChainCRF
from ...models.glm.families import Multinomial
from ...parallel import pieces
from ...results import TOLERANCE, AResult, CVResult
from ...solvers.inverse import DenseFolds
from ...solvers.lockstep import Inverse
from .chains import Chain
from .regressions import Regression
from .verified import SIDES, UNIT, UP, NotCertified, excess, gamma

FEW = 32  # params up to which a Hessian of a fold's own costs less than a refit
MOVES = 30  # of a fold towards its refit, each of which takes a gradient,
SLOW = 0.8  # unless one leaves more of its length than that
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
    if sharp:
        search.by_hessians()
    elif isinstance(search.problem, Regression) and result.folds.sizes.max() == 1:
        search.by_leverages()
    search.look(complete)
    if complete and np.isinf(search.errors).any():
        search.settle()
        search.refit()
        search.look(False)
        search.by_hessians()
        if left := np.flatnonzero(np.isinf(search.errors)).tolist():
            why = [f"{fold} (R nu = {search.reach[fold]:.3g})" for fold in left[:5]]
            raise NotCertified(f"{len(left)} refits have no finite bound: folds {', '.join(why)}")
    elif len(search.problem.at) <= FEW:
        search.by_hessians()
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
        n = len(result.folds)
        self.result = result
        self.problem: Any = _problem(result.fit)
        self.errors = np.full(n, np.inf)
        self.reach, self.kept = np.full((2, n), np.nan)
        self.refitted = np.zeros(n, bool)
        self.params = np.array(result.params)
        self.points, self.slack = self.problem.inward(self.params)

    def _move(self, rows, params):
        """Take params of some folds, of which nothing is proved yet."""
        self.errors[rows] = np.inf
        self.params[rows] = params
        self.points[rows], self.slack[rows] = self.problem.inward(params)

    @property
    def open(self) -> np.ndarray:
        """The folds without a bound whose params are finite."""
        rows = np.flatnonzero(np.isinf(self.errors))
        return rows[np.isfinite(self.points[rows]).all(axis=1)]

    def _keep(self, rows, residual, gradient, share, away=0.0):
        """Take bounds, where smaller, around points away from some that solve Newton's equation.

        They do but for a residual, which is a length like the gradient in that equation and away,
        whose Hessian is at least a share of the fit's.
        """
        root = np.sqrt(share)
        nu = UP * gradient / root
        self.reach[rows] = UP * self.problem.rate * nu / root
        errors = away + UP * (excess(self.reach[rows]) * nu + residual / root) / root
        self.errors[rows] = np.fmin(self.errors[rows], errors)

    def by_leverages(self) -> None:
        """Put balls around Newton steps from the fit, of folds of one row each."""
        self._keep(slice(None), *self.problem.single_rows(self.points, self.result.folds))

    def look(self, complete: bool) -> None:
        """Put balls around the params of open folds, by their gradients and the fit's Hessian.

        complete: refit those without a bound, from there; what is slow is left.
        """
        rows = self.open
        for part in pieces(len(rows), self.problem.together):
            self._look(rows[part], complete)

    def _look(self, rows, complete, centre=None, matrices=None):
        """Look at folds, and after each quasi-Newton step at those that go on.

        `kept` is of the Hessian at the centre, of which `matrices` are the folds'.
        """
        problem = self.problem
        folds = self.result.folds[rows]
        on = np.arange(len(rows))
        gradients = np.zeros(self.points[rows].shape)
        before = np.full(len(rows), np.inf)
        inverse = None
        for _ in range(MOVES if complete else 1):
            few = rows[on]
            now, noise, drifts = problem.gradients(self.points[few], folds[on], centre)
            lengths = UP * (problem.whole.dual(now) + noise)
            near = problem.rate * lengths * np.exp(drifts) < 1.0
            new = few[np.isnan(self.kept[few]) & near]
            if new.size:
                self.kept[new] = problem.kept(self.result.folds[new])
            share = np.exp(-drifts) * np.nan_to_num(self.kept[few])
            self._keep(few, lengths, lengths, np.maximum(share, problem.floor))
            if inverse is not None:
                inverse.mend(on, moves, now - gradients[on], len(rows))
            gradients[on] = now
            far = self.refitted[few] & (lengths > TOLERANCE + 2.0 * noise)
            self.errors[few[far]] = np.inf  # a refit is one where a bound is near its rounding
            going = np.isinf(self.errors[few]) & (lengths <= SLOW * before[on])
            before[on] = lengths
            on = on[going]
            if not (complete and on.size):
                break
            self.refitted[rows[on]] = True
            if inverse is None:
                inverse = Inverse(DenseFolds(problem.near(folds) if centre is None else matrices))
            moves = -inverse.multiply(gradients[on], on)
            self._move(rows[on], self.params[rows[on]] + problem.outward(moves))

    def by_hessians(self) -> None:
        """Put balls around Newton steps of open folds, by gradients and Hessians of their own."""
        whole = self.problem.whole
        for row in self.open:
            fold = self.result.folds[[row]]
            point = self.points[[row]]
            for _ in range(STEPS):
                gradient, noise, _ = self.problem.gradients(point, fold)
                matrix, terms, error = self.problem.hessian(point[0], fold)
                share = whole.share(matrix, terms, error)
                if not share:
                    break
                step = np.linalg.solve(matrix, gradient[0])[None]
                point = point - step
                sizes = np.sqrt(np.maximum(terms, np.diag(matrix)))
                lost = (error + gamma(2 * len(sizes))) * (np.abs(step) @ sizes) * sizes
                lost = noise + (lost + gamma(8) * np.abs(gradient)) @ whole.units
                residual = whole.dual(gradient - step @ matrix) + lost
                away = whole.length(self.points[[row]] - point)
                away += 4.0 * UNIT * (np.abs(point) @ whole.sides)
                self._keep([row], residual, whole.dual(gradient) + noise, share, away)
                if not FAR < self.reach[row] < np.inf:
                    break

    def settle(self) -> None:
        """Refit open folds on, by Hessians of their own."""
        for row in self.open:
            for _ in range(STEPS):
                point = self.points[[row]].copy()
                matrix, *errors = self.problem.hessian(point[0], self.result.folds[[row]])
                self.kept[row] = self.problem.whole.share(matrix, *errors)
                if not self.kept[row]:
                    break
                self._look(np.array([row]), True, point, matrix[None])
                if np.isfinite(self.errors[row]):
                    break

    def refit(self) -> None:
        """Refit the folds without a bound from the fit."""
        rows = np.flatnonzero(np.isinf(self.errors))
        if not rows.size:
            return
        self.refitted[rows] = True
        self.kept[rows] = np.nan
        self._move(rows, exact(self.result.fit, self.result.folds[rows]).params)

    def _mended(self):
        """The result, with the refits that were needed."""
        result = self.result
        rows = np.flatnonzero(self.refitted)
        if not rows.size:
            return result
        losses = list(result.losses)
        of_rows = result.fit.derivatives.heldout(self.params[rows], result.folds[rows])
        for row, own in zip(rows, of_rows, strict=True):
            losses[row] = own
        return replace(
            result,
            method=f"{result.method}, {rows.size} folds refitted",
            params=self.params,
            losses=losses,
            diagnostics={"refitted": self.refitted},
        )

    def certificate(self) -> Certificate:
        """What is known by now."""
        result = self._mended()
        errors = np.where(np.isinf(self.errors), np.inf, self.errors + self.slack)
        ends = self.problem.losses(result.params, errors, result.folds)
        wider = gamma(2 * ends.shape[1]) * np.abs(ends)  # so that means of bounds are bounds
        ends += SIDES * wider
        unknown = np.repeat(np.isinf(errors), result.folds.scored.sizes)
        lower, upper = (
            replace(result, losses=result.folds.split(each))
            for each in np.where(unknown, np.inf * SIDES, ends)
        )
        return Certificate(result, errors, lower, upper, self.refitted)
