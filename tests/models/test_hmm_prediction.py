"""What an HMM says of states and of frames to come: by enumeration, and as hmmlearn says it."""

from itertools import product

import numpy as np
import pytest
from hmmlearn import hmm
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from test_hmm import EMISSIONS, sequences
from test_hmm_emissions import BUILDS

import acvlib as acv
from acvlib.models import GLMHMM, HMM, AutoRegressiveHMM, GaussianHMM
from acvlib.models.hmm.emissions import Gaussian


@pytest.fixture(params=EMISSIONS, ids=str)
def case(request):
    rng = np.random.default_rng(3)
    model = HMM(sequences(rng), 3, request.param)
    return model, 0.4 * rng.normal(size=model.n_params)


def paths(model, params, frames):
    """All paths (S, T) of some frames and log p(x, z) of each."""
    density = model.log_densities(params)[frames]
    initial, transition = model.log_chain(params)
    every = np.array(list(product(range(model.n_states), repeat=len(density))))
    log_p = initial[every[:, 0]] + density[np.arange(len(density)), every].sum(axis=1)
    return every, log_p + transition[every[:, :-1], every[:, 1:]].sum(axis=1)


def test_the_decoded_path_is_the_best_of_all(case):
    model, params = case
    found = model.decode(params)
    for n, frames in enumerate(model.pieces()):
        every, log_p = paths(model, params, frames)
        assert_array_equal(found.states[frames], every[log_p.argmax()])
        assert_allclose(found.log_p[n], log_p.max(), rtol=1e-12)


def test_posteriors_and_losses_are_sums_over_all_paths(case):
    model, params = case
    gamma = model.posterior(params)
    losses = model.sequence_losses(params)
    for n, frames in enumerate(model.pieces()):
        every, log_p = paths(model, params, frames)
        assert_allclose(losses[n], -logsumexp(log_p), rtol=1e-12)
        p = np.exp(log_p + losses[n])
        expected = [[p[every[:, t] == k].sum() for k in range(3)] for t in range(every.shape[1])]
        assert_allclose(gamma[frames], expected, atol=1e-12)


def test_predictions_are_sums_over_paths_of_the_past(case):
    model, params = case
    found = model.predict(params)
    density = model.log_densities(params)
    for n, frames in enumerate(model.pieces()):
        for t in range(frames.start, frames.stop):
            every, log_p = paths(model, params, slice(frames.start, t + 1))
            past = log_p - density[t, every[:, -1]]  # without the frame itself
            p = np.exp(past - logsumexp(past))
            expected = [p[every[:, -1] == k].sum() for k in range(3)]
            assert_allclose(found.states[t], expected, atol=1e-12)
            ahead = logsumexp(log_p) - logsumexp(past)
            assert_allclose(found.log_density[t], ahead, atol=1e-11)
        total = found.log_density[frames].sum()
        assert_allclose(total, -model.sequence_losses(params)[n], rtol=1e-10)


def test_predicted_means_are_those_of_many_draws(case):
    model, params = case
    rng = np.random.default_rng(4)
    before = rng.normal(size=(model.emission.order, 2))
    drawn = model.sample(params, [1] * 1_000, rng, before)
    last = np.array([x[-1] for x in drawn.sequences])
    found = model.predict(params, drawn.sequences[:1])
    own = np.exp(model.log_chain(params)[0])
    assert_allclose(found.states[0], own)
    error = last.std(axis=0) / np.sqrt(len(last))
    assert (abs(found.mean[0] - last.mean(axis=0)) < 4.5 * error).all()
    share = np.bincount([z[0] for z in drawn.states], minlength=3) / len(last)
    assert_allclose(share, own, atol=0.07)


def test_draws_follow_the_emission_and_the_chain():
    """Each term of log p(x, z) has the mean over draws that its entropy says."""
    rng = np.random.default_rng(5)
    x = 1e3 + 50.0 * np.cumsum(rng.normal(size=(60, 2)), axis=0)  # units of their own
    model = GaussianHMM(x, 2)
    params = model.initial_params(rng)
    drawn = model.sample(params, [20_000], rng)
    z = drawn.states[0]
    named = model.unpack(params)
    for k in range(2):
        own = drawn.sequences[0][z == k]
        assert_allclose(own.mean(axis=0), named.emission.mean[k], atol=0.05 * own.std())
        assert_allclose(own.std(axis=0), named.emission.sd[k], rtol=0.05)
    moves = np.histogram2d(z[:-1], z[1:], 2)[0]
    assert_allclose(moves / moves.sum(axis=1, keepdims=True), named.transition, atol=0.04)


def test_draws_of_an_autoregression_follow_its_lags():
    rng = np.random.default_rng(6)
    model = AutoRegressiveHMM(sequences(rng, (50,), missing=False), 2, 2)
    params = model.initial_params(rng)
    drawn = model.sample(params, [30], rng, before=np.ones((2, 2)))
    again = HMM(drawn.sequences, 2, model.emission)
    assert again.n_sites == 1
    assert again.frames.starts.tolist() == [0, 30]
    named = model.unpack(params).emission
    x, k = drawn.sequences[0], drawn.states[0][5]
    mean = named.coefficients[k, 0] @ x[6] + named.coefficients[k, 1] @ x[5] + named.intercept[k]
    residual = x[7] - mean
    assert (abs(residual) < 5.0 * named.sd).all()
    with pytest.raises(ValueError, match=r"before \(0,\): the emission looks at .* \(2, 2\)"):
        model.sample(params, [30], rng)


