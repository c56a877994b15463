"""Every estimator beside its refits by scikit-learn: conventions, splitters, weights, shapes."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array, random_array
from sklearn import linear_model, model_selection
from sklearn.datasets import load_iris
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import acvlib as acv
from acvlib.sklearn import columns

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
WIDE = RNG.normal(size=(40, 150))
REPEATED = np.vstack([WIDE[:35], WIDE[:5]])  # rows that are there twice: X X' is singular
SPARSE = random_array((40, 150), density=0.1, rng=RNG, format="csr")
WIDE_LABELS = (WIDE[:, 0] + RNG.normal(size=40) > 0).astype(int)
WIDE_VALUES = WIDE[:, :5].sum(axis=1) + RNG.normal(size=40)
TALL = random_array((N, 6), density=0.5, rng=RNG, format="csr")
TIGHT = {"tol": 1e-9, "max_iter": 10_000}
NEWTON = TIGHT | {"solver": "newton-cholesky"}
BOTH = ["neg_log_loss", "accuracy", "balanced_accuracy", "f1_macro", "f1_weighted", "jaccard_macro"]
TWO = [*BOTH, "roc_auc", "matthews_corrcoef"]
MORE = [*BOTH, "neg_brier_score", "roc_auc_ovr", "roc_auc_ovo_weighted"]
ERRORS = ["mean_squared_error", "root_mean_squared_error", "mean_absolute_error", "max_error"]
ERRORS = [f"neg_{name}" for name in [*ERRORS, "median_absolute_error"]]
ERRORS += ["r2", "explained_variance", "d2_absolute_error_score"]
SEVERAL = [name for name in ERRORS if name != "neg_max_error"]
COUNTING = [f"neg_mean_{name}" for name in ("poisson_deviance", "absolute_error", "squared_error")]
STRATA = model_selection.StratifiedKFold(5, shuffle=True, random_state=0)
FOLDS = model_selection.KFold(6, shuffle=True, random_state=1)


def logistic(**settings):
    return LogisticRegression(**TIGHT | settings)


BALANCED = logistic(class_weight="balanced", fit_intercept=False)
COUNTER = PoissonRegressor(alpha=0.5, **TIGHT)
MIXED = RNG.normal(size=(4, 2))
COLLINEAR = {  # whose directions LinearRegression drops in all rows, by rounding or by its tol
    "bias": PolynomialFeatures(2).fit_transform(X),
    "years": PolynomialFeatures(2).fit_transform(np.column_stack([X[:, 0], np.arange(N) + 1900])),
    "dummies": np.column_stack([np.eye(3)[np.arange(N) % 3], X]),
    "dummies beside incomes": np.column_stack([np.eye(3)[np.arange(N) % 3], 1e6 * X]),
    "float32": np.column_stack([X, 0.3 * X.sum(axis=1)]).astype("f4"),
    "one row alone": np.column_stack([np.arange(N) == 3, np.arange(N) != 3, X]).astype(float),
}
ONES, DUMMIES = COLLINEAR["bias"], COLLINEAR["dummies"]
OBJECTS = {
    "logistic": (logistic(C=0.3), X, LABELS, TWO, None),
    "no penalty": (logistic(C=np.inf), X, LABELS, TWO, WEIGHTS),
    "class weights": (logistic(class_weight={"yes": 3.0}), X, LABELS, TWO, WEIGHTS),
    "no intercept": (logistic(fit_intercept=False), X, LABELS, TWO, None),
    "iris": (logistic(), IRIS, NAMES, MORE, None),
    "three, weights": (logistic(), X, THREE, MORE, WEIGHTS + 0.5),
    "three, no penalty": (logistic(C=np.inf), X, THREE, MORE, None),
    "three, no intercept": (logistic(fit_intercept=False), X, THREE, MORE, None),
    "balanced": (logistic(class_weight="balanced"), X, THREE, MORE, None),
    "balanced, two": (logistic(class_weight="balanced", C=0.5), X, RARE, TWO, None),
    "balanced, two, weights": (BALANCED, X, RARE, TWO, WEIGHTS + 0.5),
    "least squares": (LinearRegression(), X, VALUES, ERRORS, WEIGHTS),
    "ridge": (Ridge(5.0), X, VALUES, ERRORS, WEIGHTS),
    "ridge, no intercept": (Ridge(5.0, fit_intercept=False), X, VALUES, ERRORS, None),
    "targets": (Ridge(2.0), X, TARGETS, SEVERAL, WEIGHTS),
    "targets, least squares": (LinearRegression(), X, TARGETS, SEVERAL, None),
    "poisson": (PoissonRegressor(alpha=0.5, **NEWTON), X, COUNTS, COUNTING, WEIGHTS),
    "poisson, no penalty": (PoissonRegressor(alpha=0.0, **TIGHT), X, COUNTS, COUNTING, None),
    "rates": (PoissonRegressor(alpha=0.1, **NEWTON), X, TIMES, COUNTING, None),
    "sparse": (Ridge(1.0, solver="sparse_cg", tol=1e-12), TALL, VALUES, ERRORS, None),
    "wide": (logistic(C=0.5), WIDE, WIDE_LABELS, TWO, None),
    "wide, ridge": (Ridge(3.0), WIDE, WIDE_VALUES, ERRORS, None),
    "wide, repeated rows": (Ridge(3.0), REPEATED, WIDE_VALUES, ERRORS, None),
    "wide, targets": (Ridge(2.0), WIDE, TARGETS[:40], SEVERAL, None),
    "wide, sparse": (logistic(C=2.0), SPARSE, WIDE_LABELS, TWO, None),
    "wide, three": (logistic(C=2.0), SPARSE, THREE[:40], BOTH, None),
    "wide, mean of losses": (COUNTER, SPARSE, abs(WIDE_VALUES), COUNTING, None),
    "least norm": (LinearRegression(), np.hstack([X, X @ MIXED]), VALUES, ERRORS, WEIGHTS + 0.5),
    "least norm, wide": (LinearRegression(), WIDE[:, :99], WIDE_VALUES, ERRORS, None),
    "ones": (Ridge(1e-9, solver="svd"), ONES, VALUES, ERRORS, None),
    "dummies": (logistic(C=1e9), DUMMIES, LABELS, TWO, WEIGHTS),
    "dummies, three": (logistic(C=1e9), DUMMIES, THREE, MORE, None),
    "dummies of counts": (PoissonRegressor(alpha=1e-9, **TIGHT), DUMMIES, COUNTS, COUNTING, None),
    "chosen": (linear_model.RidgeCV([2.0]), X, TARGETS, SEVERAL, None),
    "one target": (Ridge(2.0), X, TARGETS[:, :1], ERRORS, None),
    "one column": (LinearRegression(), X, TARGETS[:, :1], ERRORS, None),
}
FITTED_TO = {"least squares": (N, 1), "one target": N, "one column": N}  # shapes that y has not
QUADRATIC = (LinearRegression, Ridge)


def fitted(name):
    """(estimator, X, y, settings) of both libraries' cross_validate."""
    estimator, x, y, scoring, weights = OBJECTS[name]
    params = None if weights is None else {"sample_weight": weights}
    cv = STRATA if isinstance(estimator, LogisticRegression) else FOLDS
    estimator.fit(x, y.reshape(FITTED_TO.get(name, y.shape)), **params or {})
    return estimator, x, y, {"cv": cv, "params": params, "scoring": scoring}


