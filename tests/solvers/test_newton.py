"""Newton and quasi-Newton steps in lockstep, on objectives with known optima and known traps."""

from dataclasses import replace

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad, hessian
from ladder_cases import LOGISTIC, left_out
from numpy.testing import assert_allclose, assert_array_equal
from oracles.refit import refit
from oracles.toy_models import SEEN, WELLS, OfFunctions
from oracles.wrappers import Counting

import acvlib as acv
from acvlib.derivatives import derivatives_of
from acvlib.folds import WHOLE, Folds
from acvlib.model import Refits
from acvlib.models import AutoRegressiveHMM
from acvlib.solvers.newton import MAX_STEPS, lockstep, newton
from acvlib.solvers.newton_cg import below_saddle, newton_cg

FOLDS = Folds([np.array([0, 1]), np.arange(20), np.array([], int)])
START = np.zeros((3, 3))


def refine(model, params, folds, tolerance):
    return newton(derivatives_of(model), params, folds, tolerance)


def from_point(function, start, tolerance=1e-8):
    """F = function(theta), whatever the weights: one parameter, no data."""
    model = OfFunctions(1, lambda params, weights: function(params[0]))
    return refine(model, np.array([start]), WHOLE, tolerance)


def double_well(x):
    return (x**2 - 1.0) ** 2


def by_lockstep(curvature):
    """Quasi-Newton steps whose first Hessian is this times I, right or wrong."""

    def solve(model, params, folds, tolerance):
        found = Refits.unfinished(len(folds), 3)
        inverses = np.tile(np.eye(3) / curvature, (len(folds), 1, 1))
        lockstep(derivatives_of(model), params, folds, tolerance, inverses, found)
        return found

    return solve


SOLVERS = [refine, *map(by_lockstep, (1.0, 10.0, 50.0))]


@pytest.mark.parametrize("solve", SOLVERS)
def test_every_fold_reaches_the_optimum_that_scipy_finds_as_it_does_alone(solve):
    model = Counting(LOGISTIC)
    state = solve(model, START, FOLDS, 1e-9)
    assert state.converged.all()
    assert model.calls["objective"] == sum(state.evaluations.values())
    for i, fold in enumerate(FOLDS):
        expected = refit(LOGISTIC.objective, np.zeros(3), left_out(LOGISTIC, fold))
        assert_allclose(state.params[i], expected, rtol=0, atol=1e-8)
        alone = solve(LOGISTIC, START[:1], Folds([fold]), 1e-9)
        assert_allclose(state.params[i], alone.params[0], rtol=0.0 if solve is refine else 1e-14)
        assert state.steps[i] == alone.steps[0]


FLAT = lambda x: anp.sqrt(1.0 + x**2)  # noqa: E731
WELL = [(0.3, 1.0), (-0.3, -1.0), (2.0, 1.0), (1e-3, 1.0)]
MINIMA = [(FLAT, 3.0, 0.0), *((double_well, *each) for each in WELL)]


@pytest.mark.parametrize(("function", "start", "expected"), MINIMA)
def test_steps_descend_into_the_nearer_minimum(function, start, expected):
    """On sqrt(1 + x^2) Newton's step from 3 flies off to -27 if it is not halved."""
    state = from_point(function, start)
    assert state.converged.all()
    assert_allclose(state.params[0, 0], expected, atol=1e-8)
    assert not state.indefinite.any()


def test_neither_a_saddle_nor_what_has_no_minimum_is_taken_for_an_optimum():
    state = from_point(double_well, 0.0)
    assert not state.converged.any()
    assert state.indefinite.all()
    assert state.params[0, 0] == 0.0
    state = from_point(lambda x: anp.exp(-x), 0.0, 1e-30)
    assert not state.converged.any()
    assert state.steps[0] <= MAX_STEPS


def test_no_symmetry_leads_a_refit_to_a_saddle():
    """The fold's gradient has no share in the direction in which it has negative curvature."""
    fit = acv.fit(WELLS)
    assert_array_equal(fit.params[1], 0.0)
    result = acv.exact(fit, [np.array([0]), np.array([1])])
    assert result.diagnostics["converged"].all()
    assert not result.indefinite.any()
    assert_allclose(abs(result.params[:, 1]), [1.0, 0.0], atol=1e-6)
    assert_allclose(result.params[0, 0], SEEN[1:].mean(), atol=1e-6)
    # folds that curve down are refitted by their own Hessians
    assert 1 <= result.evaluations["hessian"] <= 12


