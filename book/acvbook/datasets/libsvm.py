"""Small regression and classification sets in LIBSVM's text format,
and simulators of the same shape.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from . import registry


class Shape(NamedTuple):
    """What a set looks like; positive: share of labels +1; density:
    share of ones where features are binary.
    """

    n_rows: int
    n_features: int
    kind: Literal["regression", "classification"]
    positive: float = 0.0
    density: float = 0.0


SHAPES = {
    "abalone": Shape(4177, 8, "regression"),
    "cpusmall": Shape(8192, 12, "regression"),
    "svmguide3": Shape(1243, 21, "classification", 0.238),
    "w2a_standin": Shape(3470, 300, "classification", 0.031, 0.039),
    "a9a": Shape(32_561, 123, "classification", 0.241, 0.113),
}


@dataclass(frozen=True, eq=False, repr=False)
class Libsvm:
    """X (n, d) float64; y (n,): a response, or labels of -1 and +1.

    Raises ValueError on other shapes or labels.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    provenance: Literal["real", "real, partial", "simulated"]
    sha256: str

    def __post_init__(self):
        if self.X.ndim != 2 or self.y.shape != self.X.shape[:1]:
            raise ValueError(f"X {self.X.shape} must have a row for each y {self.y.shape}")
        if self.is_classification and not np.isin(self.y, (-1.0, 1.0)).all():
            raise ValueError(
                f"labels must be -1 or +1; found {np.setdiff1d(self.y, (-1.0, 1.0))[:3]}"
            )

    @property
    def is_classification(self) -> bool:
        return SHAPES[self.name].kind == "classification"

    def take(self, rows) -> Libsvm:
        """These rows, in this order."""
        return replace(self, X=self.X[rows], y=self.y[rows])

    def scaled(self) -> np.ndarray:
        """Each feature mapped to [-1, 1], as in LIBSVM's scaled files;
        one that does not vary becomes 0. (n, d).
        """
        low, high = self.X.min(axis=0), self.X.max(axis=0)
        return (2.0 * self.X - low - high) / np.where(high > low, high - low, 1.0)

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        size = f"{len(self):,} rows, {self.X.shape[1]} features"
        return f"Libsvm({self.name}: {size}, {self.provenance})"


def load_libsvm(name: str) -> Libsvm:
    """One of `SHAPES`. Raises KeyError for other names, DataNotFound or DataCorrupt.

    Source: the LIBSVM data page, Chang and Lin (2011). "w2a_standin" is 3,470 random rows of w8a:
    w2a is such a draw too, but not the same one. Provenance "real, partial": real rows
    of the set that w2a is a part of.
    """
    shape = _shape(name)
    path = registry.find("libsvm", f"{name}.gz")
    X, y = read_libsvm(path, shape.n_features)
    provenance = "real, partial" if name == "w2a_standin" else "real"
    return Libsvm(name, X, y, provenance, registry.file_sha256(path))


def read_libsvm(path: Path | str, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """(X (n, n_features), y (n,)) of a text file, gzipped or not: `label index:value ...`,
    indices from 1.

    Raises DataCorrupt with file, line and reason: a label or value that is no number, an index that
    is not within 1 ... n_features or does not rise, a file without rows.
    """
    path = Path(path)
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="ascii", errors="replace") as lines:
        rows = [
            _row(line, n_features, f"{path}, line {number}") for number, line in enumerate(lines, 1)
        ]
    if not rows:
        raise registry.DataCorrupt(f"{path}: no rows")
    X = np.zeros((len(rows), n_features))
    for row, (_, columns, values) in zip(X, rows, strict=True):
        row[columns] = values
    return X, np.array([label for label, _, _ in rows])


def simulate_libsvm(name: str, rng: np.random.Generator) -> Libsvm:
    """A stand-in of the set's shape: correlated features,
    and a response that is nearly linear in them.
    """
    shape = _shape(name)
    factors = rng.standard_normal((shape.n_rows, 3)) @ rng.standard_normal((3, shape.n_features))
    X = factors / np.sqrt(3.0) + rng.standard_normal((shape.n_rows, shape.n_features))
    if shape.density:
        rarest = np.quantile(X, 1.0 - shape.density)
        X = np.heaviside(X - rarest, 0.0)
    score = X @ rng.standard_normal(shape.n_features)
    score = (score - score.mean()) / score.std() + 0.5 * rng.standard_normal(shape.n_rows)
    y = (
        np.where(score > np.quantile(score, 1.0 - shape.positive), 1.0, -1.0)
        if shape.positive
        else score
    )
    return Libsvm(name, X, y, "simulated", hashlib.sha256(X.tobytes() + y.tobytes()).hexdigest())


def _shape(name):
    if name not in SHAPES:
        raise KeyError(f"no LIBSVM set {name!r}; there are {', '.join(SHAPES)}")
    return SHAPES[name]


def _row(line, n_features, where):
    """(label, columns from 0, values) of one line."""
    label, *pairs = line.split() or [""]
    columns, values = [], []
    for pair in pairs:
        index, colon, value = pair.partition(":")
        if not (colon and re.fullmatch(r"\d+", index, re.ASCII)):
            raise registry.DataCorrupt(f"{where}: {pair!r} is not index:value")
        columns.append(int(index) - 1)
        values.append(_number(value, "value", where))
    if columns and not (columns[0] >= 0 and columns[-1] < n_features and all(np.diff(columns) > 0)):
        raise registry.DataCorrupt(f"{where}: indices must rise, from 1 to {n_features} at most")
    return _number(label, "label", where), columns, values


def _number(text, what, where):
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise registry.DataCorrupt(f"{where}: the {what} {text!r} is not a finite number")
    return number
