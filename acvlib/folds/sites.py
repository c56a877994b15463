"""Sites as users give them: how many there are, which are observed, and those of each fold."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from ..checks import MOST, check_whole, in_order_of, index_of, real_array

Flags = np.ndarray | None

NOT_SITES = "is not a non-empty 1-d array of site numbers"
REMEDY = """
folds must be a sequence of integer arrays of sites, one a fold.
For a mask: np.flatnonzero(mask). For pairs (training set, test set): folds.from_splitter.
For one label a site: [np.flatnonzero(labels == a) for a in np.unique(labels)]."""


class Known(NamedTuple):
    """How many sites there are, which are observed (n,), what they are, and their names or None."""

    n: int
    observed: np.ndarray
    sites: str  # "rows", "steps", ...
    index: Any = None

    @classmethod
    def of(cls, n_sites: Any, observed: Flags = None) -> "Known":
        """Of a number of sites, or of a model, which knows what is observed and of what kind."""
        n = check_whole("n_sites", getattr(n_sites, "n_sites", n_sites), 1)
        kind = getattr(n_sites, "sites", "")
        observed = getattr(n_sites, "observed", None) if observed is None else observed
        index = index_of(n_sites, observed)
        observed = in_order_of(index, "observed", observed)
        flags = real_array("observed", np.ones(n) if observed is None else observed, finite=False)
        if flags.shape != (n,):
            raise ValueError(f"observed has shape {flags.shape}, not ({n},): one flag a site")
        if not np.isin(flags, [0.0, 1.0]).all():
            raise ValueError("observed must be True or False, one flag a site")
        if not flags.any():
            raise ValueError("no site is observed: there is nothing to leave out in a fold")
        if index is not None and len(index) != n:
            raise ValueError(f"index holds {len(index)} names, not {n}: one a site. Rename others")
        return cls(n, flags.astype(bool), kind if isinstance(kind, str) else "", index)

    @property
    def numbers(self) -> np.ndarray:
        """The observed sites."""
        return np.flatnonzero(self.observed)

    @property
    def names(self) -> Any:
        """Those of the observed sites, or None."""
        return None if self.index is None else self.index[self.observed]


class Partly(np.ndarray):
    """What the sites of a fold are a view of, where it scores only some of them."""


def as_fold(sites: Any, name: str, ndim: int = 1, wanted: str = "") -> np.ndarray:
    """Copy the sites of one fold (size,), or of a table of folds, as int64; wanted: else."""
    if hasattr(sites, "get_indexer"):  # an Index of pandas
        places = "of groups, .groupby(...).indices; of others, np.flatnonzero"
        raise ValueError(f"{name} is an Index, labels and not places: give numbers: {places}")
    array = np.empty(2, object)
    with suppress(ValueError):  # its entries differ in length
        array = np.asarray(sites)
    if array.ndim != ndim or not (array.dtype.kind in "iu" or array.size == 0):
        got = f"but {array.dtype} of shape {array.shape}."
        raise ValueError(f"{name} {wanted or NOT_SITES}, {got}{'' if wanted else REMEDY}")
    if isinstance(sites, np.ma.MaskedArray):
        raise ValueError(f"{name} is a masked array: give its .compressed() numbers")
    if array.dtype.kind == "u":
        array = np.minimum(array, np.uint64(MOST))  # unsigned integers may wrap
    return np.array(array, np.int64)


def as_set(sites: Any, n_sites: int, name: str = "the set of sites") -> np.ndarray:
    """Copy a set of sites as int64; ValueError for one that is none of 0 ... n_sites - 1."""
    copied = as_fold(sites, name)
    outside = copied[(copied < 0) | (copied >= n_sites)]
    if outside.size:
        raise ValueError(f"{name} holds site {outside[0]}, outside 0 ... {n_sites - 1}")
    return copied


def pairs_of(cv: Any) -> list:
    """List pairs (training set, test set); ValueError names what is none."""
    several = hasattr(cv, "__iter__") and not hasattr(cv, "keys") and getattr(cv, "ndim", 1) != 0
    pairs = list(cv) if several else [cv]
    for number, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            expected = "a pair (training set, test set); of folds, make acv.Folds, as by k_fold"
            raise ValueError(f"split {number} must be {expected}; got {type(pair).__name__}")
    return pairs


class Sites(Sequence):
    """A list of arrays, the sites of each fold: all of them end to end, and how many each has.

    partly: whether it was made of folds of which only some sites are scored.
    """

    partly = False

    def __init__(self, sites: np.ndarray, sizes: np.ndarray):
        self.sites = sites
        self.sizes = sizes
        self.ends = np.append(0, np.cumsum(sizes))

    @classmethod
    def of(cls, folds: Any, n_sites: int = MOST) -> "Sites":
        """Copy a sequence or a table of folds; ValueError unless each is a set of these sites."""
        if isinstance(folds, Sites):
            return folds
        dimensions = folds.ndim if isinstance(folds, np.ndarray) else 1
        if hasattr(folds, "keys") or not hasattr(folds, "__iter__") or dimensions == 0:
            told = f"folds are {type(folds).__name__}, whose keys or digits are no folds"
            raise ValueError(f"{told}.{REMEDY}")
        if dimensions == 2 and folds.dtype.kind in "iu":
            table = as_fold(folds, "folds", 2)
            copied = cls(table.ravel(), np.full(*table.shape))
        else:
            folds = list(folds)
            arrays = [as_fold(sites, f"fold {number}") for number, sites in enumerate(folds)]
            sizes = np.array([len(sites) for sites in arrays], int)
            copied = cls(np.concatenate([np.empty(0, np.int64), *arrays]), sizes)
            copied.partly = any(isinstance(getattr(s, "base", None), Partly) for s in folds)
        copied.check_range(n_sites)
        keys = copied.keys
        if not (np.diff(keys) > 0).all():
            first = np.unique(keys, return_index=True)[1]
            copied.refuse(~np.isin(np.arange(len(keys)), first), "holds site {} more than once")
        return copied

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, int | np.integer):
            number = range(len(self))[rows]
            return self.sites[self.ends[number] : self.ends[number + 1]]
        numbers = np.arange(len(self))[rows]
        sizes = self.sizes[numbers]
        shift = self.ends[numbers] - (np.cumsum(sizes) - sizes)
        return Sites(self.sites[np.arange(sizes.sum()) + np.repeat(shift, sizes)], sizes)

    def __iter__(self) -> Iterator[np.ndarray]:
        return map(self.sites.__getitem__, map(slice, self.ends[:-1], self.ends[1:]))

    @property
    def keys(self) -> np.ndarray:
        """One number for each (fold, site), in the order of such pairs."""
        return np.repeat(MOST * np.arange(len(self)), self.sizes) + self.sites

    def check_range(self, n_sites: int) -> None:
        """Raise ValueError for a site that is none of 0 ... n_sites - 1."""
        outside = (self.sites < 0) | (self.sites >= n_sites)
        last = f"0 ... {n_sites - 1}" if n_sites < MOST else "0, 1, 2, ..."
        self.refuse(outside, f"holds site {{}}, outside {last}")

    def check_observed(self, observed: np.ndarray) -> None:
        """Raise ValueError for a site that is missing, (n_sites,) False."""
        self.refuse(~observed[self.sites], "holds site {}, which is missing: drop it")

    def refuse(self, bad: np.ndarray, says: str) -> None:
        """Raise ValueError for the first bad one of the sites, or of the folds if none is said."""
        if not bad.any():
            return
        place = np.argmax(bad)
        if "{}" in says:
            says = says.format(self.sites[place])
            place = np.searchsorted(self.ends, place, "right") - 1
        raise ValueError(f"fold {place} {says}")