def edge(params, weights):
    """A minimum at 0, and nothing finite beyond -0.5: Newton's step from 0.9 goes to -9."""
    beyond = anp.exp(-2000.0 * (params[0] + 0.5)) * 1e-300
    return anp.sqrt(1.0 + 10.0 * params[0] ** 2) + beyond + 0.0 * anp.sum(weights)


@pytest.mark.filterwarnings("ignore:overflow|invalid:RuntimeWarning")
def test_a_step_to_where_nothing_is_finite_is_shortened():
    derivatives = derivatives_of(OfFunctions(2, edge))
    folds = Folds([np.array([0])])
    found = Refits.unfinished(1, 1)
    lockstep(derivatives, np.array([0.9]), folds, 1e-8, np.full((1, 1, 1), 2.0), found)
    by_newton = newton(derivatives, np.array([0.9]), folds, 1e-8)
    assert by_newton.converged.all()
    for end in (found.params, by_newton.params):
        assert_allclose(end, 0.0, atol=1e-7)


class Products:
    """F, its gradient and Hessian products of one function; the identity preconditions."""

    rough = None

    def __init__(self, function, params):
        self.params, self.value, self.gradient = params, function(params), grad(function)(params)
        self.matrix = hessian(function)(params)

    def evaluate(self):
        return np.array([self.value]), self.gradient[None]

    def multiply(self, vectors, rows):
        return vectors @ self.matrix

    def precondition(self, vectors, rows):
        return vectors


class Toy:
    def __init__(self, function):
        self.function, self.model = function, None

    def anchored(self, params):
        return self

    def products(self, params, folds):
        return Products(self.function, params[0])


def saddle(p):
    """A saddle at 0 between the minima (1, 0) and (-1, 0)."""
    return 0.25 * (p[0] ** 2 - 1.0) ** 2 + 0.5 * p[1] ** 2


def test_optima_are_those_of_dense_newton(rng):
    x = [np.cumsum(rng.normal(size=(30, 2)), axis=0) for _ in range(5)]
    model = AutoRegressiveHMM(x, 2, dense_limit=0)
    fit, folds = acv.fit(model, rng=rng), acv.folds.leave_one_out(5)
    free = newton_cg(model.derivatives, fit.params, folds, 1e-8)
    dense = newton(replace(model, dense_limit=300).derivatives, fit.params, folds, 1e-8)
    assert free.converged.all()
    assert dense.converged.all()
    assert fit.standard_errors_between(free.params, dense.params).max() <= 1e-7
    assert not free.indefinite.any()
    assert free.evaluations["gradient"] == free.steps.sum() + len(folds)


@pytest.mark.parametrize("start", [(1e-3, 0.5), (-1e-3, 0.0), (0.3, -2.0)])
def test_a_saddle_is_left_downhill(start):
    start = np.array(start)
    end = newton_cg(Toy(saddle), start[None], WHOLE, 1e-10)
    assert end.converged.all()
    assert_allclose(abs(end.params[0]), [1.0, 0.0], atol=1e-9)
    assert not end.indefinite.any()


def test_on_a_saddle_a_random_direction_leads_down_and_without_a_minimum_nothing_converges():
    """The gradient has no share in the negative curvature; a random vector does, and leads off."""
    toy = Toy(saddle)
    end = newton_cg(toy, np.array([[0.0, 0.1]]), WHOLE, 1e-10)
    assert_allclose(end.params[0], 0.0, atol=1e-9)
    assert saddle(below_saddle(toy, end.params[0])) < saddle(end.params[0])
    assert below_saddle(toy, np.array([1.0, 0.0])) is None
    endless = Toy(lambda p: -np.sum(p**2))
    end = newton_cg(endless, np.array([[1.0, 2.0]]), WHOLE, 1e-6, max_steps=20)
    assert not end.converged.any()
    assert end.indefinite.all()
