"""`unreliable="certify"`: the score of scikit-learn's own refits is in every interval."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import KFold, LeaveOneOut, TimeSeriesSplit, cross_validate

import acvlib as acv

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 4))
ETA = X @ np.array([1.0, -0.5, 0.3, 0.0])
TIGHT = {"tol": 1e-9, "max_iter": 10_000}
CASES = [
    (LogisticRegression(C=0.5, **TIGHT), RNG.binomial(1, 1 / (1 + np.exp(-ETA)))),
    (PoissonRegressor(alpha=0.1, **TIGHT), RNG.poisson(np.exp(ETA))),
]
SCORES = [
    ["accuracy", "neg_log_loss", "neg_brier_score"],
    ["neg_mean_poisson_deviance", "neg_mean_squared_error"],
]


@pytest.mark.parametrize("cv", [KFold(6), TimeSeriesSplit(5)])
@pytest.mark.parametrize("case", range(2))
def test_intervals_hold_the_scores_of_refits(case, cv):
    estimator, y = CASES[case]
    scoring = SCORES[case]
    fitted = estimator.fit(X, y)
    ours = acv.approx_cross_validate(
        fitted, X, y, cv=cv, scoring=scoring, unreliable="certify", method="infinitesimal_jackknife"
    )
    theirs = cross_validate(estimator, X, y, cv=cv, scoring=scoring)
    assert ours["certificate"].certified.all()
    for name in scoring:
        low, high = ours[f"test_{name}_interval"].T
        score = theirs[f"test_{name}"]
        assert (low - 1e-6 <= score).all()
        assert (score <= high + 1e-6).all()
        assert (low - 1e-12 <= ours[f"test_{name}"])[~ours["unreliable"]].mean() > 0.5


def test_a_single_scorer_and_leave_one_out():
    estimator, y = CASES[0]
    ours = acv.approx_cross_validate(
        estimator.fit(X, y), X, y, cv=LeaveOneOut(), unreliable="certify"
    )
    assert ours["test_score_interval"].shape == (90, 2)
    assert np.ptp(ours["test_score_interval"].mean(axis=0)) < 0.05


def test_scorers_without_an_interval_are_refused():
    estimator, y = CASES[0]
    fitted = estimator.fit(X, y)
    with pytest.raises(ValueError, match="roc_auc.*has no interval"):
        acv.approx_cross_validate(fitted, X, y, cv=3, scoring="roc_auc", unreliable="certify")
    with pytest.raises(ValueError, match="unknown unreliable"):
        acv.approx_cross_val_predict(fitted, X, y, cv=3, unreliable="certify")


def test_regressions_by_squares_are_exact_without():
    fitted = Ridge(alpha=2.0).fit(X, ETA)
    with pytest.raises(acv.NotConcordant, match="use acv.exact, which is exact and as cheap"):
        acv.approx_cross_validate(fitted, X, ETA, cv=3, unreliable="certify")
