"""Folds: for each one the sites omitted from the fit, and those of them that are scored.

Plain k-fold scores all that it omits. A gap, a buffer, a horizon or a `TimeSeriesSplit` omit more
than they score. `observed` (n_sites,) is False where a site is missing: such a site is in no fold.
The random schemes draw every fold independently, so that folds may overlap.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

Sites = Any  # a list of integer arrays, or a table (n_folds, size)
Flags = np.ndarray | None


@dataclass(frozen=True, eq=False)
class Folds:
    """The sites that each fold omits from the fit, and those of them that it scores (all, if None).

    Either is a list of integer arrays, or a table (n_folds, size) of folds of one size. Length,
    iteration and `folds[i]` are those of a list of the omitted sites, as users of k-fold expect;
    `folds[rows]` with a slice or an array of numbers gives `Folds`. ValueError for sites that are
    no integers, or are scored but not omitted.
    """

    omitted: Sites
    scored: Sites = None

    def __post_init__(self):
        omitted = _as_sites(self.omitted)
        same = self.scored is None or self.scored is self.omitted
        scored = omitted if same else _as_sites(self.scored)
        if scored is not omitted:
            _check_scored(omitted, scored)
        object.__setattr__(self, "omitted", omitted)
        object.__setattr__(self, "scored", scored)

    @classmethod
    def of(cls, folds: Any, n_sites: int, observed: Flags = None) -> "Folds":
        """Check folds of any form against a model's sites; ValueError names the first bad fold."""
        folds = folds if isinstance(folds, Folds) else cls(folds)
        if not len(folds):
            raise ValueError("no folds: give a sequence of integer arrays, one for each fold")
        mask = _observed(n_sites, observed)
        if folds.table is None or not _is_sound(folds.table, mask):
            for number, sites in enumerate(folds):
                _check_fold(number, sites, mask)
        return folds

    def __len__(self) -> int:
        return len(self.omitted)

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, int | np.integer):
            return self.omitted[rows]
        omitted = _select(self.omitted, rows)
        scored = None if self.scored is self.omitted else _select(self.scored, rows)
        return Folds(omitted, scored)

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(self.omitted)

    @property
    def table(self) -> np.ndarray | None:
        """The omitted sites as an array (n_folds, size), where they are held as one."""
        return self.omitted if isinstance(self.omitted, np.ndarray) else None

    @property
    def sizes(self) -> np.ndarray:
        """How many sites each fold omits, (n_folds,)."""
        if self.table is not None:
            return np.full(*self.table.shape)
        return np.array([len(sites) for sites in self.omitted], int)

    def indicator(self, n_sites: int) -> csr_matrix:
        """1 - w_o, row by row: a sparse matrix (n_folds, n_sites) with 1 at the omitted sites."""
        ends = np.concatenate([[0], np.cumsum(self.sizes)])
        sites = np.ravel(self.omitted) if self.table is not None else np.concatenate(self.omitted)
        return csr_matrix((np.ones(len(sites)), sites, ends), shape=(len(self), n_sites))

    def pick(self, losses: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """Take from the losses of all omitted sites, fold by fold, those of the scored sites."""
        if self.scored is self.omitted:
            return losses
        triples = zip(losses, self.omitted, self.scored, strict=True)
        return [np.asarray(each)[_places(omitted, scored)] for each, omitted, scored in triples]

    def same_as(self, other: "Folds") -> bool:
        """Whether both omit and score the same sites."""
        pairs = [(self.omitted, other.omitted), (self.scored, other.scored)]
        return len(self) == len(other) and all(
            np.array_equal(a, b)
            for mine, theirs in pairs
            for a, b in zip(mine, theirs, strict=True)
        )


def _as_sites(sites):
    """A table as it is, anything else as a list of integer arrays."""
    if isinstance(sites, np.ndarray) and sites.ndim == 2 and sites.size:
        return _integers(sites, "folds")
    labels = isinstance(sites, np.ndarray) and sites.ndim != 2 and sites.dtype != object
    if labels or isinstance(sites, dict | str) or hasattr(sites, "columns"):
        kind = type(sites).__name__
        raise ValueError(
            f"folds must be a sequence of integer arrays of sites, one a fold; got {kind}"
        )
    return [_integers(np.atleast_1d(fold), f"fold {i}") for i, fold in enumerate(sites)]


def _integers(sites, name):
    """Site numbers as int64, whatever integers they were: unsigned ones would wrap."""
    sites = np.asarray(sites)
    if sites.ndim > 2 or (sites.size and not np.issubdtype(sites.dtype, np.integer)):
        raise ValueError(f"{name} is not a non-empty 1-d array of site numbers: {sites!r}")
    if sites.dtype == np.uint64 and sites.size and sites.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name} holds site {sites.max()}: there are not so many sites")
    return sites.astype(np.int64, copy=False)


