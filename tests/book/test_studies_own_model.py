"""Lines counted by hand, and errors of a model whose rungs are known."""

import numpy as np
from acvbook.studies import own_model

import acvlib as acv


def test_the_filter_is_a_normal_density():
    """With all values kept the losses sum to -log N(values; level, covariance)."""
    values = np.array([0.3, -1.0, 2.0, 0.5])
    params = np.array([0.2, -0.3, 0.1])
    drift, noise = np.exp(params[:2])
    steps = np.minimum.outer(np.arange(4), np.arange(4))
    covariance = 10.0 + drift * steps + noise * np.eye(4)
    error = values - params[2]
    expected = (error @ np.linalg.solve(covariance, error)) / 2
    expected += np.linalg.slogdet(2 * np.pi * covariance)[1] / 2
    model, seconds = own_model.made(lambda: own_model.KalmanLoop(values))
    assert seconds > 0.0
    np.testing.assert_allclose(model.objective(params, np.ones(4)), expected, rtol=1e-12)
    acv.check_model(model, params, np.random.default_rng(0))
    table = own_model.beside(model, model, params, 2)
    assert (table.difference == 0.0).all()
