"""What people bring besides a plain estimator and a dense X, beside scikit-learn's own refits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array, random_array
from sklearn.compose import make_column_transformer
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectFromModel, SelectKBest, VarianceThreshold
from sklearn.linear_model import (
    GammaRegressor,
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
    RidgeCV,
    TweedieRegressor,
)
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeaveOneOut,
    ShuffleSplit,
    cross_val_predict,
    cross_validate,
)
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, StandardScaler, TargetEncoder

import acvlib as acv
from acvlib.models import GLM
from acvlib.sklearn import scoring, translation

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 4)) + 0.5
ETA = 0.6 * X @ np.array([1.0, -0.5, 0.3, 0.0])
LABELS = np.where(RNG.random(80) < 1 / (1 + np.exp(-ETA)), "yes", "no")
EXPOSURE = RNG.uniform(0.5, 3.0, 80)
COUNTS = RNG.poisson(EXPOSURE * np.exp(ETA))
TIMES = RNG.gamma(2.0, np.exp(ETA) / 2.0)
CLAIMS = np.where(RNG.random(80) < 0.4, 0.0, TIMES)
VALUES = ETA + RNG.normal(size=80)
TIGHT = {"tol": 1e-9, "max_iter": 10_000}
CV_SETTINGS = {"l1_ratios": (0.0,), "scoring": "neg_log_loss", "use_legacy_attributes": False}

ESTIMATORS = {
    "least squares": (LinearRegression(), VALUES, "neg_mean_squared_error"),
    "gamma": (GammaRegressor(alpha=0.1, **TIGHT), TIMES, "neg_mean_gamma_deviance"),
    "tweedie": (TweedieRegressor(power=1.5, alpha=0.1, **TIGHT), CLAIMS, "neg_mean_squared_error"),
    "tweedie, gaussian": (TweedieRegressor(power=0, alpha=0.1, **TIGHT), VALUES, "r2"),
    "tweedie, poisson": (
        TweedieRegressor(power=1, alpha=0.1, **TIGHT),
        COUNTS,
        "neg_mean_poisson_deviance",
    ),
    "rates": (PoissonRegressor(alpha=0.1, **TIGHT), TIMES, "neg_mean_poisson_deviance"),
}


@pytest.mark.parametrize(("estimator", "y", "scorer"), ESTIMATORS.values(), ids=ESTIMATORS.keys())
def test_exact_equals_refits(estimator, y, scorer):
    settings = {"cv": KFold(6, shuffle=True, random_state=1), "scoring": scorer}
    theirs = cross_validate(estimator, X, y, **settings)["test_score"]
    estimator.fit(X, y)
    exact = acv.approx_cross_validate(estimator, X, y, method="exact", **settings)
    assert_allclose(exact["test_score"], theirs, rtol=1e-5)
    ours = acv.approx_cross_validate(estimator, X, y, **settings)["test_score"]
    assert_allclose(ours, theirs, rtol=0.02, atol=0.01)


def test_estimators_that_chose_their_penalty_count_as_what_they_chose():
    chosen = RidgeCV(alphas=[0.1, 5.0]).fit(X, VALUES)
    ridge = Ridge(alpha=chosen.alpha_).fit(X, VALUES)
    ours, same = (acv.approx_cross_validate(each, X, VALUES) for each in (chosen, ridge))
    assert_allclose(ours["test_score"], same["test_score"], rtol=1e-10)
    chosen = LogisticRegressionCV(Cs=3, cv=3, tol=1e-9, **CV_SETTINGS).fit(X, LABELS)
    plain = LogisticRegression(C=chosen.C_, **TIGHT).fit(X, LABELS)
    settings = {"scoring": "neg_log_loss", "method": "exact"}
    ours, same = (
        acv.approx_cross_validate(each, X, LABELS, **settings) for each in (chosen, plain)
    )
    assert_allclose(ours["test_score"], same["test_score"], rtol=1e-6)


def test_rates_weighted_by_their_exposure_equal_counts_with_an_offset():
    model = PoissonRegressor(alpha=0.0, **TIGHT).fit(X, COUNTS / EXPOSURE, sample_weight=EXPOSURE)
    ours = acv.approx_cross_validate(
        model, X, COUNTS / EXPOSURE, params={"sample_weight": EXPOSURE}
    )
    offset = GLM(X, COUNTS, "poisson", offset=np.log(EXPOSURE))
    fit = acv.fit(offset)
    folds = ours["cv_result"].folds
    result = acv.newton_step(fit, folds)
    assert_allclose(ours["cv_result"].params, result.params, atol=1e-6)


@pytest.mark.parametrize("steps", [[FunctionTransformer(np.tanh)], [], [FunctionTransformer()] * 2])
def test_a_pipeline_whose_steps_learn_nothing_equals_its_refits(steps):
    pipe = make_pipeline(*steps, Ridge(alpha=2.0)).fit(X, VALUES)
    theirs = cross_validate(pipe, X, VALUES, cv=5)["test_score"]
    ours = acv.approx_cross_validate(pipe, X, VALUES, cv=5, method="exact")["test_score"]
    assert_allclose(ours, theirs, rtol=1e-8)


def test_other_steps_of_a_pipeline_stay_as_fitted():
    pipe = make_pipeline(StandardScaler(), PCA(3), LogisticRegression(**TIGHT)).fit(X, LABELS)
    settings = {"cv": 5, "scoring": "neg_log_loss"}
    inner = cross_validate(pipe[-1], pipe[:-1].transform(X), LABELS, **settings)["test_score"]
    ours = acv.approx_cross_validate(pipe, X, LABELS, method="exact", **settings)["test_score"]
    assert_allclose(ours, inner, rtol=1e-5)


def test_a_step_that_learns_from_y_is_refused():
    """Noise from which the best columns are selected on all rows would score above chance."""
    rng = np.random.default_rng(0)
    noise, y = rng.normal(size=(60, 500)), rng.integers(0, 2, 60)
    pipe = make_pipeline(StandardScaler(), SelectKBest(k=10), LogisticRegression()).fit(noise, y)
    honest = cross_validate(pipe, noise, y)["test_score"].mean()
    leaking = cross_validate(pipe[-1], pipe[:-1].transform(noise), y)["test_score"].mean()
    assert leaking > honest + 0.15
    with pytest.raises(ValueError, match="'selectkbest' learns from y"):
        acv.approx_cross_validate(pipe, noise, y)


@pytest.mark.parametrize(
    "step",
    [
        SelectFromModel(LogisticRegression()),
        TargetEncoder(random_state=0),
        PLSRegression(2),
        make_union(StandardScaler(), SelectKBest(k=2)),
        make_pipeline(StandardScaler(), SelectKBest(k=2)),
        make_column_transformer((SelectKBest(k=1), [0, 1]), remainder="passthrough"),
    ],
    ids=lambda step: type(step).__name__,
)
def test_whatever_learns_from_y_is_found(step):
    y = (LABELS == "yes").astype(int)
    assert translation._learns_from_y(step.fit(np.round(X), y))


@pytest.mark.parametrize(
    "step",
    [
        VarianceThreshold(),
        make_union(StandardScaler(), PCA(2)),
        make_column_transformer((StandardScaler(), [0]), remainder="passthrough"),
    ],
    ids=lambda step: type(step).__name__,
)
def test_what_does_not_learn_from_y_is_taken(step):
    pipe = make_pipeline(step, Ridge()).fit(X, VALUES)
    inner = cross_validate(pipe[-1], pipe[:-1].transform(X), VALUES)["test_score"]
    ours = acv.approx_cross_validate(pipe, X, VALUES, method="exact")["test_score"]
    assert_allclose(ours, inner, rtol=1e-8)


def test_a_search_counts_as_its_best_estimator():
    search = GridSearchCV(Ridge(), {"alpha": [0.1, 10.0]}).fit(X, VALUES)
    ours = acv.approx_cross_validate(search, X, VALUES)["test_score"]
    best = acv.approx_cross_validate(search.best_estimator_, X, VALUES)["test_score"]
    assert_allclose(ours, best)


WIDE = RNG.normal(size=(40, 150))
WIDE_LABELS = (WIDE[:, 0] + RNG.normal(size=40) > 0).astype(int)
WIDE_VALUES = WIDE[:, :5].sum(axis=1) + RNG.normal(size=40)
SPARSE = random_array((40, 150), density=0.1, rng=RNG, format="csr")
WIDER = {
    "dense": (LogisticRegression(C=0.5, **TIGHT), WIDE, WIDE_LABELS),
    "ridge": (Ridge(alpha=3.0), WIDE, WIDE_VALUES),
    "sparse": (LogisticRegression(C=2.0, **TIGHT), SPARSE, WIDE_LABELS),
    "sparse, mean of losses": (PoissonRegressor(alpha=0.5, **TIGHT), SPARSE, abs(WIDE_VALUES)),
}


@pytest.mark.parametrize(("estimator", "x", "y"), WIDER.values(), ids=WIDER.keys())
def test_more_columns_than_rows_are_reduced_without_error(estimator, x, y):
    settings = {"cv": KFold(5), "scoring": "neg_mean_squared_error"}
    if isinstance(estimator, LogisticRegression):
        settings["scoring"] = "neg_log_loss"
    theirs = cross_validate(estimator, x, y, **settings)["test_score"]
    estimator.fit(x, y)
    ours = acv.approx_cross_validate(estimator, x, y, method="exact", **settings)
    assert_allclose(ours["test_score"], theirs, rtol=1e-5)
    assert ours["cv_result"].params.shape[1] <= 41
    by_hand = {"cv": KFold(5), "scoring": "r2" if len(set(y)) > 2 else "roc_auc"}
    theirs = cross_validate(estimator, x, y, **by_hand)["test_score"]
    ours = acv.approx_cross_validate(estimator, x, y, method="exact", **by_hand)["test_score"]
    assert_allclose(ours, theirs, rtol=1e-5)


def test_sparse_rows_equal_dense_ones():
    tall = random_array((90, 6), density=0.5, rng=np.random.default_rng(2), format="csr")
    y = tall.toarray().sum(axis=1) + np.random.default_rng(3).normal(size=90)
    model = Ridge(alpha=1.0, solver="sparse_cg", tol=1e-12).fit(tall, y)
    sparse, dense = (acv.approx_cross_validate(model, x, y) for x in (tall, tall.toarray()))
    assert_allclose(sparse["test_score"], dense["test_score"], rtol=1e-8)


def test_a_sparse_x_too_large_to_be_dense_is_refused(monkeypatch):
    monkeypatch.setattr(translation, "LARGEST", 1000)
    model = Ridge().fit(csr_array(X), VALUES)
    with pytest.raises(TypeError, match=r"would take 0\.0 GB .* TruncatedSVD"):
        acv.approx_cross_validate(model, csr_array(X), VALUES)


def test_a_sparse_x_too_large_to_be_dense_is_reduced_to_its_rows(monkeypatch):
    model = LogisticRegression(**TIGHT).fit(SPARSE, WIDE_LABELS)
    expected = acv.approx_cross_validate(model, SPARSE, WIDE_LABELS, scoring="neg_log_loss")
    monkeypatch.setattr(translation, "LARGEST", 1000)
    found = acv.approx_cross_validate(model, SPARSE, WIDE_LABELS, scoring="neg_log_loss")
    assert_allclose(found["test_score"], expected["test_score"], rtol=1e-10)


@pytest.mark.parametrize("name", [*scoring.OF_CLASSES, *scoring.OF_NUMBERS, *scoring.OF_FOLDS])
def test_scores_of_all_folds_at_once_equal_the_scorers(name):
    if name in scoring.OF_CLASSES:
        model, y = LogisticRegression(**TIGHT), (LABELS == "yes").astype(int)
    else:
        model, y = PoissonRegressor(alpha=0.3, **TIGHT), COUNTS + 1
    model.fit(X, y)
    cv = ShuffleSplit(6, test_size=0.3, random_state=0)
    settings = {"cv": cv, "method": "exact"}
    at_once = acv.approx_cross_validate(model, X, y, scoring=name, **settings)
    theirs = cross_validate(model, X, y, scoring=name, cv=cv)["test_score"]
    assert_allclose(at_once["test_score"], theirs, rtol=1e-4)
    both = acv.approx_cross_validate(model, X, y, scoring={"a": name}, **settings)["test_a"]
    assert_allclose(both, at_once["test_score"])


def test_the_log_loss_of_single_rows_is_theirs_of_all_rows():
    model = LogisticRegression(**TIGHT).fit(X, LABELS)
    settings = {"cv": LeaveOneOut(), "scoring": "neg_log_loss", "method": "exact"}
    ours = acv.approx_cross_validate(model, X, LABELS, **settings)["test_score"]
    predicted = cross_val_predict(model, X, LABELS, cv=LeaveOneOut(), method="predict_proba")
    share = predicted[np.arange(80), (LABELS == "yes").astype(int)]
    assert_allclose(ours, np.log(share), rtol=1e-4)


@pytest.mark.parametrize("output", ["predict", "predict_proba"])
def test_predictions_equal_cross_val_predict(output):
    model = LogisticRegression(**TIGHT).fit(X, LABELS)
    cv = KFold(5, shuffle=True, random_state=3)
    theirs = cross_val_predict(model, X, LABELS, cv=cv, method=output)
    ours = acv.approx_cross_val_predict(model, X, LABELS, cv=cv, output=output, method="exact")
    if output == "predict":
        assert (ours == theirs).all()
    else:
        assert_allclose(ours, theirs, atol=1e-6)


def test_predictions_of_a_regression():
    model = make_pipeline(StandardScaler(), Ridge()).fit(X, VALUES)
    ours = acv.approx_cross_val_predict(model, X, VALUES, cv=LeaveOneOut())
    inner = cross_val_predict(Ridge(), model[:-1].transform(X), VALUES, cv=LeaveOneOut())
    assert_allclose(ours, inner, rtol=1e-8)
    with pytest.raises(ValueError, match="no predict_proba"):
        acv.approx_cross_val_predict(model, X, VALUES, output="predict_proba")
    with pytest.raises(ValueError, match="no partition"):
        acv.approx_cross_val_predict(model, X, VALUES, cv=ShuffleSplit(3))


@pytest.mark.parametrize(
    ("estimator", "name", "y", "scorer"),
    [
        (LogisticRegression(**TIGHT), "C", LABELS, None),
        (Ridge(), "alpha", VALUES, "neg_mean_squared_error"),
        (PoissonRegressor(tol=1e-6, max_iter=1000), "alpha", COUNTS, "neg_mean_poisson_deviance"),
    ],
    ids=["C", "ridge", "poisson"],
)
def test_tuning_chooses_what_a_grid_search_chooses(estimator, name, y, scorer):
    values = np.logspace(-3, 2, 11)
    tuned = acv.approx_tune(estimator.fit(X, y), X, y, values, scoring=scorer)
    cv = LeaveOneOut() if scorer else KFold(80)
    theirs = scorer or "neg_log_loss"
    if scorer is None:  # scikit-learn has no log loss of one row
        exact = {"cv": cv, "scoring": theirs, "method": "exact"}
        models = [LogisticRegression(C=C, **TIGHT).fit(X, y) for C in values]
        each = [acv.approx_cross_validate(model, X, y, **exact) for model in models]
        scores = [found["test_score"].mean() for found in each]
        best = values[np.argmax(scores)]
    else:
        grid = GridSearchCV(estimator, {name: values}, cv=cv, scoring=theirs).fit(X, y)
        scores = grid.cv_results_["mean_test_score"]
        best = grid.best_params_[name]
    assert tuned.best == best
    assert getattr(tuned.estimator, name) == best
    assert_allclose(tuned.scores, scores, rtol=0.01)
    assert tuned.errors.shape == values.shape
    refit = type(estimator)(**estimator.get_params() | {name: best}).fit(X, y)
    assert_allclose(tuned.estimator.coef_, refit.coef_, atol=1e-4)
    assert getattr(estimator, name) != best or name == "C"  # what was given is as it was


def test_tuning_refuses():
    ridge = Ridge().fit(X, VALUES)
    for values in ([], [0.0, 1.0], [-1.0]):
        with pytest.raises(ValueError, match="one or more positive numbers"):
            acv.approx_tune(ridge, X, VALUES, values)
    with pytest.raises(TypeError, match="LinearRegression has neither C nor alpha"):
        acv.approx_tune(LinearRegression().fit(X, VALUES), X, VALUES, [1.0])


@pytest.mark.parametrize(
    ("settings", "found"), [({"power": 3}, "power=3"), ({"power": 1.5, "link": "identity"}, "link")]
)
def test_a_tweedie_loss_that_is_not_convex_is_refused(settings, found):
    model = TweedieRegressor(alpha=1.0, max_iter=1000, **settings)
    model.fit(np.abs(X), TIMES)
    with pytest.raises(ValueError, match=f"{found}.*1 <= power <= 2"):
        acv.approx_cross_validate(model, np.abs(X), TIMES)
