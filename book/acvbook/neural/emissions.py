"""From a trained network to arrays: emission scores, computed once and kept outside git."""

import io
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from ..whole import write
from .batches import in_order, make_batch, one_torch_thread
from .training import run_key, train

SPLITS = ("train", "valid", "test")


class Emissions(NamedTuple):
    """Scores of K tags by split, a list of (T_n, K) float64 each; tags likewise, (T_n,) int.

    crf (2 K + K^2,): the network's own CRF layer: start, transitions, end. history:
    losses by epoch, (epochs, 2).
    """

    scores: dict
    tags: dict
    crf: np.ndarray
    history: np.ndarray


def encoded(text, training, folder=None):
    """The `Emissions` of a `TaggedText`: from `folder` where they are, else from a network trained.

    folder: by default one for these data and settings in `cache_folder()`. Dropout is off.
    """
    key = run_key(text, training)
    folder = cache_folder() / key[:16] if folder is None else Path(folder)
    path = folder / "emissions.npz"
    if not (path.is_file() and _key(path) == key):
        _save(path, train(text, training), text, key)
    with np.load(path) as arrays:
        scores = {split: _split(arrays[split], getattr(text, split).words) for split in SPLITS}
        numbers = {tag: number for number, tag in enumerate(text.tags)}
        tags = {
            split: [np.array([numbers[t] for t in s]) for s in getattr(text, split).tags]
            for split in SPLITS
        }
        return Emissions(scores, tags, arrays["crf"], arrays["history"])


def cache_folder():
    """`build/encoders` of a checkout, which git ignores; else in the user's cache directory."""
    checkout = Path(__file__).parents[3]
    if (checkout / "pyproject.toml").is_file():
        return checkout / "build" / "encoders"
    import pooch

    return Path(pooch.os_cache("acvlib")) / "encoders"


def _key(path):
    with np.load(path) as arrays:
        return str(arrays["key"])


def _split(flat, sentences):
    return np.split(flat, np.cumsum([len(sentence) for sentence in sentences])[:-1])


def _save(path, trained, text, key):
    scores = {split: np.concatenate(score(trained, getattr(text, split))) for split in SPLITS}
    layer = trained.network.crf
    crf = torch.cat([layer.start, layer.transitions.flatten(), layer.end]).detach().numpy()
    content = io.BytesIO()
    history = np.array(trained.history)
    np.savez(content, **scores, crf=crf.astype(float), history=history, key=key)
    write(path, content.getvalue())


@one_torch_thread.inside()
@torch.no_grad()
def score(trained, sentences):
    """Emission scores of sentences, a list of (T_n, K) float64."""
    data = trained.vocabulary.encode(sentences)
    scores = [None] * len(sentences.words)
    for numbers in in_order(np.array([len(sentence) for sentence in sentences.words])):
        batch = make_batch(data, numbers)
        for n, rows, length in zip(
            numbers, trained.network.emissions(batch), batch.lengths, strict=True
        ):
            scores[n] = rows[:length].numpy().astype(float)
    return scores
