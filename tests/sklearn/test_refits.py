"""Every estimator beside its refits by scikit-learn: conventions, splitters, weights, shapes."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array, random_array
from sklearn.datasets import load_iris
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
    RidgeCV,
)
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    LeavePOut,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_val_predict,
    cross_validate,
)

import acvlib as acv
from acvlib.sklearn import estimators

RNG = np.random.default_rng(0)
IRIS, SPECIES = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[SPECIES]
N = 90
X = RNG.normal(size=(N, 4)) + 0.5
ETA = 0.6 * X @ np.array([1.0, -0.5, 0.3, 0.0])
LABELS = np.where(RNG.random(N) < 1 / (1 + np.exp(-ETA)), "yes", "no")
RARE = np.where(RNG.random(N) < 0.3 / (1 + np.exp(-ETA)), "rare", "usual")
THREE = np.where(ETA + RNG.normal(size=N) > 1.0, "c", np.where(RNG.random(N) < 0.3, "b", "a"))
COUNTS = RNG.poisson(RNG.uniform(0.5, 3.0, N) * np.exp(ETA))
TIMES = RNG.gamma(2.0, np.exp(ETA) / 2.0)
VALUES = ETA + RNG.normal(size=N)
TARGETS = X @ RNG.normal(size=(4, 3)) + RNG.normal(size=(N, 3))
WEIGHTS = RNG.integers(0, 4, N) / 2.0
GROUPS = np.repeat(np.arange(18), 5)
WIDE = RNG.normal(size=(40, 150))
REPEATED = np.vstack([WIDE[:35], WIDE[:5]])  # rows that are there twice: X X' is singular
SPARSE = random_array((40, 150), density=0.1, rng=RNG, format="csr")
WIDE_LABELS = (WIDE[:, 0] + RNG.normal(size=40) > 0).astype(int)
WIDE_VALUES = WIDE[:, :5].sum(axis=1) + RNG.normal(size=40)
TALL = random_array((N, 6), density=0.5, rng=RNG, format="csr")
TIGHT = {"tol": 1e-9, "max_iter": 10_000}
NEWTON = TIGHT | {"solver": "newton-cholesky"}
TWO = ["neg_log_loss", "accuracy", "balanced_accuracy", "roc_auc"]
MORE = ["neg_log_loss", "accuracy", "neg_brier_score", "roc_auc_ovr"]
ERRORS = ["neg_mean_squared_error", "neg_root_mean_squared_error", "neg_mean_absolute_error", "r2"]
COUNTING = ["neg_mean_poisson_deviance", "neg_mean_absolute_error"]
STRATA = StratifiedKFold(5, shuffle=True, random_state=0)
FOLDS = KFold(6, shuffle=True, random_state=1)


def logistic(**settings):
    return LogisticRegression(**TIGHT | settings)


BALANCED = logistic(class_weight="balanced", fit_intercept=False)
COUNTER = PoissonRegressor(alpha=0.5, **TIGHT)
MIXED = RNG.normal(size=(4, 2))
OBJECTS = {
    "logistic": (logistic(C=0.3), X, LABELS, TWO, None),
    "no penalty": (logistic(C=np.inf), X, LABELS, TWO, None),
    "class weights": (logistic(class_weight={"yes": 3.0}), X, LABELS, TWO, None),
    "no intercept": (logistic(fit_intercept=False), X, LABELS, TWO, None),
    "iris": (logistic(), IRIS, NAMES, MORE, None),
    "three, no penalty": (logistic(C=np.inf), X, THREE, MORE, None),
    "three, no intercept": (logistic(fit_intercept=False), X, THREE, MORE, None),
    "balanced": (logistic(class_weight="balanced"), X, THREE, MORE, None),
    "balanced, two": (logistic(class_weight="balanced", C=0.5), X, RARE, TWO, None),
    "balanced, two, weights": (BALANCED, X, RARE, TWO, WEIGHTS + 0.5),
    "least squares": (LinearRegression(), X, VALUES, ERRORS, None),
    "ridge": (Ridge(5.0), X, VALUES, ERRORS, WEIGHTS),
    "ridge, no intercept": (Ridge(5.0, fit_intercept=False), X, VALUES, ERRORS, None),
    "targets": (Ridge(2.0), X, TARGETS, ERRORS, WEIGHTS),
    "targets, least squares": (LinearRegression(), X, TARGETS, ERRORS, None),
    "poisson": (PoissonRegressor(alpha=0.5, **NEWTON), X, COUNTS, COUNTING, WEIGHTS),
    "poisson, no penalty": (PoissonRegressor(alpha=0.0, **TIGHT), X, COUNTS, COUNTING, None),
    "rates": (PoissonRegressor(alpha=0.1, **NEWTON), X, TIMES, COUNTING, None),
    "sparse": (Ridge(1.0, solver="sparse_cg", tol=1e-12), TALL, VALUES, ERRORS, None),
    "wide": (logistic(C=0.5), WIDE, WIDE_LABELS, TWO, None),
    "wide, ridge": (Ridge(3.0), WIDE, WIDE_VALUES, ERRORS, None),
    "wide, repeated rows": (Ridge(3.0), REPEATED, WIDE_VALUES, ERRORS, None),
    "wide, targets": (Ridge(2.0), WIDE, TARGETS[:40], ERRORS, None),
    "wide, sparse": (logistic(C=2.0), SPARSE, WIDE_LABELS, TWO, None),
    "wide, three": (logistic(C=2.0), SPARSE, THREE[:40], MORE[:3], None),
    "wide, mean of losses": (COUNTER, SPARSE, abs(WIDE_VALUES), COUNTING, None),
    "least norm": (LinearRegression(), np.hstack([X, X @ MIXED]), VALUES, ERRORS, WEIGHTS + 0.5),
    "one target": (Ridge(2.0), X, TARGETS[:, :1], ERRORS, None),
}
QUADRATIC = (LinearRegression, Ridge)


def fitted(name):
    """(estimator, X, y, settings) of both libraries' cross_validate."""
    estimator, x, y, scoring, weights = OBJECTS[name]
    params = None if weights is None else {"sample_weight": weights}
    cv = STRATA if isinstance(estimator, LogisticRegression) else FOLDS
    estimator.fit(x, y, **params or {})
    return estimator, x, y, {"cv": cv, "params": params, "scoring": scoring}


