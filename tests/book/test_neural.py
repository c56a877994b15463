"""The network: its CRF layer against the exact one, training, and scores that are kept."""

import numpy as np
import pytest
from acvbook.datasets import Sentences
from acvbook.datasets.tagged import simulated_text

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


@pytest.fixture(scope="module")
def trained(text):
    return train(text, TINY)


def test_crf_layer_is_the_exact_crf():
    torch.manual_seed(0)
    layer, lengths, n_tags = CRFLayer(4).double(), [5, 3, 1], 4
    scores, tags = torch.randn(3, 5, n_tags, dtype=torch.double), torch.randint(0, n_tags, (3, 5))
    mask = torch.arange(5) < torch.tensor(lengths)[:, None]
    rows = [part[n, :t].numpy() for part in (scores, tags) for n, t in enumerate(lengths)]
    params = torch.cat([layer.start, layer.transitions.flatten(), layer.end]).detach().numpy()
    exact = LinearChainCRF(rows[:3], rows[3:]).heldout_loss(params, np.arange(3)).sum()
    assert float(layer(scores, tags, mask).detach()) == pytest.approx(exact, rel=1e-12)


def test_training_learns(trained):
    losses = np.array(trained.history)
    assert losses.shape == (3, 2)
    assert (np.diff(losses[:, 0]) < 0).all()


def test_padding_and_batches_change_no_score(text, trained):
    together = score(trained, text.test)
    for n in (0, 7):
        alone = score(trained, text.test.take([n]))[0]
        assert alone == pytest.approx(together[n], abs=1e-5)


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
