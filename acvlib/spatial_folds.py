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
    adjacency = csr_matrix((np.ones(ends.shape[1]), ends), shape=(n_sites, n_sites))
    return shortest_path(adjacency, directed=False, unweighted=True)


def balls(n_sites: int, edges: np.ndarray, radius: int) -> Folds:
    """Omit and score each site with all within `radius` edges of it: n folds.

    Raises ValueError where some ball holds all sites.
    """
    near = distances(n_sites, edges) <= radius
    if near.all(axis=1).any():
        site = int(np.argmax(near.all(axis=1)))
        raise ValueError(
            f"radius {radius}: all {n_sites} sites lie that close to site {site}; choose a "
            "smaller one"
        )
    return Folds([np.flatnonzero(row) for row in near])


def buffered(n_sites: int, edges: np.ndarray, radius: int) -> Folds:
    """Omit each site with a buffer, all within `radius` edges, and score the site alone: n folds.

    Radius 0 leaves one out. Raises ValueError where some buffer holds all sites.
    """
    return Folds(balls(n_sites, edges, radius).omitted, scored=np.arange(n_sites)[:, None])


def regions(n_sites: int, edges: np.ndarray, k: int, rng: np.random.Generator) -> Folds:
    """Part the sites into k blocks of nearly equal size, each connected where the graph is.

    From k random sites far from each other, the smallest block that can takes a nearest free
    neighbour; a part of the graph without a seed goes to the smallest block whole.
    Raises ValueError unless 2 <= k <= n_sites.
    """
    if not 2 <= k <= n_sites:
        raise ValueError(
            f"k = {k} regions of {n_sites} sites: k must be from 2 to the number of sites"
        )
    distance = distances(n_sites, edges)
    seeds = _scattered(distance, k, rng)
    block = np.full(n_sites, -1)
    block[seeds] = np.arange(k)
    while (block < 0).any():
        _grow(block, seeds, distance)
    return Folds([np.flatnonzero(block == number) for number in range(k)])


def _scattered(distance, k, rng):
    """k sites: one at random, then each time one of those farthest from all before."""
    chosen = [int(rng.integers(len(distance)))]
    for _ in range(k - 1):
        gap = distance[chosen].min(axis=0)
        farthest = np.flatnonzero(gap == gap.max())
        chosen.append(int(rng.choice(farthest)))
    return np.array(chosen)


def _grow(block, seeds, distance):
    """Adds a site to the smallest block with a free neighbour, or a part without any seed."""
    sizes = np.bincount(block[block >= 0], minlength=len(seeds))
    by_size = np.argsort(sizes, kind="stable")
    for number in by_size:
        beside = (distance[block == number] == 1).any(axis=0)
        free = np.flatnonzero((block < 0) & beside)
        if free.size:
            nearest = np.argmin(distance[seeds[number], free])
            block[free[nearest]] = number
            return
    stranded = np.flatnonzero(block < 0)[0]
    block[np.isfinite(distance[stranded]) & (block < 0)] = by_size[0]
