"""Word vectors from a text file: a word and its numbers on each line,
as GloVe and word2vec have it.
"""

from pathlib import Path

import numpy as np


def read_word_vectors(path, words=None):
    """Word → vector (float32), for all words of the file or only the given ones.

    A first line of two whole numbers, as in word2vec's files, is skipped. Raises ValueError, with
    the line's number, where vectors differ in length or hold what is no number.
    """
    vectors, size = {}, None
    with Path(path).open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            parts = line.rstrip("\n").split(" ")
            if number == 1 and len(parts) == 2:
                continue
            size = size or len(parts) - 1
            word = " ".join(parts[:-size])  # some of GloVe's words have spaces inside
            if words is None or word in words:
                vectors[word] = _vector(parts[-size:], size, f"{path}, line {number}")
    return vectors


def _vector(numbers, size, where):
    try:
        vector = np.array(numbers, np.float32)
    except ValueError:
        raise ValueError(
            f"{where}: not a word and {size} numbers, as the first line has it"
        ) from None
    if len(vector) != size or not np.isfinite(vector).all():
        raise ValueError(
            f"{where}: {np.isfinite(vector).sum()} finite numbers, not {size} as on the first line"
        )
    return vector


def embedding(vocabulary, vectors, rng):
    """Initial embeddings (n_words, size): the vectors, where there are some,
    scaled noise for other words.
    """
    size = len(next(iter(vectors.values())))
    spread = np.std(list(vectors.values()))
    table = rng.normal(0.0, spread, (2 + len(vocabulary.words), size)).astype(np.float32)
    for word, number in vocabulary.words.items():
        if word in vectors:
            table[number] = vectors[word]
    return table
