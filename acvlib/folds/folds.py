"""The sites that each fold omits from the fit, and those of them that it scores."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from ..checks import MOST, check_kind, check_whole, in_order_of, index_of, require
from .sites import NOT_SITES, Flags, Known, Partly, Sites


@dataclass(frozen=True, eq=False)
class Folds:
    """The sites that each fold omits from the fit, and those of them that it scores (all, if None).

    Either is a sequence of integer arrays, or a table (n_folds, size) of folds of one size; both
    are copied. Length, iteration and `folds[i]` are those of a list of the omitted sites, as users
    of k-fold expect; `folds[rows]` with a slice or an array of numbers gives `Folds`. A list of
    their arrays is refused where not all is scored: join folds by a + b; a table made of it has no
    memory, and is scored whole. ValueError for anything else, and for sites that are repeated, or
    scored but not omitted.

    n_sites, sites: how many sites there are, in and outside folds, and of what kind, as "steps" or
    "sequences"; a model of other sites refuses them. None and "" where that is not known. labels
    (n_folds,): the user's name of each fold, such as the group that it leaves out, or None. index:
    the names of the sites in the labels or flags that the folds were made of, as in pandas; a model
    whose rows have other names, or another order, refuses them.
    """

    omitted: Any
    scored: Any = None
    n_sites: int | None = None
    labels: Any = None
    sites: str = ""
    index: Any = field(default=None, repr=False)
    sizes: np.ndarray = field(init=False, repr=False)  # how many sites each fold omits, (n_folds,)

    def __post_init__(self):
        if isinstance(self.omitted, Folds):
            raise ValueError("these are Folds already: use them as they are")
        n_sites = MOST if self.n_sites is None else check_whole("n_sites", self.n_sites, 1)
        omitted = Sites.of(self.omitted, n_sites)
        scored = omitted
        if self.scored is None and omitted.partly:
            remedy = "join folds by a + b, take some by a[rows]; to score all sites, pass copies"
            raise ValueError(f"lists of folds forget which of their sites are scored: {remedy}")
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
            made = f"folds made for {folds.n_sites:,} sites, the model has {known.n:,}"
            groups = "groups of sites, as all steps of a sequence, by acv.folds.leave_group_out"
            raise ValueError(f"{made}: {remedy}, or with n_sites={known.n}; {groups}")
        if folds.sites and known.sites and folds.sites != known.sites:
            made = f"these folds leave out {folds.sites}, and the model {known.sites}"
            raise ValueError(f"{made}: {remedy}")
        folds.check_index(known.index)
        if not len(folds):
            raise ValueError("no folds: give a sequence of integer arrays, one for each fold")
        omitted = folds.omitted
        omitted.check_range(known.n)
        n = known.observed.sum()
        omitted.refuse(omitted.sizes == 0, f"{NOT_SITES}: it is empty")
        omitted.check_observed(known.observed)
        everything = f"leaves out all {n} observed sites: nothing is left to fit"
        omitted.refuse(omitted.sizes == n, everything)
        folds.scored.refuse(folds.scored.sizes == 0, "scores no site: drop it")
        return folds

    def check_index(self, index: Any) -> None:
        """Raise ValueError for folds of labels in another order than rows with this index."""
        if self.index is not None and index is not None and not self.index.equals(index):
            made = "these folds were made of labels or flags whose index is not that of the rows:"
            order = "of labels.loc[X.index] (y.index), or, if they are in the order of the rows"
            raise ValueError(f"{made} make them {order}, of labels.to_numpy()")

    def __repr__(self) -> str:
        few = self.scored is not self.omitted
        scored = f", {_span(self.scored.sizes)} of them scored" if few else ""
        return f"Folds({len(self):,} folds of {_span(self.sizes)} sites{scored})"

    def __len__(self) -> int:
        return len(self.omitted)

    def __getitem__(self, rows: Any) -> Any:
        rows = rows if isinstance(rows, slice) else self._chosen(self.lined_up(rows))
        omitted = self.omitted[rows]
        if isinstance(omitted, np.ndarray):
            return self._seen(omitted)
        scored = omitted if self.scored is self.omitted else self.scored[rows]
        part = object.__new__(Folds)  # a part of what was checked needs no other check
        own = {"omitted": omitted, "scored": scored, "sizes": omitted.sizes}
        own |= {} if self.labels is None else {"labels": self.labels[rows]}
        part.__dict__.update(self.__dict__, **own)
        return part

    def __iter__(self) -> Iterator[np.ndarray]:
        return map(self._seen, self.omitted)

    def _seen(self, sites):
        """The sites of a fold as a plain array, which tells new folds that not all are scored."""
        return sites if self.scored is self.omitted else sites.view(Partly)[:].view(np.ndarray)

    def part(self, rows: Any) -> "Folds":
        """Return `self[rows]`, whose labels are the folds' numbers here where they have none."""
        named = copy(self)
        if self.labels is None:
            named.__dict__["labels"] = np.arange(len(self)).astype(object)
        return named[rows]

    def name(self, place: Any) -> str:
        """Say "fold" and its label, or its number."""
        label = None if self.labels is None else self.labels[place]
        return f"fold {place if label is None else label}"

    def __add__(self, other: "Folds") -> "Folds":
        """Both, one after the other, with the sites that they score and their labels."""
        check_kind("what is added to folds", other, Folds)
        other.check_index(self.index)
        if (self.n_sites, self.sites) != (other.n_sites, other.sites):
            raise ValueError("folds of different sites cannot be joined: make both of the model")
        given = [[None] * len(f) if f.labels is None else [*f.labels] for f in (self, other)]
        labels = None if self.labels is other.labels is None else sum(given, [])
        omitted = [*self.omitted, *other.omitted]
        scored = [*self.scored, *other.scored]
        return Folds(omitted, scored, self.n_sites, labels, self.sites, index_of(self, other))

    def lined_up(self, rows: Any) -> Any:
        """Rows of folds; flags in a Series of pandas by label, or by number where none has one."""
        if hasattr(rows, "index") and getattr(getattr(rows, "dtype", None), "kind", "") == "b":
            names = range(len(self)) if self.labels is None else self.labels
            index = require("pandas", extra="tables").Index(names)
            return in_order_of(index, "the flags", rows).to_numpy(bool)
        return rows

    def _chosen(self, rows):
        """The number of a fold, or an array of numbers or flags of folds; ValueError for others."""
        given = np.empty((), object)
        with suppress(ValueError):  # lists that differ in length
            given = np.asanyarray(rows if np.ndim(rows) == 0 or len(rows) else np.empty(0, int))
        is_flags = given.dtype == bool and given.shape == (len(self),)
        is_masked = isinstance(given, np.ma.MaskedArray)
        if is_masked or given.ndim > 1 or not (given.dtype.kind in "iu" or is_flags):
            wanted = f"numbers of folds, as by np.flatnonzero, or {len(self)} flags of type bool"
            raise ValueError(f"folds[{rows!r:.60}]: give {wanted}; folds.labels has their names")
        return given if given.ndim else range(len(self))[given]

    def indicator(self, n_sites: int) -> csr_matrix:
        """1 - w_o, row by row: a sparse matrix (n_folds, n_sites) with 1 at the omitted sites."""
        omitted = self.omitted
        if n_sites != self.n_sites:  # for which they were checked
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
