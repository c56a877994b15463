"""Folds: each one an integer array of the sites left out together, as in scikit-learn.

Folds of equal size may be the rows of one integer array (n_folds, size), which is checked and used whole.

`observed` (n_sites,) is False where a site is missing: such a site is in no fold. The random schemes draw
every fold independently of the others, so that their folds may overlap; `rng` is a numpy Generator.
"""

import numpy as np
from scipy.sparse import csr_matrix

WHOLE = [np.array([], int)]  # the single problem that leaves nothing out: for what works on folds


def _observed(n_sites, observed):
    mask = np.ones(n_sites, bool) if observed is None else np.asarray(observed, bool)
    if mask.shape != (n_sites,):
        raise ValueError(f"observed has shape {mask.shape}, not ({n_sites},): one flag a site")
    return mask


def leave_one_out(n_sites, observed=None):
    """Every observed site alone: an array (n_folds, 1)."""
    return np.flatnonzero(_observed(n_sites, observed))[:, None]


def k_fold(n_sites, k, rng=None, observed=None):
    """A partition into k folds of nearly equal size: contiguous, or shuffled where `rng` is given."""
    sites = np.flatnonzero(_observed(n_sites, observed))
    if not 2 <= k <= len(sites):
        raise ValueError(
            f"k = {k} folds of {len(sites)} sites: k must be from 2 to the number of sites"
        )
    return [
        np.sort(part)
        for part in np.array_split(sites if rng is None else rng.permutation(sites), k)
    ]


def _size(percent, n_sites):
    if not 0 < percent < 100:
        raise ValueError(f"percent = {percent}: must lie between 0 and 100, both excluded")
    return int(percent * n_sites / 100)  # in this order: 0.29 * 100 is less than 29


def by_class(classes, per_fold, rng):
    """A partition in which a class (n_sites,) is left out whole, `per_fold` random classes together."""
    labels = rng.permutation(np.unique(classes))
    if not 0 < per_fold < len(labels):
        raise ValueError(
            f"per_fold = {per_fold} of {len(labels)} classes: must leave at least one, and take one"
        )
    parts = np.array_split(labels, -(-len(labels) // per_fold))
    return [np.flatnonzero(np.isin(classes, part)) for part in parts]


def iid(n_sites, percent, n_folds, rng, observed=None):
    """`percent` of the observed sites, drawn without replacement for each fold (Celeux and Durand 2008)."""
    sites = np.flatnonzero(_observed(n_sites, observed))
    size = _size(percent, len(sites))
    if size == 0:
        raise ValueError(f"{percent} % of {len(sites)} sites is less than one site: raise percent")
    return [np.sort(rng.choice(sites, size, replace=False)) for _ in range(n_folds)]


def contiguous(n_sites, percent, n_folds, rng, observed=None):
    """Blocks {t - m, ..., t}, m = floor(percent * n_sites / 100), t uniform (Ghosh et al. 2020, Appendix L.1).

    Missing sites are taken out of a block; a block with nothing else in it is drawn again.
    """
    mask, length = _observed(n_sites, observed), _size(percent, n_sites)
    if not mask.any():
        raise ValueError("no site is observed: there is nothing to leave out")
    blocks = []
    while len(blocks) < n_folds:
        last = int(rng.integers(length, n_sites))
        block = np.arange(last - length, last + 1)
        if mask[block].any():
            blocks.append(block[mask[block]])
    return blocks


def leave_future_out(n_sites, starts, observed=None):
    """{t, ..., n_sites - 1} for each t in `starts` (Ghosh et al. 2020, Appendix E and M.1)."""
    mask = _observed(n_sites, observed)
    return [t + np.flatnonzero(mask[t:]) for t in starts]


def from_splitter(cv, X, y=None, groups=None):
    """The test sets of any scikit-learn splitter."""
    return [np.asarray(test) for _, test in cv.split(X, y, groups)]


def bootstrap_weights(n_sites, n_resamples, rng):
    """How often each site is drawn, (n_resamples, n_sites): multinomial, each row sums to n_sites."""
    return rng.multinomial(n_sites, np.full(n_sites, 1.0 / n_sites), size=n_resamples).astype(float)


def validate(folds, n_sites, observed=None):
    """The folds as integer arrays; ValueError names the first fold that is empty, repeats, misses or takes all."""
    if len(folds) == 0:
        raise ValueError("no folds: give a sequence of integer arrays, one for each fold")
    mask = _observed(n_sites, observed)
    if is_table(folds) and _sound(folds, mask):
        return folds
    return [_validated(number, fold, mask) for number, fold in enumerate(folds)]


def is_table(folds):
    """True for folds of equal size held in one array (n_folds, size)."""
    return isinstance(folds, np.ndarray) and folds.ndim == 2


def _sound(table, mask):
    """Whether all folds of a table are valid, found without a look at each of them."""
    if not (table.size and np.issubdtype(table.dtype, np.integer) and table.shape[1] < mask.sum()):
        return False
    inside = table.min() >= 0 and table.max() < len(mask)
    return bool(inside and (np.diff(table, axis=1) > 0).all() and mask[table].all())


def sizes(folds):
    """How many sites each fold leaves out, (n_folds,)."""
    return (
        np.full(len(folds), folds.shape[1])
        if is_table(folds)
        else np.array([len(fold) for fold in folds])
    )


def _validated(number, fold, mask):
    sites = np.atleast_1d(np.asarray(fold))
    if sites.ndim != 1 or sites.size == 0 or not np.issubdtype(sites.dtype, np.integer):
        raise ValueError(f"fold {number} is not a non-empty 1-d array of site numbers: {fold!r}")
    if sites.min() < 0 or sites.max() >= len(mask):
        outside = sites[(sites < 0) | (sites >= len(mask))][0]
        raise ValueError(f"fold {number} holds site {outside}, outside 0 ... {len(mask) - 1}")
    if not (np.diff(sites) > 0).all():  # sorted folds, the usual case, need no search for repeats
        unique, counts = np.unique(sites, return_counts=True)
        if unique.size < sites.size:
            raise ValueError(f"fold {number} holds site {unique[counts > 1][0]} more than once")
    if not mask[sites].all():
        raise ValueError(
            f"fold {number} holds site {sites[~mask[sites]][0]}, which is missing: pass `observed`"
        )
    if sites.size == mask.sum():
        raise ValueError(
            f"fold {number} leaves out all {sites.size} observed sites: nothing is left to fit"
        )
    return sites


def weights(n_sites, fold):
    """w_o: 1 everywhere and 0 in the fold, shape (n_sites,)."""
    w = np.ones(n_sites)
    w[fold] = 0.0
    return w


def indicator(folds, n_sites):
    """Sparse (n_folds, n_sites) matrix with 1 where a fold holds a site: 1 - w_o, row by row."""
    starts = np.concatenate([[0], np.cumsum(sizes(folds))])
    sites = np.concatenate(folds)
    return csr_matrix((np.ones(len(sites)), sites, starts), shape=(len(folds), n_sites))
