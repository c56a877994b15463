"""Emissions of the HMM family: densities, derivatives, M-steps, against autograd and hmmlearn."""

from dataclasses import replace

import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad, jacobian
from autograd import hessian as dense_hessian
from hmmlearn import hmm as peers
from numpy.testing import assert_allclose
from oracles.enumerate import weighted_log_sum
from oracles.toy_models import Laplace
from oracles.wrappers import ByAutograd
from scipy.stats import bernoulli, norm, poisson

import acvlib as acv
from acvlib.derivatives import derivatives_of
from acvlib.folds import Folds
from acvlib.models import (
    GLMHMM,
    HMM,
    CategoricalHMM,
    GaussianHMM,
    MixtureHMM,
    PoissonHMM,
)
from acvlib.models.hmm import em
from acvlib.models.hmm.emissions import Mixture, Poisson
from acvlib.models.hmm.posterior import hidden_states

LENGTHS = (9, 14, 7)
COVARIANCES = ("diag", "spherical", "full", "tied")


def regimes(rng, lengths=LENGTHS):
    """States (T,) of each sequence."""
    return [(np.cumsum(rng.random(length) < 0.15)) % 2 for length in lengths]


def continuous(rng, lengths=LENGTHS, gap=0.0):
    """Two states, each of two parts if there is a gap between these."""
    found = []
    for z in regimes(rng, lengths):
        part = gap * rng.integers(0, 2, len(z))
        found.append(3.0 * z[:, None] + part[:, None] * [1.0, -1.0] + rng.normal(size=(len(z), 2)))
    return found


def counts(rng, lengths=LENGTHS, gap=0):
    return [
        rng.poisson(2.0 + 6.0 * z[:, None] + gap * rng.integers(0, 2, (len(z), 1)), (len(z), 2))
        for z in regimes(rng, lengths)
    ]


def with_holes(x):
    """One channel of a frame, and all of another, missing."""
    x = [np.array(one, float) for one in x]
    x[0][2, 0] = np.nan
    x[1][3] = np.nan
    return x


def codes(rng, lengths=LENGTHS):
    found = [(z + rng.integers(0, 3, len(z))) % 4 * 1.0 for z in regimes(rng, lengths)]
    found[0][3] = np.nan
    return found


def choices(rng, family, lengths=LENGTHS):
    """(y, inputs) of two strategies."""
    y, inputs = [], []
    for z in regimes(rng, lengths):
        u = rng.normal(size=(len(z), 2))
        eta = np.where(z == 1, 3.0 * u[:, 0] + 1.0, -3.0 * u[:, 1] - 1.0)
        draw = rng.random(len(z)) < 1 / (1 + np.exp(-eta)) if family == "bernoulli" else None
        y.append(rng.poisson(np.exp(eta / 3)) * 1.0 if draw is None else draw * 1.0)
        inputs.append(u)
    y[1][2] = np.nan
    return y, inputs


def gaussian(covariance):
    def build(rng, lengths=LENGTHS, **settings):
        x = continuous(rng, lengths)
        holes = covariance in ("diag", "spherical")
        x = with_holes(x) if holes else x
        return GaussianHMM(x, 2, covariance=covariance, **settings)

    return build


def mixture(rng, lengths=LENGTHS, **settings):
    return MixtureHMM(continuous(rng, lengths, 4.0), 2, 2, **settings)


def glm(family):
    def build(rng, lengths=LENGTHS, **settings):
        return GLMHMM(*choices(rng, family, lengths), 2, family, **settings)

    return build


def counted(rng, lengths=LENGTHS, **settings):
    return PoissonHMM(with_holes(counts(rng, lengths)), 2, **settings)


BUILDS = {
    **{name: gaussian(name) for name in COVARIANCES},
    "mixture": mixture,
    "mixture of full": lambda rng, lengths=LENGTHS, **s: MixtureHMM(
        continuous(rng, lengths, 4.0), 2, 2, "full", **s
    ),
    "mixture of poisson": lambda rng, lengths=LENGTHS, **s: HMM(
        with_holes(counts(rng, lengths, 25)), 2, Mixture(2, Poisson()), **s
    ),
    "categorical": lambda rng, lengths=LENGTHS, **s: CategoricalHMM(codes(rng, lengths), 2, **s),
    "poisson": counted,
    "bernoulli glm": glm("bernoulli"),
    "poisson glm": glm("poisson"),
    "user's own": lambda rng, lengths=LENGTHS, **s: HMM(
        continuous(rng, lengths), 2, Laplace(), **s
    ),
}


@pytest.fixture(
    params=[(name, sites) for name in BUILDS for sites in ("steps", "sequences")], ids=str
)
def case(request):
    """(model, params)."""
    name, sites = request.param
    rng = np.random.default_rng(1)
    model = BUILDS[name](rng, sites=sites)
    return model, 0.4 * rng.normal(size=model.n_params)


