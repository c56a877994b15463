"""Tokens described by attributes, as crfsuite takes them, in one sparse matrix.

A token is a dict {name: value} or a list of names. A number or a bool is the value of its name, a
string makes an attribute "name:string" of value 1, and a dict or list within has its names behind
"name:".
"""

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ...checks import LARGEST


class Attributes(NamedTuple):
    """Sentences of tokens end to end: matrix (n_tokens, n_attributes), starts (N + 1,), names."""

    matrix: csr_array
    starts: np.ndarray
    names: tuple


def attributes(sentences: Any, known: Sequence[str] | None = None) -> Attributes:
    """The `Attributes` of sentences; with `known` names, others are left out, as a tagger does."""
    numbers = dict(zip(known or (), range(len(known or ())), strict=True))
    columns = []
    values = []
    ends = [0]
    starts = [0]
    for n, sentence in enumerate(listed("sentences", sentences, "sentences")):
        for t, token in enumerate(listed(f"sentence {n}", sentence, "tokens")):
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
    return Attributes(matrix, np.array(starts), tuple(numbers))


def listed(name: str, values: Any, kind: str) -> Iterable:
    """The values as they are; TypeError unless they are a list, or the like."""
    if not isinstance(values, Iterable) or isinstance(values, str | bytes | Mapping):
        raise TypeError(f"{name} must be a list of {kind}; got {values!r:.60}")
    return values


def _pairs(token, place):
    """(name, value) of each attribute of a token."""
    if not isinstance(token, Mapping):
        for name in listed(place, token, "names, or a dict"):
            yield _name(name, place), 1.0
        return
    for name, value in token.items():
        yield from _valued(_name(name, place), value, place)


def _valued(name, value, place):
    if isinstance(value, str):
        yield f"{name}:{value}", 1.0
    elif isinstance(value, Mapping | list | set):
        for inner, number in _pairs(value, place):
            yield f"{name}:{inner}", number
    elif isinstance(value, Real | np.bool_) and abs(value) <= LARGEST:
        yield name, float(value)
    else:
        taken = "a finite number, a bool, a string, a dict or a list of strings"
        raise ValueError(f"{place}: {name!r} is {value!r:.60}, and must be {taken}")


def _name(name, place):
    if not isinstance(name, str):
        raise ValueError(f"{place}: names of attributes must be strings; got {name!r:.60}")
    return name
