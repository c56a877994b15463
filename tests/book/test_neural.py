"""The network: its CRF layer against the exact one, training that resumes,
checkpoints, word vectors.
"""

import subprocess
import sys

import numpy as np
import pytest
from acvbook.datasets import Sentences
from acvbook.datasets.tagged import simulated_text

from acvlib.models import LinearChainCRF

torch = pytest.importorskip("torch")
neural = pytest.importorskip("acvbook.neural")

from acvbook.neural import checkpoint  # noqa: E402
from acvbook.neural.batches import in_order, make_batch, one_torch_thread, shuffled  # noqa: E402
from acvbook.neural.crf_layer import CRFLayer  # noqa: E402
from acvbook.neural.emissions import score  # noqa: E402
from acvbook.neural.glove import embedding  # noqa: E402
from acvbook.neural.training import Training, train  # noqa: E402
from acvbook.neural.vocabulary import LONGEST_WORD, UNKNOWN, UnseenTag, Vocabulary  # noqa: E402

TINY = Training(
    neural.Sizes(word=6, character=4, filters=4, hidden=5, layers=2), epochs=3, learning_rate=0.01
)


@pytest.fixture(scope="module")
def text():
    torch.set_num_threads(1)
    return simulated_text("simulated", np.random.default_rng(0), (150, 30, 30), 10.0, 0.2)


@pytest.fixture(scope="module")
def trained(text, tmp_path_factory):
    return train(text, TINY, tmp_path_factory.mktemp("whole"))


def weights(trained):
    return {name: tensor.numpy() for name, tensor in trained.network.state_dict().items()}


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


