"""The partition Z_1, ..., Z_k, and the binary tree over its chunks."""

from typing import NamedTuple

import numpy as np


class Chunks(NamedTuple):
    """Chunk i is rows[bounds[i]:bounds[i + 1]]; rows (n,), bounds (k + 1,)."""

    rows: np.ndarray
    bounds: np.ndarray

    @property
    def k(self):
        return len(self.bounds) - 1

    @property
    def sizes(self):
        return np.diff(self.bounds)

    def span(self, first, last):
        """The rows of chunks first ... last, both included."""
        return self.rows[self.bounds[first] : self.bounds[last + 1]]


def partition(folds, n_rows):
    """`Chunks` from the number k of folds, in the order of the rows, or from one integer array for each fold.

    Raises ValueError unless 2 <= k <= n_rows and every row is in exactly one fold.
    """
    listed = not isinstance(folds, int | np.integer)
    k = len(folds) if listed else int(folds)
    if not 2 <= k <= n_rows:
        raise ValueError(f"k = {k} folds of {n_rows} rows: k must be from 2 to the number of rows")
    return _listed(folds, n_rows) if listed else _contiguous(k, n_rows)


def _contiguous(k, n_rows):
    """The first n mod k chunks have a row more than the others."""
    numbers = np.arange(k + 1)
    return Chunks(np.arange(n_rows), numbers * (n_rows // k) + np.minimum(numbers, n_rows % k))


def _listed(folds, n_rows):
    sizes = np.array([len(fold) for fold in folds])
    if not sizes.all():
        raise ValueError(f"fold {np.argmin(sizes)} is empty")
    rows = np.concatenate(folds)
    if not np.issubdtype(rows.dtype, np.integer) or rows.min() < 0 or rows.max() >= n_rows:
        raise ValueError(f"folds must hold row numbers, 0 ... {n_rows - 1}")
    uses = np.bincount(rows, minlength=n_rows)
    if (uses != 1).any():
        row = np.argmax(uses != 1)
        raise ValueError(f"row {row} is in {uses[row]} folds: the folds must be a partition")
    return Chunks(rows.astype(np.int64), np.concatenate([[0], np.cumsum(sizes)]))


class Edge(NamedTuple):
    """From a node of the tree to its child: the child leaves out chunks first ... last; `feed` trains it."""

    first: int
    last: int
    feed: tuple[int, int]


def edges(first, last):
    """The two edges below the node that leaves out chunks first ... last (Algorithm 1)."""
    middle = (first + last) // 2
    return Edge(first, middle, (middle + 1, last)), Edge(middle + 1, last, (first, middle))


def count_updates(sizes):
    """Rows that `treecv` learns, all models together: each inner node feeds every row of its range once."""
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    total, nodes = 0, [(0, len(sizes) - 1)]
    while nodes:
        first, last = nodes.pop()
        if first < last:
            total += int(bounds[last + 1] - bounds[first])
            nodes += [(edge.first, edge.last) for edge in edges(first, last)]
    return total
