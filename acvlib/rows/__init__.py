"""Rows of files and frames for `treecv` and `kfold`.

Whatever speaks Arrow, Parquet and .npy, a portion at a time. Columns must be numbers, without
missing values: others are refused by name.
"""

import re
import sys
import tempfile
import weakref
from collections.abc import Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..checks import check_whole, in_order_of, index_of, real_array, require
from ..parallel import pieces
from ..treecv import Examples as ArrayExamples

BATCH = 2**19  # numbers of a file that are decoded at once
BUFFER = 2**16  # bytes of each column that are read at once
SOURCES = (
    "a path to .npy or .parquet, a folder of these, a pandas or polars frame or an arrow table"
)


class Examples(ArrayExamples):
    __doc__ = ArrayExamples.__doc__

    @classmethod
    def of(
        cls,
        source: Any,
        target: Any = None,
        features: Sequence[str] | None = None,
        memory: int = 2**30,
    ) -> "Examples":
        """Read the rows of a file or frame (extra `parquet`, except for .npy).

        Parameters
        ----------
        source : a Parquet file, or a folder of them in the order of their names, numbers in these
            by value; a .npy file; a pandas or polars frame or an arrow table
        target : the column to predict; or n numbers, or a .npy file of them, in the order of the
            rows; a pandas Series beside a pandas frame by its index; None for nothing
        features : names of columns, all but the target if None
        memory : bytes of X that are held in memory. A larger one is mapped: a .npy file of float64
            where it is, others as a scratch file in the folder of temporary files (TMPDIR). With
            shuffle=False `treecv` and `kfold` read it there. Shuffling takes a copy in memory: put
            rows of a larger file into a random order when it is written

        Raises
        ------
        ValueError : a column that is no number (text, categories, times), or has missing values;
            files of a folder with different columns; a Series beside rows of other names
        """
        check_whole("memory", memory, 0)
        target = in_order_of(index_of(source), "target", target)
        X, y, index = _read(source, target, features, memory)
        found = cls(X, y)
        found.__dict__.update({} if index is None else {"index": index})
        return found


