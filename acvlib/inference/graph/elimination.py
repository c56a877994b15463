"""In which order to sum out the sites of a graph, and the index tables that the kernels read.

Eliminating a site joins its remaining neighbours, its *scope*, in one table of n_states^|scope|
columns. The cost of an order is the sum of those sizes, its width the largest scope. Finding the
best order is NP-hard; the greedy min-fill rule with random ties is good, and better restarted.
Source: Koller and Friedman (2009), chapter 9.4.
"""

from collections.abc import Callable
from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from ...checks import check_whole
from ...folds.edges import check_edges

MEMORY = 2**31  # bytes that the tables of one graph may take
RESTARTS = 20
HOPELESS = 1.5  # times the width that memory allows: min-degree orders, quick, are nearly as narrow


class TooWide(ValueError):
    """The graph is too entangled for exact sums; the message has the width and the memory."""


class EliminationOrder(NamedTuple):
    """An order of elimination, bucket by bucket; a bucket sums out one site.

    All numbers of a sum stand in one vector: the factors of nodes and edges, then for each bucket
    the product of its own node and edges, its table (n_states, columns) over its site and its
    scope, and the message (columns,) that is left. Product 2 b is that of bucket b's own factors,
    2 b + 1 its table, the product of that one and of its children's messages.
    """

    n_states: int
    n_edges: int
    site: np.ndarray  # (n,), the site that each bucket sums out
    parent: np.ndarray  # (n,), the bucket that reads a bucket's message; -1 at a root
    columns: np.ndarray  # (n,)
    start: np.ndarray  # (2 n,), where the entries of a product begin in the vector
    message: np.ndarray  # (n + 1,), where messages begin; last: the size of the vector
    factor: np.ndarray  # (2 n + 1,), where the factors of a product begin in `begin`
    begin: np.ndarray  # where a factor begins in `entries`
    entries: np.ndarray  # the place in the vector of a factor's number, for each of its product's

    @property
    def width(self) -> int:
        """The largest scope: exact sums take time and memory like n_states^width."""
        return int(round(np.log(self.columns.max()) / np.log(max(self.n_states, 2))))


def eliminate(n_sites: int, edges: Any, n_states: int) -> EliminationOrder:
    """Find the best of `RESTARTS` min-fill orders; kept, so that a repeat costs nothing.

    Raises TooWide if the tables would take more than `MEMORY` bytes.
    """
    for name, number in (("n_sites", n_sites), ("n_states", n_states)):
        check_whole(name, number, 1)
    return _eliminate(int(n_sites), check_edges(edges, n_sites).tobytes(), int(n_states))


def check_width(n_sites: int, edges: np.ndarray, n_states: int) -> None:
    """Raise TooWide, in far less than a second, where no order of elimination is narrow enough.

    For checked edges (m, 2). By one min-degree order: it must be `HOPELESS` times too wide, as
    min-fill finds narrower ones.
    """
    widest = HOPELESS * np.log(MEMORY / _bytes(1, n_states)) / np.log(max(n_states, 2))
    order = _greedy(_bitsets(n_sites, edges), _degree, np.random.default_rng(0), widest)
    width = max(scope.bit_count() for scope in order.values())
    if width > widest:
        raise _too_wide("a min-degree order reaches", width, n_states, n_states**width)


@lru_cache(maxsize=64)
def _eliminate(n_sites, edge_bytes, n_states):
    edges = np.frombuffer(edge_bytes, np.int64).reshape(-1, 2)
    check_width(n_sites, edges, n_states)
    rng = np.random.default_rng(0)
    orders = [_greedy(_bitsets(n_sites, edges), _fill, rng) for _ in range(RESTARTS)]
    costs = [sum(n_states ** scope.bit_count() for scope in order.values()) for order in orders]
    best = orders[np.argmin(costs)]
    if _bytes(min(costs), n_states) > MEMORY:
        width = max(scope.bit_count() for scope in best.values())
        raise _too_wide(f"the best of {RESTARTS} orders has", width, n_states, min(costs))
    tables = _index_tables(best, edges.tolist(), n_states)
    for array in tables[2:]:
        array.setflags(write=False)  # they are shared by all who eliminate this graph
    return tables


