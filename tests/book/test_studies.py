"""The studies of the GLM chapter, and rates of marks, on cases whose answer is known."""

import numpy as np
import pandas as pd
import pytest
from acvbook.studies import glm_rates, self_check, traffic
from numpy.random import default_rng
from numpy.testing import assert_allclose

import acvlib as acv
from acvlib.models import GLM


@pytest.mark.parametrize("law", glm_rates.LAWS)
def test_laws_have_variance_one_and_the_sub_gaussian_constant_they_name(law):
    draw, c_squared = glm_rates.LAWS[law]
    x = draw(default_rng(0), 2_000_000)
    assert_allclose([x.mean(), x.var()], [0.0, 1.0], atol=0.005)
    assert_allclose(np.exp(x**2 / c_squared).mean(), 2.0, rtol=0.03)


def test_largest_errors_are_those_of_refits_without_the_rows():
    largest = glm_rates.leave_k_out("bounded", [60], 5, 2, 1, default_rng(1)).iloc[0]
    assert largest.none > largest.ij > largest.ns > 0.0
    model = glm_rates.logistic_data("bounded", 60, 2, default_rng(1))
    full = acv.fit(model, tolerance=1e-10)
    moves = []
    pull = acv.infinitesimal_jackknife(full, acv.folds.leave_one_out(60)).params[:, 0]
    for rows in np.argsort(pull).reshape(-1, 5):  # that pull alike
        kept = np.setdiff1d(np.arange(60), rows)
        alone = acv.fit(GLM(model.X[kept], model.y[kept]), tolerance=1e-10)
        moves.append(np.linalg.norm(alone.params - full.params))
    assert_allclose(largest.none, max(moves), rtol=1e-6)


def test_delta_errors_of_a_mean_are_the_standard_error():
    y = default_rng(0).normal(size=50)
    model = GLM(np.ones((50, 1)), y, "gaussian", intercept=False)
    errors = glm_rates.delta_errors(model, acv.fit(model))
    assert_allclose(errors, y.std() / np.sqrt(50))


def test_rates_of_marks_by_hand():
    far = np.array([1, 1, 1, 0, 0, 0, 0, 0])
    marked = np.array([1, 1, 0, 1, 0, 0, 0, 0], bool)
    table = pd.DataFrame({"theta_error": far, "loss_error": 0, "unreliable": marked})
    rates = self_check.overall(table.assign(gradients=1, method="newton_step"))
    assert_allclose(rates[["recall", "precision", "share_far"]], [2 / 3, 2 / 3, 3 / 8])


def test_an_estimate_is_that_of_the_library():
    x = default_rng(0).normal(size=(60, 3))
    model = GLM(x, default_rng(1).poisson(np.exp(0.5 * x[:, 0])) * 1.0, "poisson")
    rungs = acv.ladder(acv.fit(model), acv.folds.leave_one_out(60))
    ij = rungs["infinitesimal_jackknife"]
    table = traffic.estimates(rungs["exact"], ij, 10, 3, default_rng(5))
    direct = acv.difference_estimate(ij, 10, default_rng(5))
    assert_allclose(table.loc[0, ["estimate", "se"]].astype(float), direct[:2], rtol=1e-6)
