"""A linear-chain CRF over features of tokens, as crfsuite has it, and one that crfsuite fitted.

    log p(z | x) = sum_t sum_a x[t, a] states[a, z_t] + sum_t transitions[z_t, z_t+1] - log Z(x)

Source: Lafferty, McCallum and Pereira (2001); Okazaki (2007), CRFsuite.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress
from numbers import Real as Number
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ..checks import LARGEST, Tables, in_order_of, indices_of, read_only
from ..declared import Params, Real, Sizes, declared
from ..models.crf import Tagging
from ..models.crf.tokens import FeatureParams, Tokens, joined
from ..weighting import site_weights
from .sparse_crf import FeatureDerivatives

OFFSET = 28  # byte of crfsuite's model file at which those of features, labels, names stand
LOGGED = 1e-4  # relative error of F in crfsuite's log
SAME = "give the X and y that it was fitted to"
FEATURE = np.dtype([("kind", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])


class Encoded(NamedTuple):
    """Sentences of tokens end to end: matrix (n_tokens, n_attributes), starts (N + 1,), names."""

    matrix: csr_array
    starts: np.ndarray
    names: tuple


class Attributes(Encoded):
    """And the names of the sentences, and those of the tokens of each, as in pandas, or None."""

    index: Any = None
    indices: Any = None


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
    free : (D,) numbers of the weights that there are, in attributes x labels followed by labels x
        labels; None: those of pairs that a sentence of a sample weight above 0 has.
    sample_weight : as in `LinearChainCRF`, s >= 0 of each sentence, (N,) or one number.
    """

    sentences: Sequence[Any] | Attributes = field(repr=False)
    labels: Sequence[Sequence[str]] = field(repr=False)
    ridge: Any = 2.0
    scheme: Callable | None = None
    free: np.ndarray | None = field(default=None, repr=False)
    sample_weight: Any = field(default=1.0, repr=False)

    def __post_init__(self):
        listed = self.sentences
        encoded = listed if isinstance(listed, Attributes) else attributes(listed)
        indices = encoded.indices or [None] * (len(encoded.starts) - 1)
        encoded = Attributes(*encoded)
        encoded.indices = indices
        encoded.index, labels, weights = self._aligned(listed)
        labels = _labels(labels, encoded, encoded.index)
        encoded.indices = labels.indices
        weights = site_weights(weights, len(labels), "sentence")
        self.__dict__.update(sentences=encoded, labels=labels, sample_weight=weights)
        numbers = {label: k for k, label in enumerate(self.classes)}
        tags = np.array([numbers.get(label, 0) for sentence in self.labels for label in sentence])
        tokens = self._tokens(encoded, tags)
        most = len(numbers) * (len(self.names) + len(numbers)) - 1
        is_free = Real("n_params", least=0, most=most, whole=True)
        free = self._seen(tokens) if self.free is None else is_free("free", self.free, Sizes())
        if (np.diff(free) <= 0).any():
            raise ValueError("free must be rising: each weight has one place")
        self._settle(tokens, read_only(free, np.int64))

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The K labels of sentences of a sample weight above 0, in order."""
        return tuple(sorted(set().union(*compress(self.labels, self.sample_weight))))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes."""
        return self.sentences.names

    @cached_property
    def derivatives(self) -> FeatureDerivatives:
        """Derivatives by sums over sequences of labels, Hessians as products with vectors."""
        return FeatureDerivatives(self)

    def _tokens(self, encoded, tags):
        no_offset = np.broadcast_to(0.0, (len(tags), len(self.classes)))
        return Tokens(encoded.matrix, tags, no_offset, encoded.starts)

    def _encoded(self, sentences):
        """Unknown attributes count for nothing."""
        encoded = attributes(sentences, self.names)
        return self._tokens(encoded, np.zeros(encoded.starts[-1], int))

    def _seen(self, tokens):
        """The weights that crfsuite would have."""
        return np.unique(tokens.take(np.flatnonzero(self.sample_weight)).observed.indices)

    @declared
    def unpack(self, params: Params) -> FeatureParams:
        """Name the parts of params (D,)."""
        return self._parts(params)

    def pack(self, parts: FeatureParams) -> np.ndarray:
        """The params (D,) with these parts; ValueError for a weight that the model has not."""
        every = joined(*parts)
        params = every[self.free]
        if np.count_nonzero(params) < np.count_nonzero(every):
            raise ValueError("there are weights that are not free: build with free=all of them")
        return params

    def predict(self, params: np.ndarray, sentences: Sequence[Any] | None = None) -> list:
        """The most probable labels of the model's own sentences, or of others."""
        best = super().predict(params, sentences)
        return [[self.classes[k] for k in sentence] for sentence in best]


