"""From a trained network to arrays: emission scores, computed once and kept outside git."""

from pathlib import Path
from typing import NamedTuple

import joblib
import numpy as np
import torch

from .batches import in_order, make_batch, one_torch_thread
from .training import train

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
