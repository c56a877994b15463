"""Tagged sentences: two named-entity sets, their files and stand-ins.

The text of CoNLL-2003 is not open: nothing of it may be shown or kept in git. WNUT 2017 is open
(CC BY 4.0).
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from . import registry

DOCSTART = "-DOCSTART-"
TYPES = ("PER", "LOC", "ORG", "MISC")
TAGS = ("O", *(f"{prefix}-{kind}" for kind in TYPES for prefix in "BI"))  # 9 of them

MAX_LENGTH = 105  # of a simulated sentence
# For stand-ins: the shares of types among entities, and of entities of one, two, ... words.
_TYPE_SHARE = np.array([0.29, 0.30, 0.27, 0.14])
_ENTITY_LENGTH = np.array([0.62, 0.29, 0.07, 0.02])
_SYLLABLES = ("ba", "ce", "di", "fo", "gu", "la", "me", "ni", "po", "ru", "sa", "te", "vi", "xo")
_SYLLABLES += ("zu", "kra", "sto")


class Sentences(NamedTuple):
    """Sentences as tuples: words[n][t] and IOB2 tags[n][t]."""

    words: tuple
    tags: tuple

    def take(self, numbers) -> Sentences:
        """These sentences, in this order."""
        return Sentences(
            tuple(self.words[n] for n in numbers), tuple(self.tags[n] for n in numbers)
        )


@dataclass(frozen=True, eq=False, repr=False)
class TaggedText:
    """Three splits of tagged sentences.

    shareable: whether the licence lets a reader be shown its words and tags. sha256: of the
    canonical training file, or of the simulated training words and tags. The repr has no text.
    """

    name: str
    train: Sentences
    valid: Sentences
    test: Sentences
    provenance: Literal["real", "simulated"]
    sha256: str
    shareable: bool
    tags: ClassVar[tuple] = TAGS

    def head(self, n_train: int, n_valid: int, n_test: int) -> TaggedText:
        """The first sentences of each split, with the provenance and sha256 of the whole."""
        sizes = {"train": n_train, "valid": n_valid, "test": n_test}
        parts = {split: getattr(self, split).take(range(n)) for split, n in sizes.items()}
        return replace(self, **parts)

    def __repr__(self) -> str:
        sizes = "/".join(f"{len(part.words):,}" for part in (self.train, self.valid, self.test))
        return f"TaggedText({self.name}: {sizes} sentences, {self.provenance})"


def read_columns(lines: Iterable[str], separator: str | None = None) -> Sentences:
    """Sentences from lines of columns, word first and tag last, with blank lines between sentences.

    Blank lines may repeat. A -DOCSTART- line is a sentence of its own, whether or not blank lines
    surround it, as the published sizes of CoNLL-2003 count it. Tags of either scheme become IOB2.
    """
    sentences = [list(zip(*pairs, strict=True)) for pairs in _groups(lines, separator)]
    return Sentences(
        tuple(words for words, _ in sentences), tuple(to_iob2(tags) for _, tags in sentences)
    )


def to_iob2(tags):
    """The tags of one sentence in IOB2, a tuple. There B-X begins an entity of type X and I-X goes
    on with it; in IOB1 B-X is only where an entity follows another of its type.
    """
    pairs = zip(("O", *tags[:-1]), tags, strict=True)
    return tuple(
        tag if tag == "O" or tag[2:] == before[2:] else f"B{tag[1:]}" for before, tag in pairs
    )


def _groups(lines, separator):
    """Lists of (word, tag): one a sentence, none empty."""
    sentence = []
    for line in lines:
        columns = line.rstrip("\r\n").split(separator)
        pair = (columns[0], columns[-1].strip()) if line.strip() else None
        if sentence and (pair is None or DOCSTART in (pair[0], sentence[-1][0])):
            yield sentence
            sentence = []
        if pair is not None:
            sentence.append(pair)
    if sentence:
        yield sentence


# stand-ins


def simulate_sentences(rng, n, mean_length, entity_rate, shape=1):
    """n sentences of made-up words: entities of a type draw from its vocabulary,
    other words from their own.

    Lengths less 1 are negative binomial of this shape, and lengths 105 at most. Names mostly begin
    with a capital, and a tenth of an entity's words are everyday ones, so that a tagger has
    something to learn and cannot learn all of it.
    """
    books = [
        ["".join(rng.choice(_SYLLABLES, rng.integers(1, 5))) for _ in range(size)]
        for size in (4000, 800, 400, 600, 300)  # the most frequent word first
    ]
    drawn = rng.negative_binomial(shape, shape / (shape + mean_length - 1.0), n)
    lengths = np.minimum(1 + drawn, MAX_LENGTH)
    pairs = [_sentence(rng, length, entity_rate, books) for length in lengths]
    return Sentences(tuple(words for words, _ in pairs), tuple(tags for _, tags in pairs))


def _draw(rng, book):
    """A word, by a law near Zipf's."""
    return book[int(len(book) ** rng.random()) - 1]


