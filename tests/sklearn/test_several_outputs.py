"""More classes than two, balanced classes and several targets, beside scikit-learn's own refits."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from numpy.testing import assert_allclose
from scipy.sparse import random_array
from sklearn.datasets import load_iris
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeCV,
)
from sklearn.metrics import make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    LeavePOut,
    StratifiedKFold,
    cross_val_predict,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import acvlib as acv
from acvlib import estimators

RNG = np.random.default_rng(0)
IRIS, SPECIES = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[SPECIES]
N = 90
X = RNG.normal(size=(N, 4)) + 0.5
ETA = X @ np.array([1.0, -0.5, 0.3, 0.0])
RARE = np.where(RNG.random(N) < 0.3 / (1 + np.exp(-ETA)), "rare", "usual")
THREE = np.where(ETA + RNG.normal(size=N) > 1.0, "c", np.where(RNG.random(N) < 0.3, "b", "a"))
TARGETS = X @ RNG.normal(size=(4, 3)) + RNG.normal(size=(N, 3))
WEIGHTS = RNG.uniform(0.5, 2.0, N)
TIGHT = {"tol": 1e-9, "max_iter": 10_000}
STRATA = StratifiedKFold(5, shuffle=True, random_state=0)

CLASSIFIERS = {
    "iris": (LogisticRegression(**TIGHT), IRIS, NAMES, None),
    "iris, newton-cholesky": (
        LogisticRegression(solver="newton-cholesky", C=0.3, **TIGHT),
        IRIS,
        NAMES,
        None,
    ),
    "no penalty": (LogisticRegression(C=np.inf, **TIGHT), X, THREE, None),
    "no intercept": (LogisticRegression(fit_intercept=False, **TIGHT), X, THREE, None),
    "class weights": (LogisticRegression(class_weight={"b": 3.0}, **TIGHT), X, THREE, None),
    "balanced": (LogisticRegression(class_weight="balanced", **TIGHT), X, THREE, None),
    "balanced, weights": (LogisticRegression(class_weight="balanced", **TIGHT), X, THREE, WEIGHTS),
    "balanced, two": (LogisticRegression(class_weight="balanced", C=0.5, **TIGHT), X, RARE, None),
    "balanced, two, no intercept": (
        LogisticRegression(class_weight="balanced", fit_intercept=False, **TIGHT),
        X,
        RARE,
        WEIGHTS,
    ),
}


@pytest.mark.parametrize(
    ("estimator", "x", "y", "weights"), CLASSIFIERS.values(), ids=CLASSIFIERS.keys()
)
def test_classifiers_equal_their_refits(estimator, x, y, weights):
    params = None if weights is None else {"sample_weight": weights}
    settings = {"cv": STRATA, "params": params}
    metrics = ["neg_log_loss", "accuracy", "balanced_accuracy"]
    more = ["roc_auc"] if len(set(y)) == 2 else ["roc_auc_ovr", "neg_brier_score"]
    metrics += more  # scikit-learn refuses the Brier score of two names
    theirs = cross_validate(estimator, x, y, scoring=metrics, **settings)
    estimator.fit(x, y, weights)
    ours = acv.approx_cross_validate(estimator, x, y, scoring=metrics, method="exact", **settings)
    for name in metrics:
        assert_allclose(ours[f"test_{name}"], theirs[f"test_{name}"], rtol=2e-5, atol=1e-6)
    errors = []
    for method in ("newton_step", "no_adjustment"):
        near = acv.approx_cross_validate(
            estimator, x, y, scoring="neg_log_loss", method=method, unreliable="ignore", **settings
        )
        errors.append(abs(near["test_score"] - theirs["test_neg_log_loss"]).mean())
    assert errors[0] < errors[1] / 3
    if isinstance(estimator.class_weight, dict):
        return  # whose names cross_val_predict of scikit-learn takes away
    shares = cross_val_predict(estimator, x, y, method="predict_proba", **settings)
    predicted = acv.approx_cross_val_predict(
        estimator, x, y, output="predict_proba", method="exact", **settings
    )
    assert_allclose(predicted, shares, atol=1e-5)


@pytest.mark.parametrize("name", ["balanced", "balanced, two", "iris"])
def test_leave_one_out_of_classes_errs_little_and_is_checked(name):
    estimator, x, y, _ = CLASSIFIERS[name]
    estimator.fit(x, y)
    settings = {"cv": LeaveOneOut(), "output": "predict_proba"}
    theirs = cross_val_predict(estimator, x, y, cv=LeaveOneOut(), method="predict_proba")
    errors = []
    for method in ("newton_step", "infinitesimal_jackknife", "no_adjustment"):
        ours = acv.approx_cross_val_predict(
            estimator, x, y, method=method, unreliable="ignore", **settings
        )
        errors.append(abs(ours - theirs).mean())
    assert errors[0] < errors[1] / 3
    assert errors[1] < errors[2] / 3
    labels = acv.approx_cross_val_predict(estimator, x, y, cv=LeaveOneOut())
    assert (labels == estimator.classes_[theirs.argmax(axis=1)]).all()


def test_the_weights_of_balanced_classes_are_not_those_of_all_rows():
    """What fixed weights, passed as a dict, would get wrong."""
    cv = KFold(3)
    y = np.sort(RARE)[np.argsort(RNG.random(N) < 0.2)]
    model = LogisticRegression(class_weight="balanced", **TIGHT).fit(X, y)
    counts = pd.Series(y).value_counts()
    fixed = {label: N / (2 * count) for label, count in counts.items()}
    other = LogisticRegression(class_weight=fixed, **TIGHT).fit(X, y)
    settings = {"cv": cv, "scoring": "neg_log_loss"}
    theirs = cross_validate(model, X, y, **settings)["test_score"]
    ours = acv.approx_cross_validate(model, X, y, method="exact", **settings)["test_score"]
    wrong = acv.approx_cross_validate(other, X, y, method="exact", **settings)["test_score"]
    assert_allclose(ours, theirs, rtol=1e-5)
    assert abs(wrong - theirs).max() > 0.01


def test_estimators_that_chose_their_penalty():
    settings = {"l1_ratios": (0.0,), "scoring": "neg_log_loss", "use_legacy_attributes": False}
    chosen = LogisticRegressionCV(Cs=3, cv=3, **settings, **TIGHT).fit(IRIS, SPECIES)
    plain = LogisticRegression(C=float(np.ravel(chosen.C_)[0]), **TIGHT).fit(IRIS, SPECIES)
    ours, same = (
        acv.approx_cross_validate(each, IRIS, SPECIES, scoring="neg_log_loss", method="exact")
        for each in (chosen, plain)
    )
    assert_allclose(ours["test_score"], same["test_score"], rtol=1e-5)
    search = GridSearchCV(LogisticRegression(**TIGHT), {"C": [0.1, 1.0]}).fit(IRIS, SPECIES)
    assert len(acv.approx_cross_validate(search, IRIS, SPECIES)["test_score"]) == 5


REGRESSIONS = {
    "ridge": Ridge(alpha=2.0),
    "one alpha a target": Ridge(alpha=[0.5, 2.0, 50.0]),
    "no intercept": Ridge(alpha=2.0, fit_intercept=False),
    "least squares": LinearRegression(),
}


@pytest.mark.parametrize("cv", [KFold(4), LeaveOneOut(), LeavePOut(2)], ids=["4", "loo", "pairs"])
@pytest.mark.parametrize("estimator", REGRESSIONS.values(), ids=REGRESSIONS.keys())
def test_several_targets_equal_their_refits(estimator, cv):
    few = slice(0, 20 if isinstance(cv, LeavePOut) else N)
    metrics = ["neg_mean_squared_error", "neg_root_mean_squared_error", "neg_mean_absolute_error"]
    x, y = X[few], TARGETS[few]
    settings = {"cv": cv, "scoring": metrics, "params": {"sample_weight": WEIGHTS[few]}}
    theirs = cross_validate(estimator, x, y, **settings)
    estimator.fit(x, y, WEIGHTS[few])
    ours = acv.approx_cross_validate(estimator, x, y, **settings)
    for name in metrics:
        assert_allclose(ours[f"test_{name}"], theirs[f"test_{name}"], rtol=1e-8)
    assert not ours["unreliable"].any()


def test_targets_have_one_r2_on_average_and_predictions_of_each():
    model = RidgeCV(alphas=[0.1, 1.0, 10.0], alpha_per_target=True).fit(X, TARGETS)
    same = Ridge(alpha=model.alpha_).fit(X, TARGETS)
    theirs = cross_validate(same, X, TARGETS)["test_score"]
    assert_allclose(acv.approx_cross_validate(model, X, TARGETS)["test_score"], theirs, rtol=1e-9)
    predicted = acv.approx_cross_val_predict(model, X, TARGETS, cv=LeaveOneOut())
    assert_allclose(predicted, cross_val_predict(same, X, TARGETS, cv=LeaveOneOut()), rtol=1e-8)
    one = Ridge().fit(X, TARGETS[:, :1])
    assert acv.approx_cross_val_predict(one, X, TARGETS[:, :1]).shape == (N, 1)
    tuned = acv.approx_tune(
        Ridge().fit(X, TARGETS), X, TARGETS, [0.1, 1.0, 1e3], scoring="r2", cv=5
    )
    grid = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0, 1e3]}, scoring="r2").fit(X, TARGETS)
    assert tuned.best == grid.best_params_["alpha"]
    assert_allclose(tuned.scores, grid.cv_results_["mean_test_score"], rtol=1e-8)


def test_more_columns_than_rows():
    wide = random_array((45, 130), density=0.1, rng=RNG, format="csr")
    y = THREE[:45]
    for model, values in (
        (LogisticRegression(C=2.0, **TIGHT), y),
        (LogisticRegression(C=2.0, class_weight="balanced", **TIGHT), y == "a"),
        (Ridge(alpha=2.0, solver="sparse_cg", tol=1e-12), TARGETS[:45]),
    ):
        scorer = "neg_log_loss" if values.ndim == 1 else "r2"
        settings = {"cv": KFold(4, shuffle=True, random_state=1), "scoring": scorer}
        theirs = cross_validate(model, wide, values, **settings)["test_score"]
        model.fit(wide, values)
        ours = acv.approx_cross_validate(model, wide, values, method="exact", **settings)
        assert_allclose(ours["test_score"], theirs, rtol=1e-4)
        assert_allclose(
            estimators.params_of(estimators.with_params(model, estimators.params_of(model))),
            estimators.params_of(model),
        )


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_pass_without_warnings(kind):
    """Frames with names; labels of text and of nullable integers; scorers that see the rows."""
    frame = kind(dict(zip("abcd", X.T, strict=True)))
    series = (pd.Series if kind is pd.DataFrame else pl.Series)(THREE)
    nullable = pd.Series(np.unique(THREE, return_inverse=True)[1], dtype="Int64")
    for y in (series, nullable):
        model = LogisticRegression(**TIGHT).fit(frame, y)
        scoring = ["accuracy", "neg_log_loss", "roc_auc_ovr", "f1_macro"]
        settings = {"cv": STRATA, "scoring": scoring}
        theirs = cross_validate(model, frame, y, **settings)
        ours = acv.approx_cross_validate(model, frame, y, method="exact", **settings)
        for name in scoring:
            assert_allclose(ours[f"test_{name}"], theirs[f"test_{name}"], rtol=1e-4)
    pipe = make_pipeline(FunctionTransformer(), Ridge()).fit(frame, TARGETS)
    y = kind(dict(zip("pqr", TARGETS.T, strict=True)))
    assert_allclose(
        acv.approx_cross_validate(pipe, frame, y)["test_score"],
        cross_validate(pipe, frame, y)["test_score"],
    )


@pytest.mark.parametrize(
    "name", ["f1_macro", "balanced_accuracy", "precision_micro", "matthews_corrcoef", "accuracy"]
)
def test_scores_of_labels_of_single_rows_are_theirs(name):
    estimator = LogisticRegression(**TIGHT).fit(X, THREE)
    settings = {"cv": LeaveOneOut(), "scoring": name}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes that are not in y_true, as theirs
        theirs = cross_validate(estimator, X, THREE, **settings)["test_score"]
        ours = acv.approx_cross_validate(estimator, X, THREE, method="exact", **settings)
    assert_allclose(ours["test_score"], theirs)


@pytest.mark.parametrize(("name", "y"), [("r2", TARGETS), ("roc_auc_ovr", THREE)])
def test_undefined_scores_of_single_rows_are_nan_and_say_so(name, y):
    model = (Ridge() if name == "r2" else LogisticRegression(**TIGHT)).fit(X, y)
    with pytest.warns(UndefinedMetricWarning, match="approx_cross_val_predict") as caught:
        scores = acv.approx_cross_validate(model, X, y, cv=LeaveOneOut(), scoring=name)
    assert np.isnan(scores["test_score"]).all()
    assert len(caught) == 1


def test_params_have_the_names_of_cross_validate():
    pipe = make_pipeline(FunctionTransformer(), Ridge()).fit(X, ETA, ridge__sample_weight=WEIGHTS)
    params = {"ridge__sample_weight": WEIGHTS}
    theirs = cross_validate(pipe, X, ETA, params=params)["test_score"]
    ours = acv.approx_cross_validate(pipe, X, ETA, params=params)["test_score"]
    assert_allclose(ours, theirs, rtol=1e-8)
    with pytest.raises(ValueError, match=r"params \['sample_weight'\]: only ridge__sample_weight"):
        acv.approx_cross_validate(pipe, X, ETA, params={"sample_weight": WEIGHTS})
    with pytest.raises(TypeError, match="params must be of type dict"):
        acv.approx_cross_validate(pipe, X, ETA, params=WEIGHTS)


def test_metadata_routing():
    groups = np.repeat(np.arange(9), 10)
    params = {"sample_weight": WEIGHTS, "groups": groups}
    settings = {"params": params, "cv": GroupKFold(3)}
    with sklearn.config_context(enable_metadata_routing=True):
        model = Ridge().set_fit_request(sample_weight=True).fit(X, ETA, WEIGHTS)
        scorer = make_scorer(lambda y, mean: -np.mean((y - mean) ** 2))
        theirs = cross_validate(model, X, ETA, scoring=scorer, **settings)["test_score"]
        ours = acv.approx_cross_validate(model, X, ETA, scoring=scorer, **settings)["test_score"]
        assert_allclose(ours, theirs, rtol=1e-8)
        tuned = acv.approx_tune(model, X, ETA, [1.0], scoring=scorer, **settings)
        assert_allclose(tuned.scores, theirs.mean())
        weighing = scorer.set_score_request(sample_weight=True)
        with pytest.raises(ValueError, match="weighs fitting alone"):
            acv.approx_cross_validate(model, X, ETA, scoring=weighing, **settings)
        with pytest.raises(ValueError, match="set_fit_request"):
            acv.approx_cross_validate(Ridge().fit(X, ETA), X, ETA, **settings)


REFUSED = {
    "a class that a fold leaves out": (
        lambda: LogisticRegression(fit_intercept=False).fit(X, THREE),
        {"y": THREE, "cv": [(np.flatnonzero(THREE != "b"), np.flatnonzero(THREE == "b"))]},
        "fold 0 leaves no site of class 1",
    ),
    "the same, balanced": (
        lambda: LogisticRegression(class_weight="balanced").fit(X, RARE),
        {"y": RARE, "cv": [(np.flatnonzero(RARE == "rare"), np.flatnonzero(RARE != "rare"))]},
        "fold 0 leaves no site of class 1",
    ),
    "separable classes": (
        lambda: LogisticRegression(C=np.inf, max_iter=3000).fit(IRIS, SPECIES),
        {"X": IRIS, "y": SPECIES},
        "separate some classes",
    ),
    "two alphas for three targets": (
        lambda: Ridge().fit(X, TARGETS).set_params(alpha=[1.0, 2.0]),
        {"y": TARGETS},
        "2 values of alpha: pass one, or one a target",
    ),
    "a target missing": (
        lambda: Ridge().fit(X, TARGETS),
        {"y": np.where(TARGETS > 2.0, np.nan, TARGETS)},
        "nan",
    ),
}


@pytest.mark.parametrize(("make", "changes", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_done_is_refused(make, changes, message):
    arguments = {"X": X} | changes
    with pytest.raises(ValueError, match=message):
        acv.approx_cross_validate(make(), **arguments)
