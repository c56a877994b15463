"""Hessians that solve: against dense products, damped, indefinite, one or one for each fold."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from acvlib.solvers.inverse import (
    DenseFolds,
    DenseHessian,
    DenseJacobian,
    IndefiniteHessian,
)

PARAMS = np.array([0.3, 0.1, -0.4])


def spectrum(*eigenvalues):
    """A symmetric matrix with chosen eigenvalues."""
    vectors, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((len(eigenvalues),) * 2))
    return (vectors * np.array(eigenvalues)) @ vectors.T


@pytest.mark.parametrize("kind", [DenseHessian, DenseJacobian])
def test_solvers_solve(kind):
    matrix, b = spectrum(0.5, 2.0, 30.0), np.array([[1.0, 0.0], [2.0, -1.0], [0.5, 3.0]])
    assert_allclose(matrix @ kind(matrix).solve(b), b, rtol=1e-13, atol=1e-13)
    assert_allclose(b.T @ kind(matrix), b.T @ matrix, rtol=1e-15)
    assert not kind(matrix).indefinite


def test_a_jacobian_solves_what_is_not_symmetric():
    matrix = spectrum(1.0, 2.0, 3.0) + np.triu(np.ones((3, 3)), 1)
    assert_allclose(matrix @ DenseJacobian(matrix).solve(PARAMS), PARAMS, rtol=1e-13)


@pytest.mark.parametrize("smallest", [-2.5, -1e-3])
def test_an_indefinite_matrix_names_its_smallest_eigenvalue_and_a_remedy(smallest):
    expected = rf"smallest eigenvalue is {smallest:.3g}.*damping > {-smallest:.3g}"
    with pytest.raises(IndefiniteHessian, match=expected):
        DenseHessian(spectrum(smallest, 1.0, 5.0)).solve(PARAMS)


def test_a_singular_matrix_is_refused():
    with pytest.raises(IndefiniteHessian, match="identify every parameter"):
        DenseHessian(np.diag([0.0, 1.0])).solve(PARAMS[:2])


def test_the_damping_that_the_error_asks_for_suffices():
    matrix = spectrum(-2.5, 1.0, 5.0)
    with pytest.raises(IndefiniteHessian):
        DenseHessian(matrix).damped(2.4).solve(PARAMS)
    found = DenseHessian(matrix).damped(2.6).solve(PARAMS)
    assert_allclose((matrix + 2.6 * np.eye(3)) @ found, PARAMS, rtol=1e-12)


def test_each_fold_is_solved_by_its_own_matrix(rng):
    matrices = np.array(
        [spectrum(1.0, 2.0, 3.0), spectrum(0.1, 5.0, 9.0), spectrum(-2.0, 1.0, 3.0)]
    )
    vectors = rng.standard_normal((3, 3))
    solver = DenseFolds(matrices)
    assert_allclose(np.einsum("nij,nj->ni", matrices, solver.solve(vectors)), vectors, atol=1e-13)
    rows = np.array([2, 0])
    assert_allclose(solver.solve(vectors[rows], rows), solver.solve(vectors)[rows], rtol=1e-15)
    assert list(solver.indefinite) == [False, False, True]


def test_descending_takes_absolute_eigenvalues(rng):
    matrices = np.array([spectrum(1.0, 2.0, 3.0), spectrum(-2.0, 1.0, 3.0)])
    absolute = np.array([spectrum(1.0, 2.0, 3.0), spectrum(2.0, 1.0, 3.0)])
    vectors = rng.standard_normal((2, 3))
    found = DenseFolds(matrices).descend(vectors)
    assert_allclose(np.einsum("nij,nj->ni", absolute, found), vectors, atol=1e-13)


@pytest.mark.parametrize("n_columns", [2, 1100])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_column_that_is_not_finite_leaves_the_others(bad, n_columns, rng):
    hessian = DenseHessian(spectrum(0.3, 0.5, 2.0))
    columns = rng.standard_normal((3, n_columns))
    expected = hessian.solve(columns)
    columns[1, 1] = bad
    solved = hessian.solve(columns)
    assert not np.isfinite(solved[:, 1]).any()
    others = np.arange(n_columns) != 1
    np.testing.assert_array_equal(solved[:, others], expected[:, others])


@pytest.mark.parametrize("smallest", [1.0, 1e-5, 1e-9, 1e-13])
def test_many_columns_are_solved_as_accurately_as_one(smallest, rng):
    matrix = spectrum(smallest, 0.5, 2.0)
    exact = rng.standard_normal((3, 1100))
    found = DenseHessian(matrix).solve(matrix @ exact)
    single = np.array([DenseHessian(matrix).solve(b) for b in (matrix @ exact).T]).T
    errors = [abs(each - exact).max() for each in (found, single)]
    assert errors[0] <= 4.0 * errors[1] + 1e-14
