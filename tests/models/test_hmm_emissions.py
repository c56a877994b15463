"""Emissions of the HMM family: densities against scipy, and what they refuse."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles.toy_models import Laplace
from scipy.stats import bernoulli, norm, poisson
from test_hmm import LENGTHS, choices, continuous, counts, with_holes

from acvlib.models import GLMHMM, CategoricalHMM, GaussianHMM, PoissonHMM


def test_densities_are_scipys():
    rng = np.random.default_rng(6)
    model = GaussianHMM(x := with_holes(continuous(rng)), 2)
    named = model.unpack(params := rng.normal(size=model.n_params)).emission
    expected = norm.logpdf(x[0][2, 1], named.mean[1, 1], named.sd[1, 1])
    assert_allclose(model.log_densities(params)[2, 1], expected, rtol=1e-12)
    model = PoissonHMM(x := with_holes(counts(rng)), 2)
    rate = model.unpack(params := rng.normal(size=model.n_params)).emission.rate
    assert_allclose(model.log_densities(params)[2, 1], poisson.logpmf(x[0][2, 1], rate[1, 1]))
    for family, law in (("bernoulli", bernoulli), ("poisson", poisson)):
        y, inputs = choices(rng, family)
        model = GLMHMM(y, inputs, 2, family)
        weights = model.unpack(params := rng.normal(size=model.n_params)).emission.weights[1, 0]
        eta = inputs[0][4] @ weights[:2] + weights[2]
        mean = 1.0 / (1.0 + np.exp(-eta)) if family == "bernoulli" else np.exp(eta)
        assert_allclose(model.log_densities(params)[4, 1], law.logpmf(y[0][4], mean))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: CategoricalHMM([0, 1, 2, 1], 2, 2), "x holds 2: only 0, 1 are"),
        (lambda: CategoricalHMM(np.eye(9), 2), "9 channels of codes"),
        (lambda: GLMHMM([0, 1, 2.0, 1], np.arange(4.0), 2), "x holds 2: only 0 ... 1"),
        (
            lambda: GaussianHMM(np.array([[0.0, 1], [np.nan, 2], [3, 3]]), 2, covariance="full"),
            "frame 1 of sequence 0: a frame is finite",
        ),
    ],
)
def test_bad_input_is_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_a_frame_without_inputs_is_missing():
    y, inputs = choices(np.random.default_rng(12), "bernoulli")
    inputs[0][3, 1] = np.nan
    model = GLMHMM(y, inputs, 2, sites="steps")
    assert np.flatnonzero(~model.observed).tolist() == [3, LENGTHS[0] + 2]


def test_shared_parameters_need_an_m_step_of_their_own():
    class Shared(Laplace):
        n_shared = 1

    with pytest.raises(NotImplementedError, match="Shared shares parameters"):
        Shared().maximise(np.zeros((2, 3)), None)
