"""Training a `BiLSTMCRF`: Adam on small batches, early stopping by the validation loss."""

from typing import NamedTuple

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
