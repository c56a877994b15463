"""Sample weights of the hidden field: a count of weight s counts s times, its edges once."""

from dataclasses import replace

import autograd.numpy as anp
import networkx as nx
import numpy as np
import pytest
from autograd.scipy.special import gammaln, logsumexp
from numpy.testing import assert_allclose
from oracles.enumerate import paths
from oracles.refit import derivatives, refit
from oracles.wrappers import ByAutograd

import acvlib as acv
from acvlib.derivatives import derivatives_of
from acvlib.folds import Folds
from acvlib.models import HiddenMRF
from acvlib.weighting import drop_latents, keep_latents

EDGES = np.array([(0, 1), (1, 2), (2, 3), (3, 0), (4, 3), (5, 4)])
COUNTS = np.array([1, 9, 12, 2, 7, 8, 3])
EXPOSURE = np.array([1.0, 2.0, 1.0, 1.0, 0.5, 1.0, 1.0])
TIMES = np.array([2, 1, 3, 1, 0, 1, 2])  # how often each count stands for itself
PARAMS = np.log([2.0, 8.0])
SCHEMES = [keep_latents, drop_latents]


def field(scheme, weights=TIMES):
    return HiddenMRF(COUNTS, EDGES, 0.7, scheme=scheme, exposure=EXPOSURE, sample_weight=weights)


def enumerated(scheme):
    """F by a sum over all states, each count listed as many times as TIMES says."""
    z = paths(len(COUNTS), 2)
    agree = (z[:, EDGES[:, 0]] == z[:, EDGES[:, 1]]).astype(float)
    site = np.repeat(np.arange(len(COUNTS)), TIMES)
    counts = COUNTS[site][:, None]
    exposure = EXPOSURE[site][:, None]
    there = TIMES > 0

    def objective(params, weights):
        rate = exposure * anp.exp(params)
        density = counts * anp.log(rate) - rate - gammaln(counts + 1.0)
        of_each = density[np.arange(len(site)), z[:, site]]
        observed = anp.sum(weights[site] * of_each, axis=1)
        kept = np.ones(len(EDGES))
        if scheme is drop_latents:
            present = weights * there
            kept = present[EDGES[:, 0]] * present[EDGES[:, 1]]
        return -logsumexp(observed + 0.7 * anp.sum(kept * agree, axis=1))

    return objective


@pytest.mark.parametrize("scheme", SCHEMES)
def test_objective_and_derivatives_are_those_of_repeated_counts(scheme):
    model = field(scheme)
    objective = enumerated(scheme)
    rng = np.random.default_rng(0)
    for weights in (np.ones(7), rng.uniform(0.2, 0.9, 7), acv.folds.weights(7, [1, 3])):
        value, gradient, hessian, cross = derivatives(objective, PARAMS, weights)
        for one in (model, ByAutograd(model)):
            ours = derivatives_of(one)
            found = ours.value_and_gradient(PARAMS, weights)
            assert found[0] == pytest.approx(value, rel=1e-12)
            assert_allclose(found[1], gradient, atol=1e-10)
            assert_allclose(np.asarray(ours.hessian(PARAMS, weights)), hessian, atol=1e-10)
            assert_allclose(ours.cross_matrix(PARAMS, weights), cross, atol=1e-10)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_folds_are_those_of_repeated_counts(scheme):
    model = field(scheme)
    objective = enumerated(scheme)
    fit = acv.fit(model)
    assert_allclose(refit(objective, fit.params, np.ones(7)), fit.params, atol=1e-5)
    folds = Folds([np.array([0]), np.array([1, 3])])
    values, gradients = model.derivatives.fold_gradients(fit.params, folds)
    result = acv.exact(fit, folds)
    for i, fold in enumerate(folds):
        weights = acv.folds.weights(7, fold)
        assert values[i] == pytest.approx(objective(fit.params, weights), rel=1e-12)
        gradient = derivatives(objective, fit.params, weights)[1]
        assert_allclose(gradients[i], gradient, atol=1e-10)
        assert_allclose(result.params[i], refit(objective, fit.params, weights), atol=1e-5)


def test_a_left_out_count_is_scored_once_given_the_others_as_often_as_they_count():
    objective = enumerated(keep_latents)
    fold = np.array([0, 6])
    outside = acv.folds.weights(7, fold)
    once = field(keep_latents, np.where(np.isin(np.arange(7), fold), 1.0, TIMES))
    losses = field(drop_latents).heldout_loss(PARAMS, fold)
    assert_allclose(losses, once.heldout_loss(PARAMS, fold), rtol=1e-12)
    for t, loss in zip(fold, losses, strict=True):
        half = outside + np.eye(7)[t] / TIMES[t]
        change = objective(PARAMS, half) - objective(PARAMS, outside)
        assert loss == pytest.approx(change, rel=1e-10)


def test_a_site_of_weight_zero_is_absent_and_in_no_fold():
    model = field(drop_latents)
    left = np.flatnonzero(TIMES)
    place = np.searchsorted(left, EDGES)
    rest = place[~np.isin(EDGES, 4).any(axis=1)]
    without = HiddenMRF(COUNTS[left], rest, 0.7, exposure=EXPOSURE[left], sample_weight=TIMES[left])
    found = model.objective(PARAMS, np.ones(7)) + np.log(2)  # its state is free
    assert found == pytest.approx(without.objective(PARAMS, np.ones(6)), rel=1e-12)
    assert_allclose(model.initial_params(), without.initial_params())
    assert_allclose(acv.fit(model).params, acv.fit(without).params, atol=1e-6)
    with pytest.raises(ValueError, match="missing"):
        acv.exact(acv.fit(model), [[4]])


def test_weights_of_one_number_and_by_node():
    plain = field(drop_latents, 1.0)
    ones = np.ones(7)
    assert field(drop_latents, 3.0).log_partition() == plain.log_partition()
    assert replace(plain, counts=COUNTS[:6], edges=EDGES, exposure=None).n_sites == 6
    network = nx.Graph()
    network.add_nodes_from("abcdefg")
    network.add_edges_from(("abcdefg"[i], "abcdefg"[j]) for i, j in EDGES)
    named = [dict(zip("abcdefg", part, strict=True)) for part in (COUNTS, EXPOSURE, TIMES)]
    model = HiddenMRF(named[0], network, 0.7, exposure=named[1], sample_weight=named[2])
    expected = field(drop_latents).objective(PARAMS, ones)
    assert model.objective(PARAMS, ones) == pytest.approx(expected, rel=1e-12)


def test_counts_of_weight_above_zero_must_not_all_be_zero():
    with pytest.raises(ValueError, match="all 2 counts are 0 where sample_weight"):
        HiddenMRF([0, 0, 5], [(0, 1), (1, 2)], 0.5, sample_weight=[1.0, 1.0, 0.0])
