"""What stands around an estimator, the names of what is passed on, and what is refused."""

import doctest
import importlib
from functools import partial

import numpy as np
import pyarrow
import pytest
import sklearn
from numpy.testing import assert_allclose
from scipy.stats import zscore
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_transformer
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel, SelectKBest, VarianceThreshold
from sklearn.linear_model import Lasso, LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV, LeaveOneOut, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, StandardScaler, TargetEncoder
from test_refits import COUNTS, ETA, IRIS, LABELS, SPECIES, TARGETS, THREE, TIGHT, VALUES, X

import acvlib as acv
from acvlib.sklearn import estimators
from acvlib.trials import UnconvergedFit

WEIGHTS = np.random.default_rng(0).uniform(0.5, 2.0, len(X))


def test_the_example_in_the_docstring():
    assert doctest.testmod(importlib.import_module("acvlib.sklearn")).failed == 0


def test_a_pipeline_whose_steps_learn_nothing_equals_its_refits():
    in_place = FunctionTransformer(lambda own: np.tanh(own, own))
    for steps in ([FunctionTransformer(np.tanh)], [], ["passthrough"] * 2, [in_place] * 2):
        pipe = make_pipeline(*steps, Ridge(alpha=2.0)).fit(X.copy(), VALUES)
        ours = acv.approx_cross_validate(pipe, X, VALUES, cv=5, method="exact")["test_score"]
        assert_allclose(ours, cross_validate(pipe, X, VALUES, cv=5)["test_score"], rtol=1e-8)


LAG = partial(np.roll, shift=1, axis=0)


@pytest.mark.parametrize("transform", [zscore, LAG, lambda rows: np.fmin(rows, rows.mean() + 2)])
def test_rows_are_scored_as_they_are_transformed_alone(transform):
    pipe = make_pipeline(FunctionTransformer(transform), Ridge()).fit(X, VALUES)
    names = ["neg_mean_squared_error", "neg_root_mean_squared_error"]
    by_row, whole = (acv.approx_cross_validate(pipe, X, VALUES, scoring=name) for name in names)
    errors = VALUES - acv.approx_cross_val_predict(pipe, X, VALUES)
    tuned = acv.approx_tune(pipe, X, VALUES, [1.0], cv=5)
    for squares in (by_row["test_score"], -np.mean(errors.reshape(5, -1) ** 2, axis=1)):
        assert_allclose(squares, -(whole["test_score"] ** 2))
        assert_allclose(2.0 * tuned.scores, squares.mean())


OTHERS = [
    [StandardScaler(), PCA(3)],
    [VarianceThreshold()],
    [make_union(StandardScaler(), PCA(2))],
    [make_column_transformer((StandardScaler(), [0]), remainder="passthrough")],
]


@pytest.mark.parametrize("steps", OTHERS, ids=lambda steps: type(steps[-1]).__name__)
def test_other_steps_stay_as_fitted(steps):
    pipe = make_pipeline(*steps, LogisticRegression(**TIGHT)).fit(X, LABELS)
    settings = {"cv": 5, "scoring": "neg_log_loss"}
    inner = cross_validate(pipe[-1], pipe[:-1].transform(X), LABELS, **settings)["test_score"]
    for whole in (pipe, GridSearchCV(pipe, {"logisticregression__C": [1.0]}).fit(X, LABELS)):
        ours = acv.approx_cross_validate(whole, X, LABELS, method="exact", **settings)
        assert_allclose(ours["test_score"], inner, rtol=1e-5)


