"""Words, characters and tags as integers. 0 is padding and 1 unknown, for words and characters."""

from collections import Counter
from typing import NamedTuple

import numpy as np

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