def _bytes(columns, n_states):
    """Of two vectors and of the entries of about three factors a product."""
    return (16 * (n_states + 1) + 12 * n_states) * columns


def _too_wide(order, width, n_states, columns):
    gib = 2**30
    needed = min(_bytes(columns, n_states), 10**300) / gib  # more is no float
    return TooWide(
        f"{order} width {width}: tables of {n_states}^{width} columns, {needed:.3g} GiB in all, "
        f"above the limit of {MEMORY / gib:.3g} GiB. Merge sites, drop edges, or use fewer states"
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


def _degree(adjacent, site):
    return adjacent[site].bit_count()


def _fill(adjacent, site):
    """Twice the edges that eliminating a site adds: its neighbours' missing links."""
    around = adjacent[site]
    missing = sum((around & ~adjacent[other]).bit_count() for other in _bits(around))
    return missing - around.bit_count()  # as no site is a neighbour of its own


def _greedy(
    adjacent: list[int], cost: Callable, rng: np.random.Generator, widest: float = np.inf
) -> dict[int, int]:
    """{site: scope}: each step eliminates a site of least cost, ties at random, in place.

    Ends with the first scope that is wider than `widest`.
    """
    costs: list = [cost(adjacent, site) for site in range(len(adjacent))]
    heap = [(value, rng.random(), site) for site, value in enumerate(costs)]
    heapify(heap)
    order: dict[int, int] = {}
    while heap:
        least, _, site = heappop(heap)
        if costs[site] != least:
            continue  # it has changed since
        around = changed = order[site] = adjacent[site]
        if around.bit_count() > widest:
            break
        costs[site] = None
        for other in _bits(around):
            adjacent[other] = (adjacent[other] | around) & ~(1 << other) & ~(1 << site)
            changed |= adjacent[other]
        for other in _bits(changed):
            value = cost(adjacent, other)
            if value != costs[other]:
                costs[other] = value
                heappush(heap, (value, rng.random(), other))
    return order


def _index_tables(order, edges, k):
    """`EliminationOrder` of {site: scope}; a factor is (its sites, its start)."""
    place = {site: bucket for bucket, site in enumerate(order)}
    axes = [
        [site, *sorted(_bits(scope), key=place.get, reverse=True)] for site, scope in order.items()
    ]
    own = [[([site], site * k)] for site in order]
    for e, pair in enumerate(edges):
        own[min(map(place.get, pair))].append((pair, (len(order) + e * k) * k))
    end = (len(order) + len(edges) * k) * k
    received = [[] for _ in order]
    start = []
    message = []
    products = []
    for b, sites in enumerate(axes):
        near = [site for site in sites if any(site in scope for scope, _ in own[b])]
        received[b].append((near, end))
        start += [end, end + k ** len(near)]
        message.append(start[-1] + k ** len(sites))
        end = message[-1] + k ** len(sites[1:])
        if sites[1:]:
            received[place[sites[-1]]].append((sites[1:], message[b]))
        products += [(near, own[b]), (sites, received[b])]
    entries = [_places(*factor, sites, k) for sites, product in products for factor in product]
    return EliminationOrder(
        k,
        len(edges),
        np.array(list(order)),
        np.array([place[sites[-1]] if sites[1:] else -1 for sites in axes]),
        np.array([k ** len(sites[1:]) for sites in axes]),
        np.array(start),
        np.array([*message, end]),
        np.cumsum([0, *[len(product) for _, product in products]]),
        np.cumsum([0, *map(len, entries)]),
        np.concatenate(entries).astype(np.uint32),
    )


def _places(scope, start, axes, k):
    """Where the numbers of a factor over its scope are, for each entry of a table over axes."""
    power = {site: k**digit for digit, site in enumerate(reversed(scope))}
    places = np.array([start])
    for site in axes:
        places = (places[:, None] + power.get(site, 0) * np.arange(k)).ravel()
    return places