@pytest.mark.filterwarnings("ignore:scikit-learn refits all 6 folds. the Hessian is singular")
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
            asked = how | {"output": output, "method": "exact"}
            found = acv.approx_cross_val_predict(estimator, x, y, **asked)
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
    runs = [settings, settings | {"method": "no_adjustment"}]
    runs = [acv.approx_cross_validate(estimator, x, y, **each) for each in runs]
    by_default, unmoved = (run[f"test_{score}"] for run in runs)
    want = theirs[f"test_{score}"]
    if isinstance(estimator, QUADRATIC):
        assert_allclose(by_default, want, rtol=1e-8)
    else:
        assert abs(by_default - want).mean() < abs(unmoved - want).mean() / 3
        if isinstance(estimator, PoissonRegressor) and settings["params"] is None:
            assert_allclose(by_default, want, rtol=0.02, atol=0.01)


@pytest.mark.filterwarnings("ignore:newton_step. the losses of 1 of 6 folds are nan")
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", COLLINEAR)
def test_least_norm_is_that_of_each_fold(name, intercept, weights):
    params = None if weights is None else {"sample_weight": weights}
    model = LinearRegression(fit_intercept=intercept)
    model.fit(COLLINEAR[name], VALUES, **params or {})
    given = model, COLLINEAR[name], VALUES
    expected = cross_val_predict(*given, cv=FOLDS, params=params)
    found = acv.approx_cross_val_predict(*given, cv=FOLDS, params=params)
    assert_allclose(found, expected, rtol=1e-8, atol=1e-8 * np.ptp(VALUES))


