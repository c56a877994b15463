"""`approx_cross_validate` beside scikit-learn's own refits, penalty conventions included,
and what it refuses.
"""

import doctest
import importlib

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Lasso, LogisticRegression, PoissonRegressor, Ridge, RidgeCV
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    ShuffleSplit,
    TimeSeriesSplit,
    cross_validate,
)

import acvlib as acv
from acvlib import approx_cross_validate
from acvlib.sklearn import UnreliableFolds, estimators

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 4)) + 0.5
ETA = 0.6 * X @ np.array([1.0, -0.5, 0.3, 0.0])
LABELS = np.where(RNG.random(80) < 1 / (1 + np.exp(-ETA)), "yes", "no")
COUNTS = RNG.poisson(np.exp(ETA))
VALUES = ETA + RNG.normal(size=80)
GROUPS = np.repeat(np.arange(16), 5)
TIGHT = {"tol": 1e-8, "max_iter": 10_000}


def log_score(estimator, X, y):
    """Mean log P(y), which for single rows scikit-learn's own neg_log_loss refuses to give."""
    return estimator.predict_log_proba(X)[np.arange(len(y)), (y == "yes").astype(int)].mean()


CASES = {
    "logistic": (LogisticRegression(C=0.3, **TIGHT), LABELS, log_score),
    "logistic, newton-cholesky": (
        LogisticRegression(solver="newton-cholesky", **TIGHT),
        LABELS,
        log_score,
    ),
    "logistic, no penalty": (LogisticRegression(C=np.inf, **TIGHT), LABELS, log_score),
    "logistic, class weights": (
        LogisticRegression(class_weight={"yes": 3.0}, **TIGHT),
        LABELS,
        log_score,
    ),
    "logistic, no intercept": (LogisticRegression(fit_intercept=False, **TIGHT), LABELS, log_score),
    "ridge": (Ridge(alpha=5.0), VALUES, "neg_mean_squared_error"),
    "ridge, no intercept": (
        Ridge(alpha=5.0, fit_intercept=False),
        VALUES,
        "neg_mean_squared_error",
    ),
    "poisson": (PoissonRegressor(alpha=0.5, **TIGHT), COUNTS, "neg_mean_poisson_deviance"),
    "poisson, no penalty": (
        PoissonRegressor(alpha=0.0, **TIGHT),
        COUNTS,
        "neg_mean_poisson_deviance",
    ),
}
SPLITTERS = {
    "5": 5,
    "loo": LeaveOneOut(),
    "k": KFold(7, shuffle=True, random_state=0),
    "groups": GroupKFold(4),
    "random": ShuffleSplit(4, train_size=0.6, test_size=0.2, random_state=0),
    "time": TimeSeriesSplit(3),
}


@pytest.mark.parametrize("cv", SPLITTERS.values(), ids=SPLITTERS.keys())
@pytest.mark.parametrize(("estimator", "y", "scoring"), CASES.values(), ids=CASES.keys())
def test_exact_equals_scikit_learns_refits(estimator, y, scoring, cv):
    settings = {
        "cv": cv,
        "groups": GROUPS if isinstance(cv, GroupKFold) else None,
        "scoring": scoring,
    }
    theirs = cross_validate(estimator, X, y, **settings)
    ours = approx_cross_validate(estimator.fit(X, y), X, y, method="exact", **settings)
    assert_allclose(ours["test_score"], theirs["test_score"], rtol=1e-4, atol=1e-6)
    assert set(theirs) <= set(ours)


