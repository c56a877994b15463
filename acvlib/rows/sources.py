"""Rows of files and frames as arrays: whatever speaks Arrow, Parquet and .npy, a portion at a time.

Columns must be numbers, without missing values: others are refused by name.
"""

import re
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..checks import real_array
from ..extras import require
from ..parallel import pieces

BATCH = 2**19  # numbers of a file that are decoded at once
BUFFER = 2**16  # bytes of each column that are read at once
PARQUET = (".parquet", ".pq")
SOURCES = (
    "a path to .npy or .parquet, a folder of these, a pandas or polars frame or an arrow table"
)


class _Table(NamedTuple):
    """n rows of columns; batches(names, most rows) reads some columns of them."""

    schema: Any
    n_rows: int
    batches: Callable[[list[str], int], Iterator]


def read(source: Any, target: Any, features: Sequence[str] | None, most: int) -> tuple:
    """X (n, d) and y (n,) or None of a file or frame; X in a scratch file beyond `most` bytes."""
    if isinstance(source, str | PathLike) and Path(source).suffix == ".npy":
        return _read_npy(source, target, features, most)
    table = _table(source)
    named = isinstance(target, str | int)
    label = [str(target)] if named else []
    names = _features(table.schema, label, features)
    _check_numbers(table.schema, [*names, *label])
    n_rows = table.n_rows
    y = np.empty(n_rows) if named else target
    batches = table.batches([*names, *label], max(1, BATCH // len(names)))
    blocks = _blocks(batches, len(names), y if named else None)
    return _gathered(blocks, (n_rows, len(names)), most), y


def _gathered(blocks, shape, most):
    """Blocks of rows as one array (n, d): in memory up to `most` bytes, else mapped from a file
    that goes with the array.
    """
    if 8 * shape[0] * shape[1] <= most:
        X = np.empty(shape)
        start = 0
        for block in blocks:
            X[start : start + len(block)] = block
            start += len(block)
        return X
    file = tempfile.NamedTemporaryFile(prefix="acvlib-rows-")  # noqa: SIM115 (the array closes it)
    for block in blocks:
        block.tofile(file)
    X = np.memmap(file, float, "r", shape=shape)
    weakref.finalize(X.base, file.close)
    return X


def _read_npy(path, target, features, most):
    if features is not None:
        raise ValueError(f"{path} has no names of columns: features must be None")
    if isinstance(target, str | PathLike) and Path(target).suffix == ".npy":
        target = np.load(target)
    elif isinstance(target, str | int):
        raise ValueError(f"target = {target!r}: of a .npy file, give another .npy, or an array")
    X = np.load(path, mmap_mode="r")
    if X.ndim != 2:
        raise ValueError(f"{path} has shape {X.shape}: it must be (rows, features)")
    if X.dtype == float and X.flags.c_contiguous and X.nbytes > most:
        return X, target
    parts = pieces(len(X), max(1, BATCH // max(1, X.shape[1])))
    return _gathered((real_array("X", X[part]) for part in parts), X.shape, most), target


def _table(source) -> _Table:
    """A path or a frame as a table that Arrow can read."""
    if isinstance(source, str | PathLike):
        return _files(Path(source))
    if isinstance(source, type) or not hasattr(source, "__arrow_c_stream__"):
        hint = " (collect() a LazyFrame)" if hasattr(source, "collect") else ""
        kind = type(source).__name__
        raise TypeError(
            f"the source must be {SOURCES}; got {kind}{hint}; of arrays, Examples(X, y)"
        )
    table = require("pyarrow", extra="parquet").table(source)
    batches = lambda names, size: table.select(names).to_batches(size)  # noqa: E731
    return _Table(table.schema, table.num_rows, batches)


def _files(path):
    """A Parquet file, or those of a folder in the order of their names."""
    if not path.exists():
        raise FileNotFoundError(f"no file or folder {path}")
    if path.is_file() and path.suffix not in PARQUET:
        raise ValueError(f"{path}: the source must be {SOURCES}")
    inside = (file for file in path.rglob("*") if file.suffix in PARQUET)
    files = [path] if path.is_file() else sorted(inside, key=_place)
    if not files:
        raise ValueError(f"no Parquet files in {path}")
    if any("=" in file.parent.name for file in files if file != path):
        raise ValueError(f"{path} has columns in the names of its folders: write them into files")
    parquet = require("pyarrow.parquet", extra="parquet")
    n_rows = sum(parquet.read_metadata(file).num_rows for file in files)
    return _Table(parquet.read_schema(files[0]), n_rows, partial(_of_files, parquet, files))


def _of_files(parquet, files, names, size):
    """Batches of the rows of all files: decoded as they are asked for, in one thread."""
    for path in files:
        with parquet.ParquetFile(path, pre_buffer=False, buffer_size=BUFFER) as file:
            _features(file.schema_arrow, [], names)
            _check_numbers(file.schema_arrow, names)
            for batch in file.iter_batches(size, columns=names, use_threads=False):
                yield batch.select(names)


def _place(path):
    """Where a file stands among its kin: numbers in names by value, as part.2 before part.10."""
    words = re.split(r"(\d+)", str(path))
    return [(int(word), word) if word.isdigit() else (0, word) for word in words]


def _features(schema, label, features):
    """The names of the features: all but the target and the index of a pandas frame, if None."""
    names = schema.names
    if features is None:
        index = (schema.pandas_metadata or {}).get("index_columns", [])
        features = [name for name in names if name not in index and name not in label]
    elif isinstance(features, str) or not all(isinstance(name, str | int) for name in features):
        raise ValueError(f"features = {features!r:.60} must be a list of names of columns")
    features = [str(name) for name in features]
    for name in [*features, *label]:
        found = names.count(name)
        if found != 1:
            raise ValueError(f"{found} columns {name!r}, of {', '.join(names)}: there must be one")
    if set(label) & set(features) or len(set(features)) < len(features) or not features:
        raise ValueError(f"features {features} must be different columns, not the target {label}")
    return features


def _check_numbers(schema, names):
    types = require("pyarrow", extra="parquet").types
    kinds = (types.is_integer, types.is_floating, types.is_boolean)
    for name in names:
        kind = schema.field(name).type
        if not any(is_kind(kind) for is_kind in kinds):
            raise ValueError(
                f"column {name!r} is {kind}: make numbers of it (a 0/1 column a category, seconds "
                "of a time, float64 of a decimal), or name the columns to be used: features=[...]"
            )


def _blocks(batches, n_features, y):
    """X (m, d) of each batch in turn; its last column, the target if there is one, goes into y."""
    start = 0
    for batch in batches:
        columns = [_floats(batch, number, start) for number in range(batch.num_columns)]
        if y is not None:
            y[start : start + len(batch)] = columns[-1]
        X = np.empty((len(batch), n_features))
        for number in range(n_features):
            X[:, number] = columns[number]
        start += len(batch)
        yield X


def _floats(batch, number, start):
    column = batch.column(number)
    if column.null_count:
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        name = batch.schema.names[number]
        where = f"column {name!r} has missing values, row {start + np.argmin(valid)} the first"
        raise ValueError(f"{where}: fill them in, or drop the rows")
    return column.to_numpy(zero_copy_only=False).astype(float, copy=False)
