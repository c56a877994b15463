"""Derivatives by autograd, the choice of fast paths, fold weights, and the solvers."""

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracles.toy_models import Instruments, Ridge

from acvlib import derivatives as curvature
from acvlib.derivatives import IndefiniteHessian

RNG = np.random.default_rng(0)
X, U = RNG.standard_normal((30, 3)), RNG.standard_normal((30, 3))
Y = X @ [1.0, -2.0, 0.5] + RNG.standard_normal(30)
WEIGHTS = RNG.random(30)
FOLDS = [np.array([0, 4, 5]), np.arange(10, 20), np.array([29])]
RIDGE, INSTRUMENTS = Ridge(X, Y), Instruments(U + X, X, Y)
PARAMS = np.array([0.3, 0.1, -0.4])


def spectrum(*eigenvalues):
    """A symmetric matrix with chosen eigenvalues."""
    vectors, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((len(eigenvalues),) * 2))
    return (vectors * np.array(eigenvalues)) @ vectors.T


def test_derivatives_of_an_objective_equal_their_closed_forms():
    residual = Y - X @ PARAMS
    value, gradient = curvature.value_and_gradient(RIDGE, PARAMS, WEIGHTS)
    hessian, cross = curvature.hessian_and_cross(RIDGE, PARAMS, WEIGHTS)
    assert_allclose(value, (WEIGHTS @ residual**2 + PARAMS @ PARAMS) / 2, rtol=1e-14)
    assert_allclose(gradient, PARAMS - X.T @ (WEIGHTS * residual), rtol=1e-13)
    assert_allclose(hessian, (X.T * WEIGHTS) @ X + np.eye(3), rtol=1e-13)
    assert_allclose(cross, -X.T * residual, rtol=1e-13)
    assert_allclose(curvature.hessian(RIDGE, PARAMS, WEIGHTS), hessian, rtol=1e-13)


def test_an_estimating_equation_takes_part_with_its_residual():
    instrument = INSTRUMENTS.u
    value, residual = curvature.value_and_gradient(INSTRUMENTS, PARAMS, WEIGHTS)
    hessian, cross = curvature.hessian_and_cross(INSTRUMENTS, PARAMS, WEIGHTS)
    assert_allclose(residual, instrument.T @ (WEIGHTS * (Y - X @ PARAMS)), rtol=1e-13)
    assert_allclose(value, residual @ residual / 2, rtol=1e-14)
    assert_allclose(hessian, -(instrument.T * WEIGHTS) @ X, rtol=1e-13)
    assert_allclose(cross, instrument.T * (Y - X @ PARAMS), rtol=1e-13)
    assert np.abs(hessian - hessian.T).max() > 1.0


@pytest.mark.parametrize("model", [RIDGE, INSTRUMENTS], ids=["objective", "equation"])
def test_fold_functions_evaluate_each_fold_at_its_own_weights_and_params(model, rng):
    params = rng.standard_normal((3, 3))
    values, gradients = curvature.fold_gradients(model, params, FOLDS)
    hessians, losses = (
        curvature.fold_hessians(model, params, FOLDS),
        curvature.heldout_losses(model, params, FOLDS),
    )
    for i, fold in enumerate(FOLDS):
        weights = np.ones(30)
        weights[fold] = 0.0
        value, gradient = curvature.value_and_gradient(model, params[i], weights)
        assert_array_equal(values[i], value)
        assert_array_equal(gradients[i], gradient)
        assert_array_equal(hessians[i], curvature.hessian(model, params[i], weights))
        assert_array_equal(losses[i], model.heldout_loss(params[i], fold))


@pytest.mark.parametrize("model", [RIDGE, INSTRUMENTS], ids=["objective", "equation"])
def test_two_threads_give_identical_numbers(model):
    params = np.tile(PARAMS, (3, 1))
    alone = (
        curvature.fold_gradients(model, params, FOLDS)[1],
        curvature.fold_hessians(model, params, FOLDS),
    )
    with joblib.parallel_config(backend="threading", n_jobs=2):
        together = (
            curvature.fold_gradients(model, params, FOLDS)[1],
            curvature.fold_hessians(model, params, FOLDS),
        )
    assert_array_equal(alone[0], together[0])
    assert_array_equal(alone[1], together[1])


