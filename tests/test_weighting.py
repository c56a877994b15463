"""Schemes A and B: the weights of the factors,
and where the two agree (Ghosh et al. 2020, Proposition 3).
"""

import numpy as np
import pytest
from autograd import grad
from numpy.testing import assert_allclose, assert_array_equal
from oracles.toy_models import TRAFFIC_PARAMS, simulate_traffic

from acvlib import folds, weighting
from acvlib.models import PoissonTraffic

EDGES = np.array([[0, 1], [1, 2], [2, 3]])


def test_scheme_a_weighs_observations_only():
    factors = weighting.keep_latents(np.array([1.0, 0.0, 0.5, 1.0]), EDGES)
    assert_array_equal(factors.observation, [1, 0, 0.5, 1])
    assert_array_equal(factors.latent, np.ones(4))
    assert_array_equal(factors.edge, np.ones(3))


def test_scheme_b_weighs_latents_too_and_an_edge_by_its_two_ends():
    factors = weighting.drop_latents(np.array([1.0, 0.0, 0.5, 0.8]), EDGES)
    assert_array_equal(factors.observation, [1, 0, 0.5, 0.8])
    assert_array_equal(factors.latent, [1, 0, 0.5, 0.8])
    assert_allclose(factors.edge, [0, 0, 0.4], rtol=1e-15)


@pytest.mark.parametrize("scheme", [weighting.keep_latents, weighting.drop_latents])
def test_weights_of_one_give_the_model_itself(scheme):
    assert all((part == 1.0).all() for part in scheme(np.ones(4), EDGES))


def schemes(n_sites=40):
    """The same series under A and B, without missing sites."""
    counts, day = simulate_traffic(np.random.default_rng(0), n_sites, days=9, missing=0.0)
    return [
        PoissonTraffic(counts, day, scheme)
        for scheme in (weighting.keep_latents, weighting.drop_latents)
    ]


def both(fold, n_sites=40):
    """(F_A - F_B, gradient A - gradient B) with a fold left out."""
    a, b = schemes(n_sites)
    weights, params = folds.weights(n_sites, fold), TRAFFIC_PARAMS
    gradients = [grad(model.objective)(params, weights) for model in (a, b)]
    return a.objective(params, weights) - b.objective(params, weights), gradients[0] - gradients[1]


@pytest.mark.parametrize("start", [1, 20, 39])
def test_proposition_3_schemes_agree_when_the_future_is_left_out(start):
    (fold,) = folds.leave_future_out(40, [start])
    value, gradient = both(fold)
    assert_allclose(value, len(fold) * np.log(2), rtol=1e-12)
    assert_allclose(gradient, 0.0, rtol=0, atol=1e-12)


@pytest.mark.parametrize("fold", [[20], [0], [10, 11, 12], [5, 39]], ids=str)
def test_schemes_differ_for_a_fold_that_is_not_the_future(fold):
    value, gradient = both(fold)
    assert abs(value - len(fold) * np.log(2)) > 1e-3
    assert np.abs(gradient).max() > 1e-3


def test_schemes_are_one_model_when_nothing_is_left_out():
    value, gradient = both([])
    assert value == 0.0
    assert_array_equal(gradient, 0.0)


def test_scheme_a_deletes_what_a_missing_count_deletes():
    model, fold, params = schemes()[0], np.array([3, 4, 5, 20]), TRAFFIC_PARAMS
    counts = model.counts.copy()
    counts[fold] = -1
    deleted = PoissonTraffic(counts, model.day)
    left_out = model.objective(params, folds.weights(40, fold))
    assert_allclose(left_out, deleted.objective(params, np.ones(40)), rtol=1e-13)


def test_scheme_a_forgets_the_future_as_a_shorter_series_does():
    model, params = schemes()[0], TRAFFIC_PARAMS
    shorter = PoissonTraffic(model.counts[:25], model.day[:25])
    left_out = model.objective(params, folds.weights(40, np.arange(25, 40)))
    assert_allclose(left_out, shorter.objective(params, np.ones(25)), rtol=1e-13)


@pytest.mark.parametrize("bad", [-0.5, np.inf, np.nan])
def test_a_weight_that_is_no_weight_is_named(bad):
    weights = np.ones(40)
    weights[7] = bad
    with pytest.raises(ValueError, match=f"weight {bad} of site 7 must be finite and >= 0"):
        schemes()[0].objective(TRAFFIC_PARAMS, weights)


def test_a_label_cannot_be_known_more_than_once():
    labels = np.array([0, 1])
    with pytest.raises(ValueError, match=r"weight 2.0 of site 1 is above 1: a label is known"):
        weighting.hide_labels(np.array([1.0, 2.0]), labels, 2)
