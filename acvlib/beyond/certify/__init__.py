"""What a result guarantees: bounds, not estimates, of how far its folds are from their refits.

Lengths are |v| = sqrt(v' H v), H of the full fit. Where a fold's gradient has length nu, F'' is at
least kappa H and |F'''[u, v, v]| at most R |u| F''[v, v], the minimum is within -log(1 - R nu /
kappa) / R if R nu < kappa. kappa is the share of H that rows left out leave, times exp(-M) where
scores moved by M, or that of the ridge if it is more. Single rows of a regression are looked at by
leverages, others by a gradient, and what that does not prove is refitted, at last with a Hessian of
its own. The chapter "What the approximation guarantees" has the proof, and what rounding adds.

Source: Bach (2010), Propositions 1 and 2.
"""

import warnings
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...declared import declared
from ...methods.exact import exact, refit_folds
from ...models import FAMILIES, GLM, LinearChainCRF
from ...models.glm.families import Multinomial
from ...parallel import blas_for, pieces
from ...results import TOLERANCE, AResult, CVResult
from ...trials import FAILURES
from .problems import Chain, Regression
from .verified import SIDES, UP, NotCertified, gamma

MOVES = 10  # from a fold's own params to its refit
AT_ONCE = 2**17  # sites of folds that are looked at together
PROVED = [FAMILIES[name] for name in ("logistic", "poisson", "poisson rate")]


@dataclass(frozen=True, eq=False)
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
def certify(result: AResult, complete: bool = False, sharp: bool = False) -> Certificate:
    """Bound how far each fold of a result is from its exact refit, and what the refit's loss is.

    The result may come from any method and any fit, converged or not: a refit is the minimum of the
    fold's own objective in real numbers. Folds of which nothing is proved where they are get
    refitted: then bounds are of the refit, and of the way to it.

    Parameters
    ----------
    complete: raise for a fold without a bound.
    sharp: refit all folds: bounds are then close to the true errors.

    Raises
    ------
    NotCertified: a model other than a logistic, multinomial or Poisson regression (neither balanced
        nor with a site_penalty) and a `LinearChainCRF` of sentences; a fit whose Hessian is too
        near to a singular one; or, if `complete`, a fold without a bound.
    NoFiniteOptimum: if `complete`, folds without a bound, of which none has a minimum.
    """
    with blas_for(result.n_sites * len(result.fit.params) ** 2):
        return _certified(result, complete, sharp)


@np.errstate(all="ignore")  # what is not finite proves nothing
def _certified(result, complete, sharp):
    fit, folds, centres = result.fit, result.folds, result.params
    problem = _problem(fit)
    starts, slack = problem.inward(result.params)
    reach = np.full(len(folds), np.inf)  # R nu / kappa: a proof if it is less than 1
    lengths, drifts = reach, 0.0
    if isinstance(problem, Regression) and folds.sizes.max() == 1 and not sharp:
        lengths, drifts = problem.single_rows(starts, folds)
    kept, rate = problem.kept(folds), UP * problem.spreads.max()
    if not sharp:
        reach = rate * lengths / (kept * np.exp(-drifts))
        _look(problem, kept, centres, folds, reach)
    refitted = ~(reach < 1.0)
    for refit in (
        lambda rows: refit_folds(fit, folds[rows], TOLERANCE, result.params[rows], MOVES),
        lambda rows: exact(fit, folds[rows]),
    ):
        rows = np.flatnonzero(~(reach < 1.0))
        with warnings.catch_warnings(action="ignore"), suppress(*FAILURES):
            if rows.size:
                centres = centres.copy()
                centres[rows] = refit(rows).params
            _look(problem, kept, centres, folds, reach, fit.derivatives)
    left = np.flatnonzero(~(reach < 1.0))
    if complete and left.size:
        exact(fit, folds.part(refitted))  # says why, where there is none
        why = [f"{folds.name(row)} (R nu = {reach[row]:.3g})" for row in left[:5]]
        raise NotCertified(f"{len(left)} refits have no finite bound: {', '.join(why)}")
    points, lost = problem.inward(centres)
    radii = np.where(reach < 1.0, UP * (lost - np.log1p(-reach) / rate), np.inf)
    errors = radii + slack
    errors[refitted] += problem.whole.length(starts[refitted] - points[refitted])
    radii = np.repeat(radii, folds.scored.sizes)
    ends = problem.losses(centres, radii * problem.spreads[folds.scored.sites], folds)
    ends += SIDES * gamma(2 * ends.shape[1]) * np.abs(ends)  # so that means of bounds are bounds
    ends = np.where(np.isinf(radii), np.inf * SIDES, ends)
    lower, upper = (replace(result, losses=folds.split(each)) for each in ends)
    return Certificate(result, np.fmin(UP * errors, np.inf), lower, upper, refitted)


def _look(problem, kept, params, folds, reach, derivatives=None):
    """Find the reach of folds of which nothing is proved, at params (n, D).

    By the fit's Hessian, the ridge, or at last a Hessian of their own, of these derivatives.
    """
    rate, whole = UP * problem.spreads.max(), problem.whole
    rows = np.flatnonzero(~(reach < 1.0))
    least = whole.share(np.diag(problem.ridge), 0.0) if rows.size else 0.0
    for part in pieces(len(rows), 1 + AT_ONCE // len(problem.spreads)):
        some = rows[part]
        points, _ = problem.inward(params[some])
        gradients, noise, drifts = problem.gradients(points, folds[some])
        lengths = rate * (whole.dual(gradients) + noise)
        reach[some] = lengths / np.maximum(kept[some] * np.exp(-drifts), least)
        for row, length, *at in zip(some, lengths, points, gradients, strict=True):
            if derivatives and reach[row] >= 1.0 and np.isfinite(length):
                hessian = derivatives.fold_hessians(params[row, None], folds[[row]]).matrices[0]
                reach[row] = length / whole.share(*problem.with_errors(hessian, *at))


def _problem(fit):
    """What is known of a model of these types."""
    model = fit.model
    plain = type(model) is GLM and not (model.balanced or model.site_penalty)
    if plain and (type(model.family) is Multinomial or model.family in PROVED):
        return Regression(fit)
    if type(model) is LinearChainCRF and not model.scheme:
        return Chain(fit)
    raise NotCertified(
        f"{type(model).__name__}: certificates are of logistic, multinomial and Poisson GLMs, "
        "without balanced and site_penalty, and of LinearChainCRF of sentences. Use acv.exact, or "
        "acv.check_result, which estimates"
    )
