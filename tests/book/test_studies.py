"""The studies of the GLM chapter on cases whose answer is known."""

import numpy as np
import pandas as pd
import pytest
from acvbook.datasets import giordano_results, load_giordano_results
from acvbook.studies import glm_errors, glm_rates, glm_timing, gradient_norms
from numpy.testing import assert_allclose

import acvlib as acv
from acvlib.models import GLM


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("law", gradient_norms.LAWS)
def test_laws_have_variance_one_and_the_sub_gaussian_constant_they_name(law):
    draw, c_squared = gradient_norms.LAWS[law]
    x = draw(rng(), 2_000_000)
    assert_allclose([x.mean(), x.var()], [0.0, 1.0], atol=0.005)
    assert_allclose(np.exp(x**2 / c_squared).mean(), 2.0, rtol=0.03)


def test_rate_recovers_the_slope_of_every_group():
    n = np.tile([100.0, 400.0, 1600.0], 2)
    level = np.repeat([1.0, 7.0], 3)
    table = pd.DataFrame(
        {"law": "a", "dim": np.repeat([2, 3], 3), "n": n, "t": n**-0.5, "scaled_sd": level}
    )
    assert_allclose(gradient_norms.rate(table), -0.5)


def test_slopes_recover_a_power_law_in_each_draw():
    table = pd.DataFrame({"draw": np.repeat([0, 1], 3), "n": np.tile([100, 200, 400], 2)})
    n, scale = table.n, table.draw + 3.0
    slopes = glm_rates.slopes(table.assign(none=scale / n, ij=scale / n**2, ns=5.0 / n**3))
    assert_allclose(slopes[["none", "ij", "ns"]], [[-1.0, -2.0, -3.0]] * 2)


def test_largest_errors_are_those_of_refits_without_the_rows():
    largest = glm_rates.leave_k_out("bounded", [60], 5, 2, 1, rng(1)).iloc[0]
    assert largest.none > largest.ij > largest.ns > 0.0
    model = glm_rates.logistic_data("bounded", 60, 2, rng(1))
    full = acv.fit(model, tolerance=1e-10)
    moves = []
    for rows in folds_that_pull_alike(model, full, 5):
        kept = np.setdiff1d(np.arange(60), rows)
        alone = acv.fit(GLM(model.X[kept], model.y[kept]), tolerance=1e-10)
        moves.append(np.linalg.norm(alone.params - full.params))
    assert_allclose(largest.none, max(moves), rtol=1e-6)


def folds_that_pull_alike(model, full, k):
    single = acv.folds.leave_one_out(model.n_sites)
    pull = acv.infinitesimal_jackknife(full, single).params[:, 0]
    return np.argsort(pull).reshape(-1, k)


def test_theorem_holds_and_doing_nothing_breaks_its_formula():
    table = glm_rates.theorem1_on_data([(2000, 2)], 2, rng())
    assert len(table) == 2
    assert (table.applies == 1.0).all()
    assert (table.violated == 0).all()
    assert (table.none_violated > 0).all()
    assert glm_rates.bounds_table(table).none_violated.item() == table.none_violated.sum()


@pytest.mark.parametrize(
    ("family", "mean", "expected"), [("logistic", 0.7, 0.5), ("poisson", 0.5, 0.25)]
)
def test_errors_are_wrong_labels_or_squares(family, mean, expected):
    assert glm_errors.error(family, np.array([0.0, 1.0]), np.array([mean, mean])) == expected


def test_left_out_means_are_predictions_of_the_refits():
    x, y = rng().normal(size=(12, 2)), np.tile([0.0, 1.0, 2.0], 4)
    model = GLM(x, y, "poisson")
    result = acv.exact(acv.fit(model), acv.folds.leave_one_out(12), tolerance=1e-9)
    without = np.arange(12) != 5
    alone = GLM(x[without], y[without], "poisson")
    predicted = alone.predict(acv.fit(alone, tolerance=1e-10).params, x[[5]])[0]
    assert_allclose(glm_errors.left_out_means(model, result)[5], predicted, rtol=1e-7)


