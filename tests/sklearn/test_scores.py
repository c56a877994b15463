"""Scores of all folds at once, one by one, or undefined; `approx_tune` beside a grid search."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import model_selection
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_refits import COUNTS, ETA, LABELS, TARGETS, THREE, TIGHT, VALUES, X

import acvlib as acv

CLASS = (LABELS == "yes") * 1


def test_the_log_loss_of_rows_that_lack_a_class_is_theirs_of_all_rows():
    model = LogisticRegression(**TIGHT).fit(X, CLASS)
    for cv in LeaveOneOut(), model_selection.PredefinedSplit(CLASS + 2 * (np.arange(90) % 3)):
        settings = {"cv": cv, "scoring": "neg_log_loss", "method": "exact"}
        ours = acv.approx_cross_validate(model, X, CLASS, **settings)["test_score"]
        shares = model_selection.cross_val_predict(model, X, CLASS, cv=cv, method="predict_proba")
        losses = np.log(shares[np.arange(90), CLASS])
        assert_allclose(ours, [losses[test].mean() for _, test in cv.split(X)], rtol=1e-4)


@pytest.mark.filterwarnings("ignore:R.2 score is not well-defined")
@pytest.mark.parametrize(
    ("name", "y"), [("r2", TARGETS), ("roc_auc_ovr", THREE), ("neg_mean_poisson_deviance", ETA)]
)
def test_undefined_scores_are_nan_and_say_so_once(name, y):
    model = (LogisticRegression(**TIGHT) if y is THREE else Ridge()).fit(X, y)
    with pytest.warns(UndefinedMetricWarning, match="several rows, of each class") as caught:
        scores = acv.approx_cross_validate(model, X, y, cv=LeaveOneOut(), scoring=name)
    assert np.isnan(scores["test_score"]).all() or y is ETA
    assert np.isnan(scores["test_score"])[y < 0.0].all() if y is ETA else True
    words = "of 90 of 90 folds is undefined .0, 1" if name == "r2" else "scoring score of fold"
    with pytest.raises(ValueError, match=words):
        acv.approx_cross_validate(model, X, y, scoring=name, error_score="raise", cv=LeaveOneOut())
    ours = [each for each in caught if "several rows, of each class" in str(each.message)]
    assert [each.filename for each in ours] == [__file__]


def test_ranks_of_rows_left_out_one_by_one_are_warned_of():
    """Labels that nothing predicts: pooled ranks are wrong, and 0 for a strong penalty."""
    y = np.arange(90) % 2
    model = LogisticRegression(C=1e-4, **TIGHT).fit(X, y)
    settings = {"output": "predict_proba", "method": "exact"}
    with pytest.warns(acv.sklearn.PooledScores, match="a model of its own"):
        shares = acv.approx_cross_val_predict(model, X, y, cv=LeaveOneOut(), **settings)
    assert roc_auc_score(y, shares[:, 1]) < 0.05
    acv.approx_cross_val_predict(model, X, y, cv=3, **settings)  # filters make warnings errors


def test_what_a_scorer_returns_is_named_and_refused_if_it_is_no_number():
    def scorer(estimator, X, y):
        if len(X) < 11:
            raise RuntimeError("too few rows")
        return {"rows": len(X), "columns": X.shape[1]}

    model = Ridge().fit(X[:85], ETA[:85])
    arguments = {"X": X[:85], "y": ETA[:85], "cv": 8, "scoring": scorer}
    message = r"of 3 of 8 folds is undefined \(5, 6, 7\).* 5: RuntimeError: too few rows"
    for error_score in (np.nan, -1.0):
        with pytest.warns(UndefinedMetricWarning, match=message):
            scores = acv.approx_cross_validate(model, **arguments, error_score=error_score)
        assert_allclose(scores["test_rows"], [11] * 5 + [error_score] * 3)
        assert_allclose(scores["test_columns"][:5], 4)
    with pytest.raises(RuntimeError, match="too few rows"):
        acv.approx_cross_validate(model, **arguments, error_score="raise")
    with pytest.raises(ValueError, match="error_score = 'rise': give a number"):
        acv.approx_cross_validate(model, **arguments, error_score="rise")
    for score in (1j, np.complex128(1j), np.str_("a"), np.ones(2), None):
        with pytest.raises(ValueError, match="scoring must return a number"):
            acv.approx_cross_validate(Ridge().fit(X, ETA), X, ETA, scoring=lambda *_, s=score: s)


def test_unreliable_folds_are_refitted_by_default_and_named():
    """A regression whose first training sets are small: hard for any approximation."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((120, 4))
    y = x @ [2.0, -1.0, 0.5, 0.0] + rng.standard_normal(120) > 0
    model = LogisticRegression(C=1e3, **TIGHT).fit(x, y)
    settings = {"cv": model_selection.TimeSeriesSplit(5), "scoring": "neg_log_loss"}
    refits = cross_validate(model, x, y, **settings)["test_score"]
    ignored = acv.approx_cross_validate(model, x, y, unreliable="ignore", **settings)
    ours = acv.approx_cross_validate(model, x, y, **settings)
    assert np.abs(ignored["test_score"] - refits).max() > 0.1
    assert_allclose(ours["test_score"], refits, atol=0.02)
    far = np.abs(ignored["test_score"] - refits) > 0.05
    assert ours["unreliable"][far].all()
    assert_allclose(ours["test_score"][ours["unreliable"]], refits[ours["unreliable"]], rtol=1e-4)
    assert f"{ours['unreliable'].sum()} folds refitted" in ours["cv_result"].method
    assert not ignored["unreliable"].any()
    with pytest.raises(ValueError, match="unreliable 'mend': one of refit, ignore"):
        acv.approx_cross_validate(model, x, y, unreliable="mend", **settings)