@pytest.mark.parametrize("level", [1e6, 1e9])
@pytest.mark.parametrize("name", ["ridge", "least squares", "logistic", "iris", "poisson"])
def test_levels_of_y_and_of_columns_change_nothing(name, level):
    """The fitted intercept moves with them; predictions move as y does."""
    estimator, x, y, settings = fitted(name)
    settings["scoring"] = settings["scoring"][0]
    expected = acv.approx_cross_validate(estimator, x, y, **settings)["test_score"]
    shift = level * np.arange(x.shape[1])
    estimator.intercept_ = estimator.intercept_ - estimator.coef_ @ shift
    if isinstance(estimator, QUADRATIC):
        estimator.intercept_, y = estimator.intercept_ + level, y + level
    found = acv.approx_cross_validate(estimator, x + shift, y, **settings)["test_score"]
    assert_allclose(found, expected, rtol=1e-14 * level + 1e-7)


def test_a_sparse_x_too_large_to_be_dense_is_reduced_to_its_rows_or_refused(monkeypatch):
    model, x, y, settings = fitted("wide, sparse")
    expected = acv.approx_cross_validate(model, x, y, **settings)["test_neg_log_loss"]
    monkeypatch.setattr(columns, "LARGEST", 1000)
    found = acv.approx_cross_validate(model, x, y, **settings)["test_neg_log_loss"]
    assert_allclose(found, expected, rtol=1e-10)
    for table, values in ((X, VALUES), (REPEATED, WIDE_VALUES)):
        table = csr_array(table)
        with pytest.raises(TypeError, match=r"would take 0\.0 GB .* TruncatedSVD"):
            acv.approx_cross_validate(Ridge().fit(table, values), table, values)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_pass_without_warnings(kind):
    """Frames with names, taken by them; labels of text or nullable; scorers that see the rows."""
    frame = kind(dict(zip("abcd", X.T, strict=True)))
    series = (pd.Series if kind is pd.DataFrame else pl.Series)(THREE)
    nullable = pd.Series(np.unique(THREE, return_inverse=True)[1], dtype="Int64")
    for y in (series, nullable):
        model = logistic().fit(frame, y)
        settings = {"cv": STRATA, "scoring": MORE}
        theirs = cross_validate(model, frame, y, **settings)
        settings["method"] = "exact"
        for whole in (model, make_pipeline("passthrough", model)):
            ours = acv.approx_cross_validate(whole, frame[list("cabd")], y, **settings)
            for name in settings["scoring"]:
                assert_allclose(ours[f"test_{name}"], theirs[f"test_{name}"], rtol=1e-4)
    with pytest.raises(ValueError, match="unseen at fit time"):
        acv.approx_cross_validate(model, kind(dict(zip("abce", X.T, strict=True))), y)
    y = kind(dict(zip("pqr", TARGETS.T, strict=True)))
    ridge = Ridge().fit(frame, y)
    ours, theirs = (cross(ridge, frame, y) for cross in (acv.approx_cross_validate, cross_validate))
    assert_allclose(ours["test_score"], theirs["test_score"])


@pytest.mark.parametrize(("alpha", "typo"), [(1.0, 0.0), (0.01, 0.0), (1.0, 1e9)])
@pytest.mark.filterwarnings("ignore:.*the Hessian is singular, to rounding")  # and refitted
def test_folds_that_take_nearly_all_of_a_curvature_keep_their_digits(alpha, typo):
    """More pixels than rows, one row left out; a typo in a column of 0 and 1, by five folds."""
    rng = np.random.default_rng(1)
    X = rng.integers(0, 2 if typo else 256, (60, 3 if typo else 300)).astype(float)
    y = X[:, :3].sum(axis=1) / 100.0 + rng.normal(size=60)
    X[3, 2] += typo
    ridge = Ridge(alpha, solver="svd").fit(X, y)
    cv = 5 if typo else LeaveOneOut()
    found = acv.approx_cross_val_predict(ridge, X, y, cv=cv)
    assert_allclose(found, cross_val_predict(ridge, X, y, cv=cv), rtol=1e-6)