def test_interrupted_training_ends_where_the_whole_one_does(text, trained, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(
            "acvbook.neural.training.track",
            lambda epochs, label: list(epochs)[:1] if label == "epochs" else epochs,
        )
        train(text, TINY, tmp_path)
    resumed = train(text, TINY, tmp_path)
    assert resumed.history == trained.history
    for name, expected in weights(trained).items():
        np.testing.assert_array_equal(weights(resumed)[name], expected)


def test_kept_weights_are_those_of_the_best_validation_loss(text, trained):
    data = trained.vocabulary.encode(text.valid)
    batches = in_order(np.array([len(tags) for tags in data[2]]))
    with torch.no_grad():
        loss = sum(float(trained.network(make_batch(data, b))) for b in batches) / len(
            text.valid.words
        )
    assert loss == pytest.approx(min(valid for _, valid in trained.history), rel=1e-5)


def test_early_stopping(text, tmp_path):
    never_better = TINY._replace(learning_rate=0.0, epochs=9, patience=2)
    assert len(train(text, never_better, tmp_path).history) == 3


def test_padding_and_batches_change_no_score(text, trained):
    together = score(trained, text.test)
    for n in (0, 7):
        alone = score(trained, text.test.take([n]))[0]
        assert alone == pytest.approx(together[n], abs=1e-5)


def test_corrupt_and_foreign_checkpoints_are_named(text, tmp_path):
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(path, {"key": "mine", "value": torch.ones(3)})
    assert checkpoint.load(path, "mine")["value"].sum() == 3
    with pytest.raises(neural.CheckpointCorrupt, match="other data or settings"):
        checkpoint.load(path, "another")
    for damaged in (path.read_bytes()[:-5], b"", b"x" + path.read_bytes()):
        path.write_bytes(damaged)
        with pytest.raises(neural.CheckpointCorrupt, match="delete it, and training starts anew"):
            train(text, TINY, tmp_path)
    assert checkpoint.load(tmp_path / "none.pt", "mine") is None


def test_unseen_tags_are_named(text):
    vocabulary = Vocabulary.of(text.train, text.tags)
    with pytest.raises(UnseenTag, match=r"\['B-GOD'\] are not among"):
        vocabulary.encode(Sentences((("Zeus",),), (("B-GOD",),)))
    lonely = Sentences((("a",),), (("O",),))
    with pytest.raises(UnseenTag, match="never occur in training"):
        train(type(text)("x", lonely, lonely, lonely, "simulated", "", True), TINY, "unused")


def test_words_are_normalised_and_unknown_ones_marked(text):
    vocabulary = Vocabulary.of(Sentences((("In", "1999", "in"),), (("O",) * 3,)), ("O",))
    assert set(vocabulary.words) == {"in", "0000"}
    words, characters, _ = vocabulary.encode(
        Sentences((("IN", "2024", "new" * 20),), (("O",) * 3,))
    )
    assert words[0][1] == vocabulary.words["0000"]
    assert words[0][2] == UNKNOWN
    assert characters[0].shape == (3, LONGEST_WORD)


def test_every_sentence_is_in_one_batch_sorted_by_length():
    lengths = np.random.default_rng(0).integers(1, 30, 200)
    batches = shuffled(lengths, 31, np.random.default_rng(1))
    assert sorted(np.concatenate(batches)) == list(range(200))
    assert all((np.diff(lengths[batch]) <= 0).all() for batch in batches)


def test_emissions_are_kept_and_reused(text, tmp_path, monkeypatch):
    first = neural.encoded(text, TINY, folder=tmp_path)
    monkeypatch.setattr("acvbook.neural.emissions.train", None)  # calling it again would fail
    again = neural.encoded(text, TINY, folder=tmp_path)
    assert [len(s) for s in first.scores["train"]] == [len(words) for words in text.train.words]
    for a, b in zip(first.scores["test"], again.scores["test"], strict=True):
        np.testing.assert_array_equal(a, b)
    assert first.crf.shape == (99,)
    LinearChainCRF(first.scores["valid"], first.tags["valid"])


def test_word_vectors(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("the 1 2\n. . . 3 4\nhouse 5 6\n", encoding="utf-8")
    vectors = neural.read_word_vectors(path)
    assert {word: list(v) for word, v in vectors.items()} == {
        "the": [1, 2],
        ". . .": [3, 4],
        "house": [5, 6],
    }
    assert set(neural.read_word_vectors(path, {"house"})) == {"house"}
    vocabulary = Vocabulary.of(Sentences((("The", "cat"),), (("O", "O"),)), ("O",), vectors)
    table = embedding(vocabulary, vectors, np.random.default_rng(0))
    assert list(table[vocabulary.words["the"]]) == [1, 2]
    assert table.shape == (2 + len(vocabulary.words), 2)


@pytest.mark.parametrize("line", ["cat 1", "cat 1 x", "cat 1 nan"])
def test_bad_word_vectors_are_named(tmp_path, line):
    path = tmp_path / "vectors.txt"
    path.write_text(f"2 2\nthe 1 2\n{line}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 3"):
        neural.read_word_vectors(path)


def test_training_starts_from_word_vectors(text, tmp_path):
    vectors = {word: np.full(6, 0.5, np.float32) for word in text.train.words[0]}
    trained = train(text, TINY._replace(epochs=1, learning_rate=0.0), tmp_path, vectors)
    number = trained.vocabulary.words[text.train.words[0][0].lower()]
    assert (weights(trained)["words.weight"][number] == 0.5).all()


def test_without_torch_the_rest_works():
    code = (
        "import sys; sys.modules['torch'] = None; import acvlib.models\n"
        "import acvbook.datasets; acvbook.datasets.TaggedText\n"
        "try:\n    import acvbook.neural\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install torch" in done.stdout


def test_the_limit_on_torch_threads_is_lifted_by_the_last_who_leaves():
    """Two who overlap: the first to leave does not lift it."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        one_torch_thread.__enter__()
        one_torch_thread.__enter__()
        one_torch_thread.__exit__()
        assert torch.get_num_threads() == 1
        one_torch_thread.__exit__()
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