def _read(source: Any, target: Any, features: Sequence[str] | None, most: int) -> tuple:
    """X (n, d), in a scratch file beyond `most` bytes, y (n,) or None, and the names of rows."""
    if isinstance(source, str | PathLike) and Path(source).suffix == ".npy":
        return *_read_npy(source, target, features, most), None
    dataset = _dataset(source)
    target = _loaded(target, dataset.schema.names)
    label = [str(target)] if isinstance(target, str | int | PathLike) else []
    names = _features(dataset.schema, label, features)
    _check_files(dataset, [*names, *label], features is None)
    index = index_of(source)
    if index is None and "pandas" in sys.modules:  # else nothing else has names
        index = _index_of(dataset, target)
        target = target if index_of(target) is None else _by_index(target, index)
        index = None if _restarts(index) and not index.is_unique else index
    batches = dataset.to_batches(
        columns=[*names, *label],
        batch_size=max(1, BATCH // len(names)),
        batch_readahead=0,
        fragment_readahead=0,
        use_threads=False,
    )
    n_rows = dataset.count_rows()
    y = np.empty(n_rows) if label else target
    blocks = _blocks(batches, len(names), y)
    try:
        return _gathered(blocks, (n_rows, len(names)), most), y, index
    except require("pyarrow", extra="parquet").ArrowInvalid as error:
        schemas = [part.physical_schema for part in dataset.get_fragments()]
        wide = {n for n in [*names, *label] for each in schemas if _is_wide(each, n)}
        remedy = "float64 holds none beyond 2^53: leave them out by features=[...]"
        raise ValueError(f"whole numbers in {sorted(wide)}: {remedy} ({error})") from error


def _loaded(target, columns):
    """The numbers of a .npy file; anything else as it is, the name of a column too."""
    is_path = isinstance(target, str | PathLike) and str(target) not in columns
    return np.load(target) if is_path and Path(target).suffix == ".npy" else target


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
    target = _loaded(target, [])
    if isinstance(target, str | int | PathLike):
        raise ValueError(f"target = {target!r}: of a .npy file, give another .npy, or an array")
    X = np.load(path, mmap_mode="r")
    target = _by_index(target, None)
    if X.ndim != 2:
        raise ValueError(f"{path} has shape {X.shape}: it must be (rows, features)")
    if X.dtype == float and X.flags.c_contiguous and X.nbytes > most:
        return X, target
    parts = pieces(len(X), max(1, BATCH // max(1, X.shape[1])))
    return _gathered((real_array("X", X[part]) for part in parts), X.shape, most), target


def _dataset(source):
    """A Parquet file, those of a folder in the order of their names, or a frame, as Arrow reads."""
    if not isinstance(source, str | PathLike):
        is_table = hasattr(source, "__arrow_c_stream__") and not isinstance(source, type)
        if not is_table or len(getattr(source, "shape", (0, 0))) == 1:
            hint = " (collect() a LazyFrame)" if hasattr(source, "collect") else ""
            got = f"{type(source).__name__}{hint}; of arrays, Examples(X, y)"
            raise TypeError(f"the source must be {SOURCES}; got {got}")
        arrow = require("pyarrow", extra="parquet")
        of_pandas = partial(arrow.Table.from_pandas, preserve_index=False)
        try:
            table = (of_pandas if hasattr(source, "iloc") else arrow.table)(source)
        except arrow.ArrowException as error:  # numbers among text, complex ones, sets
            remedy = "give a frame without it, or make real numbers of it"
            raise ValueError(f"{error.args[-1]}: {remedy}") from error
        return require("pyarrow.dataset", extra="parquet").dataset(table)
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(f"no file or folder {path}")
    if path.is_file() and path.suffix not in (".parquet", ".pq"):
        raise ValueError(f"{path}: the source must be {SOURCES}")
    arrow = require("pyarrow.dataset", extra="parquet")
    scan = arrow.ParquetFragmentScanOptions(
        use_buffered_stream=True, buffer_size=BUFFER, pre_buffer=False
    )
    kind = arrow.ParquetFileFormat(default_fragment_scan_options=scan)
    files = sorted(arrow.dataset(path, format=kind).files, key=_place)
    if not files:
        raise ValueError(f"no Parquet files in {path}")
    dataset = arrow.dataset(files, format=kind, partitioning="hive")
    double = require("pyarrow", extra="parquet").float64()
    schema = dataset.schema  # of the first file: numbers of the others may be of wider types
    for number, field in enumerate(schema):
        if _is_number(field.type):
            schema = schema.set(number, field.with_type(double))
    return arrow.dataset(files, format=kind, partitioning="hive", schema=schema)


def _check_files(dataset, columns, every):
    """Raise ValueError unless each file has these columns, as numbers; `every`: and no others."""
    first = None
    for part in dataset.get_fragments():
        schema = part.physical_schema
        first = first or schema
        file = Path(getattr(part, "path", "")).name
        differ = set(schema.names) ^ set(first.names)
        for name in sorted(differ if every else differ & set(columns)):
            lacking = "lacks" if name in first.names else "alone has"
            raise ValueError(f"{file} {lacking} column {name!r}: write the files alike")
        for name in [name for name in columns if name in first.names]:
            kind = schema.field(name).type
            if not _is_number(kind):
                raise ValueError(f"column {name!r} is {kind} in {file}: make numbers of it there")


def _by_index(target, index):
    """Values of a Series in the order of the rows of an index; one without, in their own."""
    names = index_of(target)
    is_named = names is not None and not np.array_equal(names, np.arange(len(names)))
    if not is_named and _restarts(index):
        return target
    if is_named and index is None:
        raise ValueError("target is named by an index, the rows are not: pass its .to_numpy()")
    return in_order_of(index, "target", target)


def _restarts(index):
    """Whether an index counts from 0 anew in each of several files, and names no rows."""
    if index is None or index.dtype.kind not in "iu" or not len(index):
        return False
    places = np.asarray(index)
    return places[0] == 0 and bool(((places == 0) | (np.diff(places, prepend=-1) == 1)).all())


def _index_of(dataset, target):
    """The pandas index that files or a table were written with; None where there is none.

    None, too, of a part of a table: a Series beside several such files is a ValueError.
    """
    pandas = require("pandas", extra="tables")
    parts = []
    fragments = list(dataset.get_fragments())
    for part in fragments:
        columns = (part.physical_schema.pandas_metadata or {}).get("index_columns", [])
        if len(columns) != 1:
            return None
        if isinstance(columns[0], dict):
            ends = (columns[0][name] for name in ("start", "stop", "step"))
            parts.append(pandas.RangeIndex(*ends))
            if len(parts[-1]) != part.count_rows():
                if len(fragments) > 1 and index_of(target) is not None:
                    written = "the files have the rows of one frame in another order"
                    raise ValueError(f"{written}, as by partition_cols: write the target with them")
                return None
        else:
            parts.append(pandas.Index(part.to_table(columns=columns).column(0).to_pandas()))
    return parts[0].append(parts[1:])


def _is_number(kind):
    types = require("pyarrow", extra="parquet").types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


def _is_wide(schema, name):
    return name in schema.names and str(schema.field(name).type) in ("int64", "uint64")


def _place(file):
    """Where a file stands among its kin: numbers in names by value, as part.2 before part.10."""
    words = re.split(r"(\d+)", file)
    return [(int(word), word) if word.isdigit() else (0, word) for word in words]


def _features(schema, label, features):
    """The names of the features: all but the target and the index of a pandas frame, if None."""
    names = schema.names
    if features is None:
        index = (schema.pandas_metadata or {}).get("index_columns", [])
        features = [name for name in names if name not in index and name not in label]
    listed = list(features) if np.iterable(features) and not isinstance(features, str) else [None]
    if not all(isinstance(name, str | int) for name in listed):
        raise ValueError(f"features = {features!r:.60} must be a list of names of columns")
    features = list(map(str, listed))
    columns = [*features, *label]
    if len(set(columns)) < len(columns) or not features:
        raise ValueError(f"features {features} must be different columns, not the target {label}")
    for name in columns:
        found = names.count(name)
        if found != 1:
            raise ValueError(f"{found} columns {name!r}, of {', '.join(names)}: there must be one")
        kind = schema.field(name).type
        if not _is_number(kind):
            raise ValueError(
                f"column {name!r} is {kind}: make numbers of it (a 0/1 column a category, seconds "
                "of a time, float64 of a decimal), or name the columns to be used: features=[...]"
            )
    return features


def _blocks(batches, n_features, y):
    """X (m, d) of each batch in turn; its last column, the target if there is one, goes into y."""
    start = 0
    for batch in batches:
        block = np.empty((len(batch), batch.num_columns))
        for number, column in enumerate(batch.columns):
            if column.null_count:
                valid = column.is_valid().to_numpy(zero_copy_only=False)
                where = f"row {start + np.argmin(valid)} the first"
                raise ValueError(
                    f"column {batch.schema.names[number]!r} has missing values, {where}: fill them "
                    "in, or drop the rows"
                )
            block[:, number] = column.cast("float64").to_numpy(zero_copy_only=False)
        if block.shape[1] > n_features:
            y[start : start + len(block)] = block[:, -1]
        start += len(block)
        yield np.ascontiguousarray(block[:, :n_features])