def slow(model):
    return derivatives_of(ByAutograd(model))


def close(found, expected, accuracy=1e-8):
    assert_allclose(found, expected, atol=accuracy * abs(np.asarray(expected)).max(), rtol=0.0)


def test_rows_have_the_derivatives_of_autograd(case):
    model, params = case
    emission = model.emission
    _, rows = model.split(params)
    mass = np.random.default_rng(2).uniform(size=(len(model.frames.x), 2))
    mass *= model.frames.observed[:, None]
    expected = emission.expected(rows, model.frames, mass)
    across, own = emission.information(rows, expected, False)
    assert across.shape[1] == emission.n_shared
    for k in range(2):

        def density(row, k=k):
            every = anp.concatenate([rows[:k], row[None], rows[k + 1 :]])
            return emission.log_densities(every, model.frames)[:, k]

        def total(row, k=k, density=density):
            return mass[:, k] @ density(row)

        seen = model.frames.observed
        close(emission.scores(rows, k, model.frames)[seen], jacobian(density)(rows[k])[seen], 1e-12)
        close(emission.slopes(rows, expected)[k], grad(total)(rows[k]), 1e-12)
        curved = -dense_hessian(total)(rows[k])
        n_shared = emission.n_shared
        assert_allclose(across[k], curved[:n_shared], atol=1e-11 * abs(curved).max(), rtol=0.0)
        close(own[k], curved[n_shared:, n_shared:], 1e-11)

    def prior(flat):
        return emission.minus_log_prior(anp.reshape(flat, rows.shape))[0]

    close(emission.minus_log_prior(rows)[1].ravel(), grad(prior)(rows.ravel()), 1e-12)


def test_derivatives_equal_autograd(case):
    model, params = case
    rng = np.random.default_rng(2)
    weights = rng.uniform(0.3, 1.0, model.n_sites)
    found = model.derivatives.value_and_gradient(params, weights)
    expected = slow(model).value_and_gradient(params, weights)
    assert_allclose(found[0], expected[0], rtol=1e-12)
    close(found[1], expected[1], 1e-10)
    hessian = np.asarray(slow(model).hessian(params, weights))
    close(np.asarray(model.derivatives.hessian(params, weights)), hessian)
    seen = np.flatnonzero(model.observed)
    folds = Folds([seen[:1], seen[1:3]])
    close(model.derivatives.cross(params, folds), slow(model).cross(params, folds))
    hessians = slow(model).fold_hessians(params, folds).matrices
    close(model.derivatives.fold_hessians(params, folds).matrices, hessians)
    products = model.derivatives.products(params, folds)
    vectors = rng.normal(size=(2, len(params)))
    found = products.multiply(vectors, np.arange(2))
    close(found, np.einsum("nij,nj->ni", hessians, vectors))
    assert np.einsum("ni,ni->n", vectors, products.precondition(vectors, np.arange(2))).min() > 0


def test_params_are_packed_as_they_were_unpacked(case):
    model, params = case
    assert_allclose(model.pack(model.unpack(params)), params, atol=1e-12)


def test_models_pass_their_own_check(case):
    model, params = case
    acv.check_model(model, params, np.random.default_rng(3), tolerance=1e-5)


def without(model, fold):
    """The model built anew where the frames of a fold are missing, or without its sequences."""
    if model.sites == "sequences":
        kept = [x for n, x in enumerate(model.sequences) if n not in fold]
    else:
        x = np.concatenate(model.sequences)
        x[fold, : model.n_channels] = np.nan
        kept = np.split(x, model.frames.starts[1:-1])
    return HMM(kept, model.n_states, model.emission, model.sites)


@pytest.fixture(params=[(n, s) for n in BUILDS for s in ("steps", "sequences")], ids=str)
def fitted(request):
    """(model, fit) at an optimum that EM found."""
    name, sites = request.param
    model = BUILDS[name](np.random.default_rng(5), (40,) * 12, sites=sites)
    start = em.expectation_maximisation(model, model.initial_params(), 4000, 1e-9)
    assert np.diff(start.objectives).max() <= 1e-9 * abs(start.objectives[-1])
    fit = acv.fit(model, start.params, tolerance=1e-9)
    assert_allclose(fit.objective, start.objectives[-1], rtol=1e-5)
    return model, fit


