"""Folds: for each one the sites omitted from the fit, and those of them that are scored.

Plain k-fold scores all that it omits. A gap, a buffer, a horizon or a `TimeSeriesSplit` omit more
than they score. `observed` (n_sites,) is False where a site is missing: such a site is in no fold.
The random schemes draw every fold independently, so that folds may overlap.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..checks import check_whole, generator, real_number
from .checks import Flags, Fold, as_fold, check_windows, observed_mask
from .folds import WHOLE, Folds, ModelFolds, weights

MOST_DRAWN = 10**7  # folds drawn at random: minutes

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


def leave_one_out(n_sites: int, observed: Flags = None) -> Folds:
    """Omit every observed site alone."""
    sites = np.flatnonzero(observed_mask(n_sites, observed))
    return Folds(sites[:, None], n_sites=n_sites)


def k_fold(
    n_sites: int, k: int, rng: np.random.Generator | int | None = None, observed: Flags = None
) -> Folds:
    """Part the sites into k folds of nearly equal size: contiguous, or shuffled by `rng`."""
    sites = np.flatnonzero(observed_mask(n_sites, observed))
    n_observed = len(sites)
    check_whole("k", k, 2, n_observed, f" folds of {n_observed} sites")
    if rng is not None:
        sites = generator(rng).permutation(sites)
    parts = np.array_split(sites, k)
    return Folds([np.sort(part) for part in parts], n_sites=n_sites)


def blocked(n_sites: int, k: int, buffer: int = 0, observed: Flags = None) -> Folds:
    """Part the sites into k contiguous folds; omit, unscored, `buffer` more on both sides of each.

    Source: h-block cross-validation, Burman, Chow and Nolan (1994).
    """
    buffer = check_whole("buffer", buffer, 0)
    mask = observed_mask(n_sites, observed)
    blocks = k_fold(n_sites, k, observed=observed)
    omitted = []
    for block in blocks:
        first = block[0] - buffer
        last = block[-1] + buffer
        omitted.append(_between(mask, first, last + 1))
    return Folds(omitted, blocks.omitted, n_sites)


def leave_future_out(
    n_sites: int,
    starts: Sequence[int],
    horizon: int | None = None,
    gap: int = 0,
    observed: Flags = None,
) -> Folds:
    """Omit {t - gap, ..., n_sites - 1} and score {t, ..., t + horizon - 1}, for each t in `starts`.

    Without a horizon, all from t on is scored.

    Source: Ghosh et al. (2020), Appendix E and M.1; horizons after Bürkner et al. (2020).
    """
    mask = observed_mask(n_sites, observed)
    omitted = []
    scored = []
    firsts, horizon, gap = check_windows(starts, n_sites, horizon, gap)
    for start in firsts:
        omitted.append(_between(mask, start - gap, n_sites))
        scored.append(_between(mask, start, start + (horizon or n_sites)))
    return Folds(omitted, scored, n_sites)


def _between(mask, start, end):
    """The observed sites from start to end, which is excluded, as far as there are any."""
    start = max(start, 0)
    part = mask[start:end]
    return start + np.flatnonzero(part)


def by_class(
    classes: np.ndarray, per_fold: int, rng: np.random.Generator | int, observed: Flags = None
) -> Folds:
    """Part the sites so that a class (n_sites,) is omitted whole, `per_fold` classes together."""
    classes = _labels("classes", classes)
    mask = observed_mask(len(classes), observed)
    rng = generator(rng)
    labels = np.unique(classes[mask])
    n_classes = len(labels)
    per_fold = check_whole("per_fold", per_fold, 1, n_classes - 1, f" of {n_classes} classes")
    n_folds = -(-n_classes // per_fold)
    parts = np.array_split(rng.permutation(labels), n_folds)
    omitted = [np.flatnonzero(np.isin(classes, part) & mask) for part in parts]
    names = [", ".join(map(str, part.tolist())) for part in parts]
    return Folds(omitted, None, len(classes), names)


def leave_group_out(
    labels: np.ndarray, lengths: Sequence[int] | None = None, observed: Flags = None
) -> Folds:
    """Omit all sites of a group (an individual, a session), a fold for each, in label order.

    labels: of each site, or, given the lengths (of sequences, in sites), of each sequence: several
    sessions of an individual have its label.
    """
    labels = _labels("labels", labels)
    if lengths is not None:
        sizes = as_fold(lengths, "lengths")
        if sizes.shape != labels.shape or (sizes < 1).any():
            raise ValueError(f"{len(sizes)} lengths of {len(labels)} labels: one above 0 for each")
        labels = np.repeat(labels, sizes)
    mask = observed_mask(len(labels), observed)
    groups, numbers = np.unique(labels[mask], return_inverse=True)
    if len(groups) < 2:
        only = groups.tolist()[0]  # 'a' in place of numpy's np.str_('a')
        raise ValueError(f"one group, {only!r}, has all sites: nothing would be left to fit")
    order = np.argsort(numbers, kind="stable")
    sites = np.flatnonzero(mask)[order]
    omitted = np.split(sites, np.flatnonzero(np.diff(numbers[order])) + 1)
    return Folds(omitted, None, len(labels), groups.tolist())


def _labels(name, labels):
    """Labels as a 1-d array; ValueError for others, and for nan, which is like no label."""
    try:
        labels = np.asarray(labels)
    except ValueError:  # rows of different lengths
        labels = np.empty((0, 0))
    if labels.ndim != 1 or (labels != labels).any():
        shape = labels.shape
        raise ValueError(f"{name} of shape {shape}: give one a site, none of them nan")
    return labels


def iid(
    n_sites: int,
    percent: float,
    n_folds: int,
    rng: np.random.Generator | int,
    observed: Flags = None,
) -> Folds:
    """Draw `percent` of the observed sites without replacement, anew for each fold.

    Source: Celeux and Durand (2008).
    """
    sites = np.flatnonzero(observed_mask(n_sites, observed))
    rng = generator(rng)
    size = _size(percent, len(sites), n_folds)
    if size == 0:
        raise ValueError(f"{percent} % of {len(sites)} sites is less than one site: raise percent")
    drawn = [rng.choice(sites, size, replace=False) for _ in range(n_folds)]
    return Folds([np.sort(fold) for fold in drawn], n_sites=n_sites)


def contiguous(
    n_sites: int,
    percent: float,
    n_folds: int,
    rng: np.random.Generator | int,
    observed: Flags = None,
) -> Folds:
    """Draw blocks {t - m, ..., t}, m = floor(percent * n_sites / 100), t uniform.

    Missing sites are taken out of a block; a block with nothing else in it is never drawn.

    Source: Ghosh et al. (2020), Appendix L.1.
    """
    mask = observed_mask(n_sites, observed)
    rng = generator(rng)
    length = _size(percent, n_sites, n_folds)
    before = np.append(0, np.cumsum(mask))  # how many sites are observed before each
    first = before[: n_sites - length]
    beyond = before[length + 1 :]
    ends = length + np.flatnonzero(beyond > first)
    drawn = rng.choice(ends, n_folds)
    blocks = []
    for end in drawn:
        start = end - length
        blocks.append(_between(mask, start, end + 1))
    return Folds(blocks, n_sites=n_sites)


def _size(percent, n_sites, n_folds):
    if not 0 < real_number("percent", percent) < 100:
        raise ValueError(f"percent = {percent}: must lie between 0 and 100, both excluded")
    check_whole("n_folds", n_folds, 1, MOST_DRAWN)
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


def bootstrap_weights(n_sites: int, n_resamples: int, rng: np.random.Generator | int) -> np.ndarray:
    """How often each site is drawn, (n_resamples, n_sites): multinomial, rows sum to n_sites."""
    check_whole("n_sites", n_sites, 1)
    check_whole("n_resamples", n_resamples, 1)
    rng = generator(rng)
    shares = np.full(n_sites, 1.0 / n_sites)
    return rng.multinomial(n_sites, shares, size=n_resamples).astype(float)