@pytest.mark.parametrize("name", OBJECTS)
def test_scores_and_predictions_equal_those_of_refits(name):
    estimator, x, y, settings = fitted(name)
    theirs = cross_validate(estimator, x, y, **settings)
    ours = acv.approx_cross_validate(estimator, x, y, method="exact", **settings)
    assert set(theirs) <= set(ours)
    how = {each: settings[each] for each in ("cv", "params")}
    for output in ["predict"] + ["predict_proba"] * hasattr(estimator, "classes_"):
        if "class weights" not in name:  # whose names cross_val_predict forgets
            want = cross_val_predict(estimator, x, y, method=output, **how)
            found = acv.approx_cross_val_predict(
                estimator, x, y, output=output, method="exact", **how
            )
            assert found.shape == want.shape
            if found.dtype.kind == "f":
                assert_allclose(found, want, rtol=1e-5, atol=1e-5)
            else:
                assert (found == want).all()
    for metric in settings["scoring"]:
        assert_allclose(ours[f"test_{metric}"], theirs[f"test_{metric}"], rtol=2e-5, atol=1e-6)
    if x is WIDE:
        assert ours["cv_result"].params.shape[1] <= 41 * (y.shape[1] if y.ndim == 2 else 1)
    score = settings["scoring"][0]
    by_default, unmoved = (
        acv.approx_cross_validate(estimator, x, y, **settings, **how)[f"test_{score}"]
        for how in ({}, {"method": "no_adjustment"})
    )
    want = theirs[f"test_{score}"]
    if isinstance(estimator, QUADRATIC):
        assert_allclose(by_default, want, rtol=1e-8)
    else:
        assert abs(by_default - want).mean() < abs(unmoved - want).mean() / 3
        if isinstance(estimator, PoissonRegressor) and settings["params"] is None:
            assert_allclose(by_default, want, rtol=0.02, atol=0.01)


SPLITTERS = {
    "5": 5,
    "loo": LeaveOneOut(),
    "k": KFold(7, shuffle=True, random_state=0),
    "groups": GroupKFold(4),
    "random": ShuffleSplit(4, train_size=0.6, test_size=0.2, random_state=0),
    "time": TimeSeriesSplit(3),
    "pairs": list(LeavePOut(2).split(X[:20])),
    "ours": acv.folds.leave_future_out(N, [N - 9, N - 5], horizon=2, gap=3),
}


@pytest.mark.parametrize("cv", SPLITTERS.values(), ids=SPLITTERS.keys())
@pytest.mark.parametrize("name", ["balanced", "targets"])
def test_every_splitter_is_followed(name, cv):
    estimator, x, y, settings = fitted(name)
    settings |= {"groups": GROUPS if isinstance(cv, GroupKFold) else None, "cv": cv}
    scorer = "neg_mean_absolute_error" if settings["scoring"] in (ERRORS, COUNTING) else "accuracy"
    settings["scoring"] = scorer
    ours = acv.approx_cross_validate(estimator, x, y, method="exact", **settings)["test_score"]
    if isinstance(cv, acv.Folds):
        rows = np.arange(N)
        settings["cv"] = [
            (np.setdiff1d(rows, out), test) for out, test in zip(cv.omitted, cv.scored, strict=True)
        ]
    theirs = cross_validate(estimator, x, y, **settings)["test_score"]
    assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.filterwarnings("ignore::acvlib.sklearn.PooledScores")
