"""Training a `BiLSTMCRF`: Adam, early stopping by the validation loss; and its emission scores,
computed once and kept outside git.
"""

from pathlib import Path
from typing import NamedTuple

import joblib
import numpy as np
import torch

from acvlib.parallel import track

from .batches import Vocabulary, in_order, make_batch, one_torch_thread, shuffled
from .bilstm_crf import BiLSTMCRF, Sizes


class Training(NamedTuple):
    """The paper: Adam, batches of 31 and early stopping; the other numbers are not given there.

    epochs: at most; patience: epochs without a better validation loss before it stops; clip:
    largest norm of a batch's gradient.
    """

    sizes: Sizes = Sizes()
    epochs: int = 60
    batch: int = 31
    learning_rate: float = 1e-3
    patience: int = 4
    clip: float = 5.0
    seed: int = 0


class Trained(NamedTuple):
    """network: at its best validation loss; history: (training, validation loss) by epoch."""

    network: BiLSTMCRF
    vocabulary: Vocabulary
    history: list


@one_torch_thread.inside()
def train(text, training):
    """A `Trained` network of the training and validation sentences of a `TaggedText`."""
    vocabulary = Vocabulary.of(text.train, text.tags)
    data = {split: vocabulary.encode(getattr(text, split)) for split in ("train", "valid")}
    network = new_network(vocabulary, training)
    optimiser = torch.optim.Adam(network.parameters(), training.learning_rate)
    history, best, best_epoch = [], network.state_dict(), -1
    for epoch in track(range(training.epochs), "epochs"):
        if epoch - 1 - best_epoch >= training.patience:
            break
        losses = _epoch(network, optimiser, training, data, epoch)
        if losses[1] < min((valid for _, valid in history), default=np.inf):
            best = {name: tensor.clone() for name, tensor in network.state_dict().items()}
            best_epoch = epoch
        history.append(losses)
    network.load_state_dict(best)
    return Trained(network.eval(), vocabulary, history)


def _epoch(network, optimiser, training, data, number):
    """Losses of one pass over the training sentences, and of the validation sentences after it.

    Both are seeded by the epoch's number.
    """
    torch.manual_seed(hash((training.seed, number)) % 2**32)
    rng = np.random.default_rng([training.seed, number])
    lengths = {split: np.array([len(tags) for tags in part[2]]) for split, part in data.items()}
    network.train()
    total = 0.0
    for numbers in track(shuffled(lengths["train"], training.batch, rng), f"epoch {number + 1}"):
        loss = network(make_batch(data["train"], numbers))
        optimiser.zero_grad()
        (loss / len(numbers)).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), training.clip)
        optimiser.step()
        total += float(loss.detach())
    network.eval()
    with torch.no_grad():
        batches = [make_batch(data["valid"], part) for part in in_order(lengths["valid"])]
        valid = sum(float(network(batch)) for batch in batches)
    return total / len(lengths["train"]), valid / len(lengths["valid"])


def new_network(vocabulary, training):
    """A `BiLSTMCRF` with weights drawn by the training's seed."""
    torch.manual_seed(training.seed)
    n_words, n_characters = 2 + len(vocabulary.words), 2 + len(vocabulary.characters)
    network = BiLSTMCRF(n_words, n_characters, len(vocabulary.tags), training.sizes)
    network.rare[list(vocabulary.singletons)] = True
    return network


SPLITS = ("train", "valid", "test")
CHECKOUT = Path(__file__).parents[3]


class Emissions(NamedTuple):
    """Scores of K tags by split, a list of (T_n, K) float64 each; tags likewise, (T_n,) int.

    crf (2 K + K^2,): the network's own CRF layer: start, transitions, end.
    """

    scores: dict
    tags: dict
    crf: np.ndarray


def encoded(text, training, folder=CHECKOUT / "build" / "encoders"):
    """The `Emissions` of a `TaggedText`: from `folder` where they are, else from a network trained.

    What is kept depends on the data's checksum, their sizes and the settings.
    """
    data = text.name, text.sha256, [len(getattr(text, split).words) for split in SPLITS]
    kept = joblib.Memory(folder, verbose=0).cache(_encoded, ignore=["text"])
    return kept(text, data, training)


def _encoded(text, data, training):
    trained, numbers = train(text, training), {tag: n for n, tag in enumerate(text.tags)}
    layer = trained.network.crf
    crf = torch.cat([layer.start, layer.transitions.flatten(), layer.end]).detach().numpy()
    parts = {split: getattr(text, split) for split in SPLITS}
    return Emissions(
        {split: score(trained, part) for split, part in parts.items()},
        {
            split: [np.array([numbers[tag] for tag in tags]) for tags in part.tags]
            for split, part in parts.items()
        },
        crf.astype(float),
    )


@one_torch_thread.inside()
@torch.no_grad()
def score(trained, sentences):
    """Emission scores of sentences, a list of (T_n, K) float64."""
    data = trained.vocabulary.encode(sentences)
    scores = [None] * len(sentences.words)
    for numbers in in_order(np.array([len(sentence) for sentence in sentences.words])):
        batch = make_batch(data, numbers)
        rows = trained.network.emissions(batch).numpy().astype(float)
        for n, own, length in zip(numbers, rows, batch.lengths, strict=True):
            scores[n] = own[:length]
    return scores
