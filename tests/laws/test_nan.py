"""Law 9: no nan wins: an undefined score, a failed fold or candidate is named; the others go on."""

import warnings

import autograd.numpy as anp
import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st
from oracles.toy_models import OfFunctions
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import LeaveOneOut, StratifiedKFold, cross_val_predict, cross_validate

import acvlib as acv
from acvlib import models
from acvlib.sklearn import UnreliableFolds

from .doors import folds_of, rows
from .law import RNG, ask, cases, hold, refused


@cases("nan", ["exact", "newton_step"], "of a fold")
def test_one_bad_fold_is_named_and_the_others_go_on(name):
    """A fold that holds all rows of a class, of a model without a penalty."""

    @hold(2, rng=RNG)
    def check(rng):
        data = rows(rng, "logistic")
        fold = np.where(data["y"] > 0, 0, 1 + np.arange(24) % 3)
        model = models.GLM(np.round(data["X"] * 0.1), data["y"], "logistic", penalty=0.5)
        method = getattr(acv, name)
        with warnings.catch_warnings(record=True, action="always") as said:
            result = ask(method, acv.fit(model), folds_of(fold))
        assert np.isfinite(result.fold_losses).tolist() == [False, True, True, True]
        assert any("fold 0" in str(warning.message) for warning in said)


@cases("nan", ["PairwiseLinear", "SemiSupervised"], "of a refit at infinity")
def test_a_refit_without_an_optimum_has_no_loss(name):
    """Without a ridge; all of these folds but some leave pairs, or labels, that are separated."""
    x = np.random.default_rng(0).normal(size=(10, 2))
    y = x @ [1.0, -0.5]
    if name == "PairwiseLinear":
        y[:2] = y[1::-1]  # the one pair out of order
        model = models.PairwiseLinear(x, y, gamma_i=0.0)
        assert refused(acv.exact, acv.fit(model), folds_of(np.arange(10)), words="no pair")
    else:
        y = np.sign(y) * np.where(np.arange(10) < 2, -1.0, 1.0)
        energy = models.ManifoldEnergy(x, models.RBFAffinity(x, 1.0))
        model = models.SemiSupervised(energy, y, "logistic", gamma_p=0.0, gamma_i=0.0)
    with pytest.warns(UserWarning, match="fold 0.*without fold 0 theta is infinite"):
        result = acv.exact(acv.fit(model), folds_of(np.arange(10) // 2))
    assert np.isfinite(result.fold_losses).tolist() == [False, True, True, True, True]


@cases("nan", ["Model"], "of a singular Hessian")
def test_a_parameter_that_is_not_identified_is_named_whatever_rounding_leaves(name):
    """A column twice, in any units: a Cholesky factor exists in half of these draws."""

    def twice(rng, unit):
        x = rng.normal(size=(20, 2))[:, [0, 1, 0]] * [1.0, 1.0, unit]
        y = rng.normal(size=20)
        return OfFunctions(
            20,
            lambda params, weights: anp.dot(weights, (anp.dot(x, params) - y) ** 2),
            lambda params, fold: (x[fold] @ params - y[fold]) ** 2,
            np.zeros(3),
        )

    @hold(4, rng=RNG, unit=st.sampled_from([1.0, 1e-6, 1e7]))
    def check(rng, unit):
        with pytest.warns(UserWarning, match="Newton decrement inf"):
            fit = acv.fit(twice(rng, unit))
        with pytest.warns(UserWarning, match="not an optimum"):
            assert refused(acv.infinitesimal_jackknife, fit, [[0]], words="identify")


@pytest.mark.filterwarnings("ignore:The least populated class in y has only 1 members")
@cases("nan", ["approx_cross_validate"], "of a rare class")
def test_a_class_of_one_row_ends_nothing(name):
    """Its fold is scored as scikit-learn does: by refits that do not know the class."""

    @hold(2, rng=RNG)
    def check(rng):
        y, rare = np.array(["a", "c"])[np.arange(40) % 2], rng.integers(40)
        y[rare] = "b"
        frame = pd.DataFrame(rng.normal(size=(40, 2)), columns=["x", "z"])
        model = LogisticRegression(tol=1e-9, max_iter=10_000).fit(frame, y)
        for cv in (LeaveOneOut(), StratifiedKFold(5)):
            with warnings.catch_warnings(action="ignore"):  # of the class of one row
                theirs = cross_validate(model, frame, y, cv=cv)["test_score"]
                shares = cross_val_predict(model, frame, y, cv=cv, method="predict_proba")
                fold = np.array([rare in test for _, test in cv.split(frame, y)])
            settings = {"cv": cv, "method": "exact"}
            with pytest.warns(UnreliableFolds, match="leaves no row of class b"):
                ours = ask(acv.approx_cross_validate, model, frame, y, **settings)
            np.testing.assert_allclose(ours["test_score"], theirs)
            assert np.array_equal(ours["unreliable"], fold)
            assert ours["cv_result"].folds.labels.tolist() == np.flatnonzero(~fold).tolist()
            settings |= {"unreliable": "ignore", "output": "predict_proba"}
            found = acv.approx_cross_val_predict(model, frame, y, **settings)
            assert np.allclose(found, shares, atol=1e-5)
            assert found[rare, 1] == 0.0


@cases("nan", ["choose"], "a rare value")
def test_a_candidate_that_a_fold_leaves_too_few_values_is_rejected_by_name(name):
    """Case hmm_23: three values, of which one fold has all of one."""
    rng = np.random.default_rng(0)
    x = np.r_[rng.choice([0.0, 1.0], 60), [5.0] * 3, rng.choice([0.0, 1.0], 27)]
    candidates = {f"{k} states": models.GaussianHMM(x, k) for k in (1, 3)}
    with pytest.warns(UserWarning, match="3 states: .*fewer than 3 distinct values"):
        choice = ask(acv.choose, candidates, acv.folds.k_fold(90, 5), n_starts=2)
    assert list(choice.table.index) == ["1 states"]
