"""Training a `BiLSTMCRF`: Adam on small batches, early stopping by the validation loss,
resumable at every epoch.
"""

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from acvlib.parallel import track

from . import checkpoint
from .batches import in_order, make_batch, one_torch_thread, shuffled
from .bilstm_crf import BiLSTMCRF, Sizes
from .glove import embedding
from .vocabulary import Vocabulary, check_trainable, normalised


class Training(NamedTuple):
    """How to train. The paper: Adam, batches of 31 and early stopping;
    the other numbers are not given there.

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
    """network: at its best validation loss; vocabulary; history:
    (training loss, validation loss) of each epoch.
    """

    network: BiLSTMCRF
    vocabulary: Vocabulary
    history: tuple


def run_key(text, training, vectors):
    """What a checkpoint belongs to: the data, the settings and the word vectors, as a sha256."""
    sizes = [len(split.words) for split in (text.train, text.valid, text.test)]
    known = sorted(vectors or ())
    content = repr((text.name, text.sha256, sizes, training, known)).encode()
    digest = hashlib.sha256(content)
    for word in known:
        digest.update(vectors[word].tobytes())
    return digest.hexdigest()


@one_torch_thread
def train(text, training, folder, vectors=None):
    """A `Trained` network of the training and validation sentences of a `TaggedText`.

    folder: holds the checkpoint, written after every epoch; a later call with the same arguments
    goes on from it and ends where an uninterrupted one would have. vectors: word → array, or None
    to learn embeddings. Raises CheckpointCorrupt and UnseenTag; ValueError for empty sentences (by
    `TaggedText`).
    """
    check_trainable(text.train, text.tags)
    vectors = {normalised(word): vector for word, vector in (vectors or {}).items()}
    vocabulary = Vocabulary.of(text.train, text.tags, vectors)
    run = _Run(text, training, vocabulary, vectors, Path(folder) / "checkpoint.pt")
    remaining = range(run.state["epoch"], training.epochs)
    for epoch in track(remaining, "epochs"):
        if run.state["since_best"] >= training.patience:
            break
        run.epoch(epoch)
    run.network.load_state_dict(run.state["best"])
    return Trained(run.network.eval(), vocabulary, tuple(map(tuple, run.state["history"])))


class _Run:
    """Network, optimiser and what a checkpoint holds."""

    def __init__(self, text, training, vocabulary, vectors, path):
        self.training, self.path, self.key = training, path, run_key(text, training, vectors)
        self.data = {split: vocabulary.encode(getattr(text, split)) for split in ("train", "valid")}
        self.lengths = {
            split: np.array([len(tags) for tags in data[2]]) for split, data in self.data.items()
        }
        self.network = new_network(vocabulary, training, vectors)
        self.optimiser = torch.optim.Adam(self.network.parameters(), training.learning_rate)
        self.state = checkpoint.load(path, self.key) or self._first_state()
        self.network.load_state_dict(self.state["network"])
        if self.state["optimiser"]:
            self.optimiser.load_state_dict(self.state["optimiser"])

    def _first_state(self):
        start = {
            "epoch": 0,
            "history": [],
            "best_loss": float("inf"),
            "since_best": 0,
            "optimiser": None,
        }
        weights = self.network.state_dict()
        return start | {"key": self.key, "network": weights, "best": weights}

    def epoch(self, number):
        """One pass over the training sentences, then the validation loss;
        both seeded by the epoch's number.
        """
        torch.manual_seed(hash((self.training.seed, number)) % 2**32)
        rng = np.random.default_rng([self.training.seed, number])
        batches = shuffled(self.lengths["train"], self.training.batch, rng)
        self.network.train()
        loss = sum(self._step(numbers) for numbers in track(batches, f"epoch {number + 1}"))
        losses = [loss / len(self.lengths["train"]), self._validation_loss()]
        self._keep(number, losses)

    def _step(self, numbers):
        loss = self.network(make_batch(self.data["train"], numbers))
        self.optimiser.zero_grad()
        (loss / len(numbers)).backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.training.clip)
        self.optimiser.step()
        return float(loss.detach())

    @torch.no_grad()
    def _validation_loss(self):
        self.network.eval()
        batches = in_order(self.lengths["valid"])
        return sum(float(self.network(make_batch(self.data["valid"], b))) for b in batches) / len(
            self.lengths["valid"]
        )

    def _keep(self, number, losses):
        better = losses[1] < self.state["best_loss"]
        weights = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}
        self.state |= {
            "epoch": number + 1,
            "history": [*self.state["history"], losses],
            "network": weights,
        }
        self.state |= {"optimiser": self.optimiser.state_dict()}
        self.state |= {"since_best": 0 if better else self.state["since_best"] + 1}
        if better:
            self.state |= {"best": weights, "best_loss": losses[1]}
        checkpoint.save(self.path, self.state)


def new_network(vocabulary, training, vectors=None):
    """A `BiLSTMCRF` with weights drawn by the training's seed."""
    torch.manual_seed(training.seed)
    table = (
        embedding(vocabulary, vectors, np.random.default_rng(training.seed)) if vectors else None
    )
    n_words, n_characters = 2 + len(vocabulary.words), 2 + len(vocabulary.characters)
    network = BiLSTMCRF(n_words, n_characters, len(vocabulary.tags), training.sizes, table)
    network.rare[list(vocabulary.singletons)] = True
    return network
