"""Rows that memory has no place for: in a scratch file, mapped, and put into another order there.

What is read of a mapped file is memory that the system takes back when it needs it; `forget` gives
it back at once, so that a process stays as small as what it holds itself.
"""

import mmap
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from ..parallel import pieces

PORTION = 2**21  # numbers, 16 MB, that are read, learnt or tested at once


def portions(n_rows: int, n_features: int, start: int = 0) -> list[slice]:
    """Part rows start ... n_rows - 1 into slices of at most `PORTION` numbers."""
    return pieces(n_rows, max(1, PORTION // max(1, n_features)), start)


def map_below(X: np.ndarray) -> mmap.mmap | None:
    """The file that an array is a view of, if it is one, and keeps no changes of its own."""
    mode = ""
    while isinstance(X, np.ndarray):
        mode = getattr(X, "mode", mode)
        X = X.base
    return X if isinstance(X, mmap.mmap) and mode in ("r", "r+", "w+") else None


def forget(X: np.ndarray) -> None:
    """Let go of the pages of X that were read, where X is a memory map."""
    pages = map_below(X)
    if pages is not None and hasattr(pages, "madvise"):
        pages.madvise(mmap.MADV_DONTNEED)


def gathered(blocks: Iterable[np.ndarray], shape: tuple[int, int], most: int) -> np.ndarray:
    """Blocks of rows as one array (n, d): in memory up to `most` bytes, else in a scratch file."""
    if 8 * shape[0] * shape[1] > most:
        return _written(shape, lambda file: _write(blocks, file))
    X = np.empty(shape)
    start = 0
    for block in blocks:
        X[start : start + len(block)] = block
        start += len(block)
    return X


def _write(blocks, file):
    for block in blocks:
        block.tofile(file)


def reordered(X: np.ndarray, rows: np.ndarray, most: int) -> np.ndarray:
    """X[rows], rows a permutation: in a scratch file where X is mapped and beyond `most` bytes.

    Rows are first dealt to buckets, each in the order of X, then ordered in a bucket at a time.
    """
    if map_below(X) is None or X.nbytes <= most:
        return X[rows]
    buckets = portions(*X.shape)
    return _written(X.shape, lambda file: _deal(X, rows, buckets, file))


def _deal(X, rows, buckets, file):
    size = buckets[0].stop
    place = np.empty(len(rows), np.int64)
    place[rows] = np.arange(len(rows))
    free = [bucket.start for bucket in buckets]
    for part in buckets:
        for bucket, block in _dealt(X[part], place[part] // size):
            _at(file, free[bucket], block)
            free[bucket] += len(block)
        forget(X)
    for bucket in buckets:
        ranks = np.argsort(np.argsort(rows[bucket]))
        file.seek(bucket.start * X.strides[0])
        block = np.fromfile(file, count=len(ranks) * X.shape[1]).reshape(-1, X.shape[1])
        _at(file, bucket.start, block[ranks])


def _dealt(block, bucket_of) -> Iterator[tuple[int, np.ndarray]]:
    """The buckets of a block, and the rows of each."""
    order = np.argsort(bucket_of, kind="stable")
    own, starts = np.unique(bucket_of[order], return_index=True)
    return zip(own.tolist(), np.split(block[order], starts[1:]), strict=True)


def _at(file, row, block):
    """Write a block of rows to its place."""
    file.seek(row * block.strides[0])
    block.tofile(file)


def _written(shape, write: Callable) -> np.ndarray:
    """A scratch file of that shape, mapped; it goes with the array.

    Raises OSError where the folder of temporary files lacks the space.
    """
    folder = tempfile.gettempdir()
    size = 8 * shape[0] * shape[1]
    left = shutil.disk_usage(folder).free
    if size > left:
        needed = f"{size / 1e9:.3g} GB of rows do not fit into {folder}, where {left / 1e9:.3g} GB"
        raise OSError(f"{needed} are free: set TMPDIR to a larger folder, or raise `memory`")
    handle, path = tempfile.mkstemp(prefix="acvlib-rows-")
    try:
        with os.fdopen(handle, "w+b") as file:
            write(file)
        X = np.memmap(path, float, "r", shape=shape)
    except BaseException:
        os.unlink(path)
        raise
    weakref.finalize(map_below(X), _unlink, path)
    return X


def _unlink(path):
    if os.path.exists(path):
        os.unlink(path)
