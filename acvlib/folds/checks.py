"""Sites, flags and labels as users give them: what is taken, and what is wrong with the rest."""

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from ..checks import MOST, check_whole, real_array

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
        return cls(n, observed_mask(n, observed), kind if isinstance(kind, str) else "")

    @property
    def numbers(self) -> np.ndarray:
        """The observed sites."""
        return np.flatnonzero(self.observed)

    def between(self, start: int, end: int) -> np.ndarray:
        """The observed sites from start to end, which is excluded, as far as there are any."""
        start = max(start, 0)
        return start + np.flatnonzero(self.observed[start:end])


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


def as_set(sites: Any, n_sites: int) -> np.ndarray:
    """Copy a set of sites as int64; ValueError for one that is none of 0 ... n_sites - 1."""
    copied = as_fold(sites, "the set of sites")
    if copied.size and (copied.min() < 0 or copied.max() >= n_sites):
        outside = copied[(copied < 0) | (copied >= n_sites)][0]
        raise ValueError(f"the set holds site {outside}, outside 0 ... {n_sites - 1}")
    return copied


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


def weights(n_sites: int, sites: np.ndarray) -> np.ndarray:
    """w_o (n_sites,): 1 everywhere and 0 at the given sites."""
    w = np.ones(check_whole("n_sites", n_sites, 1))
    w[as_set(sites, n_sites)] = 0.0
    return w