def _sentence(rng, length, entity_rate, books):
    words, tags = [], []
    while len(words) < length:
        if rng.random() >= entity_rate:
            words.append(_draw(rng, books[0]))
            tags.append("O")
            continue
        kind = rng.choice(4, p=_TYPE_SHARE)
        size = min(1 + rng.choice(4, p=_ENTITY_LENGTH), length - len(words))
        words += [_name(rng, books, kind) for _ in range(size)]
        tags += [f"{'I' if i else 'B'}-{TYPES[kind]}" for i in range(size)]
    return tuple(words), tuple(tags)


def _name(rng, books, kind):
    word = _draw(rng, books[0 if rng.random() < 0.1 else 1 + kind])
    return word.capitalize() if rng.random() < 0.9 else word


def sentences_sha256(sentences: Sentences) -> str:
    """The sha256 of words and tags, as lines of text."""
    pairs = zip(sentences.words, sentences.tags, strict=True)
    text = "\n\n".join("\n".join(f"{w}\t{t}" for w, t in zip(*pair, strict=True)) for pair in pairs)
    return hashlib.sha256(text.encode()).hexdigest()


def simulated_text(name, rng, sizes, mean_length, entity_rate, shape=1):
    """A `TaggedText` of three simulated splits that share their vocabularies."""
    everything = simulate_sentences(rng, sum(sizes), mean_length, entity_rate, shape)
    ends = np.cumsum((0, *sizes))
    splits = [
        everything.take(range(start, stop)) for start, stop in zip(ends[:-1], ends[1:], strict=True)
    ]
    return TaggedText(name, *splits, "simulated", sentences_sha256(splits[0]), shareable=True)


CONLL_SIZES = (14_987, 3_466, 3_684)  # sentences of train, valid and test, -DOCSTART- lines counted


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
    return simulated_text("conll2003", rng, CONLL_SIZES, mean_length=13.6, entity_rate=0.125)


def _read(split):
    with gzip.open(registry.find("conll2003", f"{split}.txt.gz"), "rt", encoding="ascii") as lines:
        return read_columns(lines)


WNUT_SIZES = (3_394, 1_009, 1_287)
MERGED = {"person": "PER", "location": "LOC", "group": "ORG", "corporation": "ORG"}
MERGED |= {"product": "MISC", "creative-work": "MISC"}


def load_wnut17() -> TaggedText:
    """The shared task's set with 9 tags: group and corporation are ORG,
    product and creative-work MISC.

    3,394, 1,009 and 1,287 sentences. Raises DataNotFound or DataCorrupt. Source: Derczynski,
    Nichols, van Erp and Limsopatham (2017).
    """
    splits = [_read_six(f"{split}.conll") for split in ("train", "dev", "test")]
    sha256 = registry.get("wnut17").files["train.conll"]
    return TaggedText("wnut17", *splits, "real", sha256, shareable=True)


def simulate_wnut17(rng: np.random.Generator) -> TaggedText:
    """A stand-in of the same sizes, mean length and share of entities, in made-up words."""
    return simulated_text("wnut17", rng, WNUT_SIZES, mean_length=17.9, entity_rate=0.034, shape=6)


def merge(tag: str) -> str:
    """A tag with one of the six types as one with one of the four."""
    prefix, dash, kind = tag.partition("-")
    return f"{prefix}-{MERGED[kind]}" if dash else tag


def _read_six(file):
    with registry.find("wnut17", file).open(encoding="utf-8", newline="\n") as lines:
        six = read_columns(lines, separator="\t")
    return Sentences(
        six.words, tuple(tuple(merge(tag) for tag in sentence) for sentence in six.tags)
    )
