"""Emissions of an HMM, its EM, fixed probabilities and flat priors, and what it says of frames.

Densities against scipy, predictions by enumeration.
"""

import weakref
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from oracles.enumerate import scored_paths
from oracles.toy_models import Laplace
from oracles.wrappers import raises, raises_no_fit
from scipy.special import logsumexp
from scipy.stats import bernoulli, nbinom, norm, poisson
from test_hmm import FREE, choices, continuous, counts, levels, sequences, with_holes

import acvlib as acv
from acvlib.models import GLMHMM, HMM, AutoRegressiveHMM, GaussianHMM, NeuralHMM, PoissonHMM
from acvlib.models.hmm import em, emissions
from acvlib.models.hmm.emissions import AutoRegression, Gaussian, NeuralAutoRegression
from acvlib.trials import NoFiniteOptimum, UnconvergedFit


def drawn(model, rng):
    """(parameters of the emission by name, log densities (T, 2)) at random params."""
    params = rng.normal(size=model.n_params)
    return model.unpack(params).emission, model.log_densities(params)


def test_densities_are_those_of_scipy_and_of_equations_17_and_18(rng):
    named, densities = drawn(GaussianHMM(x := with_holes(continuous(rng)), 2), rng)
    expected = norm.logpdf(x[0][2, 1], named.mean[1, 1], named.sd[1, 1])
    assert_allclose(densities[2, 1], expected, rtol=1e-12)
    named, densities = drawn(PoissonHMM(x := with_holes(counts(rng)), 2), rng)
    assert_allclose(densities[2, 1], poisson.logpmf(x[0][2, 1], named.rate[1, 1]))
    for family, law in (("bernoulli", bernoulli), ("poisson", poisson)):
        y, inputs = choices(rng, family)
        named, densities = drawn(GLMHMM(y, inputs, 2, family), rng)
        eta = np.append(inputs[0][4], 1.0) @ named.weights[1, 0]
        mean = 1.0 / (1.0 + np.exp(-eta)) if family == "bernoulli" else np.exp(eta)
        assert_allclose(densities[4, 1], law.logpmf(y[0][4], mean))
    x = sequences(rng, (6,), missing=False)
    named, densities = drawn(AutoRegressiveHMM(x, 2, 2), rng)
    slopes = named.coefficients[1]
    mean = slopes[0] @ x[0][3] + slopes[1] @ x[0][2] + named.intercept[1]
    assert_allclose(densities[2, 1], norm.logpdf(x[0][4], mean, named.sd).sum(), rtol=1e-12)
    named, densities = drawn(NeuralHMM(x, 2, 1, 3), rng)
    hidden = np.tanh(named.inner[1] @ np.append(x[0][3], 1.0))
    mean = named.outer[1] @ np.append(hidden, 1.0)
    assert_allclose(densities[3, 1], norm.logpdf(x[0][4], mean, named.sd).sum(), rtol=1e-12)


def test_counts_are_negative_binomial_from_poissons_limit_to_millions():
    emission = emissions.NegativeBinomial()
    x = np.array([0.0, 1, 15, 16, 17, 900, 1e7])
    frames = HMM([x], 1, emission).frames
    for dispersion in (1e-3, 0.3, 20.0):
        found = emission.log_densities(np.log([[40.0, dispersion]]), frames)[:, 0]
        expected = nbinom.logpmf(x, 1.0 / dispersion, 1.0 / (1.0 + 40.0 * dispersion))
        assert_allclose(found, expected, rtol=1e-11)
    found = emission.log_densities(np.log([[40.0, 1e-14]]), frames)[:6, 0]
    assert_allclose(found, poisson.logpmf(x[:6], 40.0), rtol=1e-8)


def test_channels_are_each_in_one_group_by_name_or_number():
    rng = np.random.default_rng(1)
    x = pd.DataFrame(with_holes([np.hstack([continuous(rng)[0], counts(rng)[0]])] * 2)[0])
    x.columns = ["a", "b", "n", "m"]
    parts = {("b", "a"): Gaussian(), "n": emissions.Poisson(), "m": emissions.Poisson()}
    model = HMM([x], 2, emissions.Channels(parts))
    named = model.unpack(model.initial_params())
    assert [*named.emission] == [*parts]
    other = replace(model, sequences=[x.to_numpy()])  # without names: as they stood
    assert_allclose(other.pack(named), model.initial_params(), atol=1e-12)
    named.emission["n"] = named.emission["m"]._replace(rate=np.ones((2, 3)))
    raises("emission\\['n'\\].rate \\(2, 3\\): must be \\(2, 1\\)", model.pack, named)
    turned = {"n": Gaussian(), ("b", "a"): emissions.Poisson()}
    for groups, words in (
        ({"a": Gaussian()}, r"channels \['b', 'n', 'm'\] are in no group"),
        (parts | {"a": Gaussian()}, r"channels \['a'\] are in no group, or twice"),
        (parts | {"c": Gaussian()}, r"groups of \['c'\], but channels are"),
        (parts | turned, r"group \('b', 'a'\): x holds"),
    ):
        raises(words, HMM, [x], 2, emissions.Channels(groups))
    raises("number them, or give frames", HMM, [x.to_numpy()], 2, emissions.Channels(parts))
    for wrong in (AutoRegression(1), Gaussian(tied=True), INPUT, emissions.Channels(parts)):
        with pytest.raises(TypeError, match="group 'a' .* without order, inputs and shared"):
            emissions.Channels({"a": wrong})
    for wrong in ({}, None, "ab", Gaussian(), [Gaussian()]):
        raises("must be emissions by columns", emissions.Channels, wrong, error=TypeError)


