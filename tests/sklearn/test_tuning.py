"""`approx_tune` beside a grid search, and what comes back of it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_refits import COUNTS, LABELS, TARGETS, TIGHT, VALUES, X

import acvlib as acv

RNG = np.random.default_rng(0)
GRID = np.logspace(-3, 2, 11)
SQUARES = "neg_mean_squared_error"
CASES = {
    "ridge": (Ridge(), X, VALUES, SQUARES, LeaveOneOut()),
    "targets": (Ridge(), X, TARGETS, "r2", KFold(5)),
    "logistic": (LogisticRegression(**TIGHT), X, LABELS, "neg_log_loss", KFold(5)),
    "poisson": (
        PoissonRegressor(solver="newton-cholesky", tol=1e-6, max_iter=1000),
        X,
        COUNTS,
        "neg_mean_poisson_deviance",
        KFold(10),
    ),
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


@pytest.mark.parametrize(
    ("model", "values", "settings", "error", "message"), REFUSED.values(), ids=REFUSED.keys()
)
def test_what_cannot_be_tuned_is_refused(model, values, settings, error, message):
    with pytest.raises(error, match=message):
        acv.approx_tune(model.fit(X, VALUES), X, VALUES, values, **settings)
