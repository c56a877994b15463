"""The studies of the traffic chapter on short series, against counting and computing by hand."""

import numpy as np
import pytest
from acvbook.datasets.dodgers import simulate_dodgers
from acvbook.studies import counting, traffic
from numpy.random import default_rng
from numpy.testing import assert_allclose
from oracles.toy_models import FIRM

import acvlib as acv
from acvlib.models import PoissonTraffic

NAMES = ("no_adjustment", "infinitesimal_jackknife", "exact", "newton_step")


@pytest.fixture(scope="module")
def problem():
    data = simulate_dodgers(default_rng(0)).head(6_000)
    model = PoissonTraffic(data.counts, data.day)
    return model, acv.fit(model)


def test_measures_of_a_draw_are_those_of_its_ten_folds(problem):
    rungs = traffic.redraws(*problem, 2, default_rng(0))["contiguous", 5]
    losses = {name: np.concatenate(rung.losses[10:]) for name, rung in rungs.items()}
    none, ij, exact, ns = (losses[name] for name in NAMES)
    row = traffic.by_draw(rungs).loc[1].swaplevel()["infinitesimal_jackknife"]
    assert_allclose(row["R"], np.corrcoef(ij, exact)[0, 1])
    assert_allclose(row["R of differences"], np.corrcoef(ij - none, exact - none)[0, 1])
    assert_allclose(row["per point"], np.mean(np.abs(ij - exact) / exact))
    pair = rungs["exact"], rungs["infinitesimal_jackknife"]
    assert_allclose(row["relative error"], acv.relative_errors(*pair)[10:].mean())
    assert_allclose(row["in_se"], abs(np.mean(ij - exact)) / traffic.one_draw(rungs, 1)["exact"].se)
    fourth = traffic.newton_against(rungs)
    assert_allclose(fourth.differences[1], np.corrcoef(ns - none, ij - none)[0, 1])


def test_calls_are_counted_and_the_meter_is_taken_off(problem):
    model, fit = problem
    derivatives = acv.derivatives_of(model)
    folds = traffic.folds_of("iid", model, 10, 7, default_rng(0))
    with counting.metered(derivatives) as (calls, seconds):
        acv.newton_step(fit, folds)
    assert calls == {"fold_gradients": 7, "fold_hessians": 7, "heldout": 7}
    assert all(seconds[name] > 0 for name in calls)
    with counting.metered(derivatives) as (again, _):
        pass
    acv.newton_step(fit, folds)
    assert not again


def test_the_authors_way_finds_the_same_params():
    data = simulate_dodgers(default_rng(3)).head(2_600)
    model = PoissonTraffic(data.counts[-100:], data.day[-100:], prior=FIRM)
    fit = acv.fit(model)
    found = counting.authors_way(model, fit, traffic.folds_of("iid", model, 5, 2, default_rng(0)))
    assert max(found["ij_theta"], found["ns_theta"]) < 1e-6
    assert found["theta"] < 0.05 < found["theta_none"]
    assert found["gradients"] > 5
    assert found["exact_over_ij"] > found["ns_over_ij"] > 0
