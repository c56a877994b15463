"""Prefix gradients and what follows, against log p of prefixes by autograd."""

import numpy as np
import pytest
from oracles.toy_models import TRAFFIC_PARAMS, simulate_traffic

from acvlib.beyond.prefixes import futures
from acvlib.derivatives import Derivatives, derivatives_of
from acvlib.models import AutoRegressiveHMM, GaussianHMM, NeuralHMM, PoissonHMM, PoissonTraffic

STARTS = np.array([4, 5, 9, 14])


def walk(rng, n, missing=slice(0)):
    x = np.cumsum(rng.standard_normal((n, 2)), axis=0)
    x[missing, :] = np.nan
    return x


def held(rng):
    model = GaussianHMM(rng.standard_normal(20), 2)
    return model.hold(model.initial_params())[0]


MODELS = {
    "counts": lambda rng: PoissonHMM(rng.poisson(5.0, 20), 2),
    "HMM": lambda rng: GaussianHMM(walk(rng, 20, [6]), 3),
    "AR": lambda rng: AutoRegressiveHMM([walk(rng, 21)], 2, order=2, sites="steps"),
    "network": lambda rng: NeuralHMM([walk(rng, 21)], 2, n_hidden=2, sites="steps"),
    "traffic": lambda rng: PoissonTraffic(*simulate_traffic(rng, 20, days=3, missing=0.1)),
}


def made(name):
    """(model, params away from any optimum)."""
    rng = np.random.default_rng(3)
    model = (MODELS | {"held": held})[name](rng)
    start = TRAFFIC_PARAMS if name == "traffic" else model.initial_params()[-model.n_params :]
    return model, start + 0.1 * rng.standard_normal(model.n_params)


def log_p(model, params, sites):
    """(log p of some sites alone, its gradient) by autograd of the weighted objective."""
    weights = np.zeros(model.n_sites)
    weights[sites] = 1.0
    slow = Derivatives(model)
    prior, prior_gradient = slow.value_and_gradient(params, np.zeros(model.n_sites))
    value, gradient = slow.value_and_gradient(params, weights)
    return prior - value, prior_gradient - gradient


@pytest.mark.parametrize("name", [*MODELS, "held"])
def test_gradients_of_all_prefixes(name):
    model, params = made(name)
    ends = np.arange(1, model.n_sites)
    found = futures(derivatives_of(model), params, ends)
    for t, gradient in zip(ends, found.gradient, strict=True):
        expected = log_p(model, params, np.arange(t))[1]
        np.testing.assert_allclose(gradient, expected, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("name", MODELS)
def test_sites_after_prefixes(name):
    model, params = made(name)
    found = futures(derivatives_of(model), params, STARTS)
    for i, start in enumerate(STARTS):
        before, slope_before = log_p(model, params, np.arange(start))
        both, slope_both = log_p(model, params, np.arange(start + 1))
        assert found.log_p[i] == pytest.approx(both - before, abs=1e-9)
        expected = slope_both - slope_before
        np.testing.assert_allclose(found.slopes[i], expected, atol=1e-8, rtol=1e-8)


def test_a_chain_that_underflows_is_refused():
    model, params = made("traffic")
    params[9] = 700.0
    with pytest.raises(ValueError, match="a transition has log probability -700"):
        futures(derivatives_of(model), params, STARTS)
