"""Cross-validation of fitted scikit-learn estimators without refitting them."""

import time
import warnings
from typing import Any

import numpy as np

from ..checks import check_choice
from ..extras import require
from ..folds.checks import end_to_end
from .refits import ACTIONS, Refits, UnreliableFolds
from .scoring import fold_scores

base = require("sklearn.base", extra="sklearn")
exceptions = require("sklearn.exceptions", extra="sklearn")

__all__ = ["UnreliableFolds", "approx_cross_val_predict", "approx_cross_validate"]


def approx_cross_validate(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    cv: Any = None,
    scoring: Any = None,
    params: dict | None = None,
    method: str = "newton_step",
    unreliable: str = "refit",
) -> dict:
    """Cross-validate a fitted estimator as `sklearn.model_selection.cross_validate`, for one fit.

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import LeaveOneOut
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)
    >>> model = LogisticRegression().fit(X, y)
    >>> scores = approx_cross_validate(model, X, y, cv=LeaveOneOut(), scoring="accuracy")
    >>> print(f"{scores['test_score'].mean():.3f}")
    0.979

    Parameters
    ----------
    estimator: a fitted LogisticRegression, of any number of classes, balanced or not; a
        LinearRegression or Ridge, of one target or several; a Poisson-, Gamma- or
        TweedieRegressor; or one that LogisticRegressionCV or RidgeCV chose, alone or at the end of
        a Pipeline or in a search. A Pipeline's other steps stay as fitted to all rows.
        `acvlib.sklearn.estimators` has the conventions.
    X: (n, p), dense, sparse or a data frame of pandas or polars. Where p > n and coefficients are
        penalised, the work is that of n columns.
    cv, groups, scoring: as in `cross_validate`; any splitter whose training sets have no repeats,
        or `acvlib.Folds`; scorers see the whole estimator, Pipeline or search, and X as it is here.
    params: {"sample_weight": (n,)}, which weighs fitting, not scoring; the name is as for
        `cross_validate`: "ridge__sample_weight" for the step "ridge" that ends a Pipeline, and
        "groups" is here, too, where metadata routing is enabled.
    method: "newton_step" costs no more than "infinitesimal_jackknife" here, and errs far less;
        also "no_adjustment", "frozen_newton" or "exact".
    unreliable: what happens to folds that `check_result` finds too far from their refits: "refit"
        them exactly, "warn" of them (`UnreliableFolds`), "raise" ValueError, or "ignore" them,
        without a check. The baseline no_adjustment, exact, and newton_step of Ridge and
        LinearRegression, which is exact, are not checked.

    Returns
    -------
    A dict of arrays (n_folds,): fit_time, score_time, test_score (test_<name> for several; nan, and
    a warning, where it is undefined), unreliable (bool; refitted, if that was asked); and
    cv_result, the `CVResult`, or a tuple of one a target. It is without the folds that leave no row
    of some class, or score rows of weight 0 alone: these are refitted by scikit-learn.

    Raises
    ------
    ValueError: a Pipeline with a step that learns from y, such as SelectKBest: as fitted to all
        rows it has seen what is left out.
    """
    check_choice("unreliable", unreliable, ACTIONS)
    refits = Refits(estimator, X, y, params, groups, cv, scoring)
    refits.leave_out(method, unreliable)
    started = time.perf_counter()
    scores, undefined = fold_scores(refits, scoring)
    n_folds = len(refits.tests)
    score_time = time.perf_counter() - started
    found: dict[str, Any] = {
        "fit_time": np.full(n_folds, refits.seconds / n_folds),
        "score_time": np.full(n_folds, score_time / n_folds),
    }
    for name, values in scores.items():
        found[f"test_{name}"] = values
        if reasons := undefined[name]:
            fold = min(reasons)
            warnings.warn(
                f"{name} of {len(reasons)} of {n_folds} folds is undefined, nan; of fold {fold}: "
                f"{reasons[fold]!s:.300}. Of folds of one row, score all that "
                "approx_cross_val_predict says at once",
                exceptions.UndefinedMetricWarning,
                stacklevel=2,
            )
    found["cv_result"] = refits.result
    return found | {"unreliable": refits.unreliable}


def approx_cross_val_predict(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    cv: Any = None,
    params: dict | None = None,
    output: str = "predict",
    method: str = "newton_step",
    unreliable: str = "refit",
) -> np.ndarray:
    """Predict every row without its fold as `sklearn.model_selection.cross_val_predict`.

    output: "predict", (n,) or (n, targets); or, of a classifier, "predict_proba", (n, K); the rest
    is as for `approx_cross_validate`.

    Raises
    ------
    ValueError: a cv whose test sets are no partition of the rows; probabilities of a regression
    """
    check_choice("output", output, ("predict", "predict_proba"))
    check_choice("unreliable", unreliable, ACTIONS)
    refits = Refits(estimator, X, y, params, groups, cv)
    is_classifier = base.is_classifier(refits.last)
    if output == "predict_proba" and not is_classifier:
        name = type(refits.last).__name__
        raise ValueError(f"{name} has no predict_proba: use output='predict'")
    rows = end_to_end(refits.tests).sites
    if not np.array_equal(np.sort(rows), np.arange(len(refits.outcomes))):
        raise ValueError("the test sets of cv are no partition of the rows: use a KFold, say")
    refits.leave_out(method, unreliable)
    for reason in refits.by_theirs.values():
        if isinstance(reason, Exception):
            raise reason
    predicted = np.empty_like(refits.predictions)
    predicted[rows] = refits.predictions
    if output == "predict" and is_classifier:
        return refits.last.classes_[predicted.argmax(axis=1)]
    return predicted
