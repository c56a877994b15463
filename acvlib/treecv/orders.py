"""Which rows a model learns, and in which order: the partition, the tree over it, random orders."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ..checks import check_whole
from ..folds import Folds

FIXED = -1  # in place of a seed, which is never negative: learn the rows as they stand


def partition(folds: int | Iterable[np.ndarray], n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (n,) and bounds (k + 1,): chunk Z_i is rows[bounds[i]:bounds[i + 1]].

    An integer k cuts the rows as they stand into chunks of n_rows // k, the first n_rows % k of
    which have one row more. Raises ValueError unless 2 <= k <= n_rows, every row is in exactly one
    fold, and each fold scores all that it leaves out.
    """
    if not isinstance(folds, Folds) and not hasattr(folds, "__iter__"):
        k = check_whole("k", folds, 2, n_rows, f" folds of {n_rows} rows")
        rows = np.arange(n_rows)
        sizes = n_rows // k + (rows[:k] < n_rows % k)
        return rows, np.append(0, np.cumsum(sizes))
    folds = folds if isinstance(folds, Folds) else Folds(folds)
    folds.omitted.check_range(n_rows)
    rows, sizes = folds.omitted.sites, folds.sizes
    check_whole("k", len(sizes), 2, n_rows, f" folds of {n_rows} rows")
    if not sizes.all():
        raise ValueError(f"fold {np.argmin(sizes)} is empty")
    uses = np.bincount(rows, minlength=n_rows)
    if (uses != 1).any():
        row = np.argmax(uses != 1)
        raise ValueError(f"row {row} is in {uses[row]} folds: the folds must be a partition")
    if folds.scored is not folds.omitted:
        raise ValueError("some fold scores only part of what it leaves out: every row is tested")
    return rows, np.append(0, np.cumsum(sizes))


class Edge(NamedTuple):
    """Learning the chunks first ... last or, if not `inside`, all the others, in one call."""

    first: int
    last: int
    inside: bool = True


class Node(NamedTuple):
    """A model that leaves out chunks first ... last, after learning the edges of its path."""

    path: tuple[Edge, ...]
    first: int
    last: int


def tree_nodes(k: int, n_least: int) -> list[Node]:
    """Return all nodes of the first level of the tree that has so many, or all leaves."""
    nodes = [Node((), 0, k - 1)]
    while len(nodes) < min(n_least, k):
        nodes = [child for node in nodes for child in _children(*node)]
    return nodes


def _children(path, first, last):
    if first == last:
        return [Node(path, first, last)]
    middle = (first + last) // 2
    left = Node((*path, Edge(middle + 1, last)), first, middle)
    return [left, Node((*path, Edge(first, middle)), middle + 1, last)]


def leaves(k: int) -> list[Node]:
    """Return the models of standard cross-validation, each of which learns all in one call."""
    return [Node((Edge(i, i, inside=False),), i, i) for i in range(k)]
