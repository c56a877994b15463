"""Numbers, arrays and objects as users give them: what is taken, what is wrong with the rest.

And how objects are shown: in one line; and what only some functions need: imported where used.
"""

import sys
import warnings
from contextlib import suppress
from dataclasses import fields, is_dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, get_args

import numpy as np
from autograd.tracer import isbox

AXES = {0: "one number", 1: "1-d", 2: "2-d"}
INF = float("inf")
MOST = 2**40  # of anything that is counted
WHOLE = 2**53  # up to which floating point has every whole number
LARGEST = 1e150  # of any number: its square is one
WIDEST = 120  # characters of what is shown of an object
FEW = 4  # entries that are shown one by one


class NotFinite(ValueError):
    """What was computed is nan or infinite: an objective, a loss, a score, a Hessian."""


def real_array(name: str, values: Any, ndim: int | None = None, finite: bool = True) -> np.ndarray:
    """Copy real numbers as float64; ValueError names what is none, or not finite."""
    if isinstance(values, np.ma.MaskedArray):
        meaning = "where a value says missing (-1 of counts, 0 of weights, nan), or leave these out"
        raise ValueError(f"{name} is a masked array: pass its .filled(value), {meaning}")
    if hasattr(values, "toarray"):
        raise ValueError(f"{name} is sparse: pass its .toarray()")
    try:
        given = np.asarray(values)
        if given.dtype.kind not in "biufO":
            raise TypeError(given.dtype)
        is_whole = given.dtype.kind in "iu" and given.size
        if is_whole and max(-int(given.min()), int(given.max())) > WHOLE:
            raise OverflowError
        if given.dtype == object:  # numbers of any class, but neither None nor text
            given = np.frompyfunc(_as_float, 1, 1)(given)
        array = np.array(given, float)
    except OverflowError:
        rounded = f"{name} holds whole numbers beyond 2^53, which floating point rounds"
        raise ValueError(f"{rounded}: subtract an offset first, or divide") from None
    except (TypeError, ValueError):  # text, complex numbers, dates, rows of different lengths
        kind = getattr(values, "dtype", type(values).__name__)
        raise ValueError(f"{name} must be real numbers; got {kind}: {values!r:.60}") from None
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name} of shape {array.shape} must be {AXES[ndim]}")
    if finite and not (abs(array) <= LARGEST).all():
        bad = np.argwhere(~(abs(array) <= LARGEST))[0]
        place = f" at {bad.tolist()}" if bad.size else ""
        found = f"it holds {array[tuple(bad)]}{place}"
        raise ValueError(f"{name} must be finite, up to {LARGEST:g}; {found}")
    return array


def _as_float(number):
    if isinstance(number, int | np.integer) and abs(number) > WHOLE:
        raise OverflowError
    return np.nan if type(number).__name__ == "NAType" else float(0 + number)  # pandas.NA


def real_or_box(name: str, values: Any, ndim: int | None = None) -> Any:
    """`real_array`, contiguous; what autograd passes through is its own business."""
    return values if isbox(values) else np.ascontiguousarray(real_array(name, values, ndim))


def read_only(values: Any, dtype: Any = float) -> np.ndarray:
    """Copy an array that a model is given: the caller may change theirs."""
    copied = np.array(values, dtype)
    copied.setflags(write=False)
    return copied


def index_of(*things: Any) -> Any:
    """The index of the first that has one, as in pandas, or of a model or what it observes."""
    every = (each for thing in things for each in (thing, getattr(thing, "observed", None)))
    indices = (getattr(each, "index", None) for each in every)  # a list has a method `index`
    return next((index for index in indices if hasattr(index, "equals")), None)