def test_folds_are_refits_without_them(fitted):
    """Exact folds are fits of the model built anew; the others are on their way there."""
    model, fit = fitted
    seen = np.flatnonzero(model.observed)
    folds = Folds([seen[10:12]] if model.sites == "steps" else [seen[1:2]])
    exact = acv.exact(fit, folds, 1e-9)
    refit = acv.fit(without(model, folds[0]), fit.params, tolerance=1e-9)
    close(exact.params, [refit.params], 1e-6)
    none = abs(fit.params - exact.params).max()
    assert abs(acv.newton_step(fit, folds).params - exact.params).max() < 0.2 * none
    chord = acv.frozen_newton(fit, folds, steps=30)
    assert abs(chord.params - exact.params).max() < 0.2 * none
    assert abs(acv.infinitesimal_jackknife(fit, folds).params - exact.params).max() < 2 * none


@pytest.mark.parametrize("name", BUILDS)
def test_objective_equals_enumeration(name):
    rng = np.random.default_rng(4)
    model = BUILDS[name](rng, (7, 8), sites="sequences")
    params = 0.3 * rng.normal(size=model.n_params)
    weights = np.array([0.7, 1.0])
    densities = model.log_densities(params)
    assert (densities[~model.frames.observed] == 0.0).all()
    total = 0.0
    for weight, frames in zip(weights, model.pieces(), strict=True):
        steps = np.ones(frames.stop - frames.start)
        own = densities[frames], *model.log_chain(params), steps, "A"
        total += weight * weighted_log_sum(*own)
    expected = -total - model.log_prior(params)
    assert_allclose(model.objective(params, weights), expected, rtol=1e-12)
    found = model.derivatives.value_and_gradient(params, weights)[0]
    assert_allclose(found, expected, rtol=1e-12)


# densities, in the words of scipy


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


def test_inputs_alone_make_no_intercept():
    y, inputs = choices(np.random.default_rng(7), "bernoulli")
    with_ones = [np.column_stack([u, np.ones(len(u))]) for u in inputs]
    own = GLMHMM(y, with_ones, 2, intercept=False)
    model = GLMHMM(y, inputs, 2)
    params = 0.3 * np.random.default_rng(8).normal(size=model.n_params)
    same = own.pack(model.unpack(params))
    close(own.log_densities(same), model.log_densities(params), 1e-13)


# hmmlearn's likelihood


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


@pytest.mark.parametrize("name", PEERS)
def test_likelihoods_and_posteriors_are_hmmlearns(name):
    rng = np.random.default_rng(9)
    model = BUILDS[name](rng)
    complete = [x[~np.isnan(x).any(axis=1)] for x in model.sequences]
    params = 0.3 * rng.normal(size=model.n_params)
    peer = peer_of(model, params)
    x = np.concatenate(complete)
    x = x.astype(int) if name in ("categorical", "poisson") else x
    log_p, posterior = peer.score_samples(x, [len(one) for one in complete])
    assert_allclose(-model.sequence_losses(params, complete).sum(), log_p, rtol=1e-10)
    again = HMM(complete, 2, model.emission)
    close(again.posterior(params), posterior, 1e-9)


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
        model = replace(model, emission=replace(emission, concentration=1.0))
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


# what is refused


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: GaussianHMM(np.eye(9), 2, covariance="ful"), "unknown covariance 'ful'"),
        (lambda: MixtureHMM(np.eye(9), 2, covariance="tied"), "diag, spherical or full"),
        (lambda: MixtureHMM(np.eye(9), 2, n_components=0), "n_components = 0"),
        (lambda: CategoricalHMM([0.5, 1, 2, 1], 2), "x holds 0.5, channel 0 of frame 0: whole"),
        (lambda: CategoricalHMM([-1, 1, 2, 1], 2), "x holds -1"),
        (lambda: CategoricalHMM([0, 1, 2, 1], 2, 2), "x holds 2: only 0 ... 1"),
        (lambda: CategoricalHMM(np.eye(9), 2), "9 channels of codes"),
        (lambda: PoissonHMM([0.5, 1, 2, 1], 2), "x holds 0.5"),
        (lambda: PoissonHMM([3, 1, 2, 1], 2, (0.9, 0.1)), "rate_prior"),
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


def test_a_state_of_one_frame_starts_a_mixture():
    x = np.random.default_rng(11).normal(size=(60, 1))
    x[7] = 1e4
    model = MixtureHMM(x, 2, 2)
    assert acv.fit(model).newton_decrement <= 1e-6


def test_a_frame_without_inputs_is_missing():
    y, inputs = choices(np.random.default_rng(12), "bernoulli")
    inputs[0][3, 1] = np.nan
    model = GLMHMM(y, inputs, 2)
    assert np.flatnonzero(~model.observed).tolist() == [3, LENGTHS[0] + 2]


def test_shared_parameters_need_an_m_step_of_their_own():
    class Shared(Laplace):
        n_shared = 1

    with pytest.raises(NotImplementedError, match="Shared shares parameters"):
        Shared().maximise(np.zeros((2, 3)), None)
