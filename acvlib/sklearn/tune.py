"""The choice of C or alpha by approximate cross-validation, for one fit a value."""

from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..checks import one_line, real_array
from ..extras import require
from ..fit import fit
from . import run
from .scoring import fold_scores
from .translation import Translation, routed, unwrap

model_selection = require("sklearn.model_selection", extra="sklearn")
validation = require("sklearn.utils.validation", extra="sklearn")


@dataclass(frozen=True)
class Tuned:
    """What `approx_tune` found.

    best: the value with the highest mean score; values, scores (means over folds), errors (their
    standard errors), each (n_values,); estimator: with the best value, fitted to all rows.
    """

    __repr__ = one_line
    best: float
    values: np.ndarray
    scores: np.ndarray
    errors: np.ndarray
    estimator: Any = field(repr=False)


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

    Raises
    ------
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
    means, errors, fitted = [], [], []
    for value in values:
        estimator = copy(estimator).set_params(**{name: value})
        translation = Translation(estimator, X, y, sample_weight)
        start = fit(translation.model, translation.start)  # from the value before
        estimator = translation.estimator_at(start.params)
        result, tests, _ = run(translation, start, X, y, groups, **settings)
        scores = -result.fold_losses
        if scoring is not None:
            found = fold_scores(translation, scoring, result.params, X, np.asarray(y), tests)
            scores = found["test_score"]
        means.append(scores.mean())
        errors.append(scores.std(ddof=1) / np.sqrt(len(scores)))
        fitted.append(estimator)
    best = int(np.argmax(means))
    return Tuned(values[best], values, np.array(means), np.array(errors), fitted[best])


def _penalty_of(estimator):
    validation.check_is_fitted(estimator)
    names = [name for name in ("C", "alpha") if name in estimator.get_params()]
    if not names:
        kind = type(estimator).__name__
        raise TypeError(
            f"{kind} has neither C nor alpha: pass a LogisticRegression or a Ridge, say"
        )
    return names[0]
