"""What an HMM says of states and of frames to come: by enumeration, and as hmmlearn says it."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from test_hmm import sequences

from acvlib.models import HMM
from acvlib.models.hmm.emissions import AutoRegression, Gaussian, NeuralAutoRegression

EMISSIONS = [Gaussian(), AutoRegression(2), NeuralAutoRegression(1, 2)]


def paths(model, params, frames):
    """All paths (S, T) of some frames and log p(x, z) of each."""
    density = model.log_densities(params)[frames]
    initial, transition = model.log_chain(params)
    every = np.array(list(product(range(model.n_states), repeat=len(density))))
    log_p = initial[every[:, 0]] + density[np.arange(len(density)), every].sum(axis=1)
    return every, log_p + transition[every[:, :-1], every[:, 1:]].sum(axis=1)


@pytest.mark.parametrize("emission", EMISSIONS, ids=str)
def test_predictions_are_sums_over_paths_of_the_past(emission):
    rng = np.random.default_rng(3)
    model = HMM(sequences(rng), 3, emission)
    params = 0.4 * rng.normal(size=model.n_params)
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
