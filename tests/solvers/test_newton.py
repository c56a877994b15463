"""The safeguarded Newton method in lockstep, on objectives with known optima and known traps."""

import autograd.numpy as anp
import numpy as np
import pytest
from ladder_cases import LOGISTIC, left_out
from numpy.testing import assert_allclose
from oracles.refit import refit
from oracles.toy_models import OfFunctions
from oracles.wrappers import Counting

from acvlib.derivatives import derivatives_of
from acvlib.folds import WHOLE, Folds
from acvlib.model import Refits
from acvlib.solvers.lockstep import lockstep
from acvlib.solvers.newton import MAX_STEPS, newton

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
WELLS = [(0.3, 1.0), (-0.3, -1.0), (2.0, 1.0), (1e-3, 1.0)]


@pytest.mark.parametrize(
    ("function", "start", "expected"), [(FLAT, 3.0, 0.0), *((double_well, *each) for each in WELLS)]
)
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
