"""LiSSA against a dense solve, and what it says where it has not converged."""

import numpy as np
import pytest
from acvbook.lissa import lissa
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
    x, distance = lissa(products, b, rng, damping=0.2)
    assert_allclose(x, np.linalg.solve(products.matrix + 0.2 * np.eye(5), b.T).T, rtol=1e-4)
    assert (distance < 1e-4).all()


def test_more_sites_in_a_sample_come_nearer(products):
    b, settings = np.ones((1, 5)), {"scale": 30.0, "depth": 600}
    runs = [lissa(products, b, np.random.default_rng(3), size=n, **settings) for n in (20, 200)]
    few, all_of_them = (run[1][0] for run in runs)
    assert all_of_them < 1e-3 < few < 0.5


@pytest.mark.parametrize("settings", [{"depth": 2}, {"scale": 0.01, "depth": 300}])
def test_what_has_not_converged_does_not_agree(products, settings):
    x, (distance,) = lissa(products, np.ones((1, 5)), np.random.default_rng(0), **settings)
    assert distance > 0.1
    assert np.isinf(x).all() == ("scale" in settings)