RNG = np.random.default_rng(0)
GRID = np.logspace(-3, 2, 11)
SQUARES = "neg_mean_squared_error"
COUNTING = PoissonRegressor(solver="newton-cholesky", tol=1e-6, max_iter=1000)
CASES = {
    "ridge": (Ridge(), X, VALUES, SQUARES, LeaveOneOut()),
    "targets": (Ridge(), X, TARGETS, "r2", KFold(5)),
    "logistic": (LogisticRegression(**TIGHT), X, LABELS, "neg_log_loss", KFold(5)),
    "poisson": (COUNTING, X, COUNTS, "neg_mean_poisson_deviance", KFold(10)),
    "wide": (Ridge(), RNG.normal(size=(90, 99)), VALUES, SQUARES, KFold(5)),
}


@pytest.mark.parametrize("name", CASES)
def test_tuning_chooses_what_a_grid_search_chooses(name):
    estimator, x, y, scoring, cv = CASES[name]
    parameter = "C" if name == "logistic" else "alpha"
    step = type(estimator).__name__.lower()
    pipe = make_pipeline(StandardScaler(), estimator)
    wholes = ((estimator, parameter, cv), (pipe, f"{step}__{parameter}", KFold(3)))
    for whole, key, cv in wholes:
        grid = GridSearchCV(whole, {key: GRID}, cv=cv, scoring=scoring).fit(x, y)
        tuned = acv.approx_tune(whole.fit(x, y), x, y, GRID, scoring=scoring, cv=cv)
        assert tuned.best == grid.best_params_[key] == tuned.estimator.get_params()[key]
        if whole is estimator:
            assert_allclose(tuned.scores, grid.cv_results_["mean_test_score"], rtol=0.01)
        assert tuned.errors.shape == GRID.shape
        new = x + RNG.normal(size=x.shape)
        ours, theirs = (each.predict(new) for each in (tuned.estimator, grid))
        if y is LABELS:
            assert (ours == theirs).all()
        else:
            assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
        assert whole.get_params()[key] == 1.0  # what was given is as it was


@pytest.mark.filterwarnings("ignore:approx_tune. rejected values. 1e-200")
def test_the_default_score_is_minus_the_held_out_loss():
    weights = {"sample_weight": 1.0 + (X[:, 0] > 0.0)}
    model = LogisticRegression(**TIGHT).fit(X, LABELS)
    tuned = acv.approx_tune(model, X, LABELS, [*GRID, 1e-200], method="exact", params=weights)
    settings = {"scoring": "neg_log_loss", "method": "exact", "cv": LeaveOneOut()}
    settings |= {"params": weights}
    models = [LogisticRegression(C=C, **TIGHT).fit(X, LABELS, **weights) for C in GRID]
    each = [acv.approx_cross_validate(model, X, LABELS, **settings) for model in models]
    assert_allclose(tuned.scores[:-1], [found["test_score"].mean() for found in each], rtol=1e-5)
    cv = KFold(5, shuffle=True)  # drawn once, for all values
    tuned = acv.approx_tune(Ridge().fit(X, VALUES), X, VALUES, [2.0, 2.0], cv=cv)
    assert tuned.scores[0] == pytest.approx(tuned.scores[1], rel=1e-9)


TWO = {"scoring": ["r2", SQUARES], "cv": 5}
CONSTANT = {"scoring": "explained_variance"}
REFUSED = {
    "zero": (Ridge(), [0.0, 1.0], {}, ValueError, "must be above 0"),
    "no penalty": (LinearRegression(), [1.0], {}, TypeError, "has neither C nor alpha"),
    "certify": (Ridge(), [1.0], {"unreliable": "certify"}, ValueError, "unknown unreliable"),
    "two scorers": (Ridge(), [1.0], TWO, ValueError, "scoring gives .*: pass the one scorer"),
    "two of single rows": (Ridge(), [1.0], TWO | {"cv": None}, ValueError, "pass the one scorer"),
    "one number": (Ridge(), [1.0, 2.0], CONSTANT, ValueError, "whatever its fold.*pass cv=10"),
    "undefined": (Ridge(), [1.0, 2.0], {"scoring": "r2"}, ValueError, "not well-defined"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_tuned_is_refused(name):
    model, values, settings, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        acv.approx_tune(model.fit(X, VALUES), X, VALUES, values, **settings)
