"""Folds: for each one the sites omitted from the fit, and those of them that are scored.

Plain k-fold scores all that it omits; a gap, a horizon, a ball or a `TimeSeriesSplit` omit more
than they score. `n_sites` is their number, or a model, which knows what its sites are and which are
missing; folds so made are refused by a model of other sites. `observed` (n_sites,) is False where a
site is missing: such a site is in no fold. The random schemes draw every fold independently, so
that folds may overlap. On a graph, neighbours are omitted together: nothing is learned next door.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from scipy.sparse import csr_matrix, eye_array
from scipy.sparse.csgraph import connected_components, shortest_path

from ..checks import check_kind, check_whole, in_order_of, index_of, numbered
from ..declared import Check, Count, Flag, Real, Rng, Sizes, Whole, declared
from .edges import check_edges
from .folds import WHOLE, Folds
from .sites import Flags, Known, Sites, as_fold, as_set, pairs_of

MOST_DRAWN = 10**7  # folds drawn at random: minutes
Percent = Annotated[float, Real("", above=0.0, below=100.0)]
Drawn = Annotated[int, Whole(1, MOST_DRAWN)]
Margin = Annotated[int, Whole(0)]
STARTS = "must be whole numbers, 1-d"

__all__ = [
    "WHOLE",
    "Fold",
    "Folds",
    "ModelFolds",
    "balls",
    "contiguous",
    "from_splitter",
    "iid",
    "k_fold",
    "leave_future_out",
    "leave_group_out",
    "leave_one_out",
    "regions",
    "weights",
]


class InModel(Check):
    """Sites of a model, none twice."""

    def __call__(self, name: str, value: Any, sizes: Sizes) -> Any:
        return Sites.of([value], sizes.of("n_sites")).sites


class OfModel(Check):
    """Folds that a model can leave out."""

    def __call__(self, name: str, value: Any, sizes: Sizes) -> Folds:
        check_kind(name, value, Folds)
        return Folds.of(value, sizes.owner)


Fold = Annotated[np.ndarray, InModel()]
ModelFolds = Annotated[Folds, OfModel()]


def weights(n_sites: int, sites: np.ndarray) -> np.ndarray:
    """w_o (n_sites,): 1 everywhere and 0 at the given sites."""
    w = np.ones(check_whole("n_sites", n_sites, 1))
    w[as_set(sites, n_sites)] = 0.0
    return w


def _of(known, omitted, scored=None, names=None):
    return Folds(omitted, scored, known.n, names, known.sites, known.index)


def leave_one_out(n_sites: Any, observed: Flags = None) -> Folds:
    """Omit every observed site alone: a fold has the name of its site, where sites have some."""
    known = Known.of(n_sites, observed)
    return _of(known, known.numbers[:, None], None, known.names)


@declared
def k_fold(n_sites: Any, k: int, rng: Rng | None = None, observed: Flags = None) -> Folds:
    """Part the sites into k folds of nearly equal size: contiguous, or shuffled by `rng`."""
    known = Known.of(n_sites, observed)
    sites = known.numbers
    check_whole("k", k, 2, len(sites), f" folds of {len(sites)} sites")
    if rng is not None:
        sites = rng.permutation(sites)
    return _of(known, [np.sort(part) for part in np.array_split(sites, k)])


@declared
def leave_future_out(
    n_sites: Any,
    starts: Sequence[int],
    horizon: Count | None = None,
    gap: Margin = 0,
    observed: Flags = None,
    lengths: Sequence[int] | None = None,
) -> Folds:
    """Omit {t - gap, ..., n_sites - 1} and score {t, ..., t + horizon - 1}, for each t in `starts`.

    Without a horizon, all from t on is scored. lengths: of several sequences, in sites; t counts
    from the beginning of each, and all lose their futures together.

    Source: Ghosh et al. (2020), Appendix E and M.1; horizons after Bürkner et al. (2020).
    """
    known = Known.of(n_sites, observed)
    sites = known.numbers
    parts = (getattr(n_sites, name, None) for name in ("sequences", "labels"))
    lengths = in_order_of(index_of(*parts), "lengths", lengths)
    sizes = as_fold([known.n] if lengths is None else lengths, "lengths", 1, STARTS)
    if sizes.sum() != known.n or (sizes < 1).any():
        raise ValueError(f"lengths {sizes.tolist()} must be above 0 and sum to {known.n} sites")
    firsts = as_fold(starts, "starts", 1, STARTS)
    latest = sizes.max() - (horizon or 1)
    for number in np.flatnonzero((firsts <= gap) | (firsts > latest)):
        bounds = f"from {gap + 1} to {latest}, with gap {gap} and horizon {horizon}"
        raise ValueError(f"fold {number} starts at site {firsts[number]}: must be {bounds}")
    times = np.concatenate([np.arange(size) for size in sizes])[sites]
    length = horizon or known.n
    scored = [sites[(times >= start) & (times < start + length)] for start in firsts]
    return _of(known, [sites[times >= start - gap] for start in firsts], scored)


@declared
def leave_group_out(
    labels: Any, observed: Flags = None, per_fold: Count = 1, rng: Rng | None = None
) -> Folds:
    """Omit all sites of a group (an individual, a session, a class), a fold for each.

    labels: of each site; those of sequences are np.repeat(labels, lengths). per_fold: how many
    groups are omitted together, in the order of their labels, or as drawn by `rng`.
    """
    numbers, names = numbered(labels)
    index = index_of(labels, observed)
    known = Known.of(len(numbers), in_order_of(index, "observed", observed))
    sites = known.numbers
    sites = sites[np.argsort(numbers[sites], kind="stable")]
    parts = np.split(sites, np.flatnonzero(np.diff(numbers[sites])) + 1)
    n = len(parts)
    if n < 2:
        raise ValueError(f"one group, {names[numbers[sites[0]]]!r}, has all sites: nothing is left")
    check_whole("per_fold", per_fold, 1, n - 1, f" of {n} groups")
    omitted = []
    shown = []
    order = np.arange(n) if rng is None else rng.permutation(n)
    for together in np.array_split(order, -(-n // per_fold)):
        omitted.append(np.sort(np.concatenate([parts[group] for group in together])))
        chosen = [names[numbers[parts[group][0]]] for group in together]
        shown.append(chosen[0] if per_fold == 1 else ", ".join(map(str, chosen)))
    return Folds(omitted, None, len(numbers), shown, index=index)


@declared
def iid(n_sites: Any, percent: Percent, n_folds: Drawn, rng: Rng, observed: Flags = None) -> Folds:
    """Draw `percent` of the observed sites without replacement, anew for each fold.

    Source: Celeux and Durand (2008).
    """
    known = Known.of(n_sites, observed)
    sites = known.numbers
    size = int(percent * len(sites) / 100)  # in this order: 0.29 * 100 is less than 29
    if size == 0:
        raise ValueError(f"{percent} % of {len(sites)} sites is less than one site: raise percent")
    return _of(known, [np.sort(rng.choice(sites, size, replace=False)) for _ in range(n_folds)])


@declared
def contiguous(
    n_sites: Any, percent: Percent, n_folds: Drawn, rng: Rng, observed: Flags = None
) -> Folds:
    """Draw blocks {t - m, ..., t}, m = floor(percent * n_sites / 100), t uniform.

    Missing sites are taken out of a block; a block with nothing else in it is never drawn.

    Source: Ghosh et al. (2020), Appendix L.1.
    """
    known = Known.of(n_sites, observed)
    length = int(percent * known.n / 100)
    before = np.append(0, np.cumsum(known.observed))  # how many sites are observed before each
    ends = length + np.flatnonzero(before[length + 1 :] > before[: known.n - length])
    blocks = [slice(before[end - length], before[end + 1]) for end in rng.choice(ends, n_folds)]
    return _of(known, [known.numbers[block] for block in blocks])


def from_splitter(
    cv: Any, X: Any, y: Any = None, groups: Any = None, observed: Flags = None
) -> Folds:
    """Omit all but the training sets of scikit-learn's `cv`, and score its test sets.

    cv: a splitter, or pairs (training set, test set) of row numbers; a split all of whose test set
    is missing makes no fold. X has a row for each site.

    Raises ValueError: a training set repeats a row, or shares one with its test set.
    """
    check_kind("cv", cv, object, ": give an instance of it")
    if getattr(X, "ndim", 1) == 0 or not hasattr(X, "__len__"):
        raise ValueError(f"X is {X!r:.60}: it must have a row for each site")
    n_sites = X.shape[0] if hasattr(X, "shape") else len(X)
    index = index_of(X, y, groups)
    y, groups = in_order_of(index, "y", y), in_order_of(index, "groups", groups)
    mask = Known.of(n_sites, in_order_of(index, "observed", observed)).observed
    is_splitter = hasattr(cv, "split") and not isinstance(cv, str)
    pairs = cv.split(X, y, groups) if is_splitter else pairs_of(cv)
    omitted = []
    scored = []
    for number, (train, test) in enumerate(pairs):
        left_out = weights(n_sites, train)
        test = as_set(test, n_sites, f"the test set of split {number}")
        repeats = left_out.sum() + len(train) > n_sites
        if repeats or not left_out[test].all():
            shared = "a training set repeats a row or shares one with its test set"
            raise ValueError(f"split {number}: {shared}: that is no cross-validation")
        if len(test) and not mask[test].any():
            continue
        test = test[mask[test]]
        rest = np.flatnonzero(left_out * mask)
        omitted.append(test if len(test) == len(rest) else rest)
        scored.append(test)
    return Folds(omitted, scored, n_sites, index=index)


@declared
def balls(n_sites: Any, edges: Any, radius: Margin, centres_alone: Flag = False) -> Folds:
    """Omit each site with all within `radius` edges of it, and score these, or the centre alone.

    edges: two sites a row, (m, 2), or a graph by the names of sites, as `HiddenMRF` takes them, or
    its own `edges`. Raises ValueError where some ball holds all sites.

    Source: buffered leave-one-out, Le Rest et al. (2014).
    """
    known = Known.of(n_sites)
    sites = known.numbers
    joined = _joined(n_sites, known, edges)
    near = eye_array(known.n, format="csr")
    for _ in range(radius):
        wider = (near @ joined).sign()
        if wider.nnz == near.nnz:
            break
        near = wider
    near = near[sites][:, sites]
    near.sort_indices()
    for site in sites[np.diff(near.indptr) == len(sites)]:
        where = f"radius {radius}: all {len(sites)} sites lie that close to site {site}"
        raise ValueError(f"{where}; choose a smaller one")
    centres = sites[:, None] if centres_alone else None
    return _of(known, np.split(sites[near.indices], near.indptr[1:-1]), centres, known.names)


@declared
def regions(n_sites: Any, edges: Any, k: int, rng: Rng) -> Folds:
    """Part the sites into k blocks of nearly equal size, each connected where the graph is.

    From k random sites far from each other, the smallest block that can takes a nearest free
    neighbour; a part of the graph without a seed goes to the smallest block whole. edges: as in
    `balls`.

    Source: Roberts et al. (2017).
    """
    known = Known.of(n_sites)
    farthest = known.numbers
    check_whole("k", k, 2, len(farthest), f" regions of {len(farthest)} sites")
    graph = _joined(n_sites, known, edges)
    block = np.full(known.n, -1)
    distance = np.empty((0, known.n))
    for number in range(k):
        block[seed := rng.choice(farthest)] = number
        distance = np.vstack([distance, shortest_path(graph, unweighted=True, indices=seed)])
        gap = np.where(known.observed, distance.min(axis=0), -1.0)
        farthest = np.flatnonzero(gap == gap.max())
    inner, outer = graph.nonzero()
    while (block < 0).any():
        sizes = np.bincount(block[known.observed & (block >= 0)], minlength=k)
        border = (block[outer] < 0) & (block[inner] >= 0)
        sites, owners = outer[border], block[inner[border]]
        if sites.size:
            first = np.lexsort([sites, distance[owners, sites], owners, sizes[owners]])[0]
            block[sites[first]] = owners[first]
        else:
            _, parts = connected_components(graph)
            block[parts == parts[np.argmin(block)]] = np.argmin(sizes)
    return _of(known, [np.flatnonzero((block == number) & known.observed) for number in range(k)])


def _joined(model, known, edges):
    """Which sites an edge joins, each also with itself: a sparse matrix, symmetric."""
    by_place = edges is getattr(model, "edges", None)
    pairs = check_edges(edges, known.n, None if by_place else known.index)
    joined = csr_matrix((np.ones(len(pairs)), pairs.T), (known.n, known.n))
    return joined + joined.T + eye_array(known.n, format="csr")
