"""Fitting: the optimum that scipy finds, honest about where it has not arrived."""

import warnings

import numpy as np
import pytest
from ladder_cases import INSTRUMENTS, LOGISTIC, RIDGE, X, Y
from numpy.testing import assert_allclose, assert_array_equal
from oracles.refit import refit
from oracles.toy_models import Saddle, Staged, simulate_traffic
from oracles.wrappers import ByAutograd

import acvlib as acv
from acvlib.fit import newton_decrement
from acvlib.models import GaussianHMM, PoissonTraffic
from acvlib.solvers.inverse import DenseHessian
from acvlib.trials import UnconvergedFit
from acvlib.weighting import SmallObjective

TRAFFIC = PoissonTraffic(*simulate_traffic(np.random.default_rng(1), 600))


@pytest.mark.parametrize("model", [RIDGE, INSTRUMENTS], ids=["objective", "equation"])
def test_linear_models_are_fitted_to_their_closed_form(model):
    fit = acv.fit(model)
    assert_allclose(fit.params, model.solution(np.ones(60)), rtol=1e-9)
    assert fit.newton_decrement <= 1e-6


def test_others_are_fitted_to_the_optimum_that_scipy_finds_nearby():
    fit = acv.fit(LOGISTIC, tolerance=1e-10)
    assert_allclose(fit.params, refit(LOGISTIC.objective, np.zeros(3), np.ones(60)), atol=1e-9)
    fit = acv.fit(TRAFFIC)
    refitted = refit(TRAFFIC.objective, fit.params + 0.01, np.ones(600), gtol=1e-7)
    assert fit.newton_decrement <= 1e-6
    assert fit.standard_errors_between(fit.params, refitted) <= 1e-6
    assert np.linalg.eigvalsh(fit.metric)[0] > 0.0
    slow = acv.fit(ByAutograd(TRAFFIC), start=fit.params + 0.01)
    assert slow.standard_errors_between(slow.params, fit.params) <= 2e-6


def test_fit_starts_where_it_is_told_or_where_the_rng_says():
    start = np.array([3.0, 0.0, -3.0])
    assert_array_equal(acv.fit_path(RIDGE, start=start)[0], start)
    fits = [acv.fit(TRAFFIC, rng=rng) for rng in (0, np.random.default_rng(0), 1)]
    assert_array_equal(fits[0].params, fits[1].params)  # bit for bit
    assert fits[0].objective == fits[1].objective
    paths = [acv.fit_path(TRAFFIC, rng=rng) for rng in (0, np.random.default_rng(0), 1)]
    assert_array_equal(paths[0][0], paths[1][0])
    assert np.abs(paths[0][0] - paths[2][0]).max() > 0
    model = GaussianHMM(np.random.default_rng(2).normal(size=40) + np.repeat([0.0, 3.0], 20), 2)
    ours, theirs = (acv.fit(model, rng=rng).params for rng in (0, np.random.default_rng(0)))
    assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match="rng = '0': pass"):
        acv.fit(model, rng="0")


def test_newton_decrement_is_the_distance_to_the_optimum_in_standard_errors():
    optimum, shift = RIDGE.solution(np.ones(60)), np.array([0.2, 0.0, -0.1])
    with warnings.catch_warnings(action="error"):
        fit = acv.fit_at(RIDGE, optimum + shift)
    length = np.sqrt(shift @ (X.T @ X + np.eye(3)) @ shift)
    rows = fit.params - np.array([np.zeros(3), shift])
    assert_allclose(fit.newton_decrement, length, rtol=1e-12)
    distances = fit.standard_errors_between(rows, fit.params)
    assert_allclose(distances, [0.0, length], rtol=1e-12)
    assert newton_decrement(np.ones(2), DenseHessian(np.diag([1.0, -1.0]))) == np.inf
    assert newton_decrement(np.zeros(2), DenseHessian(np.diag([1.0, 0.0]))) == np.inf


def test_an_equations_metric_is_the_inverse_of_its_sandwich_covariance():
    fit = acv.fit(INSTRUMENTS)
    u, residual = INSTRUMENTS.u, Y - X @ fit.params
    bread = np.linalg.inv(u.T @ X)
    sandwich = bread @ (u.T * residual**2) @ u @ bread.T
    assert_allclose(np.linalg.inv(fit.metric), sandwich, rtol=1e-9)


def test_an_equation_is_solved_where_no_weight_reaches_it_and_refused_where_none_does_at_all():
    fit = acv.fit(Staged(INSTRUMENTS.u, X, Y))
    assert_allclose(fit.params[0], np.log(0.005), rtol=1e-6)
    assert not acv.check_result(acv.exact(fit, acv.folds.k_fold(60, 4))).unreliable.any()
    with pytest.raises(ValueError, match="residual ignores the weights of all sites"):
        acv.fit(Staged(INSTRUMENTS.u[:, :1], X[:, :1], Y))


def test_a_fit_that_ends_at_a_saddle_warns_once_with_its_decrement():
    with pytest.warns(UnconvergedFit, match="fit: Newton decrement inf") as record:
        fit = acv.fit(Saddle(X[:, :2], Y), start=np.zeros(2))
    assert len(record) == 1
    assert record[0].filename == __file__
    assert fit.newton_decrement == np.inf


@pytest.mark.parametrize("kind", [type(RIDGE), type(LOGISTIC)])
def test_an_objective_far_smaller_than_a_log_density_is_warned_of(kind):
    """Their standard errors are too wide: exact refits start, and end, anywhere."""
    model = kind(X, np.sign(Y))
    acv.fit(model)
    model.objective = lambda params, weights: 1e-5 * kind.objective(model, params, weights)
    with pytest.warns(SmallObjective, match=r"vary by 0\.00\d of .*divide squares by the variance"):
        acv.fit(model)


def test_fit_path_descends_from_the_start_towards_the_optimum():
    path = acv.fit_path(TRAFFIC)
    fit, objectives = acv.fit(TRAFFIC), [TRAFFIC.objective(params, np.ones(600)) for params in path]
    assert_array_equal(path[0], TRAFFIC.initial_params())
    assert (np.diff(objectives) <= 1e-9).all()
    errors = fit.standard_errors_between(np.array(path), fit.params)
    assert errors[-1] < 0.1 < 1.0 < errors[0]
