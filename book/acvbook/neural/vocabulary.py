"""Words, characters and tags as integers. 0 is padding and 1 unknown,
for words and characters alike.
"""

from collections import Counter
from typing import NamedTuple

import numpy as np

PADDING, UNKNOWN = 0, 1
LONGEST_WORD = 24  # characters that the character network reads


class UnseenTag(ValueError):
    """A tag that the training sentences do not have: nothing can be learned about it."""


def normalised(word):
    """Lower case, every digit a 0: capitals and digits reach the network by the characters."""
    return "".join("0" if character.isdigit() else character for character in word.lower())


class Vocabulary(NamedTuple):
    """words, characters, tags: dicts to integers; singletons:
    numbers of words that occur once in training.
    """

    words: dict
    characters: dict
    tags: dict
    singletons: frozenset

    @classmethod
    def of(cls, sentences, tags, vectors=()):
        """That of the training sentences, and of the words that come with vectors; `tags`:
        all tags, in order.
        """
        counts = Counter(normalised(word) for sentence in sentences.words for word in sentence)
        words = {
            word: 2 + i
            for i, word in enumerate([*counts, *(word for word in vectors if word not in counts)])
        }
        letters = sorted(
            {letter for sentence in sentences.words for word in sentence for letter in word}
        )
        once = frozenset(
            words[word] for word, count in counts.items() if count == 1 and word not in vectors
        )
        vocabulary = cls(
            words,
            {c: 2 + i for i, c in enumerate(letters)},
            {tag: i for i, tag in enumerate(tags)},
            once,
        )
        vocabulary.check_tags(sentences)
        return vocabulary

    def check_tags(self, sentences):
        """Raises UnseenTag, with the tags, where sentences have tags that are not in the
        vocabulary.
        """
        unseen = {tag for sentence in sentences.tags for tag in sentence} - set(self.tags)
        if unseen:
            unknown = f"tags {sorted(unseen)} are not among {list(self.tags)}"
            raise UnseenTag(f"{unknown}: map them, or leave them out")

    def encode(self, sentences):
        """(word numbers, character numbers (T, LONGEST_WORD), tag numbers) of each sentence,
        three lists of arrays.
        """
        self.check_tags(sentences)
        words = [
            np.array([self.words.get(normalised(w), UNKNOWN) for w in sentence])
            for sentence in sentences.words
        ]
        characters = [
            np.array([self._spelling(word) for word in sentence]) for sentence in sentences.words
        ]
        return (
            words,
            characters,
            [np.array([self.tags[tag] for tag in sentence]) for sentence in sentences.tags],
        )

    def _spelling(self, word):
        letters = [self.characters.get(character, UNKNOWN) for character in word[:LONGEST_WORD]]
        return letters + [PADDING] * (LONGEST_WORD - len(letters))


def check_trainable(sentences, tags):
    """Raises UnseenTag for a tag that has no example in the training sentences."""
    missing = set(tags) - {tag for sentence in sentences.tags for tag in sentence}
    if missing:
        raise UnseenTag(
            f"tags {sorted(missing)} never occur in training: "
            "take them out of `tags`, or add sentences"
        )