@pytest.mark.parametrize("name", ["logistic", "balanced", "poisson"])
def test_each_rung_is_nearer_to_refits_row_by_row(name):
    estimator, x, y, settings = fitted(name)
    is_classifier = isinstance(estimator, LogisticRegression)
    settings = {"cv": LeaveOneOut(), "params": settings["params"]}
    output = "predict_proba" if is_classifier else "predict"
    theirs = cross_val_predict(estimator, x, y, method=output, **settings)
    errors = []
    for method in ("newton_step", "infinitesimal_jackknife", "no_adjustment"):
        ours = acv.approx_cross_val_predict(
            estimator, x, y, output=output, method=method, unreliable="ignore", **settings
        )
        errors.append(abs(ours - theirs).mean())
    assert errors[0] < errors[1] / 3
    assert errors[1] < errors[2] / 3


CV_SETTINGS = {"l1_ratios": (0.0,), "scoring": "neg_log_loss", "use_legacy_attributes": False}
CHOSEN = {
    "RidgeCV, targets": (RidgeCV([0.1, 1.0, 10.0]), TARGETS, lambda m: Ridge(m.alpha_)),
    "LogisticRegressionCV, three": (
        LogisticRegressionCV(Cs=3, cv=3, **CV_SETTINGS, **TIGHT),
        THREE,
        lambda m: logistic(C=float(np.ravel(m.C_)[0])),
    ),
}


@pytest.mark.parametrize(("chosen", "y", "plain"), CHOSEN.values(), ids=CHOSEN.keys())
def test_estimators_that_chose_their_penalty_count_as_what_they_chose(chosen, y, plain):
    scoring = "neg_log_loss" if y.dtype.kind == "U" else None
    chosen.fit(X, y)
    same = cross_validate(plain(chosen), X, y, scoring=scoring)["test_score"]
    ours = acv.approx_cross_validate(chosen, X, y, scoring=scoring, method="exact")
    assert_allclose(ours["test_score"], same, rtol=1e-5)


def test_a_sparse_x_too_large_to_be_dense_is_reduced_to_its_rows_or_refused(monkeypatch):
    model, x, y, settings = fitted("wide, sparse")
    expected = acv.approx_cross_validate(model, x, y, **settings)["test_neg_log_loss"]
    monkeypatch.setattr(estimators, "LARGEST", 1000)
    found = acv.approx_cross_validate(model, x, y, **settings)["test_neg_log_loss"]
    assert_allclose(found, expected, rtol=1e-10)
    for table, values in ((X, VALUES), (REPEATED, WIDE_VALUES)):
        table = csr_array(table)
        with pytest.raises(TypeError, match=r"would take 0\.0 GB .* TruncatedSVD"):
            acv.approx_cross_validate(Ridge().fit(table, values), table, values)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_pass_without_warnings(kind):
    """Frames with names; labels of text and of nullable integers; scorers that see the rows."""
    frame = kind(dict(zip("abcd", X.T, strict=True)))
    series = (pd.Series if kind is pd.DataFrame else pl.Series)(THREE)
    nullable = pd.Series(np.unique(THREE, return_inverse=True)[1], dtype="Int64")
    for y in (series, nullable):
        model = logistic().fit(frame, y)
        settings = {"cv": STRATA, "scoring": [*MORE, "f1_macro"]}
        theirs = cross_validate(model, frame, y, **settings)
        ours = acv.approx_cross_validate(model, frame, y, method="exact", **settings)
        for name in settings["scoring"]:
            assert_allclose(ours[f"test_{name}"], theirs[f"test_{name}"], rtol=1e-4)
    y = kind(dict(zip("pqr", TARGETS.T, strict=True)))
    ridge = Ridge().fit(frame, y)
    ours, theirs = (cross(ridge, frame, y) for cross in (acv.approx_cross_validate, cross_validate))
    assert_allclose(ours["test_score"], theirs["test_score"])


def test_a_fold_without_a_class_is_refitted_by_scikit_learn_and_named():
    y = THREE.copy()
    y[y == "b"] = "a"
    y[7] = "b"
    frame = pd.DataFrame(X, columns=list("pqrs"))
    model = logistic().fit(frame, y)
    for cv in (FOLDS, LeaveOneOut()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the class of one row
            theirs = cross_validate(model, frame, y, cv=cv)["test_score"]
            shares = cross_val_predict(model, frame, y, cv=cv, method="predict_proba")
            fold = [7 in test for _, test in cv.split(frame, y)]
        settings = {"cv": cv, "method": "exact"}
        with pytest.warns(acv.sklearn.UnreliableFolds, match="leaves no row of class b"):
            ours = acv.approx_cross_validate(model, frame, y, **settings)
        assert_allclose(ours["test_score"], theirs)
        assert (ours["unreliable"] == fold).all()
        assert ours["cv_result"].folds.labels.tolist() == np.flatnonzero(~np.array(fold)).tolist()
        settings |= {"unreliable": "ignore", "output": "predict_proba"}
        assert_allclose(
            acv.approx_cross_val_predict(model, frame, y, **settings), shares, atol=1e-5
        )