@pytest.mark.parametrize("family", glm_errors.SIGNAL)
def test_the_ladder_comes_nearer_to_exact_with_each_rung(family):
    row = glm_errors.one_data_set(family, 200, 15, 500, rng())
    assert row["converged"]
    for kind in ("", "ten_"):
        rungs = [row[f"{kind}theta_{name}"] for name in ("train", "ij", "frozen", "ns")]
        assert rungs == sorted(rungs, reverse=True)
        assert row[f"{kind}beats_train"] > 0.9 > row[f"{kind}train_beats_ij"]
    assert row["loss_train"] < row["loss_ij"] < row["loss_exact"]


def test_estimates_are_compared_with_the_test_error_and_the_gain():
    table = {"family": "a", "train": [6.0], "ij": [8.0], "exact": [10.0], "test": [20.0]}
    row = glm_errors.compared(pd.DataFrame(table)).iloc[0]
    assert [row.train_to_test, row.ij_to_test, row.exact_to_test] == [0.3, 0.4, 0.5]
    assert (row.gap_to_gain, row.ij_below_exact) == (0.5, True)
    both = glm_errors.beside(pd.DataFrame(table), pd.DataFrame(table))
    assert_allclose(both.loc[("a", "ours")], both.loc[("a", "authors")])


def test_ladder_records_name_every_rung_and_its_baseline():
    errors = glm_errors.figure1(("logistic", "poisson"), 2, 80, 5, 100, rng())
    records = {name: (values, none) for name, values, none in glm_errors.ladder_records(errors)}
    assert len(records) == 3 * 6
    values, none = records["tenfold.newton_step"]
    logistic = errors[errors.family == "logistic"]
    assert list(values) == list(logistic.ten_theta_ns)
    assert list(none) == list(logistic.ten_theta_train)


def test_the_same_seed_gives_the_same_table():
    once, twice = (glm_errors.figure1(("poisson",), 2, 60, 5, 100, rng(3)) for _ in range(2))
    pd.testing.assert_frame_equal(once, twice)


def test_timing_refits_every_fold_to_convergence_with_few_rows_too():
    table = glm_timing.figure2([10, 100, 200], 15, 2, rng(), often=100)
    assert (table.unconverged == 0).all()
    assert (table[["fit", "ij", "ns", "exact"]] > 0).all(axis=None)
    assert list(table.n) == [10, 100, 200, 10, 100]


def test_growth_is_the_slope_over_sizes_that_all_draws_have():
    n = np.array([10, 100, 1000, 10, 100])
    ratio = np.array([1.0, 10.0, 1e9, 2.0, 200.0])
    table = pd.DataFrame({"draw": [0, 0, 0, 1, 1], "n": n, "ratio": ratio})
    assert_allclose(glm_timing.growth(table), [1.0, 2.0])


def test_coverage_of_a_mean_is_what_was_asked_for():
    covered = glm_rates.coverage("gaussian", 400, 400, 1, 400, 0.9, rng())
    assert_allclose(covered[["ij", "bootstrap"]].mean(), 0.9, atol=0.05)
    assert_allclose(covered[["none", "none_width", "none_delta"]], 0.0, atol=1e-12)
    table = glm_rates.coverage_table(covered, ["none", "ij"])
    assert_allclose(table.width, [0.0, covered.ij_width.mean()])


def test_delta_errors_of_a_mean_are_the_standard_error():
    y = rng().normal(size=50)
    model = GLM(np.ones((50, 1)), y, "gaussian", intercept=False)
    errors = glm_rates.delta_errors(model, acv.fit(model))
    assert_allclose(errors, y.std() / np.sqrt(50))


def test_batches_are_means_of_whole_batches():
    assert_allclose(glm_rates.in_batches(np.arange(7.0), 3), [1.0, 4.0])


def test_results_that_are_not_at_hand_are_none(monkeypatch, tmp_path):
    def find(name, file):
        raise giordano_results.DataNotFound(file)

    monkeypatch.setattr(giordano_results, "find", find)
    assert load_giordano_results() is None
