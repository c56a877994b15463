"""WNUT 2017 emerging entities (CC BY 4.0), its six types merged to CoNLL's four."""

from __future__ import annotations

import numpy as np

from . import registry
from .tagged import Sentences, TaggedText, read_columns, simulated_text

SIZES = (3_394, 1_009, 1_287)
MERGED = {"person": "PER", "location": "LOC", "group": "ORG", "corporation": "ORG"}
MERGED |= {"product": "MISC", "creative-work": "MISC"}


def load_wnut17() -> TaggedText:
    """The shared task's set with 9 tags: group and corporation are ORG,
    product and creative-work MISC.

    3,394, 1,009 and 1,287 sentences. Raises DataNotFound or DataCorrupt. Source: Derczynski,
    Nichols, van Erp and Limsopatham (2017).
    """
    splits = [_read(f"{split}.conll") for split in ("train", "dev", "test")]
    sha256 = registry.get("wnut17").files["train.conll"]
    return TaggedText("wnut17", *splits, "real", sha256, shareable=True)


def simulate_wnut17(rng: np.random.Generator) -> TaggedText:
    """A stand-in of the same sizes, mean length and share of entities, in made-up words."""
    return simulated_text("wnut17", rng, SIZES, mean_length=17.9, entity_rate=0.034, shape=6)


def merge(tag: str) -> str:
    """A tag with one of the six types as one with one of the four."""
    prefix, dash, kind = tag.partition("-")
    return f"{prefix}-{MERGED[kind]}" if dash else tag


def _read(file):
    with registry.find("wnut17", file).open(encoding="utf-8", newline="\n") as lines:
        six = read_columns(lines, separator="\t")
    return Sentences(
        six.words, tuple(tuple(merge(tag) for tag in sentence) for sentence in six.tags)
    )