def _select(sites, rows):
    if isinstance(sites, np.ndarray) or isinstance(rows, slice):
        return sites[rows]
    return [sites[i] for i in np.arange(len(sites))[np.asarray(rows)]]


def _places(omitted, scored):
    """Where the scored sites stand among the omitted ones."""
    order = np.argsort(omitted, kind="stable")
    return order[np.searchsorted(omitted, scored, sorter=order)]


def _check_scored(omitted, scored):
    if len(omitted) != len(scored):
        raise ValueError(f"{len(omitted)} folds are omitted, {len(scored)} are scored")
    for number, (out, score) in enumerate(zip(omitted, scored, strict=True)):
        stray = np.setdiff1d(score, out)
        if stray.size:
            where = f"fold {number} scores site {stray[0]}, which it does not omit from the fit"
            raise ValueError(f"{where}: a site that was fitted cannot be held out")


def generator(rng: Any) -> np.random.Generator:
    """Return `rng`, or the generator of a seed. Raises TypeError where it is None or neither."""
    if rng is None:
        raise TypeError("rng is None: pass numpy.random.default_rng(seed), or the seed")
    return np.random.default_rng(rng)


def _observed(n_sites, observed):
    mask = np.ones(n_sites, bool) if observed is None else np.asarray(observed, bool)
    if mask.shape != (n_sites,):
        raise ValueError(f"observed has shape {mask.shape}, not ({n_sites},): one flag a site")
    return mask


def _is_sound(table, mask):
    """Whether all folds of a table are valid, found without a look at each of them."""
    if table.shape[1] >= mask.sum() or table.min() < 0 or table.max() >= len(mask):
        return False
    return bool((np.diff(table, axis=1) > 0).all() and mask[table].all())


def _check_fold(number, sites, mask):
    if sites.ndim != 1 or not sites.size:
        raise ValueError(f"fold {number} is not a non-empty 1-d array of site numbers: {sites!r}")
    where = f", outside 0 ... {len(mask) - 1}"
    _refuse_first(number, sites[(sites < 0) | (sites >= len(mask))], where)
    unique, counts = np.unique(sites, return_counts=True)
    _refuse_first(number, unique[counts > 1], " more than once")
    _refuse_first(number, sites[~mask[sites]], ", which is missing: pass `observed`")
    if sites.size == mask.sum():
        size = f"fold {number} leaves out all {sites.size} observed sites"
        raise ValueError(f"{size}: nothing is left to fit")


def _refuse_first(number, bad, reason):
    if bad.size:
        raise ValueError(f"fold {number} holds site {bad[0]}{reason}")


WHOLE = Folds([np.empty(0, int)])  # the one problem that leaves nothing out


def weights(n_sites: int, sites: np.ndarray) -> np.ndarray:
    """w_o (n_sites,): 1 everywhere and 0 at the given sites."""
    w = np.ones(n_sites)
    w[sites] = 0.0
    return w


def leave_one_out(n_sites: int, observed: Flags = None) -> Folds:
    """Omit every observed site alone."""
    return Folds(np.flatnonzero(_observed(n_sites, observed))[:, None])


def k_fold(
    n_sites: int, k: int, rng: np.random.Generator | None = None, observed: Flags = None
) -> Folds:
    """Part the sites into k folds of nearly equal size: contiguous, or shuffled by `rng`."""
    sites = np.flatnonzero(_observed(n_sites, observed))
    if not 2 <= k <= len(sites):
        size = f"k = {k} folds of {len(sites)} sites"
        raise ValueError(f"{size}: k must be from 2 to the number of sites")
    order = sites if rng is None else generator(rng).permutation(sites)
    return Folds([np.sort(part) for part in np.array_split(order, k)])


