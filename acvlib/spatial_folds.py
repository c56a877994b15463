"""Folds on a graph: neighbours omitted together, so that what is scored was not learned next door.

Edges (m, 2), each once. Sources: buffered leave-one-out, Le Rest et al. (2014); blocks, Roberts et
al. (2017).
"""

import numpy as np
from scipy.sparse import csr_matrix, eye_array
from scipy.sparse.csgraph import connected_components, shortest_path

from .checks import check_whole
from .declared import Count, Rng, declared
from .folds import Folds, Margin, leave_one_out
from .inference.graph import check_edges


@declared
def distances(n_sites: Count, edges: np.ndarray) -> np.ndarray:
    """Return the fewest edges between any two sites, (n, n); inf between disconnected parts."""
    return shortest_path(_graph(n_sites, edges), unweighted=True)


@declared
def balls(n_sites: Count, edges: np.ndarray, radius: Margin) -> Folds:
    """Omit and score each site with all within `radius` edges of it: n folds.

    Raises ValueError where some ball holds all sites.
    """
    near = _widened(leave_one_out(n_sites), radius, _graph(n_sites, edges))
    for site in np.flatnonzero(near.sizes == n_sites):
        where = f"radius {radius}: all {n_sites} sites lie that close to site {site}"
        raise ValueError(f"{where}; choose a smaller one")
    return near


def buffered(n_sites: int, edges: np.ndarray, radius: int) -> Folds:
    """Omit each ball, the buffer of its centre, and score the centre alone: n folds."""
    near = balls(n_sites, edges, radius)
    return Folds(near.omitted, leave_one_out(n_sites).omitted, n_sites)


@declared
def regions(
    n_sites: Count,
    edges: np.ndarray,
    k: int,
    rng: Rng,
    buffer: Margin = 0,
) -> Folds:
    """Part the sites into k blocks of nearly equal size, each connected where the graph is.

    From k random sites far from each other, the smallest block that can takes a nearest free
    neighbour; a part of the graph without a seed goes to the smallest block whole. Sites within
    `buffer` edges of a block are omitted with it, and not scored.
    """
    graph = _graph(n_sites, edges)
    check_whole("k", k, 2, n_sites, f" regions of {n_sites} sites")
    seeds, distance = _scattered(graph, k, rng)
    block = np.full(n_sites, -1)
    block[seeds] = np.arange(k)
    while (block < 0).any():
        _grow(block, distance, graph)
    scored = [np.flatnonzero(block == number) for number in range(k)]
    near = _widened(Folds(scored), buffer, graph)
    return Folds(near.omitted, scored, n_sites)


def _graph(n_sites, edges):
    """The adjacency matrix, symmetric."""
    pairs = check_edges(edges, n_sites)
    both_ways = np.concatenate([pairs, pairs[:, ::-1]])
    return csr_matrix((np.ones(len(both_ways)), both_ways.T), (n_sites, n_sites))


def _widened(folds, radius, graph):
    """Each fold with all sites within `radius` edges of it."""
    reach = graph + eye_array(graph.shape[0], format="csr")
    near = folds.indicator(graph.shape[0])
    for _ in range(radius):
        wider = (near @ reach).sign()
        if wider.nnz == near.nnz:
            break
        near = wider
    near.sort_indices()
    return Folds(np.split(near.indices, near.indptr[1:-1]))


def _scattered(graph, k, rng):
    """k sites, one at random, then each one of those farthest from all before; all distances."""
    chosen = []
    distance = []
    farthest = np.arange(graph.shape[0])
    for _ in range(k):
        site = rng.choice(farthest)
        chosen.append(site)
        steps = shortest_path(graph, unweighted=True, indices=site)
        distance.append(steps)
        gap = np.min(distance, axis=0)
        farthest = np.flatnonzero(gap == gap.max())
    return chosen, np.array(distance)


def _grow(block, distance, graph):
    """Add a site to the smallest block with a free neighbour, or a part without any seed."""
    free = block < 0
    sizes = np.bincount(block[~free], minlength=len(distance))
    inner, outer = graph.nonzero()
    border = free[outer] & ~free[inner]
    sites = outer[border]
    if sites.size:
        owners = block[inner[border]]
        best = np.lexsort([sites, distance[owners, sites], owners, sizes[owners]])[0]
        block[sites[best]] = owners[best]
        return
    _, parts = connected_components(graph)
    block[parts == parts[np.argmax(free)]] = np.argmin(sizes)
