"""Hessians that solve: against dense products, damped, indefinite, one or one for each fold."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from acvlib.solvers.inverse import DenseHessian, DenseJacobian, IndefiniteHessian
from acvlib.solvers.krylov import HessianOperator, UnsolvedSystem, conjugate_gradient, solve


def spectrum(*eigenvalues):
    """A symmetric matrix with chosen eigenvalues."""
    vectors, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((len(eigenvalues),) * 2))
    return (vectors * np.array(eigenvalues)) @ vectors.T


PLAIN = spectrum(0.5, 2.0, 30.0)
BASIS = np.array([[1.0, 3.0, -2.0], [0.0, 0.5, 0.0], [0.0, 0.0, 4.0]])
TURNED = DenseHessian(PLAIN, BASIS), BASIS.T @ PLAIN @ BASIS
PAIRS = [(DenseHessian(PLAIN), PLAIN), TURNED, (DenseJacobian(BASIS), BASIS)]


@pytest.mark.parametrize(("hessian", "matrix"), PAIRS)
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


N, D = 5, 30


class Dense:
    """One matrix a row, its diagonal the preconditioner."""

    def __init__(self, matrices):
        self.matrices = matrices

    def multiply(self, vectors, rows):
        return np.einsum("nij,nj->ni", self.matrices[rows], vectors)

    def precondition(self, vectors, rows):
        return vectors / np.abs(np.einsum("nii->ni", self.matrices[rows]))


class Rough(Dense):
    """Has a stand-in that is off by 1e-3."""

    def __init__(self, matrices):
        super().__init__(matrices)
        noise = 1e-3 * np.random.default_rng(1).normal(size=matrices.shape)
        self.rough = Dense(matrices + noise + noise.transpose(0, 2, 1))


def definite(rng, n=N):
    roots = rng.normal(size=(n, D, D))
    return roots @ roots.transpose(0, 2, 1) + np.diag(np.geomspace(1.0, 300.0, D))


@pytest.mark.parametrize("products", [Dense, Rough])
@pytest.mark.parametrize("damping", [0.0, 2.0])
def test_solutions_equal_dense_ones(products, damping, rng):
    matrices, b = definite(rng), rng.normal(size=(N, D))
    b[2] = 0.0
    found = solve(products(matrices), b, 1e-10, damping)
    expected = np.linalg.solve(matrices + damping * np.eye(D), b[..., None])[..., 0]
    assert_allclose(found.x, expected, atol=1e-8)
    assert found.residual.max() <= 1e-10
    assert (found.curvature > 0.0).all()


def test_negative_curvature_is_reported_and_unsolved_systems_are_warned_of(rng, monkeypatch):
    matrices, b = definite(rng, 2), rng.normal(size=(2, D))
    values, vectors = np.linalg.eigh(matrices[1])
    matrices[1] -= 2.0 * values[-1] * np.outer(vectors[:, -1], vectors[:, -1])
    found = conjugate_gradient(Dense(matrices), b)
    assert found.curvature[0] > 0.0 >= found.curvature[1]
    assert (np.einsum("ni,ni->n", found.x, b) > 0.0).all()
    rng = np.random.default_rng(0)
    monkeypatch.setattr("acvlib.solvers.krylov.MAX_ITERATIONS", 3)
    matrices, b = definite(rng), rng.normal(size=(N, D))
    b[0] = 0.0
    with pytest.warns(UnsolvedSystem, match=r"4 of 5 linear systems .* after 3 products"):
        solve(Dense(matrices), b, 1e-10)


def test_operator_multiplies_rows_and_solves_columns(rng):
    matrices = definite(rng, 1)
    operator = HessianOperator(Dense(matrices), D, tolerance=1e-12)
    rows = rng.normal(size=(2, 3, D))
    assert_allclose(rows @ operator, rows @ matrices[0], rtol=1e-12)
    b = rng.normal(size=(D, 4))
    assert_allclose(operator.solve(b), np.linalg.solve(matrices[0], b), atol=1e-9)
    assert_allclose(operator.solve(b[:, 0]), np.linalg.solve(matrices[0], b[:, 0]), atol=1e-9)


@pytest.mark.parametrize("accurate", [-0.008, 0.004])
def test_a_rough_operator_of_the_wrong_least_curvature_is_left_for_the_accurate_one(accurate, rng):
    q = np.linalg.qr(rng.normal(size=(2, D, D)))[0]
    values = np.ones((2, D))
    values[:, 0] = 0.5, accurate
    matrices = np.einsum("nik,nk,njk->nij", q, values, q)
    rough = matrices.copy()
    rough[1] += (0.0056 - accurate) * np.outer(q[1, :, 0], q[1, :, 0])
    products = Dense(matrices)
    products.rough = Dense(rough)
    b = rng.normal(size=(2, D))
    found = solve(products, b, 1e-8)
    assert found.residual[0] <= 1e-8
    assert np.linalg.norm(found.x[1]) < 1e3 * np.linalg.norm(b[1])
    assert (found.curvature[1] > 0.0) == (accurate > 0.0)
    if accurate > 0.0:
        assert_allclose(found.x, np.linalg.solve(matrices, b[..., None])[..., 0], rtol=1e-6)
    else:
        alone = conjugate_gradient(Dense(matrices[1:]), b[1:], 1e-8)
        assert_allclose(found.x[1], alone.x[0], rtol=1e-9)