def test_a_flat_prior_is_maximum_likelihood():
    rng = np.random.default_rng(3)
    x = continuous(rng, (40,) * 6)
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


def test_probabilities_that_run_to_zero_are_named_with_the_prior_that_each_has():
    rng = np.random.default_rng(4)
    model = HMM(levels(rng), 3, Gaussian(), concentration=1.0)
    labels = np.repeat([0, 1, 2] * 4, 8)
    raises_no_fit("run to 0 under a flat prior", acv.fit, model, model.params_of_labels(labels))
    named = model.unpack(em.expectation_maximisation(model, model.params_of_labels(labels)).params)
    fixed = np.where(np.vstack([named.initial, named.transition]) < 1e-6, 0.0, np.nan)
    fixed[0] = [1, 0, 0]
    fixed[3] = [0, 0, 1]
    model = HMM(levels(np.random.default_rng(4)), 3, Gaussian(), concentration=1.0, fixed=fixed)
    assert acv.fit(model, model.params_of_labels(labels)).newton_decrement < 1e-6
    codes = [np.arange(40.0) % 3]  # of four, the last never occurs
    model = partial(HMM, codes, 1)
    with pytest.raises(NoFiniteOptimum, match="give an emission_concentration, .* above 1"):
        acv.fit(model(emissions.Categorical(4, 1.0)))
    assert acv.fit(model(emissions.Categorical(4, 1.1))).newton_decrement < 1e-6
    silent = np.array([0.0, 1.0]), np.array([[[5.0, 0.0]]])
    with pytest.raises(NoFiniteOptimum, match="as all are 0: give dispersion_prior"):
        FLAT.check_optimum(np.zeros((1, 2)), silent)
    raises("rate must be above 0 as well", emissions.NegativeBinomial, dispersion_prior=(1.1, 0))
    mixture = emissions.Mixture(2, emissions.Poisson(), 1.0)
    with pytest.raises(NoFiniteOptimum, match="weight_concentration, .* above 1"):
        mixture.check_optimum(np.zeros((1, 4)), (None, np.array([[5.0, 0.0]]), None))


STEPS = np.random.default_rng(0).normal(size=(6, 20)) + np.repeat([0.0, 8.0], 10)
HIGH, LAST = STEPS > 4, np.arange(6)[:, None] == 5
BITS = np.random.default_rng(1).integers(0, 2, (6, 20))
FLAT = emissions.NegativeBinomial(dispersion_prior=(1.0, 0.0))
PAIR = emissions.Channels([(0, emissions.Categorical(3, 1.0)), (1, Gaussian())])
INPUT = emissions.GLM("bernoulli", 1, np.inf)
FIRST = {"concentration": np.array([[1.0], [2.0], [2.0]])}
ALONE = {  # what the last of six sequences alone has
    "a count": (partial(PoissonHMM, n_states=2, rate_prior=(1.0, 0.0)), HIGH * 9 + 2, HIGH | LAST),
    "a variance": (partial(HMM, n_states=1, emission=FLAT), BITS + 8 * BITS * LAST),
    "a symbol of a group": (partial(HMM, n_states=1, emission=PAIR), BITS + LAST, STEPS),
    "a symbol": (partial(HMM, n_states=1, emission=emissions.Categorical(3, 1.0)), BITS + LAST),
    "a start": (partial(GaussianHMM, n_states=2, **FIRST), np.where(LAST, STEPS[:, ::-1], STEPS)),
    "an overlap": (partial(HMM, n_states=1, emission=INPUT), HIGH ^ (LAST & (STEPS < -1)), STEPS),
}


@pytest.mark.parametrize("name", ALONE)
def test_a_fold_is_lost_where_what_is_left_has_no_optimum(name):
    door, *channels = ALONE[name]
    x = [*np.stack(channels, axis=2).astype(float)]
    for model in (door(x[:5]), door(x, sample_weight=[1.0] * 5 + [0.0])):
        raises_no_fit(None, acv.fit, model)
    fit = acv.fit(door(x))
    for method in (acv.exact, partial(acv.from_scratch, n_starts=1)):
        with pytest.warns(UnconvergedFit, match="of 1 of 6 folds are nan.*5: .*NoFiniteOptimum"):
            result = method(fit, acv.folds.leave_one_out(6))
        assert np.isnan(result.fold_losses).tolist() == [False] * 5 + [True]


