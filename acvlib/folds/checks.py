"""Sites, flags and labels as users give them: what is taken, and what is wrong with the rest.

The sites of all folds are checked end to end: a look at each fold takes ten times as long.
"""

from contextlib import suppress
from typing import Annotated, Any, NamedTuple

import numpy as np

from ..checks import MOST, check_whole, real_array
from ..declared import Check, Sizes

Sites = Any  # a list of integer arrays, or a table (n_folds, size)
Flags = np.ndarray | None

NOT_SITES = "is not a non-empty 1-d array of site numbers"
REMEDY = """
folds must be a sequence of integer arrays of sites, one a fold.
For a mask: np.flatnonzero(mask). For pairs (training set, test set): folds.from_splitter.
For one label a site: [np.flatnonzero(labels == a) for a in np.unique(labels)]."""


class Known(NamedTuple):
    """How many sites there are, which are observed (n,), and what they are: "rows", "steps", ..."""

    n: int
    observed: np.ndarray
    sites: str

    @classmethod
    def of(cls, n_sites: Any, observed: Flags = None) -> "Known":
        """Of a number of sites, or of a model, which knows what is observed and of what kind."""
        n = check_whole("n_sites", getattr(n_sites, "n_sites", n_sites), 1)
        observed = getattr(n_sites, "observed", None) if observed is None else observed
        kind = getattr(n_sites, "sites", "")
        mask = np.ones(n, bool) if observed is None else observed_mask(n, observed)
        return cls(n, mask, kind if isinstance(kind, str) else "")

    @property
    def numbers(self) -> np.ndarray:
        """The observed sites."""
        return np.flatnonzero(self.observed)

    def between(self, start: int, end: int) -> np.ndarray:
        """The observed sites from start to end, which is excluded, as far as there are any."""
        start = max(start, 0)
        return start + np.flatnonzero(self.observed[start:end])


def one_fold(sites: Any, n_sites: int) -> np.ndarray:
    """Copy the sites of one fold; ValueError for a repeated one, and for one that is not there."""
    fold = as_fold(sites, "the fold")
    check_range([fold], n_sites)
    different, counts = np.unique(fold, return_counts=True)
    if len(different) < len(fold):
        raise ValueError(f"the fold holds site {different[counts > 1][0]} more than once")
    return fold


class InModel(Check):
    """Sites of a model, none twice, of its `n_sites`."""

    def __call__(self, name: str, value: Any, sizes: Sizes) -> np.ndarray:
        return one_fold(value, sizes.of("n_sites"))


Fold = Annotated[np.ndarray, InModel()]


def as_fold(sites: Any, name: str, ndim: int = 1) -> np.ndarray:
    """Copy the sites of one fold (size,), or of a table of folds, as int64."""
    try:
        array = np.asarray(sites)
    except ValueError:  # its entries differ in length
        array = np.empty(2, object)
    if array.ndim != ndim or not (array.dtype.kind in "iu" or array.size == 0):
        given = f"{array.dtype} of shape {array.shape}"
        raise ValueError(f"{name} {NOT_SITES}, but {given}.{REMEDY}")
    if isinstance(sites, np.ma.MaskedArray):
        raise ValueError(f"{name} is a masked array: give its .compressed() numbers")
    if array.dtype.kind == "u":
        array = np.minimum(array, np.uint64(MOST))  # unsigned integers may wrap
    return np.array(array, np.int64)


def as_sites(folds: Any, n_sites: int) -> Sites:
    """Copy folds of distinct sites: a table as a table, else as a list of arrays (size,)."""
    dimensions = folds.ndim if isinstance(folds, np.ndarray) else 1
    if hasattr(folds, "keys") or not hasattr(folds, "__iter__") or dimensions == 0:
        given = type(folds).__name__
        raise ValueError(f"folds are {given}, whose keys or digits are no folds.{REMEDY}")
    if dimensions == 2 and folds.dtype.kind in "iu":
        copied: Sites = as_fold(folds, "folds", 2)
    else:
        copied = [as_fold(sites, f"fold {number}") for number, sites in enumerate(folds)]
    every = check_range(copied, n_sites)
    keys = every.keys()
    if not (np.diff(keys) > 0).all():
        repeated = np.ones(len(keys), bool)
        repeated[np.unique(keys, return_index=True)[1]] = False
        every.refuse(repeated, "holds site {} more than once")
    return copied


class EndToEnd(NamedTuple):
    """The sites of all folds, one fold after the other, and the size of each fold."""

    sites: np.ndarray
    sizes: np.ndarray

    def keys(self) -> np.ndarray:
        """One number for each (fold, site), in the order of such pairs."""
        return np.repeat(MOST * np.arange(len(self.sizes)), self.sizes) + self.sites

    def refuse(self, bad: np.ndarray, says: str) -> None:
        """Raise ValueError for the first bad one of the sites, or of the sizes if none is said."""
        for place in np.flatnonzero(bad)[:1]:
            of_sites = "{}" in says
            fold = np.searchsorted(np.cumsum(self.sizes), place, "right") if of_sites else place
            raise ValueError(f"fold {fold} {says.format(self.sites[place] if of_sites else '')}")


def end_to_end(folds: Sites) -> EndToEnd:
    """The folds' sites in one array."""
    if isinstance(folds, np.ndarray):
        return EndToEnd(folds.ravel(), np.full(*folds.shape))
    sizes = np.array([len(sites) for sites in folds], int)
    return EndToEnd(np.concatenate([np.empty(0, int), *folds]), sizes)


def check_range(folds: Sites, n_sites: int) -> EndToEnd:
    """The folds end to end. Raises ValueError for a site that is none of 0 ... n_sites - 1."""
    every = end_to_end(folds)
    outside = (every.sites < 0) | (every.sites >= n_sites)
    every.refuse(outside, f"holds site {{}}, outside 0 ... {n_sites - 1}")
    return every


def check_scored(omitted: Sites, scored: Sites) -> None:
    """Raise ValueError where a fold scores a site that it does not omit."""
    if len(omitted) != len(scored):
        raise ValueError(f"{len(omitted)} folds are omitted, {len(scored)} are scored")
    every = end_to_end(scored)
    held_out = np.isin(every.keys(), end_to_end(omitted).keys())
    reason = "a site that was fitted cannot be held out"
    every.refuse(~held_out, f"scores site {{}}, which it does not omit from the fit: {reason}")


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
        shape = getattr(labels, "shape", (len(values),))
        raise ValueError(f"{name} of shape {shape}: give one a site, none of them nan")
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