@pytest.mark.parametrize(("estimator", "y", "scoring"), CASES.values(), ids=CASES.keys())
def test_newton_is_the_default_and_nearer_to_refits_than_the_jackknife(estimator, y, scoring):
    estimator.fit(X, y)
    settings = {"cv": LeaveOneOut(), "scoring": scoring}
    exact = approx_cross_validate(estimator, X, y, method="exact", **settings)["test_score"]
    newton = approx_cross_validate(estimator, X, y, **settings)["test_score"]
    jackknife = approx_cross_validate(
        estimator, X, y, method="infinitesimal_jackknife", **settings
    )["test_score"]
    nothing = approx_cross_validate(estimator, X, y, method="no_adjustment", **settings)[
        "test_score"
    ]
    errors = [np.abs(scores - exact).mean() for scores in (newton, jackknife, nothing)]
    assert errors[0] < errors[1] / 3
    assert errors[1] < errors[2] / 3


@pytest.mark.parametrize("intercept", [True, False])
def test_ridge_leave_one_out_equals_ridgecv(intercept):
    grid = RidgeCV(alphas=[3.0], fit_intercept=intercept, store_cv_results=True).fit(X, VALUES)
    ridge = Ridge(alpha=3.0, fit_intercept=intercept).fit(X, VALUES)
    scores = approx_cross_validate(
        ridge, X, VALUES, cv=LeaveOneOut(), scoring="neg_mean_squared_error"
    )
    assert_allclose(-scores["test_score"], grid.cv_results_[:, 0], rtol=1e-10, atol=1e-10)


def test_sample_weights_weigh_fitting_and_not_scoring(rng):
    weights = rng.integers(1, 4, 80) * 1.0
    weights[5] = 0.0
    model = PoissonRegressor(alpha=0.5, **TIGHT)
    theirs = cross_validate(
        model, X, COUNTS, params={"sample_weight": weights}, scoring="neg_mean_absolute_error"
    )
    model.fit(X, COUNTS, sample_weight=weights)
    settings = {"params": {"sample_weight": weights}, "method": "exact"}
    settings["scoring"] = "neg_mean_absolute_error"
    ours = approx_cross_validate(model, X, COUNTS, **settings)
    assert_allclose(ours["test_score"], theirs["test_score"], rtol=1e-5)


def test_data_frames_and_several_scorers():
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = LogisticRegression(**TIGHT).fit(frame, LABELS)
    scores = approx_cross_validate(model, frame, LABELS, scoring=["accuracy", "roc_auc"])
    assert scores["test_accuracy"].shape == scores["test_roc_auc"].shape == (5,)
    assert isinstance(scores["cv_result"], acv.CVResult)


def test_the_example_in_the_docstring():
    assert doctest.testmod(importlib.import_module("acvlib.sklearn")).failed == 0


def test_an_estimator_of_other_data_is_warned_of():
    model = Ridge().fit(X, VALUES + 3 * X[:, 0])
    with pytest.warns(acv.estimators.UnconvergedFit, match="was it fitted to these data"):
        approx_cross_validate(model, X, VALUES)


def logistic(**settings):
    return LogisticRegression(**settings).fit(X, LABELS)