@pytest.mark.parametrize("name", [name for name in BUILDS if name != "user's own"])
def test_draws_of_every_emission_have_its_mean_and_density(name):
    rng = np.random.default_rng(10)
    model = BUILDS[name](rng)
    _, rows = model.split(0.4 * rng.normal(size=model.n_params))
    one = model.frames.rows(np.full(8_000, 4))
    for k in range(len(rows)):
        x = model.emission.draw(rows, k, one, rng)
        mean = model.emission.mean(rows, k, one)[0]
        assert x.shape == one.x.shape
        error = x.std(axis=0) / np.sqrt(len(x))
        assert (abs(x.mean(axis=0) - mean) < 4.5 * error + 1e-12).all()
        drawn = one._replace(x=model.emission.prepared(x.astype(float)))
        scores = model.emission.scores(rows, k, drawn)  # of the true density their mean is 0
        spread = scores.std(axis=0) / np.sqrt(len(x))
        assert (abs(scores.mean(axis=0)) < 5.0 * spread + 1e-9).all()


def test_draws_with_inputs_are_fitted_again():
    rng = np.random.default_rng(11)
    u = rng.normal(size=(200, 2))
    model = GLMHMM((rng.random(200) < 0.5) * 1.0, u, 2)
    params = model.initial_params(rng)
    drawn = model.sample(params, [200, 50], rng, inputs=[u, u[:50]])
    assert [x.shape for x in drawn.sequences] == [(200, 3), (50, 3)]
    assert_array_equal(drawn.sequences[1][:, 1:], u[:50])
    assert np.isfinite(model.sequence_losses(params, drawn.sequences)).all()
    assert np.isfinite(model.predict(params).mean).all()
    with pytest.raises(ValueError, match=r"inputs \(0,\): the emission looks at .* \(200, 2\)"):
        model.sample(params, [200], rng)
    with pytest.raises(ValueError, match="1 inputs for 2 lengths"):
        model.sample(params, [200, 50], rng, inputs=[u])


def test_new_sequences_are_taken_in_place_of_the_models():
    rng = np.random.default_rng(7)
    x = sequences(rng, (30, 20), missing=False)
    model = HMM(x, 2)
    params = model.initial_params(rng)
    for method in (model.posterior, model.sequence_losses):
        assert_allclose(method(params, x), method(params))
    for method in (model.decode, model.predict):
        for found, expected in zip(method(params, x), method(params), strict=True):
            assert_allclose(found, expected)
    assert len(model.decode(params, x[1:]).states) == 20
    with pytest.raises(ValueError, match="3 channels: the model has 2"):
        model.decode(params, [np.ones((4, 3))])


def test_a_missing_frame_is_predicted_and_costs_nothing():
    rng = np.random.default_rng(8)
    x = rng.normal(size=(20, 2))
    x[5] = np.nan
    model = HMM([x], 2, Gaussian())
    found = model.predict(model.initial_params(rng))
    assert found.log_density[5] == pytest.approx(0.0, abs=1e-12)
    assert np.isfinite(found.mean).all()
    autoregression = AutoRegressiveHMM([x], 2)
    found = autoregression.predict(autoregression.initial_params(rng))
    assert np.flatnonzero(np.isnan(found.mean[:, 0])).tolist() == [4, 5]  # from the second frame on


def test_states_are_those_of_hmmlearn():
    rng = np.random.default_rng(9)
    lengths = [80, 50]
    x = np.concatenate([np.repeat(rng.normal(size=(n // 10, 2)), 10, axis=0) for n in lengths])
    x += 0.5 * rng.normal(size=x.shape)
    fitted = hmm.GaussianHMM(3, "diag", n_iter=20, random_state=0).fit(x, lengths)
    model = GaussianHMM((x, lengths), 3, sites="sequences")
    named = model.unpack(model.initial_params())
    own = named.emission._replace(
        mean=fitted.means_, sd=np.sqrt(np.einsum("krr->kr", fitted.covars_))
    )
    tiny = np.maximum(fitted.startprob_, 1e-100)
    params = model.pack(named._replace(initial=tiny, transition=fitted.transmat_, emission=own))
    assert_allclose(model.sequence_losses(params).sum(), -fitted.score(x, lengths), rtol=1e-11)
    assert_allclose(model.posterior(params), fitted.predict_proba(x, lengths), atol=1e-9)
    log_p, states = fitted.decode(x, lengths)
    found = model.decode(params)
    assert_array_equal(found.states, states)
    assert_allclose(found.log_p.sum(), log_p, rtol=1e-11)


@pytest.mark.parametrize("lengths", [[0], [2.5], 7])
def test_lengths_of_samples_are_named(lengths):
    model = GaussianHMM(np.arange(9.0) % 4, 2)
    with pytest.raises(ValueError, match="length"):
        model.sample(model.initial_params(), lengths, np.random.default_rng(0))


def test_the_same_seed_draws_the_same():
    model = GaussianHMM(np.arange(9.0) % 4, 2)
    params = model.initial_params()
    first, second = (model.sample(params, [5, 6], seed) for seed in (3, 3))
    assert [len(x) for x in first.sequences] == [5, 6]
    assert_array_equal(np.concatenate(first.sequences), np.concatenate(second.sequences))
    assert acv.fit(GaussianHMM(first.sequences, 2)).grad_norm < 1e-3
