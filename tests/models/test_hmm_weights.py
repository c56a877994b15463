"""Sample weights of an HMM: a site of weight s counts s times."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles.wrappers import ByAutograd
from test_hmm import EMISSIONS, close, sequences, some_folds, two_regimes

import acvlib as acv
from acvlib.derivatives import derivatives_of
from acvlib.models import HMM, AutoRegressiveHMM, GaussianHMM
from acvlib.models.hmm import em


@pytest.mark.parametrize("sites", ["sequences", "steps"])
@pytest.mark.parametrize("emission", EMISSIONS[:3], ids=str)
def test_derivatives_with_sample_weights_equal_autograd(emission, sites):
    rng = np.random.default_rng(1)
    n = HMM(sequences(rng), 2, emission, sites).n_sites
    weights = np.append(0.0, rng.uniform(0.2, 3.0, n - 1))
    model = HMM(sequences(rng), 2, emission, sites, sample_weight=weights)
    slow = derivatives_of(ByAutograd(model))
    params = 0.4 * rng.normal(size=model.n_params)
    w = rng.uniform(0.3, 1.0, n)
    found = model.derivatives.value_and_gradient(params, w)
    expected = slow.value_and_gradient(params, w)
    assert_allclose(found[0], expected[0], rtol=1e-12)
    close(found[1], expected[1], 1e-9)
    hessian = np.asarray(slow.hessian(params, w))
    close(np.asarray(model.derivatives.hessian(params, w)), hessian, 1e-6)
    folds = some_folds(model)
    close(model.derivatives.cross(params, folds), slow.cross(params, folds), 1e-6)
    hessians = slow.fold_hessians(params, folds).matrices
    close(model.derivatives.fold_hessians(params, folds).matrices, hessians, 1e-6)
    vectors = rng.normal(size=(2, len(params)))
    products = model.derivatives.products(params, folds).multiply(vectors, np.arange(2))
    close(products, np.einsum("nij,nj->ni", hessians, vectors), 1e-6)
    close(
        model.derivatives.fold_gradients(params, folds)[1],
        slow.fold_gradients(params, folds)[1],
        1e-9,
    )


def test_a_sequence_of_weight_two_is_a_sequence_twice():
    rng = np.random.default_rng(2)
    x = two_regimes(rng, 3, 30)
    weighted = AutoRegressiveHMM(x, 2, sample_weight=[2.0, 1.0, 0.0])
    twice = AutoRegressiveHMM([x[0], x[0], x[1]], 2)
    start = twice.initial_params(rng)
    fit = acv.fit(weighted, start)
    assert_allclose(fit.params, acv.fit(twice, start).params, atol=1e-5)
    assert weighted.observed.tolist() == [True, True, False]
    climbed = em.expectation_maximisation(weighted, start, 3000, 1e-13)
    assert_allclose(climbed.objectives[-1], fit.objective, rtol=1e-9)
    left = acv.exact(fit, acv.Folds([[0], [1]]))
    alone = HMM([x[1]], 2, weighted.emission)  # in the same units
    without = acv.fit(alone, left.params[0])
    assert_allclose(left.fold_losses[0], alone.sequence_losses(without.params, x[:1]), rtol=1e-6)


def test_restarts_take_weights():
    rng = np.random.default_rng(3)
    model = AutoRegressiveHMM(two_regimes(rng, 4, 30), 2, sample_weight=[1.0, 2.0, 0.5, 1.0])
    assert em.restarts(model, rng, 3).converged


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sample_weight": [1.0, 2.0]}, r"sample_weight have shape \(2,\), not \(9,\)"),
        ({"sample_weight": -1.0}, "weight -1.0 of site 0 must be finite and >= 0"),
        ({"sample_weight": [[1.0]]}, "sample_weight have shape"),
        ({"sample_weight": 2.0, "scheme": acv.weighting.drop_latents}, "keep_latents"),
        ({"sample_weight": 0.0}, "every sample_weight is 0"),
    ],
)
def test_bad_weights_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        GaussianHMM(np.arange(9.0) % 4, 2, **settings)
