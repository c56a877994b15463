"""A linear-chain conditional random field over features of tokens, as crfsuite has it.

    log p(z | x) = sum_t sum_a x[t, a] states[a, z_t] + sum_t transitions[z_t, z_t+1] - log Z(x)

Source: Lafferty, McCallum and Pereira (2001); Okazaki (2007), CRFsuite.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ...checks import check_kind, real_array
from ...model import checked, own_copy
from ...weighting import sample_weights
from .attributes import Attributes, attributes, listed
from .paths import FeatureParams, joined
from .products import FeatureDerivatives
from .tagging import Tagging
from .tokens import Tokens


@dataclass(frozen=True, eq=False, repr=False)
class FeatureCRF(Tagging):
    """Fit weights of attributes x labels, and of transitions, by ridge-penalised likelihood.

    There is no Hessian matrix. A result of n folds has params (n, D): take thousands of folds in
    portions where D is large.

    Parameters
    ----------
    sentences : lists of tokens, each a dict {name: number, bool, string, dict or list} or a list of
        names, as sklearn-crfsuite takes them; or the `sentences` of another model.
    labels : lists of strings, a label for each token.
    ridge : F has sum(ridge params^2) / 2: twice crfsuite's c2. One number, or one a parameter (D,).
    scheme : as in `LinearChainCRF`: None for sentences as sites, `weighting.hide_labels` for tokens
    all_possible_states, all_possible_transitions : as in crfsuite, False: no weight for a pair that
        no sentence of a sample weight above 0 has.
    free : (D,) numbers of the weights that there are, in attributes x labels followed by labels x
        labels, in place of these two.
    sample_weight : as in `LinearChainCRF`, s >= 0 of each sentence, (N,) or one number.
    """

    sentences: Sequence[Any] | Attributes = field(repr=False)
    labels: Sequence[Sequence[str]] = field(repr=False)
    ridge: Any = 2.0
    scheme: Callable | None = None
    all_possible_states: bool = False
    all_possible_transitions: bool = False
    free: np.ndarray | None = field(default=None, repr=False)
    sample_weight: Any = field(default=1.0, repr=False)

    _derivatives = FeatureDerivatives

    def __post_init__(self):
        for name in ("all_possible_states", "all_possible_transitions"):
            check_kind(name, getattr(self, name), bool)
        given = self.sentences
        encoded = given if isinstance(given, Attributes) else attributes(given)
        object.__setattr__(self, "sentences", encoded)
        object.__setattr__(self, "labels", _labels(self.labels, np.diff(encoded.starts)))
        numbers = {label: k for k, label in enumerate(self.classes)}
        tags = np.array([numbers[label] for own in self.labels for label in own])
        object.__setattr__(self, "tokens", self._tokens(encoded, tags))
        free = self._seen() if self.free is None else _numbers(self.free, self.n_pairs)
        object.__setattr__(self, "free", own_copy(free, np.int64))
        self._settle()

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The K labels, in order."""
        return tuple(sorted(set().union(*self.labels)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes."""
        return self.sentences.names

    def _tokens(self, encoded, tags):
        no_offset = np.broadcast_to(0.0, (len(tags), len(self.classes)))
        return Tokens(encoded.matrix, tags, no_offset, encoded.starts)

    def _tokens_of(self, sentences):
        """The model's own tokens, or others', whose unknown attributes count for nothing."""
        if sentences is None:
            return self.tokens
        encoded = attributes(sentences, self.names)
        return self._tokens(encoded, np.zeros(encoded.starts[-1], int))

    def _seen(self):
        """The weights that crfsuite would have."""
        weights = sample_weights(self.sample_weight, len(self.labels), "sentence")
        present = np.flatnonzero(np.broadcast_to(weights, len(self.labels)) > 0.0)
        tokens = self.tokens.take(present)
        k = len(self.classes)
        n_states = k * len(self.names)
        states = np.arange(n_states)
        links = np.arange(k**2)
        if not self.all_possible_states:
            tag = np.repeat(tokens.tags, np.diff(tokens.matrix.indptr))
            states = np.unique(tokens.matrix.indices * np.int64(k) + tag)
        if not self.all_possible_transitions:
            before, after = tokens.moves
            links = np.unique(k * before + after)
        return np.concatenate([states, n_states + links])

    @checked
    def unpack(self, params: np.ndarray) -> FeatureParams:
        """Name the parts of params (D,)."""
        return self._parts(params)

    def pack(self, parts: FeatureParams) -> np.ndarray:
        """The params (D,) with these parts; ValueError for a weight that the model has not."""
        params = self.restrict(parts)
        if np.count_nonzero(params) < sum(np.count_nonzero(part) for part in parts):
            raise ValueError(
                "there are weights that are not free: build with all_possible_... =True"
            )
        return params

    def restrict(self, parts: FeatureParams) -> np.ndarray:
        """Those of all pairs that are free, (D,)."""
        return joined(*parts)[self.free]

    @checked
    def predict(
        self, params: np.ndarray, sentences: Sequence[Any] | None = None
    ) -> list[list[str]]:
        """The most probable labels of the model's own sentences, or of others."""
        best = self._best(self._tokens_of(sentences), params)
        return [[self.classes[k] for k in own] for own in best]

    @checked
    def marginals(
        self, params: np.ndarray, sentences: Sequence[Any] | None = None
    ) -> list[np.ndarray]:
        """P(z_t = k | x) (T_n, K) of each sentence, k in the order of `classes`."""
        return self._marginals(self._tokens_of(sentences), params)


def _labels(labels, lengths):
    """Labels as tuples of strings, one for each token."""
    given = []
    for n, own in enumerate(listed("labels", labels, "lists of strings")):
        given.append(tuple(listed(f"labels of sentence {n}", own, "strings")))
        for t, label in enumerate(given[n]):
            if not isinstance(label, str):
                raise ValueError(f"sentence {n}, token {t}: label {label!r:.60} is not a string")
    if len(given) != len(lengths):
        raise ValueError(f"{len(lengths)} sentences, but labels of {len(given)}: give as many")
    wrong = np.flatnonzero(lengths != [len(own) for own in given])
    if wrong.size:
        n = wrong[0]
        raise ValueError(f"sentence {n} has {lengths[n]} tokens, but {len(given[n])} labels")
    return tuple(given)


def _numbers(free, n_pairs):
    numbers = real_array("free", free, 1)
    whole = numbers.size and (numbers % 1 == 0).all() and (np.diff(numbers) > 0).all()
    if not whole or numbers[0] < 0 or numbers[-1] >= n_pairs:
        raise ValueError(f"free must be rising whole numbers from 0 to {n_pairs - 1}, one or more")
    return numbers