def in_order_of(index: Any, name: str, values: Any) -> Any:
    """The values in the order of the index of others: by name where they have one, as in pandas.

    Raises ValueError where the names differ, or a name that is there twice stands elsewhere.
    """
    names = index_of(values)
    others = "columns" if isinstance(index, list) else "rows"
    if others == "columns" and names is not None:
        index = sys.modules["pandas"].Index(index)
    if names is None or not hasattr(index, "equals") or index.equals(names):
        return values
    order, back = names.get_indexer_for(index), index.get_indexer_for(names)
    alike = np.array_equal(order, np.argsort(back)) and np.array_equal(back, np.argsort(order))
    if not alike or not hasattr(values, "iloc"):
        places = f"if they are in the order of the {others}, pass .to_numpy()"
        raise ValueError(f"the index of {name} differs from that of the {others}: {places}")
    return values.iloc[order]


def numbered(labels: Any) -> tuple[np.ndarray, list]:
    """(the number of each site's label, the labels): different labels stay different.

    They are in order where they have one, else as they come.
    """
    values: Any = labels
    if not isinstance(labels, list | tuple):  # whose types numpy would merge
        array = np.empty(()) if isinstance(labels, np.ma.MaskedArray) else np.asarray(labels)
        as_list: Any = list if array.dtype.kind in "mM" else np.ndarray.tolist  # dates stay dates
        values = as_list(array) if array.ndim == 1 else [None]
    try:
        usable = all(label is not None and label == label for label in set(values))
    except (TypeError, ValueError):  # lists, arrays, pandas.NA
        usable = False
    if not usable:
        wanted = "one a site, none of them nan or masked: frame['column'], or list(labels)"
        raise ValueError(f"labels are {brief(labels)}, and must be {wanted}")
    order = list(dict.fromkeys(values))
    with suppress(TypeError):  # of several types
        order = sorted(order)
    if getattr(kind := getattr(labels, "dtype", None), "ordered", False):  # categories of pandas
        order = [name for name in as_list(np.asarray(kind.categories)) if name in order]
    places = {label: place for place, label in enumerate(order)}
    return np.array([places[label] for label in values], int), order


def columns_of(table: Any) -> list | None:
    """The names of the columns of a table, as of pandas, polars and pyarrow; None of an array."""
    if len(getattr(table, "shape", ())) != 2:
        return None
    names = getattr(table, "columns", None)
    if not hasattr(table, "iloc"):  # of pandas, where any name may be that of a column
        names = getattr(table, "column_names", names)
    return None if names is None else list(names)


def in_columns_of(columns: list | None, name: str, table: Any) -> Any:
    """The table with its columns in the order of these, by name where both have names.

    A name of None is that of any column at this place. Raises ValueError where the names differ.
    """
    names = columns_of(table)
    if columns is None or names is None:
        return table
    pairs = zip(columns, [*names, *columns], strict=False)
    columns = [at_place if name is None else name for name, at_place in pairs]
    if names == columns:
        return table
    if set(names) != set(columns) or not len(set(names)) == len(names) == len(columns):
        places = "if they stand at the same places, pass .to_numpy()"
        raise ValueError(f"{name} has columns {names}, and not {columns}: {places}")
    return table[columns] if hasattr(table, "iloc") else table.select(columns)


def in_named_columns(columns: Any, name: str, table: Any) -> Any:
    """`in_columns_of`, but for columns that are numbered as they stand: they have no names."""
    names = columns_of(table)
    is_numbered = names == list(range(len(names or ())))
    return table if is_numbered else in_columns_of(list(columns), name, table)


def shared_columns(data: Any, tables: list) -> list | None:
    """The names that columns have: those of the first of some tables that has any."""
    if isinstance(data, Tables) and data.columns is not None:
        return data.columns
    return next(filter(None, map(columns_of, tables)), None)


class Tables(tuple):
    """Checked arrays (T_n, R); names of columns, the index of each and of all; None without."""

    columns: list | None = None
    indices: list | None = None
    names: Any = None

    @property
    def index(self) -> Any:
        """The names, where `index_of` looks for them."""
        return self.names

    def named(self, columns: list | None, indices: list | None, names: Any = None) -> "Tables":
        """These, which have these names."""
        self.columns = columns
        self.indices = indices
        self.names = names
        return self

    def names_of_rows(self, context: int = 0) -> Any:
        """The names of all rows, but for the first `context` of each table.

        None where some, or all of several, have none.
        """
        counted = [getattr(index, "start", None) == 0 for index in self.indices or ()]
        nameless = len(counted) > 1 and all(counted)  # what pandas makes itself
        if nameless or not self.indices or any(index is None for index in self.indices):
            return None
        first, *others = (index[context:] for index in self.indices)
        return first.append(others)


