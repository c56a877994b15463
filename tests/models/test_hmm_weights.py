"""Probabilities that are fixed, and flat priors of an HMM."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_hmm import FREE, levels, two_regimes

import acvlib as acv
from acvlib.models import HMM, GaussianHMM, NoFiniteOptimum
from acvlib.models.hmm import em
from acvlib.models.hmm.emissions import AutoRegression, Gaussian


def test_a_flat_prior_is_maximum_likelihood():
    rng = np.random.default_rng(3)
    x = two_regimes(rng, 6, 40)
    flat = {"concentration": 1.0, "mean_scale": np.inf, "variance_prior": (-1.0, 0.0)}
    fixed = [[0.0, 1.0], [FREE, FREE], [FREE, FREE]]  # all sequences start alike
    model = GaussianHMM(x, 2, sites="sequences", fixed=fixed, **flat)
    params = model.initial_params()
    assert model.log_prior(params) == 0.0
    climbed = em.expectation_maximisation(model, params, 5000, 1e-14)
    fit = acv.fit(model, climbed.params)
    assert_allclose(fit.objective, model.sequence_losses(fit.params).sum(), rtol=1e-12)
    assert_allclose(fit.objective, climbed.objectives[-1], rtol=1e-9)
    assert fit.newton_decrement < 1e-6
    flat = AutoRegression(1, mean_scale=np.inf, variance_prior=(-1.0, 0.0))
    model = HMM(x, 2, flat, concentration=1.0)
    assert model.log_prior(model.initial_params()) == 0.0


def test_a_probability_that_runs_to_zero_is_named():
    rng = np.random.default_rng(4)
    model = HMM(levels(rng), 3, Gaussian(), concentration=1.0)
    labels = np.repeat([0, 1, 2] * 4, 8)
    with pytest.raises(NoFiniteOptimum, match="run to 0 under a flat prior"):
        acv.fit(model, model.params_of_labels(labels))
    named = model.unpack(em.expectation_maximisation(model, model.params_of_labels(labels)).params)
    rows = np.vstack([named.initial, named.transition])
    fixed = np.where(rows < 1e-6, 0.0, np.nan)
    fixed[0] = [1, 0, 0]
    fixed[3] = [0, 0, 1]
    model = HMM(levels(np.random.default_rng(4)), 3, Gaussian(), concentration=1.0, fixed=fixed)
    assert acv.fit(model, model.params_of_labels(labels)).newton_decrement < 1e-6


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        (np.ones((2, 2)), r"fixed \(2, 2\): must be \(3, 2\), nan where free"),
        ([[FREE, FREE], [0.5, 0.4], [FREE, FREE]], "fixed row 1"),
        ([[FREE, FREE], [FREE, FREE], [1.2, FREE]], "fixed row 2"),
        ([[-0.1, FREE], [FREE, FREE], [FREE, FREE]], "fixed row 0"),
        ("ab", "fixed must be real numbers"),
    ],
)
def test_entries_that_are_no_shares_are_named(fixed, message):
    with pytest.raises(ValueError, match=message):
        HMM([np.arange(9.0)], 2, fixed=fixed)
