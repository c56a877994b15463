"""Scores of all folds at once, one by one, or undefined."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import (
    LeaveOneOut,
    PredefinedSplit,
    TimeSeriesSplit,
    cross_val_predict,
    cross_validate,
)
from test_refits import ETA, LABELS, TARGETS, THREE, TIGHT, X

import acvlib as acv

CLASS = (LABELS == "yes") * 1


def test_the_log_loss_of_rows_that_lack_a_class_is_theirs_of_all_rows():
    model = LogisticRegression(**TIGHT).fit(X, CLASS)
    for cv in LeaveOneOut(), PredefinedSplit(CLASS + 2 * (np.arange(90) % 3)):
        settings = {"cv": cv, "scoring": "neg_log_loss", "method": "exact"}
        ours = acv.approx_cross_validate(model, X, CLASS, **settings)["test_score"]
        shares = cross_val_predict(model, X, CLASS, cv=cv, method="predict_proba")
        losses = np.log(shares[np.arange(90), CLASS])
        theirs = [losses[test].mean() for _, test in cv.split(X)]
        assert_allclose(ours, theirs, rtol=1e-4)


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


def test_what_a_scorer_returns_is_named():
    def scorer(estimator, X, y):
        if len(X) < 11:
            raise RuntimeError("too few rows")
        return {"rows": len(X), "columns": X.shape[1]}

    model = Ridge().fit(X[:85], ETA[:85])
    message = "of 3 of 8 folds .* 5: RuntimeError: too few rows"
    with pytest.warns(UndefinedMetricWarning, match=message):
        scores = acv.approx_cross_validate(model, X[:85], ETA[:85], cv=8, scoring=scorer)
    assert_allclose(scores["test_rows"], [11, 11, 11, 11, 11, np.nan, np.nan, np.nan])
    assert_allclose(scores["test_columns"][:5], 4)


@pytest.mark.parametrize("score", [1j, np.complex128(1j), np.str_("a"), np.ones(2), None])
def test_a_score_that_is_no_number_is_refused(score):
    with pytest.raises(ValueError, match="scoring must return a number"):
        acv.approx_cross_validate(Ridge().fit(X, ETA), X, ETA, scoring=lambda *_: score)


def test_unreliable_folds_are_refitted_by_default_and_named():
    """A regression whose first training sets are small: hard for any approximation."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((120, 4))
    y = x @ [2.0, -1.0, 0.5, 0.0] + rng.standard_normal(120) > 0
    model = LogisticRegression(C=1e3, **TIGHT).fit(x, y)
    settings = {"cv": TimeSeriesSplit(5), "scoring": "neg_log_loss"}
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
