"""Hessians that solve: against dense products, damped, indefinite, one or one for each fold."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from acvlib.solvers.inverse import DenseHessian, DenseJacobian, IndefiniteHessian


def spectrum(*eigenvalues):
    """A symmetric matrix with chosen eigenvalues."""
    vectors, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((len(eigenvalues),) * 2))
    return (vectors * np.array(eigenvalues)) @ vectors.T


BASIS = np.array([[1.0, 3.0, -2.0], [0.0, 0.5, 0.0], [0.0, 0.0, 4.0]])


@pytest.mark.parametrize(
    ("hessian", "matrix"),
    [
        (DenseHessian(spectrum(0.5, 2.0, 30.0)), spectrum(0.5, 2.0, 30.0)),
        (DenseHessian(spectrum(0.5, 2.0, 30.0), BASIS), BASIS.T @ spectrum(0.5, 2.0, 30.0) @ BASIS),
        (DenseJacobian(BASIS), BASIS),
    ],
)
def test_solvers_solve(hessian, matrix):
    b = np.array([[1.0, 0.0], [2.0, -1.0], [0.5, 3.0]])
    for damping in (0.0, 0.7):
        damped, expected = hessian.damped(damping), matrix + damping * np.eye(3)
        assert_allclose(expected @ damped.solve(b), b, rtol=1e-12, atol=1e-12)
        assert_allclose(b.T @ damped, b.T @ expected, rtol=1e-14)
        assert_allclose(damped @ b, expected @ b, rtol=1e-14)
        assert not damped.indefinite


@pytest.mark.parametrize("smallest", [-2.5, -1e-3, 0.0])
def test_an_indefinite_matrix_names_its_smallest_eigenvalue_and_a_remedy_that_suffices(smallest):
    hessian = DenseHessian(np.diag([smallest, 1.0, 5.0]))
    expected = rf"smallest eigenvalue is {smallest:.3g}.*damping > (\S+)$"
    with pytest.raises(IndefiniteHessian, match=expected) as refused:
        hessian.solve(np.ones(3))
    damping = float(re.search(expected, str(refused.value))[1])
    assert -smallest <= damping < 1e-13 - smallest
    assert not hessian.damped(damping * 1.1).indefinite
    found = hessian.damped(0.1 - smallest).solve(np.ones(3))
    assert_allclose((hessian.matrix + (0.1 - smallest) * np.eye(3)) @ found, 1.0, rtol=1e-12)


@pytest.mark.parametrize("smallest", [1.0, 1e-5, 1e-9, 1e-13])
def test_many_columns_are_solved_as_accurately_as_one(smallest, rng):
    matrix = spectrum(smallest, 0.5, 2.0)
    exact = rng.standard_normal((3, 1100))
    found = DenseHessian(matrix).solve(matrix @ exact)
    single = np.array([DenseHessian(matrix).solve(b) for b in (matrix @ exact).T]).T
    errors = [abs(each - exact).max() for each in (found, single)]
    assert errors[0] <= 4.0 * errors[1] + 1e-14
