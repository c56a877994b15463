"""Cross-validation of fitted scikit-learn estimators without refitting them."""

import time
import warnings
from typing import Any

import numpy as np

from ..beyond.certify import certify
from ..check import ResultCheck, check_result, refit_unreliable
from ..checks import check_choice
from ..extras import require
from ..folds import from_splitter, leave_one_out, pairs_of
from ..folds.checks import end_to_end
from ..methods import ladder
from ..parallel import blas_for
from ..results import CVResult, Fit
from .estimators import fit_from
from .intervals import check_has_interval, score_intervals
from .scoring import fold_scores, means
from .translation import Translation, routed, unwrap

base = require("sklearn.base", extra="sklearn")
model_selection = require("sklearn.model_selection", extra="sklearn")

METHODS = ladder.METHODS
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
        `estimators.as_glm` has the conventions, and what is refused.
    X: (n, p), dense, sparse or a data frame of pandas or polars. Where p > n and coefficients are
        penalised, the work is that of n columns.
    cv, groups, scoring: as in `cross_validate`; any splitter whose training sets have no repeats,
        scorers that work on predictions, several at once as a list or dict.
    params: {"sample_weight": (n,)}, which weighs fitting, not scoring; the name is as for
        `cross_validate`: "ridge__sample_weight" for the step "ridge" that ends a Pipeline, and
        "groups" is here, too, where metadata routing is enabled.
    method: "newton_step" costs no more than "infinitesimal_jackknife" here, and errs far less;
        also "no_adjustment", "frozen_newton" or "exact".
    unreliable: what happens to folds that `check_result` finds too far from their refits: "refit"
        them exactly, "warn" of them (`UnreliableFolds`), "raise" ValueError, or "ignore" them,
        without a check. The baseline no_adjustment, exact, and newton_step of Ridge and
        LinearRegression, which is exact, are not checked. "certify": prove bounds instead, and
        refit the folds of which nothing is proved; of any method.

    Returns
    -------
    A dict of arrays (n_folds,): fit_time, score_time, test_score (test_<name> for several),
    unreliable (bool; refitted, if that was asked); and cv_result, the `CVResult`. With "certify"
    also certificate, and test_score_interval (n_folds, 2) that holds the score of exact refits.

    Raises
    ------
    ValueError: a Pipeline with a step that learns from y, such as SelectKBest: as fitted to all
        rows it has seen what is left out. An interval of a scorer that is no mean over rows,
        or of several classes or targets.
    """
    sample_weight, groups = routed(estimator, params, groups, scoring)
    estimator, X = unwrap(estimator, X)
    translation = Translation(estimator, X, y, sample_weight)
    proof = {}
    with blas_for(translation.model.n_params**3):
        fit = fit_from(translation.start, translation.model)
        if unreliable == "certify":
            check_has_interval(translation, scoring)
            result, tests, _ = run(translation, fit, X, y, groups, cv, method, "ignore")
            certificate = certify(result, complete=True)
            result, marked = certificate.result, certificate.refitted
            proof = {"certificate": certificate}
            proof |= score_intervals(translation, scoring, certificate, tests)
        else:
            result, tests, marked = run(translation, fit, X, y, groups, cv, method, unreliable)
    started = time.perf_counter()
    scores = proof | fold_scores(translation, scoring, result.params, X, np.asarray(y), tests)
    score_time = time.perf_counter() - started
    share = np.full(len(tests), 1.0 / len(tests))
    times = {"fit_time": share * result.seconds, "score_time": share * score_time}
    return times | scores | {"unreliable": marked, "cv_result": result}


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
    sample_weight, groups = routed(estimator, params, groups)
    estimator, X = unwrap(estimator, X)
    translation = Translation(estimator, X, y, sample_weight)
    is_classifier = base.is_classifier(estimator)
    if output == "predict_proba" and not is_classifier:
        raise ValueError(f"{type(estimator).__name__} has no predict_proba: use output='predict'")
    with blas_for(translation.model.n_params**3):
        fit = fit_from(translation.start, translation.model)
        result, tests, _ = run(translation, fit, X, y, groups, cv, method, unreliable)
    rows = end_to_end(tests).sites
    if not np.array_equal(np.sort(rows), np.arange(translation.model.n_sites)):
        raise ValueError("the test sets of cv are no partition of the rows: use a KFold, say")
    found = means(translation, result.params, tests)
    mean = np.empty_like(found)
    mean[rows] = found
    if output == "predict" and is_classifier:
        return estimator.classes_[mean.argmax(axis=1)]
    return mean


def run(
    translation: Translation,
    fit: Fit,
    X: Any,
    y: Any,
    groups: Any = None,
    cv: Any = None,
    method: str = "newton_step",
    unreliable: str = "refit",
) -> tuple[CVResult, Any, np.ndarray]:
    """(the result, the test sets, which folds were found unreliable), as the arguments ask."""
    check_choice("method", method, METHODS)
    check_choice("unreliable", unreliable, ACTIONS)
    folds, tests = _splits(cv, translation, X, y, groups)
    result = METHODS[method](fit, folds)
    is_exact = translation.model.quadratic and method == "newton_step"
    if is_exact or method not in APPROXIMATE or unreliable == "ignore":
        return result, tests, np.zeros(len(folds), bool)
    check = check_result(result)
    return ACTIONS[unreliable](result, check), tests, check.unreliable


def _warn(result: CVResult, check: ResultCheck) -> CVResult:
    if check.unreliable.any():
        warnings.warn(f"{check}: use unreliable='refit'", UnreliableFolds, stacklevel=4)
    return result


def _raise(result: CVResult, check: ResultCheck) -> CVResult:
    if check.unreliable.any():
        raise ValueError(f"{check}: use unreliable='refit', or method='exact'")
    return result


ACTIONS = {"refit": refit_unreliable, "warn": _warn, "raise": _raise, "ignore": None}


def _splits(cv, translation, X, y, groups):
    """(the folds, the test sets); sites of weight 0 are in no fold, but are scored."""
    observed = translation.model.observed
    if isinstance(cv, np.ndarray | list | tuple):
        cv = pairs_of(cv)
    is_classifier = base.is_classifier(translation.estimator)
    splitter = model_selection.check_cv(cv, y, classifier=is_classifier)
    if isinstance(splitter, model_selection.LeaveOneOut) and observed.all():
        folds = leave_one_out(len(observed))
        return folds, folds.scored
    pairs = list(splitter.split(X, y, groups))  # once: a splitter may draw
    return from_splitter(pairs, X, observed=observed), [test for _, test in pairs]
