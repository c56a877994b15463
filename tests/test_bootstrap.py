"""Bootstrap weights: refits against brute force, the jackknife by rate, intervals by theory."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from oracles.refit import refit
from oracles.toy_models import Instruments

import acvlib as acv
from acvlib import bootstrap
from acvlib.models import GLM, HMM


@pytest.fixture
def model():
    x = default_rng(0).normal(size=(150, 2))
    y = default_rng(1).poisson(np.exp(0.4 * x[:, 0]))
    return GLM(x, y, "poisson", penalty=0.5, site_penalty=0.01)


def test_refits_equal_brute_force(model):
    fit, weights = acv.fit(model), default_rng(0).multinomial(150, np.full(150, 1 / 150), 6)
    for row, params in zip(weights, bootstrap.refits(fit, weights, tolerance=1e-9), strict=True):
        assert_allclose(params, refit(model.objective, fit.params, row, gtol=1e-10), atol=1e-7)


def test_leave_one_out_weights_give_the_jackknife_of_folds(model):
    fit, folds = acv.fit(model), acv.folds.leave_one_out(150)
    weights = np.array([acv.folds.weights(150, fold) for fold in folds])
    jackknife = acv.infinitesimal_jackknife(fit, folds)
    assert_allclose(bootstrap.jackknife_params(fit, weights), jackknife.params, atol=1e-12)
    exact = acv.exact(fit, folds, tolerance=1e-10)
    assert_allclose(bootstrap.refits(fit, weights, 1e-10), exact.params, atol=1e-9)


def test_a_resample_without_an_optimum_is_nan_and_warned_of():
    x = np.array([-2.0, -1.0, 1.0, 2.0])[:, None]
    model = GLM(x, np.array([0.0, 1.0, 0.0, 1.0]))
    weights = np.array([[1.0, 1.0, 1.0, 1.0], [2.0, 0.0, 0.0, 2.0]])
    with pytest.warns(bootstrap.UnconvergedFit, match="1 of 2 resamples"):
        params = bootstrap.refits(acv.fit(model), weights)
    assert np.isfinite(params[0]).all()
    assert np.isnan(params[1]).all()


def test_an_estimating_equation_of_either_sign_is_solved_for_each_resample(rng):
    x = rng.normal(size=(60, 2))
    weights = rng.multinomial(60, np.full(60, 1 / 60), 4)
    for u in (x + 0.3 * rng.normal(size=(60, 2)), -1e4 * x):  # Jacobians -u'x
        model = Instruments(u, x, x @ [1.0, -1.0] + rng.normal(size=60))
        expected = [model.solution(row) for row in weights]
        assert_allclose(bootstrap.refits(acv.fit(model), weights), expected, atol=1e-9)


def test_a_model_without_hessians_is_refused():
    sequences = list(default_rng(0).normal(size=(6, 25, 1)))
    fit = acv.fit(HMM(sequences, 2, dense_limit=1), rng=default_rng(0))
    with pytest.raises(ValueError, match="7 parameters are too many .*jackknife_params, or .*HMM"):
        bootstrap.refits(fit, np.ones((1, 6)))