def test_predictions_of_a_pipeline():
    """Tables of Arrow are taken by names."""
    table = pyarrow.table(dict(zip("abcd", X.T, strict=True)))
    predict = partial(acv.approx_cross_val_predict, make_pipeline(Ridge()).fit(table, VALUES))
    turned = table.select(list("cabd"))
    assert_allclose(predict(turned, VALUES), predict(table.to_pandas(), VALUES))
    pipe = make_pipeline(StandardScaler(), Ridge()).fit(X, VALUES)
    ours = acv.approx_cross_val_predict(pipe, X, VALUES, cv=LeaveOneOut())
    inner = cross_val_predict(Ridge(), pipe[:-1].transform(X), VALUES, cv=LeaveOneOut())
    assert_allclose(ours, inner, rtol=1e-8)
    with pytest.raises(ValueError, match="no predict_proba"):
        acv.approx_cross_val_predict(pipe, X, VALUES, output="predict_proba")
    with pytest.raises(ValueError, match="no partition"):
        acv.approx_cross_val_predict(pipe, X, VALUES, cv=sklearn.model_selection.ShuffleSplit(3))


LEARNS = [
    SelectFromModel(LogisticRegression()),
    TargetEncoder(random_state=0),
    PLSRegression(2),
    make_union(StandardScaler(), SelectKBest(k=2)),
    make_pipeline(StandardScaler(), SelectKBest(k=2)),
    make_column_transformer((SelectKBest(k=1), [0, 1]), remainder="passthrough"),
]


def optional(self, X, y=None):
    return SelectKBest.fit(self, X, np.arange(len(X)) if y is None else y)


def level(self, X, y=0.0):
    self.mean_ = np.mean(y)
    return self


Optional = type("Optional", (SelectKBest,), {"fit": optional})
of_y = {"fit": level, "transform": lambda self, X: X + self.mean_}
Level = type("Level", (TransformerMixin, BaseEstimator), of_y)


@pytest.mark.parametrize("y", [LABELS == "yes", 1e9 + VALUES], ids=["labels", "far"])
@pytest.mark.parametrize(
    "step", [*LEARNS, Optional(k=1), Level()], ids=lambda step: type(step).__name__
)
def test_whatever_learns_from_y_is_found(step, y):
    assert estimators._learns_from_y(step, np.round(X), y)


@pytest.mark.parametrize(("kind", "share"), [("l2", 0.5), ("elasticnet", 0.0)])
def test_a_penalty_is_l2_whatever_its_name(kind, share):
    model = logistic(C=0.5).set_params(penalty=kind, l1_ratio=share)
    assert estimators.settings_of(model, LABELS)["penalty"] == 2.0


def test_params_have_the_names_of_cross_validate_and_are_not_routed():
    params = {"pipeline__ridge__sample_weight": WEIGHTS}
    pipe = make_pipeline(FunctionTransformer(), make_pipeline(Ridge())).fit(X, ETA, **params)
    ours = acv.approx_cross_validate(pipe, X, ETA, params=params)["test_score"]
    assert_allclose(ours, cross_validate(pipe, X, ETA, params=params)["test_score"], rtol=1e-8)
    with pytest.raises(ValueError, match=r"'sample_weight'\]: only pipeline__ridge__sample_w"):
        acv.approx_cross_validate(pipe, X, ETA, params={"sample_weight": WEIGHTS})
    with pytest.raises(TypeError, match="params must be of type dict"):
        acv.approx_cross_validate(pipe, X, ETA, params=WEIGHTS)
    with sklearn.config_context(enable_metadata_routing=True):
        model = Ridge().set_fit_request(sample_weight=True).fit(X, ETA, WEIGHTS)
        with pytest.raises(ValueError, match="would be routed, which is not done here"):
            acv.approx_cross_validate(model, X, ETA, params={"sample_weight": WEIGHTS})


def test_an_estimator_of_other_data_is_warned_of():
    model = Ridge().fit(X, VALUES + 3 * X[:, 0])
    with pytest.warns(UnconvergedFit, match="was it fitted to these data") as caught:
        acv.approx_cross_validate(model, X, VALUES)
    assert caught[0].filename == __file__


def logistic(y=LABELS, **settings):
    return LogisticRegression(**settings).fit(X, y)


CLOSE = np.column_stack([X, 0.3 * X.sum(axis=1)]).astype("f4")
FLOWERS = {"X": IRIS, "y": SPECIES}
GAPS = np.where(TARGETS > 2.0, np.nan, TARGETS)
NO_YES = [(np.flatnonzero(LABELS == "no"), np.flatnonzero(LABELS == "yes"))]


