"""Tokens of labelled sentences, end to end, and the sentences that folds touch."""

from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ...folds import Folds
from ...weighting import hide_labels


def starts_of(lengths: Any) -> np.ndarray:
    """Where each of the sequences put end to end begins, and their end, (N + 1,)."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=int)])


def portions(sizes: np.ndarray, limit: int) -> list[slice]:
    """Slices of consecutive items, each of about `limit` in the sum of the items' sizes."""
    begins = np.cumsum(sizes) - sizes
    cuts = np.flatnonzero(np.diff(begins // limit)) + 1
    return [slice(a, b) for a, b in pairwise([0, *cuts, len(sizes)])]


class Tokens:
    """matrix (n_tokens, n_attributes), tags (n_tokens,), offset (n_tokens, K), starts (N + 1,).

    The score of a label is the weights of a token's attributes for it, and its offset. A matrix of
    a few columns may be an array, whose rows are taken faster.
    """

    def __init__(self, matrix: Any, tags: np.ndarray, offset: np.ndarray, starts: np.ndarray):
        self.matrix = matrix
        self.tags = tags
        self.offset = offset
        self.starts = starts
        self.lengths = np.diff(starts)

    def __len__(self) -> int:
        return len(self.tags)

    @property
    def n_labels(self) -> int:
        """K."""
        return self.offset.shape[1]

    @cached_property
    def transposed(self) -> csr_array:
        """The matrix (n_attributes, n_tokens)."""
        return csr_array(self.matrix.T)

    @cached_property
    def squared(self) -> csr_array:
        """The squares of `transposed`."""
        return self.transposed.power(2)

    @cached_property
    def links(self) -> np.ndarray:
        """The tokens that another one of their sentence follows."""
        followed = np.ones(len(self), bool)
        followed[self.starts[1:] - 1] = False
        return np.flatnonzero(followed)

    @cached_property
    def moves(self) -> tuple[np.ndarray, np.ndarray]:
        """The tags of `links` and of the tokens after them."""
        return self.tags[self.links], self.tags[self.links + 1]

    @cached_property
    def sentence_of(self) -> np.ndarray:
        """The sentence of each token, (n_tokens,)."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @cached_property
    def places(self) -> list[np.ndarray]:
        """The tokens at each place of a sentence, those of longer sentences first."""
        lengths = self.lengths[self.sentence_of]
        place = np.arange(len(self)) - self.starts[self.sentence_of]
        order = np.lexsort((-lengths, place))
        return np.split(order, np.cumsum(np.bincount(place))[:-1])

    def rows(self, sentences: np.ndarray) -> np.ndarray:
        """The numbers of the tokens of the sentences, one sentence after the other."""
        lengths = self.lengths[sentences]
        begins = np.cumsum(lengths) - lengths
        offsets = np.repeat(self.starts[sentences] - begins, lengths)
        return offsets + np.arange(len(offsets))

    def part(self, first: int, stop: int) -> "Tokens":
        """The tokens of the sentences first ... stop - 1."""
        rows = slice(self.starts[first], self.starts[stop])
        starts = self.starts[first : stop + 1] - self.starts[first]
        return Tokens(self.matrix[rows], self.tags[rows], self.offset[rows], starts)

    def take(self, sentences: np.ndarray) -> "Tokens":
        """The tokens of the numbered sentences, each as often as it is named."""
        rows = self.rows(sentences)
        starts = starts_of(self.lengths[sentences])
        return Tokens(self.matrix[rows], self.tags[rows], self.offset[rows], starts)


class Touched(NamedTuple):
    """The sentences that folds touch: of fold o those numbered bounds[o] ... bounds[o + 1] - 1.

    sentence (N,): which one each is. Where sites are tokens, known (n_tokens, K): the factors of
    their labels, 0 for one that is ruled out, and rows: where among them the omitted sites are.
    """

    sentence: np.ndarray
    bounds: np.ndarray
    known: np.ndarray | None = None
    rows: np.ndarray | None = None


def whole_sentences(folds: Folds) -> Touched:
    """Those of folds whose sites are sentences."""
    return Touched(np.concatenate(list(folds)), starts_of(folds.sizes))


def hidden_labels(tokens: Tokens, folds: Folds, weights: Any = 0.0) -> Touched:
    """Those of folds whose sites are labels of tokens, known with weights (n_omitted,)."""
    omitted = np.concatenate(list(folds))
    touched = tokens.sentence_of[omitted]
    fold = np.repeat(np.arange(len(folds)), folds.sizes)
    n_sentences = len(tokens.lengths)
    pairs, place = np.unique(fold * n_sentences + touched, return_inverse=True)
    fold, sentence = np.divmod(pairs, n_sentences)
    begins = starts_of(tokens.lengths[sentence])
    rows = begins[place] + omitted - tokens.starts[touched]
    tags = tokens.tags[tokens.rows(sentence)]
    label = np.ones(len(tags))
    label[rows] = weights
    bounds = np.searchsorted(fold, np.arange(len(folds) + 1))
    return Touched(sentence, bounds, hide_labels(label, tags, tokens.n_labels), rows)
