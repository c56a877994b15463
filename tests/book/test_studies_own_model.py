"""Lines counted by hand, and errors of a model whose rungs are known."""

import numpy as np
from acvbook.studies import own_model

import acvlib as acv


class Short:
    def __init__(self, values):
        self.values = values

    def mean(self):

        total = sum(self.values)
        return total / len(self.values)


def test_lines_with_code_in_them_are_counted():
    assert own_model.source_lines(Short) == 6
    assert own_model.source_lines(Short.mean) == 3


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


def test_errors_are_medians_over_the_folds_of_each_draw():
    def draw(rng):
        return acv.models.GLM(rng.normal(size=(200, 2)), rng.poisson(2.0, 200) * 1.0, "poisson")

    table = own_model.theta_errors(draw, 3, np.random.default_rng(1))
    rng = np.random.default_rng(1)
    model = draw(rng)
    rungs = acv.ladder(acv.fit(model), acv.folds.contiguous(200, 2.5, 20, rng))
    none = np.median(acv.theta_errors(rungs["exact"], rungs["no_adjustment"]))
    assert table.no_adjustment[0] == none
    assert table.shape == (3, 4)
    assert (table.newton_step < table.no_adjustment).all()
