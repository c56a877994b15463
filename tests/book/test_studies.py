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


def test_slopes_recover_a_power_law():
    n = np.array([100, 200, 400, 400])
    slopes = glm_rates.slopes(pd.DataFrame({"n": n, "ij": 3.0 / n**2, "ns": 5.0 / n**3}))
    assert_allclose([slopes["ij"], slopes["ns"]], [-2.0, -3.0])


@pytest.mark.parametrize(
    ("family", "mean", "expected"), [("logistic", 0.7, 0.5), ("poisson", 0.5, 0.25)]
)
def test_errors_are_wrong_labels_or_squares(family, mean, expected):
    assert glm_errors.error(family, np.array([0.0, 1.0]), np.array([mean, mean])) == expected


def test_left_out_means_are_predictions_of_the_refits():
    x, y = rng().normal(size=(12, 2)), np.tile([0.0, 1.0, 2.0], 4)
    model = GLM(x, y, "poisson")
    result = acv.exact(model, acv.fit(model), acv.folds.leave_one_out(12), tolerance=1e-9)
    without = np.arange(12) != 5
    alone = GLM(x[without], y[without], "poisson")
    predicted = alone.predict(acv.fit(alone, tolerance=1e-10).params, x[[5]])[0]
    assert_allclose(glm_errors.left_out_means(model, result)[5], predicted, rtol=1e-7)


@pytest.mark.parametrize("family", glm_errors.SIGNAL)
def test_the_ladder_comes_nearer_to_exact_with_each_rung(family):
    row = glm_errors.one_data_set(family, 200, 15, 500, rng())
    assert row["converged"]
    assert row["theta_train"] > row["theta_ij"] > row["theta_ns"]
    assert row["loss_train"] < row["loss_ij"] < row["loss_exact"]


def test_the_same_seed_gives_the_same_table():
    once, twice = (glm_errors.figure1(("poisson",), 2, 60, 5, 100, rng(3)) for _ in range(2))
    pd.testing.assert_frame_equal(once, twice)


def test_timing_refits_every_fold_to_convergence():
    table = glm_timing.figure2([100, 200], 5, rng())
    assert (table.unconverged == 0).all()
    assert (table[["fit", "ij", "ns", "exact"]] > 0).all(axis=None)


def test_coverage_of_a_mean_is_what_was_asked_for():
    covered = glm_rates.coverage("gaussian", 400, 400, 1, 400, 0.9, rng())
    assert_allclose(covered[["ij", "bootstrap"]].mean(), 0.9, atol=0.05)


def test_results_that_are_not_at_hand_are_none(monkeypatch, tmp_path):
    def find(name, file):
        raise giordano_results.DataNotFound(file)

    monkeypatch.setattr(giordano_results, "find", find)
    assert load_giordano_results() is None
