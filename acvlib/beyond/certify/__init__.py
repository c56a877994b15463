"""What a result guarantees: bounds, not estimates, of how far its folds are from their refits.

With a fold's gradient g at a point, |v| = sqrt(v' H v) and nu^2 = g' H^-1 g, let F'' be at least
kappa H there and |F'''[u, v, v]| at most R |u| F''[v, v]. Along a ray F'' falls by exp(-R t) at
most, so that the slope is at least kappa (1 - exp(-R t)) / R - nu. If R nu < kappa it is positive
from d = -log(1 - R nu / kappa) / R on: F, which is convex, has its minimum within d of the point.
If H is F'' itself that is within d - nu of the end of the Newton step.

Single rows of a regression are looked at from the fit, by leverages. Other folds are looked at from
their own params, by a gradient and the fit's Hessian, of which curvature keeps a share where rows
are left out, and exp(-M) where scores move by M. Or they are followed by quasi-Newton steps towards
their refits, from the fit's Hessian or one of their own: the way counts in the bound, or, if the
fold is refitted, is taken.
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
from ...solvers.lockstep import mend, times
from .chains import Chain
from .regressions import Regression
from .verified import SIDES, UNIT, UP, NotCertified, excess, gamma

FEW = 32  # params up to which a Hessian of a fold's own costs less than a refit
MOVES = 30  # of a fold towards its refit, each of which takes a gradient,
SLOW = 0.8  # unless one leaves more of its length than that
HESSIANS = 4  # Hessians of a fold's own on that way
EASE = 1e-9  # of the fit's diagonal, so that no such step is beyond bounds
CLOSE = 0.01  # of the way from there: how near to the refit it ends at most


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
    sharp: follow every fold to its refit by a Hessian of its own: bounds are then close to the true
        errors.

    Raises
    ------
    NotCertified: a model other than a logistic, multinomial or Poisson regression (neither balanced
        nor with a site_penalty) and a `LinearChainCRF` of sentences; a fit whose Hessian is too
        near to a singular one; or, if `complete`, a fold without a bound.
    """
    search = _Search(result)
    problem = search.problem
    if sharp:
        search.settle()
    elif isinstance(problem, Regression) and result.folds.sizes.max() == 1:
        search.keep(slice(None), *problem.single_rows(search.points, result.folds))
    search.refits = complete
    search.look()
    if complete:
        search.settle()
        search.refit()
        if left := np.flatnonzero(np.isinf(search.errors)).tolist():
            why = [f"{fold} (R nu = {search.reach[fold]:.3g})" for fold in left[:5]]
            raise NotCertified(f"{len(left)} refits have no finite bound: folds {', '.join(why)}")
    elif len(problem.at) <= FEW:
        search.settle()
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
    """Points on the way from folds' params to their refits, and how far they are, if it is known.

    refits: whether folds that move are refitted, or are bounded by their way.
    """

    refits = False

    def __init__(self, result: CVResult):
        n = len(result.folds)
        self.result = result
        self.problem: Any = _problem(result.fit)
        self.errors = np.full(n, np.inf)
        self.reach = np.full(n, np.nan)
        self.refitted, self.ended = np.zeros((2, n), bool)
        self.params = np.array(result.params)
        self.points, _ = self.problem.inward(self.params)

    @property
    def open(self) -> np.ndarray:
        """The folds without a bound, and refits that have not ended."""
        return np.flatnonzero(np.isinf(self.errors) | self.refitted & ~self.ended)

    def keep(self, rows: Any, residual: Any, gradient: Any, share: Any) -> None:
        """Take bounds, where smaller, around points that miss Newton steps by a residual.

        Gradient is a length; the Hessian is at least a share of the fit's.
        """
        root = np.sqrt(share)
        nu = UP * gradient / root
        self.reach[rows] = UP * self.problem.rate * nu / root
        errors = UP * (excess(self.reach[rows]) * nu + residual / root) / root
        self.errors[rows] = np.fmin(self.errors[rows], errors)

    def look(self) -> None:
        """Put balls around open folds by the fit's Hessian, and refit what has none on."""
        rows = self.open
        rows = rows[np.isfinite(self.points[rows]).all(axis=1)]
        for part in pieces(len(rows), self.problem.together):
            self._follow(rows[part], MOVES if self.refits else 0)

    def settle(self) -> None:
        """Follow open folds to their refits by Hessians of their own."""
        for rows in self.open[:, None]:
            for _ in range(HESSIANS):
                centre = self.points[rows]
                matrix, *errors = self.problem.hessian(centre[0], self.result.folds[rows])
                share = self.problem.whole.share(matrix, *errors)
                if not share:
                    break
                self._follow(rows, MOVES, share, centre, matrix[None])
                if self.ended[rows].all():
                    break

    def refit(self) -> None:
        """Refit the folds that are still open from the fit."""
        rows = self.open
        if rows.size:
            self._move(rows, exact(self.result.fit, self.result.folds[rows]).params)
            self.look()
            self.settle()

    def _move(self, rows, params):
        """Take other params of folds, of which nothing is proved yet."""
        self.refitted[rows] = self.refits
        self.errors[rows] = np.inf
        self.params[rows] = params
        self.points[rows], _ = self.problem.inward(params)

    def _follow(self, rows, moves, share=np.nan, centre=None, matrices=None):
        """Look at folds, and after each quasi-Newton step at those that go on.

        Their Hessians at the centre, or the fit, are matrices, at least a share of the fit's.
        """
        problem = self.problem
        folds = self.result.folds[rows]
        on = np.arange(len(rows))
        before = np.full(len(rows), np.inf)
        gradients = np.zeros(self.points[rows].shape)
        kept = np.full(len(rows), share)
        inverses = step = None
        for left in reversed(range(moves + 1)):
            few = rows[on]
            now, noise, drifts = problem.gradients(self.points[few], folds[on], centre)
            lengths = UP * (problem.whole.dual(now) + noise)
            near = problem.rate * lengths * np.exp(drifts) < 1.0
            new = on[np.isnan(kept[on]) & near]
            if new.size:
                kept[new] = problem.kept(folds[new])
            share = np.exp(-drifts) * np.nan_to_num(kept[on])
            self.keep(few, lengths, lengths, np.maximum(share, problem.floor))
            goal = TOLERANCE
            must = self.refitted[few]
            if centre is not None:
                goal = np.fmin(goal, CLOSE * problem.whole.length(self.points[few] - centre))
                must[:] = True
            open_ = np.isinf(self.errors[few])
            self.ended[few] = ~open_ & (lengths <= goal + 2.0 * noise)
            going = (open_ | must & ~self.ended[few]) & (lengths <= SLOW * before[on])
            if inverses is None:
                if not (left and going.any()):
                    break
                eased = problem.near(folds) if centre is None else matrices
                inverses = np.linalg.inv(eased + EASE * np.diag(problem.matrix[0].diagonal()))
            else:
                mend(inverses, on, step, now - gradients[on])
            gradients[on] = now
            before[on] = lengths
            on = on[going]
            if not (left and on.size):
                break
            step = -times(inverses[on], gradients[on])
            self._move(rows[on], self.params[rows[on]] + problem.outward(step))

    def certificate(self) -> Certificate:
        """What is known by now."""
        result, problem = self.result, self.problem
        if rows := np.flatnonzero(self.refitted).tolist():
            losses = list(result.losses)
            of_rows = result.fit.derivatives.heldout(self.params[rows], result.folds[rows])
            for row, own in zip(rows, of_rows, strict=True):
                losses[row] = own
            result = replace(
                result,
                method=f"{result.method}, {len(rows)} folds refitted",
                params=np.where(self.refitted[:, None], self.params, result.params),
                losses=losses,
                diagnostics={"refitted": self.refitted},
            )
        points, slack = problem.inward(result.params)
        way = points - self.points
        far = way.any(axis=1)
        slack[far] += problem.whole.length(way[far])
        slack[far] += 4.0 * UNIT * (np.abs(way[far]) @ problem.whole.sides)
        errors = np.fmin(UP * (self.errors + slack), np.inf)
        ends = problem.losses(result.params, errors, result.folds)
        wider = gamma(2 * ends.shape[1]) * np.abs(ends)  # so that means of bounds are bounds
        ends += SIDES * wider
        unknown = np.repeat(np.isinf(errors), result.folds.scored.sizes)
        lower, upper = (
            replace(result, losses=result.folds.split(each))
            for each in np.where(unknown, np.inf * SIDES, ends)
        )
        return Certificate(result, errors, lower, upper, self.refitted)
