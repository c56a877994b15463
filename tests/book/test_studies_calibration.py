"""Coverage against the library's own estimator, and rates of marks by hand."""

import numpy as np
import pandas as pd
import pytest
from acvbook.studies import self_check, traffic
from numpy.testing import assert_allclose

import acvlib as acv
from acvlib.models import GLM


@pytest.fixture(scope="module")
def runs():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    model = GLM(x, rng.poisson(np.exp(0.5 * x[:, 0])) * 1.0, "poisson")
    rungs = acv.ladder(acv.fit(model), acv.folds.leave_one_out(60))
    return model, rungs


def test_an_estimate_is_that_of_the_library(runs):
    model, rungs = runs
    ij, exact = rungs["infinitesimal_jackknife"], rungs["exact"]
    table = traffic.estimates(exact, ij, 10, 3, np.random.default_rng(5))
    direct = acv.difference_estimate(ij, 10, np.random.default_rng(5))
    assert_allclose(table.loc[0, ["estimate", "se"]].astype(float), direct[:2], rtol=1e-6)


def test_rates_of_marks_by_hand():
    far = np.array([1, 1, 1, 0, 0, 0, 0, 0])
    marked = np.array([1, 1, 0, 1, 0, 0, 0, 0], bool)
    table = pd.DataFrame({"theta_error": far, "loss_error": 0, "unreliable": marked})
    rates = self_check.overall(table.assign(gradients=1, method="newton_step"))
    assert_allclose(rates[["recall", "precision", "share_far"]], [2 / 3, 2 / 3, 3 / 8])
    none = self_check.overall(table.assign(unreliable=False, gradients=1, method="newton_step"))
    assert np.isnan(none.precision)
