"""The sites that each fold omits from the fit, and those of them that it scores."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from ..checks import MOST, check_kind, check_whole, in_order_of, real_array, require

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
        kind = getattr(n_sites, "sites", "")
        observed = getattr(n_sites, "observed", None) if observed is None else observed
        flags = real_array("observed", np.ones(n) if observed is None else observed, finite=False)
        if flags.shape != (n,):
            raise ValueError(f"observed has shape {flags.shape}, not ({n},): one flag a site")
        if not np.isin(flags, [0.0, 1.0]).all():
            raise ValueError("observed must be True or False, one flag a site")
        if not flags.any():
            raise ValueError("no site is observed: there is nothing to leave out in a fold")
        return cls(n, flags.astype(bool), kind if isinstance(kind, str) else "")

    @property
    def numbers(self) -> np.ndarray:
        """The observed sites."""
        return np.flatnonzero(self.observed)


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
            told = f"folds are {type(folds).__name__}, whose keys or digits are no folds"
            raise ValueError(f"{told}.{REMEDY}")
        if dimensions == 2 and folds.dtype.kind in "iu":
            table = as_fold(folds, "folds", 2)
            copied = cls(table.ravel(), np.full(*table.shape))
        else:
            arrays = [as_fold(sites, f"fold {number}") for number, sites in enumerate(folds)]
            sizes = np.array([len(sites) for sites in arrays], int)
            copied = cls(np.concatenate([np.empty(0, np.int64), *arrays]), sizes)
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


@dataclass(frozen=True, eq=False)
class Folds:
    """The sites that each fold omits from the fit, and those of them that it scores (all, if None).

    Either is a sequence of integer arrays, or a table (n_folds, size) of folds of one size; both
    are copied. Length, iteration and `folds[i]` are those of a list of the omitted sites, as users
    of k-fold expect; `folds[rows]` with a slice or an array of numbers gives `Folds`. ValueError
    for anything else, and for sites that are repeated, or scored but not omitted.

    n_sites, sites: how many sites there are, in and outside folds, and of what kind, as "steps" or
    "sequences"; a model of other sites refuses them. None and "" where that is not known. labels
    (n_folds,): the user's name of each fold, such as the group that it leaves out, or None.
    """

    omitted: Any
    scored: Any = None
    n_sites: int | None = None
    labels: Any = None
    sites: str = ""
    sizes: np.ndarray = field(init=False, repr=False)  # how many sites each fold omits, (n_folds,)

    def __post_init__(self):
        if isinstance(self.omitted, Folds):
            raise ValueError("these are Folds already: use them as they are")
        n_sites = MOST if self.n_sites is None else check_whole("n_sites", self.n_sites, 1)
        omitted = Sites.of(self.omitted, n_sites)
        scored = omitted
        if self.scored is not None:
            scored = Sites.of(self.scored)
            if len(omitted) != len(scored):
                raise ValueError(f"{len(omitted)} folds are omitted, {len(scored)} are scored")
            says = "scores site {}, which it does not omit: what was fitted cannot be held out"
            scored.refuse(~np.isin(scored.keys, omitted.keys), says)
            scored = omitted if np.array_equal(omitted.keys, scored.keys) else scored
        if (labels := self.labels) is not None:
            labels = np.empty(len(self.labels), object)  # numbers and texts stay what they are
            labels[:] = list(self.labels)
            if len(labels) != len(omitted):
                raise ValueError(f"{len(labels)} labels of {len(omitted)} folds: give one a fold")
        self.__dict__.update(omitted=omitted, scored=scored, labels=labels, sizes=omitted.sizes)

    @classmethod
    def of(cls, folds: Any, model: Any, observed: Flags = None) -> "Folds":
        """Check folds of any form against a model's sites; ValueError names a bad fold."""
        folds = folds if isinstance(folds, Folds) else cls(folds)
        known = Known.of(model, observed)
        remedy = "make them of the model, as by acv.folds.k_fold(model, 5)"
        if folds.n_sites not in (None, known.n):
            made = (
                f"these folds were made for {folds.n_sites:,} sites, and the model has {known.n:,}"
            )
            groups = "groups of sites, as all steps of a sequence, by acv.folds.leave_group_out"
            raise ValueError(f"{made}: {remedy}, or with n_sites={known.n}; {groups}")
        if folds.sites and known.sites and folds.sites != known.sites:
            made = f"these folds leave out {folds.sites}, and the model {known.sites}"
            raise ValueError(f"{made}: {remedy}")
        if not len(folds):
            raise ValueError("no folds: give a sequence of integer arrays, one for each fold")
        omitted = folds.omitted
        omitted.check_range(known.n)
        n = known.observed.sum()
        omitted.refuse(omitted.sizes == 0, f"{NOT_SITES}: it is empty")
        omitted.refuse(~known.observed[omitted.sites], "holds site {}, which is missing: drop it")
        everything = f"leaves out all {n} observed sites: nothing is left to fit"
        omitted.refuse(omitted.sizes == n, everything)
        folds.scored.refuse(folds.scored.sizes == 0, "scores no site: drop it")
        return folds

    def __repr__(self) -> str:
        few = self.scored is not self.omitted
        scored = f", {_span(self.scored.sizes)} of them scored" if few else ""
        return f"Folds({len(self):,} folds of {_span(self.sizes)} sites{scored})"

    def __len__(self) -> int:
        return len(self.omitted)

    def __getitem__(self, rows: Any) -> Any:
        rows = self.lined_up(rows)
        omitted = self.omitted[rows]
        if isinstance(omitted, np.ndarray):
            return omitted
        scored = omitted if self.scored is self.omitted else self.scored[rows]
        part = object.__new__(Folds)  # a part of what was checked needs no other check
        own = {"omitted": omitted, "scored": scored, "sizes": omitted.sizes}
        own |= {} if self.labels is None else {"labels": self.labels[rows]}
        part.__dict__.update(self.__dict__, **own)
        return part

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(self.omitted)

    def __add__(self, other: "Folds") -> "Folds":
        """Both, one after the other, with the sites that they score and their labels."""
        check_kind("what is added to folds", other, Folds)
        if (self.n_sites, self.sites) != (other.n_sites, other.sites):
            raise ValueError("folds of different sites cannot be joined: make both of the model")
        given = [[None] * len(f) if f.labels is None else [*f.labels] for f in (self, other)]
        labels = None if self.labels is other.labels is None else sum(given, [])
        scored = [*self.scored, *other.scored]
        return Folds([*self, *other], scored, self.n_sites, labels, self.sites)

    def lined_up(self, rows: Any) -> Any:
        """Rows of folds; flags in a Series of pandas by label, or by number where none has one."""
        if hasattr(rows, "index") and getattr(getattr(rows, "dtype", None), "kind", "") == "b":
            names = range(len(self)) if self.labels is None else self.labels
            index = require("pandas", extra="tables").Index(names)
            return in_order_of(index, "the flags", rows).to_numpy(bool)
        if isinstance(rows, np.ndarray) and rows.ndim > 1:
            raise ValueError(f"rows of shape {rows.shape}: give the np.flatnonzero of flags")
        return range(len(self))[rows] if getattr(rows, "shape", None) == () else rows

    def indicator(self, n_sites: int) -> csr_matrix:
        """1 - w_o, row by row: a sparse matrix (n_folds, n_sites) with 1 at the omitted sites."""
        omitted = self.omitted
        omitted.check_range(check_whole("n_sites", n_sites, 1))
        entries = np.ones(len(omitted.sites)), omitted.sites, omitted.ends
        return csr_matrix(entries, (len(omitted.sizes), n_sites))

    def pick(self, losses: Sequence[np.ndarray]) -> Sequence[np.ndarray] | np.ndarray:
        """Take from the losses of all omitted sites, fold by fold, those of the scored sites."""
        if self.scored is self.omitted:
            return losses
        order = np.argsort(self.omitted.keys, kind="stable")
        places = np.searchsorted(self.omitted.keys, self.scored.keys, sorter=order)
        return self.split(np.concatenate(losses)[order[places]])

    def split(self, losses: np.ndarray) -> Sequence[np.ndarray] | np.ndarray:
        """Part losses of the scored sites, end to end, into those of each fold."""
        sizes = self.scored.sizes
        if (sizes == sizes[0]).all():
            return losses.reshape(len(sizes), sizes[0])
        return np.split(losses, self.scored.ends[1:-1])

    def same_as(self, other: "Folds") -> bool:
        """Whether both omit and score the same sites, in the same order."""
        pairs = (self.omitted, other.omitted), (self.scored, other.scored)
        return all(np.array_equal(a.keys, b.keys) and len(a) == len(b) for a, b in pairs)


def emptied(folds: Folds, members: np.ndarray) -> tuple[int, int] | None:
    """(fold, kind) of the first fold that omits every member of a kind; None where none does.

    members: (n_sites, n_kinds) flags.
    """
    counts = members.sum(axis=0)
    if folds.sizes.max() < counts.min():
        return None
    gone = np.argwhere(folds.indicator(len(members)) @ members.astype(float) == counts)
    return (int(gone[0, 0]), int(gone[0, 1])) if len(gone) else None


def _span(sizes):
    ends = np.unique(sizes)[[0, -1]] if len(sizes) else [0]
    return " to ".join(f"{end:,}" for end in np.unique(ends))


WHOLE = Folds([np.empty(0, int)])  # the one problem that leaves nothing out
