"""CoNLL-2003 named entities in newswire.

Its text is not open: nothing of it may be shown or kept in git.
"""

from __future__ import annotations

import gzip

import numpy as np

from . import registry
from .tagged import TaggedText, read_columns, simulated_text

SIZES = (14_987, 3_466, 3_684)  # sentences of train, valid and test, -DOCSTART- lines counted


def load_conll2003() -> TaggedText:
    """The shared task's English set, its IOB1 tags in IOB2: 9 tags.

    -DOCSTART- lines count as sentences, as in Ghosh et al. (2020): 14,987, 3,466 and 3,684 of them.
    Raises DataNotFound or DataCorrupt. Source: Tjong Kim Sang and De Meulder (2003).
    """
    splits = [_read(split) for split in ("train", "valid", "test")]
    sha256 = registry.get("conll2003").files["train.txt.gz"]
    return TaggedText("conll2003", *splits, "real", sha256, shareable=False)


def simulate_conll2003(rng: np.random.Generator) -> TaggedText:
    """A stand-in of the same sizes, mean length and share of entities, in made-up words."""
    return simulated_text("conll2003", rng, SIZES, mean_length=13.6, entity_rate=0.125)


def _read(split):
    with gzip.open(registry.find("conll2003", f"{split}.txt.gz"), "rt", encoding="ascii") as lines:
        return read_columns(lines)
