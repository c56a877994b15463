"""The studies of the GLM chapter on cases whose answer is known."""

import numpy as np
import pandas as pd
import pytest
from acvbook.studies import glm_errors, glm_rates
from numpy.testing import assert_allclose

import acvlib as acv
from acvlib.models import GLM


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("law", glm_rates.LAWS)
def test_laws_have_variance_one_and_the_sub_gaussian_constant_they_name(law):
    draw, c_squared = glm_rates.LAWS[law]
    x = draw(rng(), 2_000_000)
    assert_allclose([x.mean(), x.var()], [0.0, 1.0], atol=0.005)
    assert_allclose(np.exp(x**2 / c_squared).mean(), 2.0, rtol=0.03)


def test_rate_recovers_the_slope_of_every_group():
    n = np.tile([100.0, 400.0, 1600.0], 2)
    level = np.repeat([1.0, 7.0], 3)
    table = pd.DataFrame(
        {"law": "a", "dim": np.repeat([2, 3], 3), "n": n, "t": n**-0.5, "scaled_sd": level}
    )
    assert_allclose(glm_rates.rate(table), -0.5)


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


def test_delta_errors_of_a_mean_are_the_standard_error():
    y = rng().normal(size=50)
    model = GLM(np.ones((50, 1)), y, "gaussian", intercept=False)
    errors = glm_rates.delta_errors(model, acv.fit(model))
    assert_allclose(errors, y.std() / np.sqrt(50))
