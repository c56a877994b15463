"""Which of two regressions leave-one-out prefers, whatever k rows are dropped: a proof.

Let L_n be row n's loss, weight included, F the objective without the rows of S, a and b the scores
of row n at the optimum of F and at that without n as well. In u = B z, with mean Hessians H of
F - L_n on the way from one optimum to the other,

    b - a = L_n'(a) u'H^-1 u,   L_n'(a)^2 u'H^-1 u <= L_n(b) - L_n(a) <= L_n'(a) L_n'(b) u'H^-1 u

as L_n is convex. Sums of L_n(a) over kept rows are at least the tangents at the fit, and at most
what they are at the fit and the ridge gains, as the optimum is one. The barrier of k + 1 rows
bounds scores, slopes, curvatures and the ridge's part; of the rows that are dropped the k that
take most from the sum are taken.
"""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from ..checks import check_whole
from ..compare import data_difference
from ..declared import declared
from ..fit import fit as fit_model
from ..folds import leave_one_out
from ..methods.exact import exact
from ..methods.ladder import newton_step
from ..results import AFit
from ..trials import FAILURES
from .any_k import Conclusion, check_family
from .certify.verified import SIDES, UP, highest, norms


@declared
def same_choice(fit: AFit, other: AFit, k: int) -> tuple[int, int | None]:
    """How many rows decide which of two logistic or Poisson models leave-one-out prefers.

    The preferred one has the smaller sum of left-out losses, sample weights included, of all rows
    but those dropped. Both are refitted without these.

    Returns (the largest number, up to k, of which it is proved that no so many rows or fewer change
    the preference, the smallest found that do, dropping those first that speak for it most, or
    None). If they differ by one, the second is the answer.

    Raises
    ------
    NotCertified (a ValueError) : another model
    ValueError : models of other responses, weights or families; k is not less than the number of
        observed rows less that of params
    """
    _check_pair(fit, other, k)
    better, worse = (fit, other) if _gaps(fit, other, newton_step).sum() < 0.0 else (other, fit)
    found = _flipped(better, worse, k)
    low, high = 0, found or k + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if gap(better, worse, middle) > 0.0 else (low, middle)
    return low, found


@np.errstate(all="ignore")  # what is not finite proves nothing
def gap(better: Any, worse: Any, k: int) -> float:
    """Below the sum of left-out losses by which one fit is better, of any set of k >= 1 rows."""
    (_, high), _, optimism, _, gained, doubt = _terms(better, k, -1.0)
    (low, _), sure, _, tangent, lost, slack = _terms(worse, k, 1.0)
    each = low + sure - high - optimism
    taken = np.sort(np.maximum(each + tangent, 0.0))[-k:].sum()
    least = float(each.sum() - UP * (taken + gained + lost + doubt + slack))
    return least if np.isfinite(least) else -np.inf


def _terms(fit, k, sign):
    """(losses (2, n), sure (n,), optimism (n,), tangent (n,), ridge, doubt), bounds of one fit.

    Ends of losses at the fit; below and above what leaving a row out adds to its loss; above what
    a dropped row's tangent falls by; above sign ridge'delta; above the rounding of their sums.
    """
    model = fit.model
    weights, y, family = model.sample_weight, model.y, model.family
    pull = sign * model.standard_ridge(0.0) * model.columns.inward(fit.params)
    paths = Conclusion(fit, model.columns.gradient(pull), model.observed, k + 1)
    paths.settle()
    ends, far, start = paths.eta + SIDES * paths.boxes, paths.boxes.max(axis=0), paths.start
    slip = start.slips
    grown = slip * (1.0 + far) * np.exp(far)
    low, high = weights * (family.mean(ends) - y) + SIDES * grown
    steep = np.maximum(np.maximum(-low, high), 0.0)
    flattest = np.maximum(np.maximum(low, -high), 0.0)
    curvatures = weights * family.curvature(np.array([*ends, np.clip(0.0, *ends)]), y)
    least = np.maximum(curvatures.min(axis=0) - grown, 0.0)
    most = curvatures.max(axis=0) + grown
    off = paths.off + 2.0 * grown @ paths.sizes**2
    off += paths.tiny * (2.0 * most @ paths.sizes**2 + 1.0)
    share = 1.0 - off - UP * paths.largest(least * paths.lengths**2)
    share -= highest((paths.u.T * (start.curvature - least)) @ paths.u)
    top = UP * (1.0 + off + highest((paths.u.T * (most - start.curvature)) @ paths.u))
    short = np.maximum(norms(paths.u) - paths.tiny * paths.sizes, 0.0)
    sure = (2.0 - UP) * (flattest * short) ** 2 / top
    optimism = UP * (steep * paths.lengths) ** 2 / share if share > 0.0 else np.inf
    tangent = (SIDES * start.slope * paths.boxes).max(axis=0) + slip * far
    ridge = max(paths.bound(fit.params, 0.0), 0.0)
    ridge += (paths.noise + start.noise) * paths.radius
    rows = leave_one_out(len(y), model.observed)
    own = np.broadcast_to(fit.params, (len(rows), len(fit.params)))
    losses = np.zeros((2, len(y)))
    losses[:, rows.omitted.sites] = paths.problem.losses(own, np.zeros(len(rows)), rows)
    losses *= weights
    doubt = paths.tiny * (np.abs(losses).max(axis=0) + optimism + tangent).sum()
    return losses, sure, optimism, tangent, ridge, doubt


def _check_pair(fit, other, k):
    """Raise for models or a k of which nothing is proved."""
    for each in (fit, other):
        check_family(each)
        each.warn_unconverged("same_choice")
    a, b = fit.model, other.model
    if reason := data_difference(a, b):
        raise ValueError(f"same_choice: the models have different data: {reason}")
    if a.family != b.family or not np.array_equal(a.sample_weight, b.sample_weight):
        raise ValueError("same_choice: the models must have the same sample_weight and family")
    most = int(a.observed.sum()) - max(a.n_params, b.n_params) - 1
    check_whole("k", k, 1, most, " of the observed rows less those of params")


def _gaps(fit, other, method):
    """By how much each row's left-out loss of one fit is above that of another (n,)."""
    gaps = np.zeros(fit.model.n_sites)
    rows = leave_one_out(fit.model.n_sites, fit.model.observed)
    for sign, each in ((1.0, fit), (-1.0, other)):
        gaps[rows.omitted.sites] += sign * method(each, rows).fold_losses
    return fit.model.sample_weight * gaps


def _flipped(better, worse, k):
    """The fewest of the rows that favour the better fit most without which it is not preferred."""
    rows = np.argsort(_gaps(better, worse, newton_step))
    for size in range(1, k + 1):
        weights = better.model.sample_weight.copy()
        weights[rows[:size]] = 0.0
        with suppress(*FAILURES):  # of a set without which there is no refit nothing is said
            fits = [fit_model(replace(f.model, sample_weight=weights)) for f in (better, worse)]
            if all(_gaps(*fits, method).sum() > 0.0 for method in (newton_step, exact)):
                return size
    return None
