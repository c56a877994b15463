"""Folds on a graph: neighbours omitted together, so that what is scored was not learned next door.

Edges (m, 2), each once. Sources: buffered leave-one-out, Le Rest et al. (2014); blocks, Roberts et
al. (2017).
"""

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import shortest_path

from .folds import Folds
from .inference.graph import check_edges


def distances(n_sites: int, edges: np.ndarray) -> np.ndarray:
    """Return the fewest edges between any two sites, (n, n); inf between disconnected parts."""
    ends = check_edges(edges, n_sites).T
    ones = np.ones(ends.shape[1])
    adjacency = csr_matrix((ones, ends), shape=(n_sites, n_sites))
    return shortest_path(adjacency, directed=False, unweighted=True)


def balls(n_sites: int, edges: np.ndarray, radius: int) -> Folds:
    """Omit and score each site with all within `radius` edges of it: n folds.

    Raises ValueError where some ball holds all sites.
    """
    near = distances(n_sites, edges) <= radius
    for site in np.flatnonzero(near.all(axis=1)):
        where = f"radius {radius}: all {n_sites} sites lie that close to site {site}"
        raise ValueError(f"{where}; choose a smaller one")
    return Folds([np.flatnonzero(row) for row in near])


def buffered(n_sites: int, edges: np.ndarray, radius: int) -> Folds:
    """Omit each ball, the buffer of its centre, and score the centre alone: n folds."""
    centres = np.arange(n_sites)[:, None]
    return Folds(balls(n_sites, edges, radius).omitted, scored=centres)


def regions(n_sites: int, edges: np.ndarray, k: int, rng: np.random.Generator) -> Folds:
    """Part the sites into k blocks of nearly equal size, each connected where the graph is.

    From k random sites far from each other, the smallest block that can takes a nearest free
    neighbour; a part of the graph without a seed goes to the smallest block whole.
    """
    if not 2 <= k <= n_sites:
        raise ValueError(f"k = {k} regions of {n_sites} sites: k must be from 2 to {n_sites}")
    distance = distances(n_sites, edges)
    seeds = _scattered(distance, k, rng)
    block = np.full(n_sites, -1)
    block[seeds] = np.arange(k)
    while (block < 0).any():
        _grow(block, seeds, distance)
    return Folds([np.flatnonzero(block == number) for number in range(k)])


def _scattered(distance, k, rng):
    """k sites: one at random, then each time one of those farthest from all before."""
    chosen = [rng.integers(len(distance))]
    while len(chosen) < k:
        gap = distance[chosen].min(axis=0)
        farthest = np.flatnonzero(gap == gap.max())
        chosen.append(rng.choice(farthest))
    return chosen


def _grow(block, seeds, distance):
    """Add a site to the smallest block with a free neighbour, or a part without any seed."""
    free = block < 0
    sizes = np.bincount(block[~free], minlength=len(seeds))
    by_size = np.argsort(sizes, kind="stable")
    for number in by_size:
        beside = (distance[block == number] == 1).any(axis=0)
        sites = np.flatnonzero(free & beside)
        if sites.size:
            nearest = np.argmin(distance[seeds[number], sites])
            block[sites[nearest]] = number
            return
    stranded = np.argmax(free)
    reached = np.isfinite(distance[stranded])
    block[reached & free] = by_size[0]
