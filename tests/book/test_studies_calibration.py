"""Coverage and flags against the library's own estimator and against counting by hand."""

import numpy as np
import pytest
from acvbook.studies import calibration
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
    table = calibration.estimates(exact, ij, 10, 3, np.random.default_rng(5))
    direct = acv.difference_estimate(ij, 10, np.random.default_rng(5))
    assert_allclose(table.loc[0, ["estimate", "se"]].astype(float), direct[:2], rtol=1e-6)


def test_failures_are_far_params_or_far_losses(runs):
    _, rungs = runs
    none, exact = rungs["no_adjustment"], rungs["exact"]
    limit = 0.3
    expected = [
        exact.fit.standard_errors_between(none.params[i], exact.params[i]) > limit
        or abs(none.fold_losses[i] - exact.fold_losses[i]) > limit * np.std(exact.fold_losses)
        for i in range(60)
    ]
    found = calibration.failures(exact, none, limit)
    assert found.tolist() == expected
    assert 0 < found.sum() < 60
    assert not calibration.failures(exact, exact).any()


def test_rates_of_flags_by_hand():
    failed = np.array([True, True, True, False, False, False, False, False])
    flagged = np.array([True, True, False, True, False, False, False, False])
    rates = calibration.flag_rates(failed, flagged)
    assert_allclose(rates[["recall", "precision"]], 2 / 3)
    assert_allclose(rates[["recall_by_chance", "precision_by_chance"]], 3 / 8)
    assert np.isnan(calibration.flag_rates(failed, ~np.ones(8, bool)).precision)
    assert np.isnan(calibration.flag_rates(~np.ones(8, bool), flagged).recall)