def ridge(y=VALUES, **settings):
    return Ridge(**settings).fit(X, y)


CHOOSES = make_pipeline(StandardScaler(), SelectKBest(k=2), LogisticRegression())
FROZEN = sklearn.frozen.FrozenEstimator(GridSearchCV(Ridge(), {"alpha": [0.1]}).fit(X, VALUES))
RESAMPLES = make_pipeline("passthrough", Ridge()).fit(X, VALUES).set_params(passthrough=Ridge())
HOW = {"refit": False, "l1_ratios": (0,), "use_legacy_attributes": False, "scoring": "accuracy"}
SHARP = LogisticRegression(C=1e9, **TIGHT)
MEANS = sklearn.linear_model.LogisticRegressionCV(**HOW)


def flowers(C=1.0):
    return LogisticRegression(C=C, max_iter=3000).fit(IRIS, SPECIES)


def two():
    return ridge(TARGETS).set_params(alpha=[1.0, 2.0])


COUNTER = PoissonRegressor().fit(X, COUNTS)
SEARCH = GridSearchCV(Ridge(), {"alpha": [1.0]}, refit=False)
ENDS = make_pipeline(StandardScaler(), "passthrough")
REFUSED = {
    "no refit": (lambda: SEARCH.fit(X, VALUES), {}, NotFittedError, "with refit=True"),
    "passthrough": (lambda: ENDS.fit(X), {}, TypeError, "a Pipeline that ends in 'passthrough'"),
    "lasso": (lambda: Lasso().fit(X, VALUES), {}, TypeError, "Lasso has no translation to a GLM"),
    "unfitted": (LogisticRegression, {}, NotFittedError, "not fitted"),
    "learns": (lambda: CHOOSES.fit(X, LABELS), {}, ValueError, "'selectkbest' learns from y"),
    "resamples": (lambda: RESAMPLES, {}, ValueError, "'passthrough' has no transform: use sklearn"),
    "frozen": (lambda: FROZEN, {}, TypeError, "FrozenEstimator has no translation"),
    "means": (lambda: MEANS.fit(X, LABELS), {}, ValueError, "refit=False. are means"),
    "l1": (lambda: logistic(l1_ratio=1.0, solver="saga", **TIGHT), {}, ValueError, "L1 penalty"),
    "liblinear": (lambda: logistic(solver="liblinear"), {}, ValueError, "penalises the intercept"),
    "positive": (lambda: ridge(positive=True), {"y": VALUES}, ValueError, "positive=False"),
    "targets of counts": (lambda: COUNTER, {"y": X}, ValueError, r"a 1d array, .* \(90, 4\)"),
    "other columns": (logistic, {"X": X[:, :2]}, ValueError, "expecting 4 features"),
    "unknown labels": (logistic, {"y": THREE}, ValueError, "must hold the labels"),
    "a class gone": (flowers, {"X": IRIS, "y": SPECIES % 2}, ValueError, r"to: \[0, 1, 2\]"),
    "one class": (logistic, {"cv": NO_YES, "unreliable": "ignore"}, ValueError, "at least 2 class"),
    "separable": (lambda: flowers(np.inf), FLOWERS, ValueError, "separates .* Pass a finite C"),
    "few digits": (lambda: SHARP.fit(CLOSE, LABELS), {"X": CLOSE}, ValueError, "a smaller C"),
    "two alphas of three": (two, {"y": TARGETS}, ValueError, "2 values of alpha: pass one for all"),
    "targets gone": (lambda: ridge(TARGETS), {"y": VALUES}, ValueError, "y has 1 targets, .*to 3"),
    "a target missing": (lambda: ridge(TARGETS), {"y": GAPS}, ValueError, "nan"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_refused(name):
    make, changes, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        acv.approx_cross_validate(make(), **{"X": X, "y": LABELS} | changes)
