"""The order of the rungs, what each of them costs, and the baseline."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from ladder_cases import FOLDS, METHODS, RIDGE, TIGHT, X, Y, left_out
from numpy.testing import assert_allclose, assert_array_equal

import acvlib as acv


def test_no_adjustment_keeps_the_full_fit(fits):
    result = acv.no_adjustment(fits["ridge"], FOLDS)
    assert_array_equal(result.params, np.tile(fits["ridge"].params, (3, 1)))
    assert_allclose(result.losses[1], (Y - X @ fits["ridge"].params)[:10] ** 2 / 2, rtol=1e-13)


def test_higher_rungs_of_the_traffic_model_are_nearer_to_exact(
    traffic_fit, traffic_folds, traffic_exact
):
    rungs = [method(traffic_fit, traffic_folds) for method in METHODS[:4]]
    table = acv.compare_methods(traffic_exact, *rungs)["theta_error"]
    assert table["exact"] == 0.0
    assert table["newton_step"] < table["frozen_newton"] < table["infinitesimal_jackknife"]
    assert table["frozen_newton"] < table["no_adjustment"]


@settings(max_examples=25)
@given(st.lists(st.sets(st.integers(0, 59), min_size=1, max_size=20), min_size=1, max_size=4))
def test_all_rungs_of_a_quadratic_agree_with_the_closed_form_as_they_promise(sets):
    folds, fit = [np.array(sorted(s)) for s in sets], acv.fit(RIDGE, tolerance=TIGHT)
    closed = np.array([RIDGE.solution(left_out(RIDGE, fold)) for fold in folds])
    error = [fit.standard_errors_between(method(fit, folds).params, closed) for method in METHODS]
    assert error[3].max() < 1e-8
    assert error[4].max() < 1e-6
    assert (error[1] < error[0] + 1e-12).all()
