"""Sites, flags and labels as users give them: what is taken, and what is wrong with the rest."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from ..checks import MOST, check_whole, real_array
from ..declared import Check, Sizes

Flags = np.ndarray | None

NOT_SITES = "is not a non-empty 1-d array of site numbers"
REMEDY = """
folds must be a sequence of integer arrays of sites, one a fold.
For a mask: np.flatnonzero(mask). For pairs (training set, test set): folds.from_splitter.
For one label a site: [np.flatnonzero(labels == a) for a in np.unique(labels)]."""


class Sites(Sequence):
    """A list of arrays, the sites of each fold: all of them end to end, and how many each has."""

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
            kind = type(folds).__name__
            raise ValueError(f"folds are {kind}, whose keys or digits are no folds.{REMEDY}")
        if dimensions == 2 and folds.dtype.kind in "iu":
            table = as_fold(folds, "folds", 2)
            copied = cls(table.ravel(), np.full(*table.shape))
        else:
            arrays = [as_fold(sites, f"fold {number}") for number, sites in enumerate(folds)]
            sizes = np.array([len(sites) for sites in arrays], int)
            copied = cls(np.concatenate([np.empty(0, np.int64), *arrays]), sizes)
        copied.check_range(n_sites)
        if not (np.diff(copied.keys) > 0).all():
            repeated = np.ones(len(copied.keys), bool)
            repeated[np.unique(copied.keys, return_index=True)[1]] = False
            copied.refuse(repeated, "holds site {} more than once")
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

    @cached_property
    def keys(self) -> np.ndarray:
        """One number for each (fold, site), in the order of such pairs."""
        return np.repeat(MOST * np.arange(len(self)), self.sizes) + self.sites

    def check_range(self, n_sites: int) -> None:
        """Raise ValueError for a site that is none of 0 ... n_sites - 1."""
        outside = (self.sites < 0) | (self.sites >= n_sites)
        self.refuse(outside, f"holds site {{}}, outside 0 ... {n_sites - 1}")

    def refuse(self, bad: np.ndarray, says: str) -> None:
        """Raise ValueError for the first bad one of the sites, or of the folds if none is said."""
        if not bad.any():
            return
        place = np.argmax(bad)
        if "{}" in says:
            says = says.format(self.sites[place])
            place = np.searchsorted(self.ends, place, "right") - 1
        raise ValueError(f"fold {place} {says}")


class InModel(Check):
    """Sites of a model, none twice, of its `n_sites`."""

    def __call__(self, name: str, value: Any, sizes: Sizes) -> np.ndarray:
        return Sites.of([value], sizes.of("n_sites")).sites


Fold = Annotated[np.ndarray, InModel()]


def as_fold(sites: Any, name: str, ndim: int = 1) -> np.ndarray:
    """Copy the sites of one fold (size,), or of a table of folds, as int64."""
    try:
        array = np.asarray(sites)
    except ValueError:  # its entries differ in length
        array = np.empty(2, object)
    if array.ndim != ndim or not (array.dtype.kind in "iu" or array.size == 0):
        got = f"{array.dtype} of shape {array.shape}"
        raise ValueError(f"{name} {NOT_SITES}, but {got}.{REMEDY}")
    if isinstance(sites, np.ma.MaskedArray):
        raise ValueError(f"{name} is a masked array: give its .compressed() numbers")
    if array.dtype.kind == "u":
        array = np.minimum(array, np.uint64(MOST))  # unsigned integers may wrap
    return np.array(array, np.int64)


def observed_mask(n_sites: int, observed: Flags) -> np.ndarray:
    """Flags (n_sites,) as bool, all True for None."""
    if observed is None:
        return np.ones(n_sites, bool)
    mask = real_array("observed", observed, finite=False)
    if mask.shape != (n_sites,):
        raise ValueError(f"observed has shape {mask.shape}, not ({n_sites},): one flag a site")
    flags = np.isin(mask, [False, True])
    if not flags.all():
        raise ValueError(f"observed must be True or False, one flag a site; got {mask[~flags][0]}")
    if not mask.any():
        raise ValueError("no site is observed: there is nothing to leave out in a fold")
    return mask.astype(bool)


def numbered(name: str, labels: Any) -> tuple[np.ndarray, list]:
    """(the number of each site's label, the labels): different labels stay different.

    They are in order where they have one, else as they come. ValueError for what are no labels of
    sites, and for nan and None, which are like no label.
    """
    values: Any = labels
    if not isinstance(labels, list | tuple):  # whose types numpy would merge
        array = np.empty(()) if isinstance(labels, np.ma.MaskedArray) else np.asarray(labels)
        values = array.tolist() if array.ndim == 1 else [None]
    try:
        usable = all(label is not None and label == label for label in set(values))
    except (TypeError, ValueError):  # lists, arrays, pandas.NA
        usable = False
    if not usable:
        raise ValueError(f"{name} of shape {np.shape(labels)}: give one a site, none of them nan")
    order = list(dict.fromkeys(values))
    with suppress(TypeError):  # of several types
        order = sorted(order)
    places = {label: place for place, label in enumerate(order)}
    return np.array([places[label] for label in values], int), order


def check_windows(
    starts: Any, n_sites: int, horizon: int | None, gap: int
) -> tuple[np.ndarray, int | None, int]:
    """Copy (starts, horizon, gap) of windows in time; ValueError for one that has no room."""
    gap = check_whole("gap", gap, 0)
    horizon = None if horizon is None else check_whole("horizon", horizon, 1)
    latest = n_sites - (horizon or 1)
    sites = as_fold(starts, "starts")
    for number in np.flatnonzero((sites <= gap) | (sites > latest)):
        bounds = f"from {gap + 1} to {latest}, with gap {gap} and horizon {horizon}"
        raise ValueError(f"fold {number} starts at site {sites[number]}: must be {bounds}")
    return sites, horizon, gap
