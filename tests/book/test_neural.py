"""The networks: a CRF layer against the exact one, training, scores that are kept, and pairs."""

from dataclasses import replace

import numpy as np
import pytest
from acvbook.datasets import Sentences
from acvbook.datasets.tagged import simulated_text
from numpy.testing import assert_allclose
from oracles.refit import central_difference

import acvlib as acv
from acvlib.models import LinearChainCRF

torch = pytest.importorskip("torch")
neural = pytest.importorskip("acvbook.neural")

from acvbook.neural.batches import LONGEST_WORD, UNKNOWN, Vocabulary  # noqa: E402
from acvbook.neural.bilstm_crf import CRFLayer  # noqa: E402
from acvbook.neural.training import Training, score, train  # noqa: E402

SIZES = neural.Sizes(word=6, character=4, filters=4, hidden=5, layers=2)
TINY = Training(SIZES, epochs=3, learning_rate=0.01)


@pytest.fixture(scope="module")
def text():
    torch.set_num_threads(1)
    return simulated_text("simulated", np.random.default_rng(0), (150, 30, 30), 10.0, 0.2)


def test_crf_layer_is_the_exact_crf():
    torch.manual_seed(0)
    layer, lengths, n_tags = CRFLayer(4).double(), [5, 3, 1], 4
    scores, tags = torch.randn(3, 5, n_tags, dtype=torch.double), torch.randint(0, n_tags, (3, 5))
    mask = torch.arange(5) < torch.tensor(lengths)[:, None]
    rows = [part[n, :t].numpy() for part in (scores, tags) for n, t in enumerate(lengths)]
    params = torch.cat([layer.start, layer.transitions.flatten(), layer.end]).detach().numpy()
    exact = LinearChainCRF(rows[:3], rows[3:]).heldout_loss(params, np.arange(3)).sum()
    assert float(layer(scores, tags, mask).detach()) == pytest.approx(exact, rel=1e-12)


def test_training_learns_and_padding_and_batches_change_no_score(text):
    trained = train(text, TINY)
    losses = np.array(trained.history)
    assert losses.shape == (3, 2)
    assert (np.diff(losses[:, 0]) < 0).all()
    together = score(trained, text.test)
    for n in (0, 7):
        assert score(trained, text.test.take([n]))[0] == pytest.approx(together[n], abs=1e-5)


def test_words_are_normalised_and_unknown_ones_marked(text):
    vocabulary = Vocabulary.of(Sentences((("In", "1999", "in"),), (("O",) * 3,)), ("O",))
    assert set(vocabulary.words) == {"in", "0000"}
    new = Sentences((("IN", "2024", "new" * 20),), (("O",) * 3,))
    words, characters, _ = vocabulary.encode(new)
    assert words[0][1] == vocabulary.words["0000"]
    assert words[0][2] == UNKNOWN
    assert characters[0].shape == (3, LONGEST_WORD)


def test_emissions_are_kept_and_reused(text, tmp_path, monkeypatch):
    first = neural.encoded(text, TINY, folder=tmp_path)
    monkeypatch.setattr("acvbook.neural.training.train", None)  # calling it again would fail
    again = neural.encoded(text, TINY, folder=tmp_path)
    assert [len(s) for s in first.scores["train"]] == [len(words) for words in text.train.words]
    for a, b in zip(first.scores["test"], again.scores["test"], strict=True):
        np.testing.assert_array_equal(a, b)
    assert first.crf.shape == (99,)
    LinearChainCRF(first.scores["valid"], first.tags["valid"])


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    own = np.repeat(rng.standard_normal((4, 15, 15)), 3, axis=0)
    images = own + 0.5 * rng.standard_normal((12, 15, 15))
    return neural.Siamese(images, np.repeat(np.arange(4), 3), 1e-3, channels=(2, 3), n_outputs=2)


@pytest.fixture(scope="module")
def params(model):
    return neural.train_siamese(model, neural.Adam(10), 0)


FOLD = np.array([3, 4, 5])
ZERO = np.zeros(1)


def test_objective_is_the_mean_over_all_pairs_by_weight_as_without_images(model, params):
    """Weights of a fold are the network without its images."""
    f = model.outputs(torch.as_tensor(params), model.inputs).numpy()
    weights, total = np.random.default_rng(1).random(12), 0.0
    for i in range(12):
        for j in range(12):
            d = np.linalg.norm(f[i] - f[j])
            same = model.person[i] == model.person[j]
            total += weights[i] * weights[j] * (d**2 if same else max(1.0 - d, 0.0) ** 2)
    expected = 12 * (total / weights.sum() ** 2 + 1e-3 * params @ params)
    assert_allclose(model.objective(params, weights), expected, rtol=1e-6)
    kept = np.setdiff1d(np.arange(12), FOLD)
    alone = replace(model, images=model.images[kept], person=model.person[kept])
    alone.__dict__["inputs"] = model.inputs[kept]  # standardised as all images are
    ours = model.derivatives.value_and_gradient(params, acv.folds.weights(12, FOLD))
    theirs = alone.derivatives.value_and_gradient(params, np.ones(9))
    for mine, other in zip(ours, theirs, strict=True):
        assert_allclose(mine / 12, other / 9, rtol=1e-9, atol=1e-12)


def test_derivatives_are_differences_and_the_printed_cross_has_its_normaliser(model, params):
    rng, ones = np.random.default_rng(2), np.ones(12)
    v, fast = rng.standard_normal(len(params)), model.derivatives
    _, gradient = fast.value_and_gradient(params, ones)
    slope = central_difference(lambda t: model.objective(params + t * v, ones), ZERO)
    assert_allclose(slope, gradient @ v, rtol=1e-6)
    product = fast.products(params[None], acv.folds.WHOLE).multiply(v[None], np.zeros(1, int))[0]
    expected = central_difference(lambda t: fast.value_and_gradient(params + t * v, ones)[1], ZERO)
    assert_allclose(product, expected[:, 0], rtol=1e-4, atol=1e-6)
    left = acv.folds.weights(12, FOLD) - 1.0
    cross = central_difference(lambda t: fast.value_and_gradient(params, ones + t * left)[1], ZERO)
    ours = fast.cross(params, acv.folds.Folds([FOLD]))[0]
    assert_allclose(ours, cross[:, 0], rtol=1e-5, atol=1e-7)
    mean = replace(model, gamma_i=0.0).derivatives.value_and_gradient(params, ones)[1]
    printed = model.printed_cross(params, acv.folds.Folds([FOLD]))[0]
    assert_allclose(printed * (9 / 12) ** 2, ours - 2 * 3 / 12 * mean, rtol=1e-8, atol=1e-12)