def indices_of(*data: Any) -> list:
    """The index of each of several tables, as in pandas, whoever has one; None without."""
    each = [getattr(own, "indices", None) or [index_of(table) for table in own] for own in data]
    return [next((i for i in own if i is not None), None) for own in zip(*each, strict=False)]


def check_whole(name: str, value: Any, least: int, most: float = MOST, of: str = "") -> int:
    """The value as an int; ValueError unless it is a whole number from least to most."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        bounds = f"must be a whole number from {least} to {most}"
        shown = repr(value) if isinstance(value, str) else value
        raise ValueError(f"{name} = {shown!s:.60}{of}: {bounds}")
    return int(value)


def check_choice(name: str, value: Any, choices: Any) -> None:
    """Raise ValueError unless a value is one of these names."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"unknown {name} {value!r:.60}: one of {', '.join(choices)}")


def check_kind(name: str, value: Any, kind: Any, remedy: str = "") -> None:
    """Raise TypeError unless a value is of this kind, or one of `A | B`; remedy: the last words."""
    is_class = isinstance(value, type)
    if is_class or not isinstance(value, kind):
        got = f"the class {value.__name__}" if is_class else f"of type {type(value).__name__}"
        wanted = " or ".join(each.__name__ for each in get_args(kind) or (kind,))
        raise TypeError(f"{name} must be of type {wanted}; what was given is {got}{remedy}")


def warn(message: str, category: type[Warning]) -> None:
    """Warn of the line outside acvlib that asked for what is warned of."""
    frame = sys._getframe()
    level = 1
    while frame and frame.f_globals.get("__name__", "").partition(".")[0] == "acvlib":
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)


def one_line(self: Any) -> str:
    """Show `n_sites`, if there are sites, and what is not its default: a class's `__repr__`.

    Of a dataclass the fields with repr=True are shown, of other objects all that is public.
    """
    if is_dataclass(self):
        names = [each.name for each in fields(self) if each.repr]
    else:
        names = getattr(self, "_fields", None) or [name for name in vars(self) if name[0] != "_"]
    shown = {"n_sites": brief(self.n_sites)} if hasattr(self, "n_sites") else {}
    shown |= {name: brief(getattr(self, name)) for name in names}
    defaults = {name: brief(getattr(type(self), name, "")) for name in names}
    changed = [f"{name}={text}" for name, text in shown.items() if text != defaults.get(name)]
    return shortened(f"{type(self).__name__}({', '.join(changed)})", WIDEST)


def brief(value: Any) -> str:
    """Say what a value is in at most 60 characters: its number, its name or its size."""
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, np.ndarray) and value.dtype == bool:
        return f"{value.sum()} of {value.size}"
    if type(value) in (list, tuple) or getattr(value, "ndim", 0) == 1:
        few = len(value) <= FEW
        return f"[{', '.join(map(brief, value))}]" if few else f"{len(value):,} entries"
    if hasattr(value, "shape"):
        return f"{type(value).__name__} {value.shape}"
    name = getattr(value, "__name__", getattr(value, "name", None))
    if isinstance(name, str):
        return name
    text = " ".join(repr(value).split())
    return shortened(text, 60) if " at 0x" not in text else type(value).__name__


def shortened(text: str, size: int) -> str:
    """Cut a text to a size, ending in dots."""
    return text if len(text) <= size else f"{text[: size - 3]}..."


def require(name: str, extra: str) -> ModuleType:
    """Import the module `name`; ImportError says which extra of acvlib brings it if missing."""
    package, *_ = name.split(".")
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != package:  # the package is there, and lacks something itself
            raise
        raise ImportError(f"this needs {package}: pip install 'acvlib[{extra}]'") from error
