"""In which order to sum out the sites of a graph, and the index tables that the kernels read.

Eliminating a site joins its remaining neighbours, its *scope*, in one table of n_states^|scope|
entries. The cost of an order is the sum of those sizes, its width the largest scope. Finding the
best order is NP-hard; the greedy min-fill rule with random ties is good, and better restarted.
Source: Koller and Friedman (2009), chapter 9.4.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .checks import check_edges

MEMORY = 2**31  # bytes that the tables of one graph may take, unless told otherwise
RESTARTS = 20


class TooWide(ValueError):
    """The graph is too entangled for exact sums; the message has the width and the memory."""


class EliminationOrder(NamedTuple):
    """An order of elimination, bucket by bucket; a bucket sums out one site.

    What it leaves is a table over the bucket's scope. The digits of a table index, base n_states,
    are the states of the scope, about half of them low and half high; the site that is eliminated
    next is the highest digit. A parent reads a child's table at a function of its own low digits
    plus one of its high digits: `low_map` from `low_start[child]`, `high_map` from
    `high_start[child]` (unsigned, so that numba need not look for negative numbers). An edge is in
    the bucket of whichever end goes first; `edge_digit` is the other end's place value in its half.
    """

    n_states: int
    site: np.ndarray  # (n,), the site that each bucket sums out
    start: np.ndarray  # (n + 1,), where the tables of the buckets begin
    n_low: np.ndarray
    n_high: np.ndarray
    scope_start: np.ndarray
    scope: np.ndarray
    parent: np.ndarray  # the bucket that reads a bucket's table; -1 at a root
    child_start: np.ndarray
    child: np.ndarray
    low_start: np.ndarray
    low_map: np.ndarray
    high_start: np.ndarray
    high_map: np.ndarray
    edge_start: np.ndarray
    edge: np.ndarray
    edge_digit: np.ndarray
    edge_is_low: np.ndarray  # whether the other end is a low digit
    edge_reversed: np.ndarray  # whether the edge's first end is eliminated later

    @property
    def width(self) -> int:
        """The largest scope: exact sums take time and memory like n_states^width."""
        return int(np.diff(self.scope_start).max(initial=0))


def eliminate(
    n_sites: int, edges, n_states: int, restarts: int = RESTARTS, memory: int = MEMORY
) -> EliminationOrder:
    """Find the best of `restarts` min-fill orders; kept, so that a repeat costs nothing.

    Parameters
    ----------
    edges : integers (m, 2), each edge once
    memory : bytes that the tables may take

    Raises
    ------
    TooWide
        The tables would take more than `memory`.
    """
    if n_sites < 1 or n_states < 1:
        raise ValueError(f"n_sites = {n_sites} and n_states = {n_states}: both must be at least 1")
    pairs = check_edges(edges, n_sites)
    return _eliminate(n_sites, pairs.tobytes(), n_states, restarts, memory)


@lru_cache(maxsize=64)
def _eliminate(n_sites, edge_bytes, n_states, restarts, memory):
    edges = np.frombuffer(edge_bytes, np.int64).reshape(-1, 2)
    adjacent = _bitsets(n_sites, edges)
    rng = np.random.default_rng(0)
    found = [min_fill(adjacent, rng) for _ in range(restarts)]
    order, scopes = min(found, key=lambda pair: _entries(pair[1], n_states))
    _check_memory(scopes, n_states, restarts, memory)
    return _index_tables(order, scopes, edges, n_states)


def _bitsets(n_sites, edges):
    """The neighbours of each site as the bits of one integer."""
    adjacent = [0] * n_sites
    for a, b in edges.tolist():
        adjacent[a] |= 1 << b
        adjacent[b] |= 1 << a
    return adjacent


def _bits(number):
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest


def _fill(adjacent, site):
    """Twice the edges that eliminating a site adds: its neighbours' missing links."""
    around = adjacent[site]
    missing = sum((around & ~adjacent[other]).bit_count() for other in _bits(around))
    return missing - around.bit_count()  # as no site is a neighbour of its own


