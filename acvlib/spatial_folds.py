"""Folds on a graph: neighbours left out together, so that what is scored was not also learned from next door.

Each function gives folds as `folds` does; edges (m, 2), each once. Sources: buffered leave-one-out,
Le Rest et al. (2014); blocks, Roberts et al. (2017).
"""

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import shortest_path

from .inference.graph import check_edges


def distances(n_sites, edges):
    """Fewest edges between any two sites, (n, n); inf between disconnected parts."""
    ends = check_edges(edges, n_sites).T
    adjacency = csr_matrix((np.ones(ends.shape[1]), ends), shape=(n_sites, n_sites))
    return shortest_path(adjacency, directed=False, unweighted=True)


def buffered(n_sites, edges, radius):
    """One fold a site: the site and all within `radius` edges of it; `centre_losses` then scores the site alone.

    radius 0 leaves one out. ValueError where some ball holds all sites.
    """
    near = distances(n_sites, edges) <= radius
    if near.all(axis=1).any():
        site = int(np.argmax(near.all(axis=1)))
        raise ValueError(
            f"radius {radius}: all {n_sites} sites lie that close to site {site}; choose a smaller one"
        )
    return [np.flatnonzero(row) for row in near]


def centre_losses(result):
    """The loss of site i in the i-th of `buffered` folds, (n,): the buffer is left out, and not scored."""
    pairs = enumerate(zip(result.folds, result.pointwise, strict=True))
    return np.array([losses[np.searchsorted(fold, centre)] for centre, (fold, losses) in pairs])


def regions(n_sites, edges, k, rng):
    """A partition into k blocks of nearly equal size, each connected where the graph is.

    From k random sites far from each other, the smallest block that can takes a nearest free
    neighbour; a part of the graph without a seed goes to the smallest block whole. Raises
    ValueError unless 2 <= k <= n_sites.
    """
    if not 2 <= k <= n_sites:
        raise ValueError(
            f"k = {k} regions of {n_sites} sites: k must be from 2 to the number of sites"
        )
    distance = distances(n_sites, edges)
    block = np.full(n_sites, -1)
    seeds = _scattered(distance, k, rng)
    block[seeds] = np.arange(k)
    while (block < 0).any():
        _grow(block, seeds, distance)
    return [np.flatnonzero(block == number) for number in range(k)]


def _scattered(distance, k, rng):
    """k sites: one at random, then each time one of those farthest from all before."""
    chosen = [int(rng.integers(len(distance)))]
    for _ in range(k - 1):
        gap = distance[chosen].min(axis=0)
        chosen.append(int(rng.choice(np.flatnonzero(gap == gap.max()))))
    return np.array(chosen)


def _grow(block, seeds, distance):
    """Adds one site to the smallest block that has a free neighbour, or a part without any seed to the smallest."""
    by_size = np.argsort(np.bincount(block[block >= 0], minlength=len(seeds)), kind="stable")
    for number in by_size:
        free = (block < 0) & (distance[block == number] == 1).any(axis=0)
        if free.any():
            candidates = np.flatnonzero(free)
            block[candidates[np.argmin(distance[seeds[number], candidates])]] = number
            return
    stranded = np.flatnonzero(block < 0)[0]
    block[np.isfinite(distance[stranded]) & (block < 0)] = by_size[0]
