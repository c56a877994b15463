"""In which order to sum out the sites of a graph, and the index tables that the kernels read.

Eliminating a site joins its remaining neighbours, its *scope*, in one table of n_states^|scope|
entries. The cost of an order is the sum of those sizes, its width the largest scope. Finding the
best order is NP-hard; the greedy min-fill rule with random ties is good, and better restarted.
Source: Koller and Friedman (2009), chapter 9.4.
"""

from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from ...checks import check_whole
from .edges import check_edges

MEMORY = 2**31  # bytes that the tables of one graph may take, unless told otherwise
RESTARTS = 20
HOPELESS = 1.5  # times the width that memory allows: min-degree orders, quick, are nearly as narrow
UPDATES = 60_000  # of neighbours, a fifth of a second, after which a min-degree order is given up


class TooWide(ValueError):
    """The graph is too entangled for exact sums; the message has the width and the memory."""


class EliminationOrder(NamedTuple):
    """An order of elimination, bucket by bucket; a bucket sums out one site.

    What it leaves is a table over the bucket's scope, whose columns are numbered by the states of
    the scope as digits, base n_states. The site that is eliminated next is the highest digit, as a
    bucket's own site is in its children's scopes; `place` has a child's column number, its site's
    state apart, for each of its parent's.
    """

    n_states: int
    ends: np.ndarray  # (m, 2), the edges
    is_reversed: np.ndarray  # (m + 1,), whether an edge's second end goes first; last: no edge
    site: np.ndarray  # (n,), the site that each bucket sums out
    start: np.ndarray  # (n + 1,), where the columns of the buckets begin
    parent: np.ndarray  # (n,), the bucket that reads a bucket's table; -1 at a root
    scope_start: np.ndarray
    scope: np.ndarray
    edge: np.ndarray  # that joins a bucket's site to one of its scope; -1 if none does
    child_start: np.ndarray
    child: np.ndarray
    place_start: np.ndarray
    place: np.ndarray

    @property
    def width(self) -> int:
        """The largest scope: exact sums take time and memory like n_states^width."""
        return int(np.diff(self.scope_start).max(initial=0))


def eliminate(
    n_sites: int, edges: Any, n_states: int, restarts: int = RESTARTS, memory: int = MEMORY
) -> EliminationOrder:
    """Find the best of `restarts` min-fill orders; kept, so that a repeat costs nothing.

    Raises TooWide if the tables would take more than `memory` bytes.
    """
    for name, number in (("n_sites", n_sites), ("n_states", n_states), ("restarts", restarts)):
        check_whole(name, number, 1)
    pairs = check_edges(edges, n_sites)
    return _eliminate(int(n_sites), pairs.tobytes(), int(n_states), int(restarts), memory)


def check_width(n_sites: int, edges: np.ndarray, n_states: int, memory: int = MEMORY) -> None:
    """Raise TooWide, in far less than a second, where no order of elimination is narrow enough.

    For checked edges (m, 2). By one min-degree order: it must be `HOPELESS` times too wide, as
    min-fill finds narrower ones.
    """
    width = _quick_width(_bitsets(n_sites, edges))
    if _bytes(n_states ** int(width / HOPELESS), n_states) > memory:
        needed = _bytes(n_states**width, n_states)
        raise TooWide(_refusal("a min-degree order reaches", width, n_states, needed, memory))


def _quick_width(adjacent):
    """The width of a min-degree order, as far as `UPDATES` go: a graph without end is dense."""
    heap = [(around.bit_count(), site) for site, around in enumerate(adjacent)]
    heapify(heap)
    width = updates = 0
    while heap and updates < UPDATES:
        degree, site = heappop(heap)
        around = adjacent[site]
        if degree != around.bit_count():
            continue  # it has changed since
        width = max(width, degree)
        updates += degree
        _join_neighbours(adjacent, site)
        adjacent[site] = 0
        for other in _bits(around):
            heappush(heap, (adjacent[other].bit_count(), other))
    return width


