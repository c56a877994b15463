"""Sentences as numbers, and as padded tensors. Of words and characters 0 is padding, 1 unknown."""

from collections import Counter
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from acvlib.parallel import OneThread

PADDING, UNKNOWN = 0, 1
LONGEST_WORD = 24  # characters that the character network reads


def normalised(word):
    """Lower case, every digit a 0: capitals and digits reach the network by the characters."""
    return "".join("0" if character.isdigit() else character for character in word.lower())


class Vocabulary(NamedTuple):
    """words, characters, tags: dicts to integers; singletons: numbers of words that occur once."""

    words: dict
    characters: dict
    tags: dict
    singletons: frozenset

    @classmethod
    def of(cls, sentences, tags):
        """That of the training sentences; `tags`: all tags, in order."""
        counts = Counter(normalised(word) for sentence in sentences.words for word in sentence)
        words = {word: 2 + i for i, word in enumerate(counts)}
        letters = {letter for sentence in sentences.words for word in sentence for letter in word}
        return cls(
            words,
            {letter: 2 + i for i, letter in enumerate(sorted(letters))},
            {tag: i for i, tag in enumerate(tags)},
            frozenset(words[word] for word, count in counts.items() if count == 1),
        )

    def encode(self, sentences):
        """Numbers of words, characters (T, LONGEST_WORD) and tags: three lists, by sentence."""
        words = [[self.words.get(normalised(w), UNKNOWN) for w in own] for own in sentences.words]
        characters = [[self._spelling(word) for word in own] for own in sentences.words]
        tags = [[self.tags[tag] for tag in own] for own in sentences.tags]
        return [[np.array(part) for part in parts] for parts in (words, characters, tags)]

    def _spelling(self, word):
        letters = [self.characters.get(character, UNKNOWN) for character in word[:LONGEST_WORD]]
        return letters + [PADDING] * (LONGEST_WORD - len(letters))


BUCKET = 20  # batches that are sorted by length together, so that little padding is needed


class Batch(NamedTuple):
    """words, tags (B, T) long; characters (B, T, L); mask (B, T) bool; lengths (B,), falling."""

    words: torch.Tensor
    characters: torch.Tensor
    tags: torch.Tensor
    mask: torch.Tensor
    lengths: torch.Tensor


def make_batch(encoded, numbers):
    """The sentences of these numbers, which must be in the order of falling length."""
    words, characters, tags = ([part[n] for n in numbers] for part in encoded)
    lengths = torch.tensor([len(sentence) for sentence in words])
    shape = len(words), int(lengths[0])
    padded = [
        np.full(shape, PADDING),
        np.full((*shape, LONGEST_WORD), PADDING),
        np.zeros(shape, int),
    ]
    for row, parts in enumerate(zip(words, characters, tags, strict=True)):
        for whole, part in zip(padded, parts, strict=True):
            whole[row, : len(part)] = part
    used = (
        3 + np.flatnonzero((padded[1] != PADDING).any(axis=(0, 1)))[-1]
    )  # the network sees padding behind each word
    padded[1] = padded[1][..., : used + 1]
    mask = torch.arange(shape[1]) < lengths[:, None]
    return Batch(*map(torch.from_numpy, padded), mask, lengths)


def shuffled(lengths, size, rng):
    """Arrays of sentence numbers: random batches of similar length, each by falling length."""
    order, span = rng.permutation(len(lengths)), size * BUCKET
    batches = []
    for start in range(0, len(order), span):
        bucket = order[start : start + span]
        bucket = bucket[np.argsort(-lengths[bucket], kind="stable")]
        batches += [bucket[i : i + size] for i in range(0, len(bucket), size)]
    return [batches[i] for i in rng.permutation(len(batches))]


def in_order(lengths, size=256):
    """All sentences, longest first, for evaluation."""
    order = np.argsort(-lengths, kind="stable")
    return [order[i : i + size] for i in range(0, len(order), size)]


def _limit_torch():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    return partial(torch.set_num_threads, before)


# A batch is too small to share, and threads would wait longer than they work.
one_torch_thread = OneThread(torch.get_num_threads, _limit_torch)
