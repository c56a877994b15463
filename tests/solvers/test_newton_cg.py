"""Newton's method by conjugate gradients: against dense steps, out of indefinite regions."""

from dataclasses import replace

import numpy as np
import pytest
from autograd import grad, hessian
from numpy.testing import assert_allclose

import acvlib as acv
from acvlib.folds import WHOLE
from acvlib.models import AutoRegressiveHMM
from acvlib.solvers.newton import newton
from acvlib.solvers.newton_cg import below_saddle, newton_cg


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
    """Derivatives of any function without data; remembers the points that it was asked about."""

    def __init__(self, function):
        self.function, self.seen, self.model = function, [], None

    def anchored(self, params):
        return self

    def products(self, params, folds):
        self.seen.append(params[0])
        return Products(self.function, params[0])


def double_well(p):
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
    end = newton_cg(Toy(double_well), start[None], WHOLE, 1e-10)
    assert end.converged.all()
    assert_allclose(abs(end.params[0]), [1.0, 0.0], atol=1e-9)
    assert not end.indefinite.any()


def test_on_the_saddle_itself_a_random_direction_finds_the_way_down():
    """The gradient has no share in the negative curvature; a random vector does, and leads off."""
    toy = Toy(double_well)
    end = newton_cg(toy, np.array([[0.0, 0.1]]), WHOLE, 1e-10)
    assert_allclose(end.params[0], 0.0, atol=1e-9)
    lower = below_saddle(toy, end.params[0])
    assert double_well(lower) < double_well(end.params[0])
    assert below_saddle(toy, np.array([1.0, 0.0])) is None


def test_a_function_without_minimum_is_not_called_converged():
    endless = Toy(lambda p: -np.sum(p**2))
    end = newton_cg(endless, np.array([[1.0, 2.0]]), WHOLE, 1e-6, max_steps=20)
    assert not end.converged.any()
    assert end.indefinite.all()
