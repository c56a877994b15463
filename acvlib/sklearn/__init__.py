"""Cross-validation of fitted scikit-learn estimators without refitting them."""

import time
import warnings
from typing import Any

import numpy as np

from ..checks import check_choice
from ..extras import require
from ..folds import from_splitter, leave_one_out, pairs_of
from ..methods import ladder
from ..protocol import CVResult
from ..reliability import ResultCheck, check_result, refit_unreliable
from .estimators import as_glm, fit_of, with_params

base = require("sklearn.base", extra="sklearn")
metrics = require("sklearn.metrics", extra="sklearn")
model_selection = require("sklearn.model_selection", extra="sklearn")

METHODS = {method.__name__: method for method in ladder.METHODS}
APPROXIMATE = ("infinitesimal_jackknife", "frozen_newton", "newton_step")


class UnreliableFolds(UserWarning):
    """Some folds of an approximate result are probably far from their refits."""


def approx_cross_validate(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    cv: Any = None,
    scoring: Any = None,
    sample_weight: np.ndarray | None = None,
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
    estimator: a fitted LogisticRegression, Ridge or PoissonRegressor; `estimators.as_glm` has the
        conventions, and what is refused.
    cv, groups, scoring: as in `cross_validate`; any splitter whose training sets have no repeats,
        scorers that work on predictions, several at once as a list or dict.
    sample_weight: (n,), weighs fitting, not scoring.
    method: "newton_step" costs no more than "infinitesimal_jackknife" here, and errs far less;
        also "no_adjustment", "frozen_newton" or "exact".
    unreliable: what happens to folds that `check_result` finds too far from their refits: "refit"
        them exactly, "warn" of them (`UnreliableFolds`), "raise" ValueError, or "ignore" them,
        without a check. The baseline no_adjustment and exact are not checked.

    Returns
    -------
    A dict of arrays (n_folds,): fit_time, score_time, test_score (test_<name> for several),
    unreliable (bool; refitted, if that was asked); and cv_result, the `CVResult`. Its `pointwise`
    is the log loss of every test row, which the scorer
    neg_log_loss refuses to give for single ones.
    """
    check_choice("method", method, METHODS)
    check_choice("unreliable", unreliable, ACTIONS)
    model = as_glm(estimator, X, y, sample_weight)
    if isinstance(cv, np.ndarray | list | tuple):
        cv = pairs_of(cv)
    splitter = model_selection.check_cv(cv, y, classifier=base.is_classifier(estimator))
    folds, tests = _splits(splitter, model.observed, X, y, groups)
    result = METHODS[method](model, fit_of(estimator, model), folds)
    marked = np.zeros(len(tests), bool)
    if method in APPROXIMATE and unreliable != "ignore":
        check = check_result(model, result)
        marked = check.unreliable
        result = ACTIONS[unreliable](model, result, check)
    started = time.perf_counter()
    scorer = metrics.check_scoring(estimator, scoring)
    scores = _scores(scorer, estimator, result.params, X, np.asarray(y), tests)
    score_time = time.perf_counter() - started
    share = np.full(len(tests), 1.0 / len(tests))
    times = {"fit_time": share * result.seconds, "score_time": share * score_time}
    return times | scores | {"unreliable": marked, "cv_result": result}


def _warn(model: Any, result: CVResult, check: ResultCheck) -> CVResult:
    if check.unreliable.any():
        warnings.warn(f"{check}: use unreliable='refit'", UnreliableFolds, stacklevel=3)
    return result


def _raise(model: Any, result: CVResult, check: ResultCheck) -> CVResult:
    if check.unreliable.any():
        raise ValueError(f"{check}: use unreliable='refit', or method='exact'")
    return result


ACTIONS = {"refit": refit_unreliable, "warn": _warn, "raise": _raise, "ignore": None}


def _splits(splitter, observed, X, y, groups):
    """(the folds, the test sets); sites of weight 0 are in no fold, but are scored."""
    if isinstance(splitter, model_selection.LeaveOneOut) and observed.all():
        folds = leave_one_out(len(observed))
        return folds, folds.scored
    pairs = list(splitter.split(X, y, groups))  # once: a splitter may draw
    return from_splitter(pairs, X, observed=observed), [test for _, test in pairs]


def _scores(scorer, estimator, params, X, y, tests):
    rows = X.iloc if hasattr(X, "iloc") else np.asarray(X)
    scores = []
    for point, test in zip(params, tests, strict=True):
        scores.append(scorer(with_params(estimator, point), rows[test], y[test]))
    if isinstance(scores[0], dict):
        names = scores[0]
        return {f"test_{name}": np.array([score[name] for score in scores]) for name in names}
    return {"test_score": np.array(scores)}
