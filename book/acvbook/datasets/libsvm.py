"""Small regression and classification sets in LIBSVM's text format, and their stand-ins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from . import registry
from .columns import codes, columns, correlated, one_hot, response

# How many rows have each of 123 ones, in 14 groups of which a row has one at most.
_A9A = (
    (6411, 5877, 6830, 6381, 7062),
    (22696, 2541, 1116, 960, 2093, 1298, 14, 7),
    (6511, 6513, 6512, 6512, 6513),
    (5355, 7291, 1175, 10501, 576, 1067, 1382, 514, 646, 433, 1723, 168, 933, 413, 333, 51),
    (4253, 10501, 7291, 2449, 8067),
    (14976, 4443, 10683, 1025, 993, 418, 23),
    (928, 4099, 3295, 3650, 4066, 4140, 1370, 2002, 3770, 994, 1597, 149, 649, 9),
    (1568, 5068, 13193, 8305, 981, 3446),
    (27816, 1039, 311, 271, 3124),
    (10771, 21790),
    (29849, 2712),
    (31042, 1519),
    (5583, 2180, 15217, 2573, 7008),
    (29170, 19, 90, 114, 121, 137, 14, 100, 62, 29, 80, 75, 95, 43, 13, 198, 73, 60, 81, 67, 643)
    + (37, 24, 29, 70, 18, 28, 51, 44, 59, 13, 64, 34, 12, 18, 16, 106, 19, 31, 20, 1),
)
# The shares of rows that have each of 300 words: of the rarest word, of that at a tenth, ...
_W2A = [0, 0.0006, 0.0017, 0.002, 0.0049, 0.0222, 0.0318, 0.0465, 0.0707, 0.1067, 0.3467]


_WORDS = tuple(np.interp(np.arange(300), np.linspace(0, 299, 11), _W2A)[:, None])


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


SHAPES = {
    "abalone": Shape(4177, 8),
    "cpusmall": Shape(8192, 12),
    "svmguide3": Shape(1243, 21, 296),
    "w2a_standin": Shape(3470, 300, 107, _WORDS, 0.3),
    "a9a": Shape(32_561, 123, 7841, tuple(np.array(group) / 32_561 for group in _A9A)),
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
