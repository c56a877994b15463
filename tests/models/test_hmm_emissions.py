"""Emissions of the HMM family: densities, derivatives, M-steps, against autograd and hmmlearn."""

from dataclasses import replace

import numpy as np
import pytest
from hmmlearn import hmm as peers
from numpy.testing import assert_allclose
from oracles.toy_models import Laplace
from scipy.stats import bernoulli, norm, poisson
from test_hmm import BUILDS, COVARIANCES, LENGTHS, choices, close, continuous, counts, with_holes

from acvlib.models import GLMHMM, CategoricalHMM, GaussianHMM, MixtureHMM, PoissonHMM
from acvlib.models.hmm import em
from acvlib.models.hmm.posterior import hidden_states


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


def peer_of(model, params):
    """The same HMM in hmmlearn, or None where it has none."""
    named = model.unpack(params)
    k, law = model.n_states, named.emission
    kind = type(model.emission).__name__
    if kind == "Categorical":
        peer = peers.CategoricalHMM(k)
        peer.emissionprob_, peer.n_features = law.probability, law.probability.shape[1]
    elif kind == "Poisson":
        peer = peers.PoissonHMM(k)
        peer.lambdas_ = law.rate
    elif kind == "Mixture":
        full = hasattr(law.component, "covariance")
        n_mix = law.weight.shape[1]
        peer = peers.GMMHMM(k, n_mix, covariance_type="full" if full else "diag")
        spread = law.component.covariance if full else law.component.sd**2
        peer.weights_ = law.weight
        peer.means_ = law.component.mean.reshape(k, n_mix, -1)
        peer.covars_ = spread.reshape(k, n_mix, *spread.shape[1:])
    elif hasattr(law, "covariance"):
        peer = peers.GaussianHMM(k, "tied" if law.covariance.ndim == 2 else "full")
        peer.means_, peer.covars_ = law.mean, law.covariance
    else:
        spherical = law.sd.shape[1] < law.mean.shape[1]
        peer = peers.GaussianHMM(k, "spherical" if spherical else "diag")
        peer.n_features = law.mean.shape[1]
        peer.means_, peer.covars_ = law.mean, law.sd[:, 0] ** 2 if spherical else law.sd**2
    peer.n_features = model.n_channels if kind != "Categorical" else peer.n_features
    peer.startprob_, peer.transmat_ = named.initial, named.transition
    return peer


PEERS = (
    "diag",
    "spherical",
    "full",
    "tied",
    "mixture",
    "mixture of full",
    "categorical",
    "poisson",
)


FLAT = {"concentration": 1.0}
FLAT_GAUSSIAN = FLAT | {"mean_scale": np.inf, "variance_prior": (-1.0, 0.0)}
FLAT_BUILDS = {
    **{name: FLAT_GAUSSIAN for name in PEERS[:5]},
    "categorical": FLAT | {"emission_concentration": 1.0},
    "poisson": FLAT | {"rate_prior": (1.0, 0.0)},
}


@pytest.mark.parametrize("name", FLAT_BUILDS)
def test_m_steps_under_flat_priors_are_hmmlearns(name):
    rng = np.random.default_rng(10)
    holes = BUILDS[name](rng, (40, 50))
    complete = [x[~np.isnan(x).any(axis=1)] for x in holes.sequences]
    kinds = {"categorical": CategoricalHMM, "poisson": PoissonHMM, "mixture": MixtureHMM}
    settings = dict(FLAT_BUILDS[name])
    if name in COVARIANCES:
        settings["covariance"] = name
    model = kinds.get(name, GaussianHMM)(complete, 2, sites="sequences", **settings)
    emission = model.emission
    if name == "mixture":
        model = replace(model, emission=replace(emission, weight_concentration=1.0))
    params = model.initial_params()
    peer = peer_of(model, params).set_params(init_params="", n_iter=1)
    if name in COVARIANCES:
        peer.set_params(covars_prior=0.0, covars_weight=0.0, min_covar=0.0)
    x = np.concatenate(complete)
    x = x.astype(int) if name in ("categorical", "poisson") else x
    peer.fit(x, [len(one) for one in complete])
    moved = em.m_step(hidden_states(model, params, np.ones(2)))
    again = peer_of(model, moved)
    for attribute in ("startprob_", "transmat_", "means_", "lambdas_", "emissionprob_", "weights_"):
        if hasattr(again, attribute):
            close(getattr(again, attribute), getattr(peer, attribute), 1e-9)
    if name == "spherical":
        close(again._covars_, peer._covars_[:, 0], 1e-8)
    elif name == "mixture":  # theirs spread around the means before the step
        gap = again.means_ - peer_of(model, params).means_
        close(again.covars_ + gap**2, peer.covars_, 1e-8)
    elif hasattr(again, "means_"):
        close(again.covars_, peer.covars_, 1e-8)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: CategoricalHMM([0.5, 1, 2, 1], 2), "x holds 0.5, channel 0 of frame 0: whole"),
        (lambda: CategoricalHMM([0, 1, 2, 1], 2, 2), "x holds 2: only 0, 1 are"),
        (lambda: CategoricalHMM(np.eye(9), 2), "9 channels of codes"),
        (lambda: GLMHMM([0, 1, 2.0, 1], np.arange(4.0), 2), "x holds 2: only 0 ... 1"),
        (lambda: GLMHMM([0, 1, 0.0, 1], np.arange(5.0), 2), "must have the same lengths"),
        (lambda: GLMHMM([0, 1, 0.0, 1], np.ones(4), 2), "column 0 is constant, as the intercept"),
        (lambda: GLMHMM([0, 1, 0.0, 1], np.arange(4.0), 2, "probit"), "unknown family 'probit'"),
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