def test_what_no_data_decide_and_shared_parameters_without_an_m_step_are_refused():
    fit = acv.fit(HMM([np.append(BITS.ravel(), [2] * 9)], 1, emissions.Categorical(3, 1.0)))
    with pytest.raises(NoFiniteOptimum, match="without fold from 120 on 1 of the probabilities"):
        acv.leave_future_out(fit, [120, 122, 125])
    with pytest.raises(NoFiniteOptimum, match="no data decide the 3 weights .* make mean_scale"):
        acv.fit(HMM([np.outer(STEPS, [1.0, 2.0])], 2, Gaussian(order=1, mean_scale=np.inf)))
    with pytest.raises(TypeError, match="without order, inputs and shared parameters"):
        emissions.Mixture(2, INPUT)

    class Shared(Laplace):
        n_shared = 1

    with pytest.raises(NotImplementedError, match="Shared shares parameters"):
        Shared().maximise(np.zeros((2, 3)), None)


EMISSIONS = [Gaussian(), AutoRegression(2), NeuralAutoRegression(1, 2)]


@pytest.mark.parametrize("emission", EMISSIONS, ids=str)
def test_predictions_are_sums_over_paths_of_the_past(emission, rng):
    model = HMM(sequences(rng), 3, emission)
    params = 0.4 * rng.normal(size=model.n_params)
    found = model.predict(params)
    density = model.log_densities(params)
    for n, frames in enumerate(model.pieces()):
        for t in range(frames.start, frames.stop):
            path, log_p = scored_paths(density[frames.start : t + 1], *model.log_chain(params))
            state = path[:, -1]
            past = log_p - density[t, state]  # without the frame itself
            p = np.exp(past - logsumexp(past))
            assert_allclose(found.states[t], np.bincount(state, p), atol=1e-12)
            ahead = logsumexp(log_p) - logsumexp(past)
            assert_allclose(found.log_density[t], ahead, atol=1e-11)
        total = found.log_density[frames].sum()
        assert_allclose(total, -model.sequence_losses(params)[n], rtol=1e-10)


def test_new_sequences_are_taken_in_place_of_the_models(rng):
    x = sequences(rng, (30, 20), missing=False)
    model = HMM(x, 2)
    params = model.initial_params(rng)
    for method in (model.posterior, model.sequence_losses):
        assert_allclose(method(params, x), method(params))
    for method in (model.decode, model.predict):
        for found, expected in zip(method(params, x), method(params), strict=True):
            assert_allclose(found, expected)
    assert len(model.decode(params, x[1:]).states) == 20
    raises("3 channels: the model has 2", model.decode, params, [np.ones((4, 3))])


def test_em_says_what_it_cannot_do_and_k_means_finds_what_is_apart(rng):
    model = AutoRegressiveHMM(continuous(rng, (20,) * 3), 2)
    start = model.initial_params(rng)
    with pytest.warns(em.UnconvergedEM, match="after 2 iterations: raise max_iterations"):
        em.expectation_maximisation(model, start, max_iterations=2)
    network = NeuralHMM(model.sequences, 2)
    with pytest.raises(TypeError, match="NeuralAutoRegression has no closed-form M-step"):
        em.expectation_maximisation(network, network.initial_params())
    raises("hold", em.expectation_maximisation, *model.hold(start))
    rng = np.random.default_rng(14)
    x = [0.1 * rng.normal(size=(60, 1)) + np.repeat([-1.0, 1.0], 30)[:, None]]
    model = HMM(x, 3, AutoRegression(0))
    start = model.initial_params(rng)
    start[-1] = 500.0  # an intercept that no frame is near to
    message = r"states \[2\] keep .* the data support 2 states, lower n_states"
    with pytest.warns(em.EmptiedState, match=message):
        em.expectation_maximisation(model, start)
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 90)
    labels = em.k_means(100.0 * truth[:, None] + rng.normal(size=(90, 2)), 3, rng)
    assert len({(a, b) for a, b in zip(truth, labels, strict=True)}) == 3
    with pytest.raises(ValueError, match="fewer than 3 distinct values: lower n_states"):
        em.k_means(np.repeat([[0.0], [1.0]], 5, axis=0), 3, rng)


def test_without_hessians_products_are_freed_and_channels_that_all_but_depend_are_fitted():
    sequences = [np.random.default_rng(n).normal(size=(30, 1)) for n in range(4)]
    model = AutoRegressiveHMM(sequences, 2, dense_limit=0)
    products = model.derivatives.products(model.initial_params(), acv.folds.leave_one_out(4))
    rough = weakref.ref(products.rough)
    del products  # a cycle would keep its arrays
    assert rough() is None
    # Case hmm_15, on fewer frames
    t = np.arange(80) / 14
    x = np.column_stack([5 + np.sin(t), 9 + t, 1.28 + 0.02 * np.sin(t), 2.5 + 0.01 * t])
    make = partial(GaussianHMM, x, 3, covariance="full")
    dense, without = (acv.fit(make(dense_limit=limit)) for limit in (1000, 0))
    assert_allclose(without.objective, dense.objective, atol=1e-6)