def _labels(labels, encoded, index):
    """Labels as tuples of strings, one for each token, and names of tokens, whoever has some."""
    every = [*_listed("labels", labels, "lists of strings")]
    lengths = np.diff(encoded.starts)
    if len(every) != len(lengths):
        raise ValueError(f"{len(lengths)} sentences, but labels of {len(every)}: give as many")
    indices = indices_of(encoded, labels if isinstance(labels, Tables) else every)
    for n, values in enumerate(every):
        name = f"labels of sentence {n}"
        every[n] = tuple(in_order_of(indices[n], name, _listed(name, values, "strings")))
        if not all(isinstance(label, str) for label in every[n]):
            raise ValueError(f"sentence {n}: labels must be strings; got {every[n]!r:.60}")
        if len(every[n]) != lengths[n]:
            raise ValueError(f"sentence {n} has {lengths[n]} tokens, but {len(every[n])} labels")
    return Tables(every).named(None, indices, index)


def attributes(sentences: Any, known: Sequence[str] | None = None) -> Attributes:
    """The `Attributes` of sentences; with `known` names, others are left out, as a tagger does.

    A token is a dict {name: value} or a list of names. A number or a bool is the value of its name,
    a string makes an attribute "name:string" of value 1, and a dict or list within has its names
    behind "name:".
    """
    numbers = {name: number for number, name in enumerate(known or ())}
    columns = []
    values = []
    ends = [0]
    starts = [0]
    sentences = [*_listed("sentences", sentences, "sentences")]
    for n, sentence in enumerate(sentences):
        for t, token in enumerate(_listed(f"sentence {n}", sentence, "tokens")):
            for name, value in _pairs(token, f"sentence {n}, token {t}"):
                if known is None or name in numbers:
                    columns.append(numbers.setdefault(name, len(numbers)))
                    values.append(value)
            ends.append(len(columns))
        starts.append(len(ends) - 1)
        if starts[-1] == starts[-2]:
            raise ValueError(f"sentence {n} is empty: leave it out")
    if len(starts) == 1:
        raise ValueError("no sentences: give one or more")
    matrix = csr_array((values, columns, ends), shape=(len(ends) - 1, len(numbers)), dtype=float)
    matrix.sum_duplicates()
    found = Attributes(matrix, np.array(starts), tuple(numbers))
    found.indices = indices_of(sentences)
    return found


def _listed(name, values, kind):
    """The values as they are; TypeError unless they are a list, or the like."""
    if not isinstance(values, Iterable) or isinstance(values, str | bytes | Mapping):
        raise TypeError(f"{name} must be a list of {kind}; got {values!r:.60}")
    return values


def _pairs(token, place):
    """(name, value) of each attribute of a token."""
    named = isinstance(token, Mapping)
    every = token.items() if named else ((name, 1) for name in _listed(place, token, "names"))
    for name, value in every:
        value = value.item() if isinstance(value, np.generic) else value
        if not isinstance(name, str):
            raise ValueError(f"{place}: names of attributes must be strings; got {name!r:.60}")
        if isinstance(value, str):
            yield f"{name}:{value}", 1.0
        elif isinstance(value, Mapping | list | set):
            for inner, number in _pairs(value, place):
                yield f"{name}:{inner}", number
        elif isinstance(value, Number | np.bool_) and abs(value) <= LARGEST:
            yield name, float(value)
        else:
            taken = "a finite number, a bool, a string, a dict or a list of strings"
            raise ValueError(f"{place}: {name!r} is {value!r:.60}, and must be {taken}")