@lru_cache(maxsize=64)
def _eliminate(n_sites, edge_bytes, n_states, restarts, memory):
    edges = np.frombuffer(edge_bytes, np.int64).reshape(-1, 2)
    check_width(n_sites, edges, n_states, memory)
    adjacent = _bitsets(n_sites, edges)
    rng = np.random.default_rng(0)
    orders = [min_fill(adjacent, rng) for _ in range(restarts)]
    costs = [sum(n_states ** scope.bit_count() for scope in order.values()) for order in orders]
    best = orders[np.argmin(costs)]
    needed = _bytes(min(costs), n_states)
    if needed > memory:
        width = max(scope.bit_count() for scope in best.values())
        tried = f"the best of {restarts} min-fill orders has"
        raise TooWide(_refusal(tried, width, n_states, needed, memory))
    tables = _index_tables(best, edges, n_states)
    for array in tables[1:]:
        array.setflags(write=False)  # they are shared by all who eliminate this graph
    return tables


def _bytes(entries, n_states):
    return (8 * (2 * n_states + 3) + 4) * entries


def _refusal(tried, width, n_states, needed, memory):
    gib = 2**30
    needed = min(needed, 10**300)  # more is no float
    return (
        f"{tried} width {width}: tables of {n_states}^{width} entries, {needed / gib:.3g} GiB in "
        f"all, above the limit of {memory / gib:.3g} GiB. Merge sites, drop edges, use fewer "
        "states, try more restarts or allow more memory in graph.eliminate"
    )


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


def min_fill(adjacent: list[int], rng: np.random.Generator) -> dict[int, int]:
    """{site: scope}: each step eliminates a site that adds the fewest edges, ties at random."""
    adjacent = list(adjacent)
    order = {}
    cost = {site: _fill(adjacent, site) for site in range(len(adjacent))}
    while cost:
        least = min(cost.values())
        ties = [site for site, value in cost.items() if value == least]
        site = ties[rng.integers(len(ties))]
        del cost[site]
        order[site] = adjacent[site]
        for changed in _bits(_join_neighbours(adjacent, site)):
            cost[changed] = _fill(adjacent, changed)
    return order


def _join_neighbours(adjacent, site):
    """Eliminates a site in place; returns the sites whose fill may have changed."""
    around = changed = adjacent[site]
    for other in _bits(around):
        adjacent[other] = (adjacent[other] | around) & ~(1 << other) & ~(1 << site)
        changed |= adjacent[other]
    return changed


def _index_tables(order, edges, k):
    place = {site: bucket for bucket, site in enumerate(order)}
    scopes = [sorted(_bits(bits), key=place.get, reverse=True) for bits in order.values()]
    parent = np.array([place[scope[-1]] if scope else -1 for scope in scopes])
    children = [[] for _ in scopes]
    places = [np.zeros(0, np.uint32) for _ in scopes]
    for bucket in np.flatnonzero(parent >= 0):
        children[parent[bucket]].append(bucket)
        power = {site: k**digit for digit, site in enumerate(scopes[bucket])}
        places[bucket] = np.zeros(1, np.uint32)
        for site in scopes[parent[bucket]]:
            digits = power.get(site, 0) * np.arange(k, dtype=np.uint32)
            places[bucket] = (digits[:, None] + places[bucket]).ravel()
    number = {pair: e for e, (a, b) in enumerate(edges.tolist()) for pair in ((a, b), (b, a))}
    links = [number.get((site, other), -1) for site in order for other in scopes[place[site]]]
    return EliminationOrder(
        k,
        edges,
        np.array([*(place[a] > place[b] for a, b in edges.tolist()), False]),
        np.array(list(order)),
        _starts([k ** len(scope) for scope in scopes]),
        parent,
        *_joined(scopes),
        np.array(links, np.int64),
        *_joined(children),
        _starts(map(len, places)),
        np.concatenate(places),
    )


def _starts(lengths):
    return np.cumsum([0, *lengths], dtype=np.int64)


def _joined(lists):
    """(where each list starts, all of them joined)."""
    entries = np.array([entry for part in lists for entry in part], np.int64)
    return _starts(map(len, lists)), entries