THREE = np.array(["a", "b", "c", "a"] * 20)
REFUSED = {
    "lasso": (
        lambda: Lasso().fit(X, VALUES),
        {"y": VALUES},
        TypeError,
        "Lasso has no translation to a GLM",
    ),
    "unfitted": (LogisticRegression, {}, NotFittedError, "not fitted"),
    "l1": (lambda: logistic(l1_ratio=1.0, solver="saga", **TIGHT), {}, ValueError, "L1 penalty"),
    "liblinear": (lambda: logistic(solver="liblinear"), {}, ValueError, "penalises the intercept"),
    "positive": (
        lambda: Ridge(positive=True).fit(X, VALUES),
        {"y": VALUES},
        ValueError,
        "positive=False",
    ),
    "targets of a Poisson regression": (
        lambda: PoissonRegressor().fit(X, COUNTS),
        {"y": X},
        ValueError,
        r"y \(80, 4\) have one entry for each row",
    ),
    "other columns": (logistic, {"X": X[:, :2]}, ValueError, "fitted to 4 columns"),
    "masked X": (logistic, {"X": np.ma.masked_equal(X, X[0, 0])}, ValueError, "a masked array"),
    "complex X": (logistic, {"X": X + 1j}, ValueError, "X must be real numbers"),
    "rows of two lengths": (logistic, {"X": [[1.0, 2.0], [3.0]]}, ValueError, "X must be real"),
    "labels of two lengths": (logistic, {"y": [[1.0, 2.0], [3.0]]}, ValueError, "y holds rows"),
    "numbers for cv": (logistic, {"cv": np.ones(3)}, ValueError, "split 0 must be a pair"),
    "one number, as an array": (logistic, {"cv": np.array(3)}, ValueError, "split 0 must be a"),
    "unknown labels": (logistic, {"y": THREE}, ValueError, "has not seen"),
    "unknown method": (
        logistic,
        {"method": "magic"},
        ValueError,
        "unknown method 'magic': one of no_adjustment",
    ),
    "repeated rows": (logistic, {"cv": [([0, 0, 1], [2])]}, ValueError, "repeats a row"),
    "overlap": (logistic, {"cv": [([0, 1], [1])]}, ValueError, "shares one with its test set"),
    "one class": (
        logistic,
        {"cv": [(np.flatnonzero(LABELS == "no"), np.flatnonzero(LABELS != "no"))]},
        ValueError,
        "all of one class",
    ),
}


@pytest.mark.parametrize(
    ("make", "changes", "error", "message"), REFUSED.values(), ids=REFUSED.keys()
)
def test_what_cannot_be_done_is_refused(make, changes, error, message):
    arguments = {"X": X, "y": LABELS} | changes
    with pytest.raises(error, match=message):
        approx_cross_validate(make(), **arguments)


def test_params_come_and_go():
    model = logistic()
    params = estimators.params_of(model) + 1.0
    twin = estimators.with_params(model, params)
    assert_allclose(estimators.params_of(twin), params)
    assert_allclose(estimators.params_of(model), params - 1.0)


def along_time():
    """A regression whose first training sets are small: hard for any approximation."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((120, 4))
    y = x @ [2.0, -1.0, 0.5, 0.0] + rng.standard_normal(120) > 0
    model = LogisticRegression(C=1e3, **TIGHT).fit(x, y)
    return model, x, y, {"cv": TimeSeriesSplit(5), "scoring": "neg_log_loss"}


def test_unreliable_folds_are_refitted_by_default_and_named():
    model, x, y, settings = along_time()
    refits = cross_validate(model, x, y, **settings)["test_score"]
    ignored = approx_cross_validate(model, x, y, unreliable="ignore", **settings)
    ours = approx_cross_validate(model, x, y, **settings)
    assert np.abs(ignored["test_score"] - refits).max() > 0.1
    assert_allclose(ours["test_score"], refits, atol=0.02)
    far = np.abs(ignored["test_score"] - refits) > 0.05
    assert ours["unreliable"][far].all()
    assert_allclose(ours["test_score"][ours["unreliable"]], refits[ours["unreliable"]], rtol=1e-4)
    assert f"{ours['unreliable'].sum()} folds refitted" in ours["cv_result"].method
    assert not ignored["unreliable"].any()


def test_unreliable_folds_can_be_warned_of_or_raised():
    model, x, y, settings = along_time()
    with pytest.warns(UnreliableFolds, match="folds are unreliable; fold 0: params about"):
        warned = approx_cross_validate(model, x, y, unreliable="warn", **settings)
    ignored = approx_cross_validate(model, x, y, unreliable="ignore", **settings)
    np.testing.assert_array_equal(warned["test_score"], ignored["test_score"])
    assert warned["unreliable"].any()
    with pytest.raises(ValueError, match="folds are unreliable.*method='exact'"):
        approx_cross_validate(model, x, y, unreliable="raise", **settings)
    with pytest.raises(ValueError, match="unreliable"):
        approx_cross_validate(model, x, y, unreliable="mend", **settings)