def min_fill(adjacent, rng):
    """(order, scopes): each step eliminates a site that adds the fewest edges, ties at random."""
    adjacent = list(adjacent)
    order = []
    scopes = []
    cost = {site: _fill(adjacent, site) for site in range(len(adjacent))}
    while cost:
        least = min(cost.values())
        ties = [site for site, value in cost.items() if value == least]
        site = ties[rng.integers(len(ties))]
        del cost[site]
        order.append(site)
        scopes.append(adjacent[site])
        for changed in _bits(_join_neighbours(adjacent, site)):
            cost[changed] = _fill(adjacent, changed)
    return order, scopes


def _join_neighbours(adjacent, site):
    """Eliminates a site in place; returns the sites whose fill may have changed."""
    around = changed = adjacent[site]
    for other in _bits(around):
        adjacent[other] = (adjacent[other] | around) & ~(1 << other) & ~(1 << site)
        changed |= adjacent[other]
    return changed


def _entries(scopes, n_states):
    return sum(n_states ** scope.bit_count() for scope in scopes)


def _check_memory(scopes, n_states, restarts, memory):
    needed = 8 * (2 * n_states + 3) * _entries(scopes, n_states)
    if needed > memory:
        width = max(scope.bit_count() for scope in scopes)
        raise TooWide(
            f"the best of {restarts} min-fill orders has width {width}: tables of "
            f"{n_states}^{width} entries, {needed / 2**30:.3g} GiB in all, above the limit of "
            f"{memory / 2**30:.3g} GiB. Merge sites, drop edges, use fewer states, try more "
            f"restarts or allow more memory in graph.eliminate"
        )


def _index_tables(order, scope_bits, edges, k):
    place = np.argsort(order)
    scopes = [sorted(_bits(bits), key=lambda site: -place[site]) for bits in scope_bits]
    size = np.array([len(scope) for scope in scopes])
    low = (size + 1) // 2
    parent = np.array([place[scope[-1]] if scope else -1 for scope in scopes])
    child = np.argsort(parent, kind="stable")[np.count_nonzero(parent < 0) :]
    low_maps = []
    high_maps = []
    for scope, above in zip(scopes, parent, strict=True):
        read_by = scopes[above] if scope else []  # a root's table is read by no other
        strides = [k ** scope.index(site) if site in scope else 0 for site in read_by]
        low_maps.append(_digit_sums(strides[: low[above]], k))
        high_maps.append(_digit_sums(strides[low[above] :], k))
    return EliminationOrder(
        n_states=k,
        site=np.array(order),
        start=_starts(k**size),
        n_low=k**low,
        n_high=k ** (size - low),
        scope_start=_starts(size),
        scope=np.array([site for scope in scopes for site in scope], np.int64),
        parent=parent,
        child_start=_starts(np.bincount(parent[parent >= 0], minlength=len(order))),
        child=child,
        low_start=_starts([len(part) for part in low_maps]),
        low_map=np.concatenate(low_maps).astype(np.uint32),
        high_start=_starts([len(part) for part in high_maps]),
        high_map=np.concatenate(high_maps).astype(np.uint32),
        **_edge_tables(edges, place, scopes, low, k),
    )


def _starts(lengths):
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _digit_sums(strides, k):
    """sum_d digit_d(r) strides[d] for all numbers r of len(strides) digits, base k."""
    sums = np.zeros(1, np.int64)
    for stride in strides:
        sums = (stride * np.arange(k)[:, None] + sums).ravel()
    return sums


def _edge_tables(edges, place, scopes, low, k):
    """The edges in the order of the buckets in which they are summed."""
    ends = place[edges]
    first = ends.min(axis=1)
    order = np.argsort(first, kind="stable")
    later = edges[np.arange(len(edges)), ends.argmax(axis=1)]
    digit = np.array([scopes[first[e]].index(later[e]) for e in order], np.int64)
    n_low = low[first[order]]
    return {
        "edge_start": _starts(np.bincount(first, minlength=len(place))),
        "edge": order,
        "edge_digit": k ** np.where(digit < n_low, digit, digit - n_low),
        "edge_is_low": digit < n_low,
        "edge_reversed": ends[order, 0] > ends[order, 1],
    }
