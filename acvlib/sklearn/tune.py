"""The choice of C or alpha by approximate cross-validation, for one fit a value."""

import warnings
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..checks import NotFinite, one_line, real_array
from ..extras import require
from ..fit import fit
from ..trials import UnconvergedFit, attempt_each, reasons
from . import run
from .scoring import fold_scores
from .translation import Translation, routed, unwrap

model_selection = require("sklearn.model_selection", extra="sklearn")
validation = require("sklearn.utils.validation", extra="sklearn")

REMEDY = (
    "A score such as r2 needs several rows a fold: pass cv=10, say, or another scoring. Fits that "
    "are singular or do not converge need a stronger penalty"
)


@dataclass(frozen=True)
class Tuned:
    """What `approx_tune` found.

    best: the value with the highest mean score; values, scores (means over folds), errors (their
    standard errors), each (n_values,), nan of those in `rejected`, (value, why it cannot be
    evaluated); estimator: with the best value, fitted to all rows.
    """

    __repr__ = one_line
    best: float
    values: np.ndarray
    scores: np.ndarray
    errors: np.ndarray
    estimator: Any = field(repr=False)
    rejected: tuple[tuple[float, str], ...] = ()


def approx_tune(
    estimator: Any, X: Any, y: Any, values: np.ndarray, *, scoring: Any = None, **settings: Any
) -> Tuned:
    """Choose C or alpha by approximate cross-validation: one fit and its folds for each value.

    Parameters
    ----------
    estimator: a fitted estimator or Pipeline with C or alpha, whatever its value.
    values: (n_values,) positive numbers for C or alpha.
    scoring: one scorer; minus the model's held-out loss (log loss, half the deviance) if None.
    settings: of `approx_cross_validate`; cv is leave-one-out unless given.

    A value is rejected, and warned of by `UnconvergedFit`, if its fit or a fold is singular, has no
    finite optimum or does not converge, or if a fold's score is not finite.

    Raises
    ------
    AllFailed: all values are rejected
    TypeError: an estimator without C or alpha
    ValueError: values that are not positive
    """
    values = real_array("values", values, 1)
    if not (len(values) and values.min() > 0.0):
        raise ValueError(f"values {values} must be one or more positive numbers")
    settings = {"cv": model_selection.LeaveOneOut()} | settings
    groups = settings.pop("groups", None)
    sample_weight, groups = routed(estimator, settings.pop("params", None), groups, scoring)
    estimator, X = unwrap(estimator, X)
    name = _penalty_of(estimator)

    scores = np.full(len(values), np.nan)
    errors = scores.copy()

    def trial(row, value):
        nonlocal estimator
        changed = copy(estimator).set_params(**{name: value})
        translation = Translation(changed, X, y, sample_weight)
        start = fit(translation.model, translation.start)  # from the value before
        result, tests, _ = run(translation, start, X, y, groups, **settings)
        of_folds = -result.fold_losses
        if scoring is not None:
            found = fold_scores(translation, scoring, result.params, X, np.asarray(y), tests)
            of_folds = found["test_score"]
        undefined = np.flatnonzero(~np.isfinite(of_folds))
        if undefined.size:
            raise NotFinite(f"fold {undefined[0]} has score {of_folds[undefined[0]]}")
        estimator = translation.estimator_at(start.params)
        scores[row] = of_folds.mean()
        errors[row] = of_folds.std(ddof=1) / np.sqrt(len(of_folds))
        return estimator

    tasks = ((value, row, value) for row, value in enumerate(values.tolist()))
    fitted, rejected = attempt_each("value", trial, tasks, REMEDY)
    if rejected:
        message = f"approx_tune: rejected values: {reasons(rejected)}"
        warnings.warn(message, UnconvergedFit, stacklevel=2)
    best = values[np.nanargmax(scores)]
    return Tuned(best, values, scores, errors, fitted[best], rejected)


def _penalty_of(estimator):
    validation.check_is_fitted(estimator)
    names = [name for name in ("C", "alpha") if name in estimator.get_params()]
    if not names:
        kind = type(estimator).__name__
        raise TypeError(
            f"{kind} has neither C nor alpha: pass a LogisticRegression or a Ridge, say"
        )
    return names[0]