def by_class(classes: np.ndarray, per_fold: int, rng: np.random.Generator) -> Folds:
    """Part the sites so that a class (n_sites,) is omitted whole, `per_fold` classes together."""
    labels = generator(rng).permutation(np.unique(classes))
    if not 0 < per_fold < len(labels):
        count = f"per_fold = {per_fold} of {len(labels)} classes"
        raise ValueError(f"{count}: must leave at least one, and take one")
    parts = np.array_split(labels, -(-len(labels) // per_fold))
    return Folds([np.flatnonzero(np.isin(classes, part)) for part in parts])


def _size(percent, n_sites):
    if not 0 < percent < 100:
        raise ValueError(f"percent = {percent}: must lie between 0 and 100, both excluded")
    return int(percent * n_sites / 100)  # in this order: 0.29 * 100 is less than 29


def iid(
    n_sites: int,
    percent: float,
    n_folds: int,
    rng: np.random.Generator,
    observed: Flags = None,
) -> Folds:
    """Draw `percent` of the observed sites without replacement, anew for each fold.

    Source: Celeux and Durand (2008).
    """
    rng = generator(rng)
    sites = np.flatnonzero(_observed(n_sites, observed))
    size = _size(percent, len(sites))
    if size == 0:
        raise ValueError(f"{percent} % of {len(sites)} sites is less than one site: raise percent")
    return Folds([np.sort(rng.choice(sites, size, replace=False)) for _ in range(n_folds)])


def contiguous(
    n_sites: int,
    percent: float,
    n_folds: int,
    rng: np.random.Generator,
    observed: Flags = None,
) -> Folds:
    """Draw blocks {t - m, ..., t}, m = floor(percent * n_sites / 100), t uniform.

    Missing sites are taken out of a block; a block with nothing else in it is drawn again.

    Source: Ghosh et al. (2020), Appendix L.1.
    """
    rng = generator(rng)
    mask = _observed(n_sites, observed)
    length = _size(percent, n_sites)
    if not mask.any():
        raise ValueError("no site is observed: there is nothing to leave out")
    blocks: list[np.ndarray] = []
    while len(blocks) < n_folds:
        last = int(rng.integers(length, n_sites))
        block = np.arange(last - length, last + 1)
        if mask[block].any():
            blocks.append(block[mask[block]])
    return Folds(blocks)


def leave_future_out(n_sites: int, starts: Sequence[int], observed: Flags = None) -> Folds:
    """Omit {t, ..., n_sites - 1} for each t in `starts`.

    Source: Ghosh et al. (2020), Appendix E and M.1.
    """
    mask = _observed(n_sites, observed)
    return Folds([t + np.flatnonzero(mask[t:]) for t in starts])


def from_splitter(cv: Any, X: Any, y: Any = None, groups: Any = None) -> Folds:
    """The folds of a scikit-learn splitter: omit all but its training sets, score its test sets.

    Raises
    ------
    ValueError : a training set repeats a row, or shares one with its test set
    """
    omitted, scored = [], []
    for train, test in cv.split(X, y, groups):
        kept = np.bincount(train, minlength=len(X) if hasattr(X, "__len__") else X.shape[0])
        if kept.max() > 1 or kept[test].any():
            reason = "a training set repeats a row or shares one with its test set"
            raise ValueError(f"{reason}: that is no cross-validation")
        omitted.append(np.flatnonzero(kept == 0))
        scored.append(np.asarray(test))
    same = all(np.array_equal(a, np.sort(b)) for a, b in zip(omitted, scored, strict=True))
    return Folds(scored) if same else Folds(omitted, scored)


def bootstrap_weights(n_sites: int, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
    """How often each site is drawn, (n_resamples, n_sites): multinomial, rows sum to n_sites."""
    shares = np.full(n_sites, 1.0 / n_sites)
    return generator(rng).multinomial(n_sites, shares, size=n_resamples).astype(float)
