"""Which rows a model learns, and in which order: the partition, the tree over it, random orders."""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numba import njit

from ..checks import check_whole
from ..folds import Folds
from ..folds.checks import check_range

FIXED = -1  # in place of a seed, which is never negative: leave the rows as they stand


def partition(folds: int | Sequence[np.ndarray], n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (n,) and bounds (k + 1,): chunk Z_i is rows[bounds[i]:bounds[i + 1]].

    An integer k cuts the rows as they stand into chunks of n_rows // k, the first n_rows % k of
    which have one row more. Raises ValueError unless 2 <= k <= n_rows and every row is in exactly
    one fold.
    """
    if not hasattr(folds, "__iter__"):
        k = check_whole("k", folds, 2, n_rows, f" folds of {n_rows} rows")
        rows = np.arange(n_rows)
        sizes = n_rows // k + (rows[:k] < n_rows % k)
    else:
        given = Folds(folds)
        rows, sizes = check_range(given.omitted, n_rows)
        _check_partition(rows, sizes, n_rows)
    return rows.astype(np.int64), np.append(0, np.cumsum(sizes))


def _check_partition(rows, sizes, n_rows):
    check_whole("k", len(sizes), 2, n_rows, f" folds of {n_rows} rows")
    if not sizes.all():
        raise ValueError(f"fold {np.argmin(sizes)} is empty")
    uses = np.bincount(rows, minlength=n_rows)
    wrong = np.flatnonzero(uses != 1)
    if wrong.size:
        times = f"row {wrong[0]} is in {uses[wrong[0]]} folds"
        raise ValueError(f"{times}: the folds must be a partition")


class Edge(NamedTuple):
    """To a model that leaves out chunks first ... last, by learning feed[0] ... feed[1], or all."""

    first: int
    last: int
    feed: tuple[int, int] | None = None


def edges(first: int, last: int) -> tuple[Edge, Edge]:
    """Return the edges below the node that leaves out chunks first ... last (Algorithm 1)."""
    middle = (first + last) // 2
    right = middle + 1
    return Edge(first, middle, (right, last)), Edge(right, last, (first, middle))


def count_updates(sizes: Sequence[int]) -> int:
    """Count the rows that `treecv` learns: a chunk's rows once for each inner node above it."""
    return int(_depths(len(sizes)) @ np.asarray(sizes))


@cache
def _depths(k):
    """How many inner nodes are above each of k chunks, (k,)."""
    if k == 1:
        return np.array([0])
    return 1 + np.append(_depths((k + 1) // 2), _depths(k // 2))


_jit = njit(cache=True, nogil=True)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_27, _30, _31, _32 = map(np.uint64, (27, 30, 31, 32))


@_jit
def _mix(z):
    """The output function of SplitMix64 (Steele, Lea and Flood 2014)."""
    z = (z ^ (z >> _30)) * _MIX1
    z = (z ^ (z >> _27)) * _MIX2
    return z ^ (z >> _31)


@_jit
def _keyed(seed, start, stop):
    """The state of a generator whose key is (seed, start, stop)."""
    state = _mix(np.uint64(seed) + _GOLDEN * np.uint64(start))
    return _mix(state + _GOLDEN * np.uint64(stop))


@_jit
def shuffle(rows, size, seed, start, stop):
    """Shuffle rows[:size] in place (Fisher and Yates); (seed, start, stop) is the key of the order.

    Branches of the tree may run in any order, in any thread and on any machine. A 32-bit draw is
    scaled to its range (Lemire 2019), with a bias of at most size / 2^32.
    """
    state = _keyed(seed, start, stop)
    for i in range(size - 1, 0, -1):
        state += _GOLDEN
        draw = _mix(state) >> _32
        j = np.int64((draw * np.uint64(i + 1)) >> _32)
        rows[i], rows[j] = rows[j], rows[i]
