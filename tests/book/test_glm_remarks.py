"""The remarks on weights and on optimisers, against refits on the rows themselves."""

import numpy as np
import pytest
from acvbook.studies import glm_remarks
from numpy.testing import assert_allclose
from scipy.optimize import minimize

import acvlib as acv
from acvlib.models import GLM


def rng(seed=0):
    return np.random.default_rng(seed)


def data(n=40, dim=2, penalty=0.0):
    x = rng().normal(size=(n, dim))
    return GLM(x, rng(1).binomial(1, 1.0 / (1.0 + np.exp(-x.sum(axis=1)))), penalty=penalty)


def test_largest_gradient_is_of_the_row_fitted_worst_times_its_length():
    model = data()
    full = acv.fit(model)
    slope = 1.0 / (1.0 + np.exp(-model.design @ full.params)) - model.y
    sizes = abs(slope) * abs(model.design).sum(axis=1)
    assert glm_remarks.largest_gradient(model, full) == np.argmax(sizes)


def test_errors_toward_one_site_are_those_of_that_site_fitted_alone():
    n = 30
    x, y = rng().normal(size=(n, 2)), rng(1).poisson(2.0, n)
    model = GLM(x, y, "poisson", penalty=1.0, intercept=False)
    full = acv.fit(model, tolerance=1e-10)
    ij, none = glm_remarks.toward_one_site(model, full, 7, np.array([0.0, 1.0]))
    assert_allclose([ij[0], none[0]], 0.0, atol=1e-8)

    def loss(theta):
        return n * (np.exp(x[7] @ theta) - y[7] * (x[7] @ theta)) + 0.5 * theta @ theta

    alone = minimize(loss, full.params, tol=1e-12).x
    assert_allclose(none[1], full.standard_errors_between(full.params, alone), rtol=1e-4)


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_error_is_of_second_order_near_weights_of_one(family):
    table = glm_remarks.all_weight_on_one(family, [200], 3, 2, rng())
    assert_allclose(table.order_ij, 2.0, atol=0.05)
    assert_allclose(table.order_none, 1.0, atol=0.05)
    assert (table.left_out < 1.0).all()
    way = glm_remarks.way_to_one_site(family, 200, 3, np.array([1e-4, 1.0]), rng())
    assert (way.ij < way.none).iloc[0]