def from_crfsuite(
    fitted: Any, X: Sequence[Any], y: Sequence[Sequence[str]]
) -> tuple[FeatureCRF, np.ndarray]:
    """The `FeatureCRF` of a fitted `sklearn_crfsuite.CRF` and the params (D,) that it holds.

    X, y: what it was fitted to. Weights are read from its model file, as `state_features_` has six
    digits only. L-BFGS stops early: `acv.fit(model, start=params)` goes on to the optimum. Without
    all_possible_states and all_possible_transitions crfsuite refits only the pairs that a fold
    leaves; weights of all pairs of X and y stay here, and losses of folds are a little others.

    Raises
    ------
    ValueError : not fitted; not lbfgs; c1 above 0, c2 = 0, min_freq; values below 0; other data
    """
    if not hasattr(fitted, "modelfile"):
        wanted = "an sklearn_crfsuite.CRF, such as the best_estimator_ of a search"
        raise TypeError(f"fitted must be {wanted}; got {fitted!r:.60}")
    if fitted.tagger_ is None:
        raise ValueError("the CRF is not fitted: call its fit(X, y)")
    if fitted.algorithm not in (None, "lbfgs") or fitted.c1:
        settings = f"algorithm={fitted.algorithm!r}, c1={fitted.c1!r}"
        raise ValueError(f"{settings}: only lbfgs with c1=0 has a smooth objective; fit that")
    if fitted.min_freq:
        reason = "each refit of crfsuite drops what is rare in its data, weights of 0 do not"
        raise ValueError(f"min_freq={fitted.min_freq!r}: {reason}; fit without")
    c2 = 1.0 if fitted.c2 is None else fitted.c2
    if not c2 > 0.0:
        raise ValueError(f"c2={c2!r}: the optimum may be at infinity; fit with c2 above 0")
    model = FeatureCRF(X, y, 2.0 * c2)
    matrix = model.tokens.matrix
    if (matrix.data < 0.0).any():
        below = f"{model.names[matrix.indices[matrix.data.argmin()]]!r:.60} has values below 0"
        reason = "each refit of crfsuite drops pairs of an attribute and a label that sum below 0"
        own = "fit without such values, or acv.fit(FeatureCRF(X, y, 2 * c2)), which keeps all pairs"
        raise ValueError(f"{below}: {reason}; {own}")
    free, params = _stored_weights(fitted, model)
    model = replace(model, free=free)
    last = getattr(getattr(fitted, "training_log_", None), "last_iteration", None) or {}
    value = model.objective(params, np.ones(model.n_sites))
    if abs(last.get("loss", value) - value) > LOGGED * (1.0 + abs(value)):
        both = f"crfsuite's log ends at F = {last['loss']:g}, and F of X, y is {value:g}"
        raise ValueError(f"{both}: {SAME}")
    return model, params


def _stored_weights(fitted, model):
    """(numbers of the weights in the model file, in order, and the weights)."""
    path = fitted.modelfile.name
    content = Path(path).read_bytes()
    offset, labels, names = np.frombuffer(content, "<u4", 3, OFFSET)
    kind, _, count = np.frombuffer(content, "<u4", 3, offset)
    if content[:4] != b"lCRF" or kind.tobytes() != b"FEAT":
        raise ValueError(f"{path} is not a model file of crfsuite 0.12: fit the CRF again")
    stored = np.frombuffer(content, FEATURE, count, offset + 12)
    if not count and len(model.classes) == 1:
        raise ValueError(f"{model.classes[0]!r:.60} is the only label: y must have two or more")
    if not count:
        raise ValueError(f"{path} has no weights: training failed; rescale numbers, fit again")
    attribute = _renumbered(content, names, model.names)
    label = _renumbered(content, labels, model.classes)
    sources = stored["source"]
    links = stored["kind"] == 1
    row = np.empty(len(stored), np.int64)
    row[~links] = attribute[sources[~links]]
    row[links] = len(model.names) + label[sources[links]]
    numbers = len(model.classes) * row + label[stored["target"]]
    order = np.argsort(numbers)
    return numbers[order], stored["weight"][order]


def _renumbered(content, table, names):
    """Our number of each name in a table of the model file, in crfsuite's order."""
    if cut := [name for name in names if "\0" in name]:
        raise ValueError(f"crfsuite cuts {cut[0]!r:.60} at its NUL: replace NULs, fit again")
    size, entries = np.frombuffer(content, "<u4", 2, table + 16)
    theirs = []
    for place in table + np.frombuffer(content, "<u4", size, table + entries):
        length = int.from_bytes(content[place + 4 : place + 8], "little")
        theirs.append(content[place + 8 : place + 7 + length].decode())
    numbers = {name: number for number, name in enumerate(names)}
    if unknown := sorted(set(theirs) - numbers.keys()):
        missing = f"{unknown[0]!r:.60} and {len(unknown) - 1} more of its names are not in X, y"
        raise ValueError(f"{missing}: {SAME}")
    return np.array([numbers[name] for name in theirs], int)