class Offering(Ridge):
    """A model with a `fast` attribute that offers whatever functions it is given."""

    def __init__(self, **functions):
        super().__init__(X, Y)
        self.fast = type("Fast", (), {name: staticmethod(f) for name, f in functions.items()})()


ONE_WEIGHTING = ["value_and_gradient", "hessian_and_cross", "hessian"]
MANY_FOLDS = ["fold_gradients", "fold_hessians"]


@pytest.mark.parametrize("name", ONE_WEIGHTING + MANY_FOLDS)
def test_a_fast_path_stands_in_for_its_namesake(name):
    model = Offering(**{name: lambda *args: (name, *args)})
    args = (PARAMS, WEIGHTS) if name in ONE_WEIGHTING else (PARAMS[None], FOLDS)
    answer = getattr(curvature, name)(model, *args)
    assert answer[0] == name
    assert answer[1] is args[0]
    assert answer[2] is args[1]


@pytest.mark.parametrize("name", ONE_WEIGHTING)
def test_what_a_model_does_not_offer_goes_through_autograd(name):
    ours, plain = (
        getattr(curvature, name)(model, PARAMS, WEIGHTS) for model in (Offering(), RIDGE)
    )
    for a, b in zip(ours, plain, strict=True):
        assert_array_equal(a, b)


def test_kept_share_is_of_the_observed_sites():
    assert_allclose(curvature.kept_share(RIDGE, FOLDS), [0.9, 2 / 3, 29 / 30], rtol=1e-15)
    holes = Ridge(X, Y)
    holes.observed = np.arange(30) % 3 > 0
    assert_allclose(curvature.kept_share(holes, [np.array([1, 2])]), [0.9], rtol=1e-15)


@pytest.mark.parametrize("solve", [curvature.cholesky, curvature.lu])
def test_solvers_solve(solve):
    matrix, b = spectrum(0.5, 2.0, 30.0), np.array([[1.0, 0.0], [2.0, -1.0], [0.5, 3.0]])
    assert_allclose(matrix @ solve(matrix)(b), b, rtol=1e-13, atol=1e-13)


def test_lu_solves_what_is_not_symmetric():
    matrix = spectrum(1.0, 2.0, 3.0) + np.triu(np.ones((3, 3)), 1)
    assert_allclose(matrix @ curvature.lu(matrix)(PARAMS), PARAMS, rtol=1e-13)


@pytest.mark.parametrize("smallest", [-2.5, -1e-3])
def test_an_indefinite_matrix_names_its_smallest_eigenvalue_and_a_remedy(smallest):
    expected = rf"smallest eigenvalue is {smallest:.3g}.*damping > {-smallest:.3g}"
    with pytest.raises(IndefiniteHessian, match=expected):
        curvature.cholesky(spectrum(smallest, 1.0, 5.0))


def test_a_singular_matrix_is_refused():
    with pytest.raises(IndefiniteHessian, match="identify every parameter"):
        curvature.cholesky(np.diag([0.0, 1.0]))


def test_the_damping_that_the_error_asks_for_suffices():
    matrix = spectrum(-2.5, 1.0, 5.0)
    with pytest.raises(IndefiniteHessian):
        curvature.solver(RIDGE, matrix, damping=2.4)
    solve = curvature.solver(RIDGE, matrix, damping=2.6)
    assert_allclose((matrix + 2.6 * np.eye(3)) @ solve(PARAMS), PARAMS, rtol=1e-12)


def test_an_equation_needs_no_positive_definite_jacobian():
    matrix = spectrum(-2.5, 1.0, 5.0)
    assert_allclose(matrix @ curvature.solver(INSTRUMENTS, matrix)(PARAMS), PARAMS, rtol=1e-13)
