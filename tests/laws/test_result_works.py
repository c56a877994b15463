"""Law 8: what comes back works: as the thing that went in, in a file, in a table, in a picture."""

import pickle

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import acvlib as acv

from .doors import DOORS, folds_of, glm, hmm_by_frames, rows
from .law import SEEDS, ask, cases, hold

pytest.importorskip("pandas")
STEPS = {
    "Ridge": (Ridge, "ridge__alpha"),
    "LogisticRegression": (LogisticRegression, "logisticregression__C"),
}


@cases("result_works", STEPS, "tuned")
def test_the_tuned_estimator_is_the_users_own(name):
    """It predicts raw new rows as the best estimator of scikit-learn's search does."""
    kind, parameter = STEPS[name]

    def check(seed):
        rng = np.random.default_rng(seed)
        data = rows(rng, "gaussian" if kind is Ridge else "logistic")
        X = data["X"] * [1.0, 100.0] + [5, 300]
        new = X + rng.normal(size=X.shape)
        values, cv = [0.1, 1.0, 10.0], KFold(3, shuffle=True, random_state=0)
        scoring = "neg_mean_squared_error" if kind is Ridge else "neg_log_loss"
        m = make_pipeline(StandardScaler(), kind())
        search = GridSearchCV(m, {parameter: values}, cv=cv, scoring=scoring).fit(X, data["y"])
        best = search.best_params_[parameter]
        found = ask(acv.approx_tune, m.fit(X, data["y"]), X, data["y"], [best], cv=cv)
        assert np.allclose(ask(found.estimator.predict, new), search.predict(new), rtol=1e-3)

    hold(check, 3, seed=SEEDS)


def logistic_result(method):
    def made():
        data = DOORS["GLM logistic"].data(np.random.default_rng(0))
        return method(acv.fit(glm("logistic", **data)), folds_of(data["fold"]))

    return made


def future():
    model = hmm_by_frames(DOORS["HMM"].data(np.random.default_rng(0))["x"])
    return acv.leave_future_out(acv.fit(model), [40, 50])


def learnt():
    data = rows(np.random.default_rng(0))
    learner = acv.learners.lsqsgd(2, 0.01)
    return acv.treecv(learner, acv.Examples(data["X"], data["y"]), 4)


def approximated():
    data = rows(np.random.default_rng(0), "logistic")
    m = LogisticRegression().fit(data["X"], data["y"])
    return acv.approx_cross_validate(m, data["X"], data["y"], cv=3)["cv_result"]


def proof(fit, folds):
    return acv.certify(acv.newton_step(fit, folds))


def choice(fit, folds):
    return acv.choose({"a": fit.model, "b": fit.model}, folds)


RESULTS = {
    "exact": logistic_result(acv.exact),
    "newton_step": logistic_result(acv.newton_step),
    "certify": logistic_result(proof),
    "choose": logistic_result(choice),
    "leave_future_out": future,
    "treecv": learnt,
    "approx_cross_validate": approximated,
}


@cases("result_works", RESULTS, "in a file")
def test_results_pickle(name):
    result = RESULTS[name]()
    again = pickle.loads(pickle.dumps(result))
    assert repr(again) == repr(result)
    for own in ("pointwise", "loss", "interval", "best", "fitted_losses", "p_loo"):
        if hasattr(result, own):
            assert np.array_equal(
                getattr(again, own), getattr(result, own), equal_nan=own != "best"
            ), own


@cases("result_works", [name for name in RESULTS if name != "choose"], "in one line")
def test_results_print_their_loss(name):
    result = RESULTS[name]()
    loss = result.interval[0] if name == "certify" else result.loss
    line = repr(result)
    assert "\n" not in line
    assert any(f"{loss:.{digits}g}" in line for digits in (3, 4, 5, 6))


# Pictures draw what they are given.


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


@cases("result_works", ["plots.series"], "shaded")
def test_what_is_shaded_are_the_sites(name, ax):
    """Scattered, unsorted or single sites, each with a width that is seen, and no others."""

    def check(folds):
        ax.clear()
        t = np.arange(90.0)
        acv.plots.series(ax, t, np.sin(t), [np.array(fold) for fold in folds])
        spans = [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in ax.patches]
        assert all(high > low for low, high in spans)
        covered = {n for n in range(90) for low, high in spans if low <= n <= high}
        assert covered == {site for fold in folds for site in fold}

    one = st.lists(st.integers(0, 89), min_size=1, max_size=4, unique=True)
    hold(check, 10, folds=st.lists(one, min_size=1, max_size=2))


@cases("result_works", ["plots.series"], "labelled")
def test_no_label_is_made_up(name, ax):
    acv.plots.series(ax, np.arange(9.0), np.arange(9.0), [np.arange(3)])
    assert ax.get_ylabel() == ""


@cases("result_works", ["plots.error_ladder"], "of zero")
def test_errors_of_zero_are_drawn(name, ax):
    acv.plots.error_ladder(ax, {"exact": np.zeros(5), "newton_step": np.array([0.1, 0.2, 0.3])})
    ax.figure.canvas.draw()
    bottom, _ = ax.get_ylim()
    assert len(ax.patches) == 2
    assert all((box.get_path().vertices[:, 1] >= bottom).all() for box in ax.patches)
