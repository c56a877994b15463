"""Folds: for each one the sites omitted from the fit, and those of them that are scored.

Plain k-fold scores all that it omits. A gap, a buffer, a horizon or a `TimeSeriesSplit` omit more
than they score. `n_sites` is their number, or a model, which knows what its sites are and which are
missing; folds so made are refused by a model of other sites. `observed` (n_sites,) is False where a
site is missing: such a site is in no fold. The random schemes draw every fold independently, so
that folds may overlap.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from ..checks import check_whole
from ..declared import Count, Number, Rng, Whole, declared
from .checks import Flags, Fold, Known, as_fold, check_windows, numbered, observed_mask
from .folds import WHOLE, Folds, ModelFolds, weights

MOST_DRAWN = 10**7  # folds drawn at random: minutes
Percent = Annotated[float, Number(above=0.0, below=100.0)]
Drawn = Annotated[int, Whole(1, MOST_DRAWN)]
Margin = Annotated[int, Whole(0)]

__all__ = [
    "WHOLE",
    "Fold",
    "Folds",
    "ModelFolds",
    "blocked",
    "bootstrap_weights",
    "by_class",
    "contiguous",
    "from_splitter",
    "iid",
    "k_fold",
    "leave_future_out",
    "leave_group_out",
    "leave_one_out",
    "weights",
]


def leave_one_out(n_sites: Any, observed: Flags = None) -> Folds:
    """Omit every observed site alone."""
    known = Known.of(n_sites, observed)
    return Folds(known.numbers[:, None], n_sites=known.n, sites=known.sites)


@declared
def k_fold(n_sites: Any, k: int, rng: Rng | None = None, observed: Flags = None) -> Folds:
    """Part the sites into k folds of nearly equal size: contiguous, or shuffled by `rng`."""
    known = Known.of(n_sites, observed)
    sites = known.numbers
    check_whole("k", k, 2, len(sites), f" folds of {len(sites)} sites")
    if rng is not None:
        sites = rng.permutation(sites)
    parts = [np.sort(part) for part in np.array_split(sites, k)]
    return Folds(parts, n_sites=known.n, sites=known.sites)


@declared
def blocked(n_sites: Any, k: int, buffer: Margin = 0, observed: Flags = None) -> Folds:
    """Part the sites into k contiguous folds; omit, unscored, `buffer` more on both sides of each.

    Source: h-block cross-validation, Burman, Chow and Nolan (1994).
    """
    known = Known.of(n_sites, observed)
    blocks = k_fold(n_sites, k, observed=observed)
    omitted = [known.between(block[0] - buffer, block[-1] + buffer + 1) for block in blocks]
    return Folds(omitted, blocks.omitted, known.n, sites=known.sites)


def leave_future_out(
    n_sites: Any,
    starts: Sequence[int],
    horizon: int | None = None,
    gap: int = 0,
    observed: Flags = None,
) -> Folds:
    """Omit {t - gap, ..., n_sites - 1} and score {t, ..., t + horizon - 1}, for each t in `starts`.

    Without a horizon, all from t on is scored.

    Source: Ghosh et al. (2020), Appendix E and M.1; horizons after Bürkner et al. (2020).
    """
    known = Known.of(n_sites, observed)
    firsts, horizon, gap = check_windows(starts, known.n, horizon, gap)
    omitted = [known.between(start - gap, known.n) for start in firsts]
    scored = [known.between(start, start + (horizon or known.n)) for start in firsts]
    return Folds(omitted, scored, known.n, sites=known.sites)


@declared
def by_class(classes: np.ndarray, per_fold: int, rng: Rng, observed: Flags = None) -> Folds:
    """Part the sites so that a class (n_sites,) is omitted whole, `per_fold` classes together."""
    parts = _sites_of("classes", classes, observed)
    n = len(parts)
    per_fold = check_whole("per_fold", per_fold, 1, n - 1, f" of {n} classes")
    labels = list(parts)
    drawn = np.array_split(rng.permutation(n), -(-n // per_fold))
    omitted = [np.sort(np.concatenate([parts[labels[c]] for c in some])) for some in drawn]
    names = [", ".join(str(labels[c]) for c in some) for some in drawn]
    return Folds(omitted, None, len(classes), names)


def leave_group_out(
    labels: np.ndarray, lengths: Sequence[int] | None = None, observed: Flags = None
) -> Folds:
    """Omit all sites of a group (an individual, a session), a fold for each, in label order.

    labels: of each site, or, given the lengths (of sequences, in sites), of each sequence: several
    sessions of an individual have its label.
    """
    parts = _sites_of("labels", labels, observed, lengths)
    if len(parts) < 2:
        only = next(iter(parts))
        raise ValueError(f"one group, {only!r}, has all sites: nothing would be left to fit")
    n_sites = len(labels) if lengths is None else int(np.sum(lengths))
    return Folds(list(parts.values()), None, n_sites, list(parts))


def _sites_of(name, labels, observed, lengths=None):
    """The observed sites of each label, in order."""
    numbers, names = numbered(name, labels)
    if lengths is not None:
        sizes = as_fold(lengths, "lengths")
        if sizes.shape != numbers.shape or (sizes < 1).any():
            raise ValueError(f"{len(sizes)} lengths of {len(numbers)} labels: one above 0 for each")
        numbers = np.repeat(numbers, sizes)
    sites = Known.of(len(numbers), observed).numbers
    sites = sites[np.argsort(numbers[sites], kind="stable")]
    parts = np.split(sites, np.flatnonzero(np.diff(numbers[sites])) + 1)
    return {names[numbers[part[0]]]: part for part in parts}


@declared
def iid(n_sites: Any, percent: Percent, n_folds: Drawn, rng: Rng, observed: Flags = None) -> Folds:
    """Draw `percent` of the observed sites without replacement, anew for each fold.

    Source: Celeux and Durand (2008).
    """
    known = Known.of(n_sites, observed)
    sites = known.numbers
    size = _share(percent, len(sites))
    if size == 0:
        raise ValueError(f"{percent} % of {len(sites)} sites is less than one site: raise percent")
    drawn = [np.sort(rng.choice(sites, size, replace=False)) for _ in range(n_folds)]
    return Folds(drawn, n_sites=known.n, sites=known.sites)


@declared
def contiguous(
    n_sites: Any, percent: Percent, n_folds: Drawn, rng: Rng, observed: Flags = None
) -> Folds:
    """Draw blocks {t - m, ..., t}, m = floor(percent * n_sites / 100), t uniform.

    Missing sites are taken out of a block; a block with nothing else in it is never drawn.

    Source: Ghosh et al. (2020), Appendix L.1.
    """
    known = Known.of(n_sites, observed)
    length = _share(percent, known.n)
    before = np.append(0, np.cumsum(known.observed))  # how many sites are observed before each
    ends = length + np.flatnonzero(before[length + 1 :] > before[: known.n - length])
    drawn = rng.choice(ends, n_folds)
    blocks = [known.between(end - length, end + 1) for end in drawn]
    return Folds(blocks, n_sites=known.n, sites=known.sites)


def _share(percent, n_sites):
    return int(percent * n_sites / 100)  # in this order: 0.29 * 100 is less than 29


def from_splitter(
    cv: Any, X: Any, y: Any = None, groups: Any = None, observed: Flags = None
) -> Folds:
    """Omit all but the training sets of scikit-learn's `cv`, and score its test sets.

    cv: a splitter; pairs (training set, test set) of row numbers; or an integer k, for `KFold(k)`,
    of classes too. X has a row for each site.

    Raises
    ------
    ValueError : a training set repeats a row, or shares one with its test set
    """
    if getattr(X, "ndim", 1) == 0 or not hasattr(X, "__len__"):
        raise ValueError(f"X is {X!r:.60}: it must have a row for each site")
    n_sites = X.shape[0] if hasattr(X, "shape") else len(X)
    mask = observed_mask(n_sites, observed)
    omitted = []
    scored = []
    splits = _splits(cv, n_sites, X, y, groups)
    for number, (train, test) in enumerate(splits):
        left_out = weights(n_sites, train)
        test = as_fold(test, "the test set")
        repeats = left_out.sum() + len(train) > n_sites
        if repeats or not left_out[test].all():
            reason = "a training set repeats a row or shares one with its test set"
            raise ValueError(f"split {number}: {reason}: that is no cross-validation")
        test = test[mask[test]]
        rest = np.flatnonzero(left_out * mask)
        whole = len(test) == len(rest)
        omitted.append(test if whole else rest)
        scored.append(test)
    return Folds(omitted, scored, n_sites)


def _splits(cv, n_sites, X, y, groups):
    """Pairs (training set, test set)."""
    if hasattr(cv, "split") and not isinstance(cv, str):
        return cv.split(X, y, groups)
    pairs_of_sets = hasattr(cv, "__iter__") and getattr(cv, "ndim", 1)
    if not pairs_of_sets or isinstance(cv, str) or hasattr(cv, "keys"):
        tests = k_fold(n_sites, cv)
        rows = np.arange(n_sites)
        return [(np.delete(rows, test), test) for test in tests]
    return pairs_of(cv)


def pairs_of(cv: Any) -> list:
    """List pairs (training set, test set); ValueError names what is none."""
    pairs = list(cv) if getattr(cv, "ndim", 1) else [cv]
    for number, pair in enumerate(pairs):
        sets = pair if isinstance(pair, tuple | list) else ()
        if len(sets) != 2:
            kind = type(pair).__name__
            expected = "a pair (training set, test set); of folds, make acv.Folds"
            raise ValueError(f"split {number} must be {expected}; got {kind}")
    return pairs


@declared
def bootstrap_weights(n_sites: Count, n_resamples: Count, rng: Rng) -> np.ndarray:
    """How often each site is drawn, (n_resamples, n_sites): multinomial, rows sum to n_sites."""
    shares = np.full(n_sites, 1.0 / n_sites)
    return rng.multinomial(n_sites, shares, size=n_resamples).astype(float)
