"""Law 9: no nan wins: an undefined score, a failed fold or candidate is named; the others go on."""

import warnings

import numpy as np
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import LeaveOneOut, StratifiedKFold, cross_validate

import acvlib as acv
from acvlib import models

from .doors import folds_of, rows
from .law import RNG, ask, cases, hold


@cases("nan", ["exact", "newton_step"], "of a fold")
def test_one_bad_fold_is_named_and_the_others_go_on(name):
    """A fold that holds all rows of a class, of a model without a penalty."""

    @hold(2, rng=RNG)
    def check(rng):
        data = rows(rng, "logistic")
        fold = np.where(data["y"] > 0, 0, 1 + np.arange(24) % 3)
        X = np.round(data["X"] * 0.1)
        model = models.GLM(X, data["y"], "logistic", penalty=0.5)
        method = getattr(acv, name)
        with warnings.catch_warnings(record=True, action="always") as said:
            result = ask(method, acv.fit(model), folds_of(fold))
        assert np.isfinite(result.fold_losses).tolist() == [False, True, True, True]
        assert any("fold 0" in str(warning.message) for warning in said)


@cases("nan", ["approx_cross_validate"], "of a rare class")
def test_a_class_of_one_row_ends_nothing(name):
    """Its fold is scored as scikit-learn does: by refits that do not know the class."""

    @hold(2, rng=RNG, loo=st.booleans())
    def check(rng, loo):
        X, y = rng.normal(size=(40, 2)), np.arange(40) % 2
        y[rng.integers(40)] = 2
        m = LogisticRegression(tol=1e-8, max_iter=1000)
        cv = LeaveOneOut() if loo else StratifiedKFold(5)
        with warnings.catch_warnings(action="ignore"):
            want = cross_validate(m, X, y, cv=cv)["test_score"]
            got = ask(acv.approx_cross_validate, m.fit(X, y), X, y, cv=cv, method="exact")
        assert np.allclose(got["test_score"], want)
