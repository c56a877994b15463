"""Small regression and classification sets in LIBSVM's text format, and their stand-ins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from . import registry
from .columns import codes, columns, correlated, counts, one_hot, response


class Shape(NamedTuple):
    """What a set looks like; positive: how many labels are +1, None where y is a number.

    groups: shares of the ones in each group of binary features, of which a row has one at most;
    none: `columns.csv` has the features. common: as `correlated` takes it.
    """

    n_rows: int
    n_features: int
    positive: int | None = None
    groups: tuple = ()
    common: float = 0.0


_WORDS = np.interp(np.arange(300), np.linspace(0, 299, 11), counts("libsvm")["w2a"])[:, None]
_ONES = tuple(np.array(group) / 32_561 for group in counts("libsvm")["a9a"])
SHAPES = {
    "abalone": Shape(4177, 8),
    "cpusmall": Shape(8192, 12),
    "svmguide3": Shape(1243, 21, 296),
    "w2a_standin": Shape(3470, 300, 107, tuple(_WORDS), 0.3),
    "a9a": Shape(
        32_561, 123, 7841, tuple(np.array(group) / 32_561 for group in counts("libsvm")["a9a"])
    ),
}


@dataclass(frozen=True, eq=False, repr=False)
class Libsvm(registry.Rows):
    """X (n, d) float64; y (n,): a response, or labels of -1 and +1."""

    of_rows = ("y", "X")
    name: str
    X: np.ndarray
    y: np.ndarray
    provenance: Literal["real", "real, partial", "simulated"]
    sha256: str

    @property
    def is_classification(self) -> bool:
        return SHAPES[self.name].positive is not None

    def scaled(self) -> np.ndarray:
        """Each feature mapped to [-1, 1], as in LIBSVM's scaled files; 0 if it does not vary."""
        low, high = self.X.min(axis=0), self.X.max(axis=0)
        return (2.0 * self.X - low - high) / np.where(high > low, high - low, 1.0)


def load_libsvm(name: str) -> Libsvm:
    """One of `SHAPES`. Raises DataNotFound or DataCorrupt.

    Source: the LIBSVM data page, Chang and Lin (2011). "w2a_standin" is 3,470 random rows of w8a:
    w2a is such a draw too, but not the same one. Provenance "real, partial": real rows
    of the set that w2a is a part of.
    """
    from sklearn.datasets import load_svmlight_file

    path, n_features = registry.find("libsvm", f"{name}.gz"), SHAPES[name].n_features
    X, y = load_svmlight_file(str(path), n_features=n_features, zero_based=False)
    provenance = "real, partial" if name == "w2a_standin" else "real"
    return Libsvm(name, X.toarray(), y, provenance, registry.file_sha256(path))


def simulate_libsvm(name: str, rng: np.random.Generator) -> Libsvm:
    """A stand-in with the set's features and labels, tied by a few hidden factors."""
    shape = SHAPES[name]
    z = correlated(rng, shape.n_rows, len(shape.groups) or shape.n_features, shape.common)
    if shape.groups:
        coded = [one_hot(codes(z_j, p), len(p)) for z_j, p in zip(z.T, shape.groups, strict=True)]
        X = np.hstack(coded)
        score = response(rng, X)
    else:
        laws = zip(columns(name).values(), z.T, strict=False)  # the last column is a response
        X = np.column_stack([column.values(z_j) for column, z_j in laws])
        score = response(rng, z)
    if shape.positive:
        y = np.where(score >= np.sort(score)[-shape.positive], 1.0, -1.0)
    else:
        *_, last = columns(name).values()
        y = last.values(score)
    return Libsvm(name, X, y, "simulated", registry.checksum(X, y))
