"""Schemes A and B: the weights of the factors, and where the two agree.

Source: Ghosh et al. (2020), Proposition 3.
"""

import numpy as np
import pytest
from autograd import grad
from numpy.testing import assert_allclose, assert_array_equal
from oracles.toy_models import TRAFFIC_PARAMS, simulate_traffic

from acvlib import folds, weighting
from acvlib.models import PoissonTraffic

EDGES = np.array([[0, 1], [1, 2], [2, 3]])
SERIES = simulate_traffic(np.random.default_rng(0), 40, days=9, missing=0.0)
A, B = (PoissonTraffic(*SERIES, s) for s in (weighting.keep_latents, weighting.drop_latents))


def test_scheme_a_weighs_observations_and_b_latents_too_and_an_edge_by_its_two_ends():
    weights = np.array([1.0, 0.0, 0.5, 0.8])
    factors = weighting.keep_latents(weights, EDGES)
    assert_array_equal(factors.observation, weights)
    assert_array_equal(factors.latent, np.ones(4))
    assert_array_equal(factors.edge, np.ones(3))
    factors = weighting.drop_latents(weights, EDGES)
    assert_array_equal(factors.observation, weights)
    assert_array_equal(factors.latent, weights)
    assert_allclose(factors.edge, [0, 0, 0.4], rtol=1e-15)


def both(fold):
    """(F_A - F_B, gradient A - gradient B) with a fold left out."""
    weights = folds.weights(40, fold)
    objectives = [model.objective(TRAFFIC_PARAMS, weights) for model in (A, B)]
    gradients = [grad(model.objective)(TRAFFIC_PARAMS, weights) for model in (A, B)]
    return objectives[0] - objectives[1], gradients[0] - gradients[1]


@pytest.mark.parametrize("start", [1, 20, 39, 40])
def test_proposition_3_schemes_agree_when_the_future_or_nothing_is_left_out(start):
    fold = np.arange(start, 40)
    value, gradient = both(fold)
    assert_allclose(value, len(fold) * np.log(2), rtol=1e-12)
    assert_allclose(gradient, 0.0, rtol=0, atol=1e-12 if len(fold) else 0)


@pytest.mark.parametrize("fold", [[20], [0], [10, 11, 12], [5, 39]], ids=str)
def test_schemes_differ_for_a_fold_that_is_not_the_future(fold):
    value, gradient = both(fold)
    assert abs(value - len(fold) * np.log(2)) > 1e-3
    assert np.abs(gradient).max() > 1e-3


def test_a_label_has_at_most_all_of_its_weight():
    with pytest.raises(ValueError, match=r"weight 2.0 of site 1 is above 1: a label is known"):
        weighting.hide_labels(np.array([1.0, 2.0]), np.array([0, 1]), 2)
