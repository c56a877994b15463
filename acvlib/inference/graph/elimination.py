"""In which order to sum out the sites of a graph, and the index tables that the kernels of `graph` read.

Eliminating a site joins its remaining neighbours, its *scope*, in one table of n_states^|scope| entries. The
cost of an order is the sum of those sizes, its width the largest scope. Finding the best order is NP-hard; the
greedy min-fill rule with random ties is good, and restarted it is better. Source: Koller and Friedman (2009),
chapter 9.4.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

MEMORY = 2**31  # bytes that the tables of one graph may take, unless told otherwise
RESTARTS = 20


class TooWide(ValueError):
    """The graph is too entangled for exact sums; the message has the width and the memory it would take."""


class Elimination(NamedTuple):
    """An order of elimination, bucket by bucket; a bucket sums out one site and leaves a table over its scope.

    The digits of a table index, base n_states, are the states of the scope, about half of them low and half high;
    the site that is eliminated next is the highest digit. Where a parent reads a child's table is the sum of a
    function of the low digits and one of the high digits of its own index: `low_map` from `low_start[child]`,
    `high_map` from `high_start[child]` (unsigned, so that numba need not look for negative numbers). Edges stand
    in the bucket of whichever end goes first: `edge_digit` is the other end's place value in its half,
    `edge_is_low` which half that is, `edge_reversed` whether the first end is eliminated later.
    """

    n_states: int
    site: np.ndarray
    start: np.ndarray
    n_low: np.ndarray
    n_high: np.ndarray
    scope_start: np.ndarray
    scope: np.ndarray
    parent: np.ndarray
    child_start: np.ndarray
    child: np.ndarray
    low_start: np.ndarray
    low_map: np.ndarray
    high_start: np.ndarray
    high_map: np.ndarray
    edge_start: np.ndarray
    edge: np.ndarray
    edge_digit: np.ndarray
    edge_is_low: np.ndarray
    edge_reversed: np.ndarray

    @property
    def width(self):
        """The largest scope: exact sums take time and memory in proportion to n_states^width."""
        return int(np.diff(self.scope_start).max(initial=0))


def eliminate(n_sites, edges, n_states, restarts=RESTARTS, memory=MEMORY):
    """The best of `restarts` min-fill orders of a graph, as an `Elimination`; kept, so that a repeat costs nothing.

    edges (m, 2): each edge once. Raises TooWide where the tables would take more than `memory` bytes.
    """
    pairs = np.ascontiguousarray(edges, np.int64).reshape(-1, 2)
    return _eliminate(n_sites, pairs.tobytes(), n_states, restarts, memory)


@lru_cache(maxsize=64)
def _eliminate(n_sites, edge_bytes, n_states, restarts, memory):
    edges = np.frombuffer(edge_bytes, np.int64).reshape(-1, 2)
    adjacent = _bitsets(n_sites, edges)
    rng = np.random.default_rng(0)
    orders = [min_fill(adjacent, rng) for _ in range(restarts)]
    order, scopes = min(orders, key=lambda found: _entries(found[1], n_states))
    _check_memory(scopes, n_states, restarts, memory)
    return _tables(order, scopes, edges, n_states)


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
    """Twice the edges that eliminating a site would add: its neighbours' missing links among themselves."""
    around = adjacent[site]
    missing = sum((around & ~adjacent[other]).bit_count() for other in _bits(around))
    return missing - around.bit_count()  # as no site is a neighbour of its own


def min_fill(adjacent, rng):
    """(order, scopes): each step eliminates a site that adds the fewest edges, ties at random; bitsets in and out."""
    adjacent, order, scopes = list(adjacent), [], []
    cost = {site: _fill(adjacent, site) for site in range(len(adjacent))}
    while cost:
        least = min(cost.values())
        ties = [site for site, value in cost.items() if value == least]
        site = ties[
            rng.integers(len(ties))
        ]  # not the order of a queue, which would find worse orders on maps
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
            f"the best of {restarts} min-fill orders has width {width}: tables of {n_states}^{width} entries, "
            f"{needed / 2**30:.3g} GiB in all, above the limit of {memory / 2**30:.3g} GiB. Merge sites, drop edges, "
            f"use fewer states, try more restarts or allow more memory in graph.eliminate"
        )


def _starts(lengths):
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _flat(parts, dtype=np.int64):
    return np.concatenate([np.zeros(0, dtype), *parts]).astype(dtype)


def _tables(order, scopes, edges, k):
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    scopes = [sorted(_bits(scope), key=lambda site: -place[site]) for scope in scopes]
    low = np.array([(len(scope) + 1) // 2 for scope in scopes])
    parent = np.array([place[scope[-1]] if scope else -1 for scope in scopes], np.int64)
    maps = [
        _index_maps(scope, scopes[above], n_low, k) if scope else ([], [])
        for scope, above, n_low in zip(scopes, parent, low[parent], strict=True)
    ]
    child = np.argsort(parent, kind="stable")[np.count_nonzero(parent < 0) :]
    return Elimination(
        n_states=k,
        site=np.array(order, np.int64),
        start=_starts([k ** len(scope) for scope in scopes]),
        n_low=k**low,
        n_high=np.array(
            [k ** (len(scope) - n) for scope, n in zip(scopes, low, strict=True)], np.int64
        ),
        scope_start=_starts([len(scope) for scope in scopes]),
        scope=_flat(scopes),
        parent=parent,
        child_start=_starts(np.bincount(parent[parent >= 0], minlength=len(order))),
        child=child,
        low_start=_starts([len(low_map) for low_map, _ in maps]),
        low_map=_flat([low_map for low_map, _ in maps], np.uint32),
        high_start=_starts([len(high_map) for _, high_map in maps]),
        high_map=_flat([high_map for _, high_map in maps], np.uint32),
        **_edge_tables(edges, place, scopes, low, k),
    )


def _index_maps(scope, parent_scope, n_low, k):
    """Where a child's table is read for the low and for the high digits of its parent's table."""
    strides = [k ** scope.index(site) if site in scope else 0 for site in parent_scope]
    return _digit_sums(strides[:n_low], k), _digit_sums(strides[n_low:], k)


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
    digit = np.array(
        [scopes[first[e]].index(edges[e, np.argmax(ends[e])]) for e in order], np.int64
    )
    n_low = low[first[order]]
    return {
        "edge_start": _starts(np.bincount(first, minlength=len(place))),
        "edge": order,
        "edge_digit": k ** np.where(digit < n_low, digit, digit - n_low),
        "edge_is_low": digit < n_low,
        "edge_reversed": ends[order, 0] > ends[order, 1],
    }
