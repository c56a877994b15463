"""The choice of C or alpha by approximate cross-validation, for one fit a value."""

import warnings
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from ..checks import NotFinite, one_line, require, warn
from ..declared import Is, OneOf, Real, declared
from ..folds import Folds
from ..trials import UnconvergedFit, attempt_each, reasons
from . import fold_scores
from .estimators import chosen
from .refits import ACTIONS, METHODS, Refits

base = require("sklearn.base", extra="sklearn")
exceptions = require("sklearn.exceptions", extra="sklearn")
model_selection = require("sklearn.model_selection", extra="sklearn")

REMEDY = "Fits that are singular or do not converge need a stronger penalty"
# The scorer, and what it is multiplied by, that is minus the held-out loss of a family.
LOSSES = {
    **dict.fromkeys(("logistic", "multinomial"), ("neg_log_loss", 1.0)),
    **dict.fromkeys(("poisson", "poisson rate"), ("neg_mean_poisson_deviance", 0.5)),
    "gaussian": ("neg_mean_squared_error", 0.5),
}


@dataclass(frozen=True, eq=False)
class Tuned:
    """What `approx_tune` found.

    best: the value with the highest mean score; values, scores (means over folds), errors (their
    standard errors), each (n_values,), nan of those in `rejected`, (value, why it cannot be
    evaluated); estimator: the whole estimator or Pipeline, with the best value, fitted to all rows.
    """

    __repr__ = one_line
    best: float
    values: np.ndarray
    scores: np.ndarray
    errors: np.ndarray
    estimator: Any = field(repr=False)
    rejected: tuple[tuple[float, str], ...] = ()


@declared
def approx_tune(
    estimator: Any,
    X: Any,
    y: Any,
    values: Annotated[np.ndarray, Real("n_values", above=0.0)],
    *,
    groups: Any = None,
    cv: Any = None,
    scoring: Any = None,
    params: Annotated[dict, Is()] | None = None,
    method: Annotated[str, OneOf(*METHODS)] = "newton_step",
    unreliable: Annotated[str, OneOf(*ACTIONS)] = "refit",
) -> Tuned:
    """Choose C or alpha by approximate cross-validation: one fit and its folds for each value.

    Parameters
    ----------
    estimator: a fitted estimator, Pipeline or search with C or alpha, whatever its value.
    values: (n_values,) positive numbers for C or alpha.
    cv: as for `approx_cross_validate`; leave-one-out if None. All values have the same folds. Means
        over rows are not pooled; ranks, as AUC, have no value of one row, and pooled over
        leave-one-out they are biased against the model: take cv=10, say, for these.
    scoring: one scorer; minus log loss, or half the mean deviance, if None.
    groups, params, method, unreliable: as for `approx_cross_validate`.

    A value is rejected, and warned of by `UnconvergedFit`, if its fit or a fold is singular, has no
    finite optimum or does not converge, or if a fold's score is not finite.

    Raises
    ------
    AllFailed: all values are rejected
    TypeError: an estimator without C or alpha
    ValueError: values that are not positive, or several scorers
    """
    cv = model_selection.LeaveOneOut() if cv is None else cv
    refits = Refits(chosen(estimator), X, y, params, groups, cv)
    name = next((name for name in ("C", "alpha") if name in refits.last.get_params()), None)
    if name is None:
        kind = type(refits.last).__name__
        raise TypeError(f"{kind} has neither C nor alpha: pass a LogisticRegression or a Ridge")
    seen = refits.model.observed
    if not seen.all():  # rows of weight 0 choose nothing
        pairs = zip(refits.folds.omitted, refits.folds.scored, strict=True)
        kept = [
            (omit[seen[omit]], score[seen[score]]) for omit, score in pairs if seen[score].any()
        ]
        omitted, scored = ([pair[end] for pair in kept] for end in (0, 1))
        refits.folds = Folds(omitted, scored, len(seen))
        refits.tests = refits.folds.scored
    scores = np.full(len(values), np.nan)
    errors = scores.copy()
    start = refits.start

    def trial(row: int, value: Any):
        nonlocal start
        try:
            changed = refits.with_setting(name, value)
        except ValueError as error:  # a penalty that is beyond all numbers, say
            raise NotFinite(str(error)) from error
        changed.leave_out(method, unreliable, start)
        of_folds = _scores_of_folds(changed, scoring)
        start = changed.fit.params  # of the next value
        scores[row] = of_folds.mean()
        if len(of_folds) > 1:
            errors[row] = of_folds.std(ddof=1) / np.sqrt(len(of_folds))
        return changed.estimator()

    tasks = ((value, row, value) for row, value in enumerate(values.tolist()))
    fitted, rejected = attempt_each("value", trial, tasks, REMEDY)
    if rejected:
        warn(f"approx_tune: rejected values: {reasons(rejected)}", UnconvergedFit)
    best = values[np.nanargmax(scores)]
    return Tuned(best, values, scores, errors, fitted[best], rejected)


def _scores_of_folds(refits, scoring):
    """The score of each fold; raises NotFinite where one says nothing of a value."""
    name, factor = LOSSES[refits.model.family.name] if scoring is None else (scoring, 1.0)
    names = [*name] if isinstance(name, list | tuple | set | dict) else ["score"]
    if names == ["score"]:
        with warnings.catch_warnings():
            warnings.simplefilter("error", exceptions.UndefinedMetricWarning)
            try:
                scores = fold_scores(refits, name)
            except exceptions.UndefinedMetricWarning as undefined:
                raise NotFinite(str(undefined)) from undefined
        names = [*scores]
    if names != ["score"]:
        raise ValueError(f"scoring gives {names}: pass the one scorer to choose by")
    of_folds = factor * scores["score"]
    if not np.isfinite(of_folds).all():
        fold = np.argmin(np.isfinite(of_folds))
        raise NotFinite(f"fold {fold} has score {of_folds[fold]}")
    single = max(map(len, refits.tests)) == 1 and len(of_folds) > 1
    if single and not base.is_classifier(refits.last) and np.ptp(of_folds) == 0.0:
        score = f"every row has score {of_folds[0]:g}, whatever its fold predicts"
        raise NotFinite(f"{score}: pass cv=10, say, or another scoring")
    return of_folds
