"""LiSSA against a dense solve, and what it says where it has not converged."""

import numpy as np
import pytest
from acvbook.lissa import Disagreement, largest_eigenvalue, lissa
from numpy.testing import assert_allclose


class Dense:
    """A matrix that is a mean of `parts`, which a sample takes some of."""

    def __init__(self, parts):
        self.parts, self.matrix = parts, np.mean(parts, axis=0)

    def sampled(self, rng, size):
        return Dense(self.parts[rng.choice(len(self.parts), size, replace=False)])

    def multiply(self, vectors, rows):
        return vectors @ self.matrix

    def precondition(self, vectors, rows):
        return vectors.copy()


@pytest.fixture
def products():
    x = np.random.default_rng(0).standard_normal((200, 5))
    return Dense(np.einsum("ni,nj->nij", x, x) + 0.3 * np.eye(5))


def test_with_all_of_h_it_is_the_solution(products):
    b, rng = np.random.default_rng(1).standard_normal((3, 5)), np.random.default_rng(2)
    found = lissa(products, b, rng, damping=0.2)
    assert_allclose(found.x, np.linalg.solve(products.matrix + 0.2 * np.eye(5), b.T).T, rtol=1e-4)
    assert found.agrees.all()
    assert (found.spread == 0.0).all()
    assert found.products >= 200 * 3


def test_more_sites_in_a_sample_come_nearer(products):
    b = np.random.default_rng(1).standard_normal((1, 5))
    distance = {}
    for size in (20, 200):
        found = lissa(
            products, b, np.random.default_rng(3), size=size, scale=30.0, depth=600, tolerance=1.0
        )
        distance[size] = found.distance[0]
    assert distance[200] < 1e-3 < distance[20] < 0.5


def test_too_few_steps_are_said_so(products):
    with pytest.warns(
        Disagreement, match="1 of 1 rows differ from conjugate gradients by more than 0.1"
    ):
        found = lissa(products, np.ones((1, 5)), np.random.default_rng(0), depth=2)
    assert not found.agrees.any()
    assert found.residual[0] > 0.1


def test_a_divergent_recursion_gives_inf(products):
    with pytest.warns(Disagreement):
        found = lissa(products, np.ones((1, 5)), np.random.default_rng(0), scale=0.01, depth=300)
    assert np.isinf(found.x).all()
    assert np.isinf(found.residual).all()
    assert not found.agrees.any()


def test_largest_eigenvalue(products):
    found = largest_eigenvalue(products, 5, np.random.default_rng(0))
    values = np.linalg.eigvalsh(products.matrix)
    assert_allclose(found, values[-1], rtol=0.02)
    shifted = largest_eigenvalue(products, 5, np.random.default_rng(0), shift=3.0)
    assert_allclose(shifted, 3.0 - values[0], rtol=0.02)
