"""Law 8: what comes back works: in a file, in a line, in a picture.

tests/sklearn/test_scores.py has what comes back of tuning.
"""

import pickle
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st
from oracles.wrappers import raises
from sklearn.linear_model import LogisticRegression

import acvlib as acv
from acvlib.beyond.choice import plot_models

from .doors import DOORS, folds_of, glm, hmm_by_frames, rows
from .law import ask, cases, hold, refused


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
    return acv.treecv(acv.learners.lsqsgd(2, 0.01), acv.Examples(data["X"], data["y"]), 4)


def approximated():
    data = rows(np.random.default_rng(0), "logistic")
    m = LogisticRegression().fit(data["X"], data["y"])
    return acv.approx_cross_validate(m, data["X"], data["y"], cv=3)["cv_result"]


RESULTS = {
    "exact": logistic_result(acv.exact),
    "newton_step": logistic_result(acv.newton_step),
    "certify": logistic_result(lambda fit, folds: acv.certify(acv.newton_step(fit, folds))),
    "choose": logistic_result(lambda fit, folds: acv.choose(dict.fromkeys("ab", fit.model), folds)),
    "leave_future_out": future,
    "treecv": learnt,
    "approx_cross_validate": approximated,
}


@cases("result_works", RESULTS, "in a file, in one line")
def test_results_pickle_and_print_their_loss(name):
    result = RESULTS[name]()
    again = pickle.loads(pickle.dumps(result))
    assert repr(again) == repr(result)
    for own in ("pointwise", "loss", "interval", "best", "fitted_losses", "p_loo"):
        if hasattr(result, own):
            both = getattr(again, own), getattr(result, own)
            assert np.array_equal(*both, equal_nan=own != "best"), own
    if name != "choose":
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
    one = st.lists(st.integers(0, 89), min_size=1, max_size=4, unique=True)

    @hold(10, folds=st.lists(one, min_size=1, max_size=2))
    def check(folds):
        ax.clear()
        t = np.arange(90.0)
        ask(acv.plots.series, ax, t, np.sin(t), [np.array(fold) for fold in folds])
        spans = [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in ax.patches]
        assert all(high > low for low, high in spans)
        covered = {n for n in range(90) for low, high in spans if low <= n <= high}
        assert covered == {site for fold in folds for site in fold}


@cases("result_works", ["plots.series"], "lined up")
def test_values_are_drawn_at_their_time_and_what_is_no_site_is_refused(name, ax):
    t = pd.Series(pd.period_range("2020", periods=9))
    acv.plots.series(ax, t, pd.Series(np.arange(9.0))[::-1], [[3]])
    assert list(ax.lines[0].get_ydata()) == list(range(9))
    assert (ax.patches[0].get_x() % 1.0, ax.get_ylabel()) == (0.5, "")
    for sites in (np.arange(9) > 5, [-1], [9], [3.5]):
        raises("fold 0", acv.plots.series, ax, t, np.arange(9.0), [sites])


@cases("result_works", ["plots.error_ladder"], "of zero")
def test_errors_of_zero_are_drawn(name, ax):
    acv.plots.error_ladder(ax, {"exact": np.zeros(5), 1: np.array([0.1, 0.2, 0.3])})
    ax.figure.canvas.draw()
    bottom, _ = ax.get_ylim()
    assert len(ax.patches) == 2
    assert all((box.get_path().vertices[:, 1] >= bottom).all() for box in ax.patches)
    assert refused(acv.plots.error_ladder, ax, {"exact": [-0.1, -0.2]}, words="negative")


@cases("result_works", ["choose"], "drawn as they are")
def test_every_model_is_drawn_with_its_errors_and_what_is_wrong_with_it(name, ax):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    columns = {"$x_1$": X[:, :1], 2: X, "noise": X[:, 1:]}
    models = {key: acv.models.GLM(each, y, "gaussian") for key, each in columns.items()}
    choice = acv.choose(models, acv.folds.k_fold(30, 5))
    lost = replace(choice.results[2], losses=[np.arange(6) * np.nan] * 5)
    unsure = replace(choice.results["noise"], indefinite=np.arange(5) < 2)
    results = choice.results | {"noise": unsure, "lost": lost}
    simplest = {str(choice.simplest): ["simplest within one standard error"]}
    wrong = {"lost": ["no loss", "5 of 5 folds unreliable"], "noise": ["2 of 5 folds unreliable"]}
    turned = choice.table[::-1]
    drawn = [(choice, choice.table, simplest), (results, choice.table, wrong), (turned, turned, {})]
    assert choice.plot(ax) is ax
    for given, table, notes in drawn:
        ax.clear()
        assert ask(plot_models, ax, given) is ax
        points = [line.get_xydata()[0] for line in ax.lines[:3]]
        np.testing.assert_allclose(points, np.column_stack([-table.elpd, range(3)]))
        bars = [np.ptp(np.array(bar.get_segments())[..., 0], axis=1) for bar in ax.collections]
        np.testing.assert_allclose(bars, [2.0 * table.se, 2.0 * table.dse], atol=1e-9)
        ax.figure.canvas.draw()
        labels = [label.get_text().split("\n") for label in ax.get_yticklabels()]
        assert [key for key, *_ in labels[:3]] == [str(key) for key in table.index]
        assert {key: said for key, *said in labels if said} == notes
    other = acv.exact(choice.results[2].fit, acv.folds.k_fold(30, 6))
    assert refused(plot_models, ax, {2: unsure, "other": other}, words="same Folds")
    assert refused(plot_models, ax, {"lost": lost}, words="no model has a finite loss")
    raises("the result of 2 .* give what choose", plot_models, ax, {2: models[2]}, error=TypeError)


@cases("result_works", ["Fit", "CVResult", "ResultCheck"], "compared")
def test_results_can_be_kept_in_sets(name):
    fit = acv.fit(acv.models.GLM(np.arange(9.0)[:, None], np.sin(np.arange(9.0)), "gaussian"))
    result = acv.exact(fit, acv.folds.k_fold(fit.model, 3))
    held = {"Fit": fit, "CVResult": result, "ResultCheck": acv.check_result(result)}[name]
    assert len({held, held}) == 1
    assert held != pickle.loads(pickle.dumps(held))
