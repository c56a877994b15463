"""A linear-chain conditional random field over features of tokens, as crfsuite has it.

    log p(z | x) = sum_t sum_a x[t, a] states[a, z_t] + sum_t transitions[z_t, z_t+1] - log Z(x)

Source: Lafferty, McCallum and Pereira (2001); Okazaki (2007), CRFsuite.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import autograd.numpy as anp
import numpy as np
from autograd.tracer import isbox
from scipy.sparse import csr_array

from ...checks import check_kind, real_array
from ...folds import Folds
from ...inference.smoothing import best_states
from ...protocol import ModelDefaults, checked, own_copy
from ...weighting import check, hide_labels
from .attributes import Attributes, Tokens, attributes, listed
from .by_place import log_partition, places, sparse_product
from .feature_derivatives import FeatureDerivatives, HiddenLabelDerivatives
from .paths import Paths
from .ridge import checked_ridge


class FeatureParams(NamedTuple):
    """states (n_attributes, K) and transitions (K, K): weights, 0 where the model has none."""

    states: np.ndarray
    transitions: np.ndarray


@dataclass(frozen=True, eq=False)
class FeatureCRF(ModelDefaults):
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
        all data never have.
    free : (D,) numbers of the weights that there are, in attributes x labels followed by labels x
        labels, in place of these two.
    """

    sentences: Sequence[Any] | Attributes = field(repr=False)
    labels: Sequence[Sequence[str]] = field(repr=False)
    ridge: Any = 2.0
    scheme: Callable | None = None
    all_possible_states: bool = False
    all_possible_transitions: bool = False
    free: np.ndarray | None = field(default=None, repr=False)

    convex = True

    def __post_init__(self):
        if self.scheme is not None and self.scheme is not hide_labels:
            raise ValueError(
                "scheme must be None (sites are sentences) or weighting.hide_labels (tokens)"
            )
        for name in ("all_possible_states", "all_possible_transitions"):
            check_kind(name, getattr(self, name), bool)
        given = self.sentences
        encoded = given if isinstance(given, Attributes) else attributes(given)
        object.__setattr__(self, "sentences", encoded)
        object.__setattr__(self, "labels", _labels(self.labels, np.diff(encoded.starts)))
        free = self._seen() if self.free is None else _numbers(self.free, self.n_pairs)
        object.__setattr__(self, "free", own_copy(free, np.int64))
        object.__setattr__(self, "ridge", checked_ridge(self.ridge, self.n_params))

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The K labels, in order."""
        return tuple(sorted(set().union(*self.labels)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes."""
        return self.sentences.names

    @cached_property
    def tokens(self) -> Tokens:
        """All tokens, end to end."""
        numbers = {label: k for k, label in enumerate(self.classes)}
        tags = np.array([numbers[label] for own in self.labels for label in own])
        return Tokens(self.sentences.matrix, tags, self.sentences.starts)

    @cached_property
    def sentence_of(self) -> np.ndarray:
        """The sentence of each token, (n_tokens,)."""
        return np.repeat(np.arange(len(self.labels)), self.tokens.lengths)

    @property
    def n_params(self) -> int:
        """D."""
        return len(self.free)

    @property
    def n_sites(self) -> int:
        """The number of sentences, or of tokens."""
        return len(self.tokens.tags) if self.scheme else len(self.labels)

    @cached_property
    def derivatives(self) -> FeatureDerivatives:
        """Derivatives by sums over label sequences, without a Hessian."""
        return HiddenLabelDerivatives(self) if self.scheme else FeatureDerivatives(self)

    @property
    def n_pairs(self) -> int:
        """Attributes x labels and labels x labels, with a weight or without."""
        return (len(self.names) + len(self.classes)) * len(self.classes)

    def _seen(self):
        """The weights that crfsuite would have."""
        tokens = self.tokens
        k = len(self.classes)
        n_states = k * len(self.names)
        states = np.arange(n_states)
        links = np.arange(k**2)
        if not self.all_possible_states:
            tag = np.repeat(tokens.tags, np.diff(tokens.matrix.indptr))
            states = np.unique(tokens.matrix.indices * np.int64(k) + tag)
        if not self.all_possible_transitions:
            links = np.unique(k * tokens.tags[tokens.links] + tokens.tags[tokens.links + 1])
        return np.concatenate([states, n_states + links])

    @checked
    def unpack(self, params: np.ndarray) -> FeatureParams:
        """Name the parts of params (D,)."""
        flat = np.zeros(self.n_pairs)
        flat[self.free] = params
        return self._split(flat)

    def _split(self, flat):
        k = len(self.classes)
        states = flat[: -k * k].reshape(len(self.names), k)
        return FeatureParams(states, flat[-k * k :].reshape(k, k))

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
        return np.concatenate([np.ravel(part) for part in parts])[self.free]

    @checked
    def initial_params(self, rng: np.random.Generator | None = None) -> np.ndarray:
        """Zeros; `rng` is not used, as -log p(z | x) is convex."""
        return np.zeros(self.n_params)

    @checked
    def objective(self, params: np.ndarray, weights: np.ndarray) -> float:
        """F(params, weights) through autograd."""
        check(weights, self.n_sites)
        if not isbox(params) and not isbox(weights):
            return self.derivatives.value_and_gradient(params, weights)[0]
        tags = self.tokens.tags
        one = np.ones(len(tags))
        sentence = one if self.scheme else weights[self.sentence_of]
        known = hide_labels(weights if self.scheme else one, tags, len(self.classes))
        states, transitions = self._split(sparse_product(self._placing, params))
        node = anp.exp(sparse_product(self.tokens.matrix, states))
        none = np.zeros(len(self.classes))
        own = (self.tokens.starts, places(self.tokens.starts), sentence)
        every_path = log_partition((none, transitions, none), node, *own)
        known_paths = log_partition((none, transitions, none), node * known, *own)
        return every_path - known_paths + 0.5 * anp.sum(self.ridge * params**2)

    @cached_property
    def _placing(self):
        """Params to all pairs, (n_pairs, D), sparse."""
        cells = (self.free, np.arange(self.n_params))
        return csr_array((np.ones(self.n_params), cells), (self.n_pairs, self.n_params))

    @checked
    def heldout_loss(self, params: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """-log p(z_n | x_n) of each sentence, or -log p(z_t | x, labels outside the fold)."""
        if not fold.size:
            raise ValueError("the fold is empty: it needs a site")
        return self.derivatives.heldout(params, Folds([fold]))[0]

    @checked
    def predict(
        self, params: np.ndarray, sentences: Sequence[Any] | None = None
    ) -> list[list[str]]:
        """The most probable labels of the model's own sentences, or of others."""
        states, transitions = self.unpack(real_array("params", params))
        matrix, starts, _ = self._encoded(sentences)
        none = np.zeros(len(self.classes))
        best = best_states(matrix @ states, starts, none, transitions, none)
        return [[self.classes[k] for k in own] for own in np.split(best, starts[1:-1])]

    @checked
    def marginals(
        self, params: np.ndarray, sentences: Sequence[Any] | None = None
    ) -> list[np.ndarray]:
        """P(z_t = k | x) (T_n, K) of each sentence, k in the order of `classes`."""
        matrix, starts, _ = self._encoded(sentences)
        tokens = Tokens(matrix, np.zeros(len(matrix.indptr) - 1, int), starts)
        gamma = Paths(tokens, self.unpack(real_array("params", params))).smoothed.gamma
        return np.split(gamma, starts[1:-1])

    def _encoded(self, sentences):
        """The model's own sentences, or others, whose unknown attributes count for nothing."""
        return self.sentences if sentences is None else attributes(sentences, self.names)


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
