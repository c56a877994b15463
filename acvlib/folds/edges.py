"""Graphs as users have them: edges, networkx, adjacency matrices; sites by their names.

Names of sites are the nodes of a networkx graph or the index of a frame.
"""

from collections import Counter
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse, triu

from ..checks import columns_of, real_array

_NO_WEIGHTS = "one coupling serves all edges: they are there, or not"
_FORMS = "a networkx graph or an adjacency matrix of all sites (`.sparse` of libpysal's W)"


def check_edges(edges: Any, n_sites: int, labels: Any = None) -> np.ndarray:
    """Return the edges (m, 2) of a graph as integers, each once.

    edges: two sites a row; or a networkx graph; or a 0/1 adjacency matrix, dense, sparse or a
    frame. labels: names (n_sites,) of the sites, by which the nodes of a graph that has names are
    sites; without names sites are the places of nodes or rows.

    Raises ValueError naming an edge that is none, that comes twice or has a weight, and names that
    are not those of the sites.
    """
    if not is_networkx(edges) and not issparse(edges):
        is_table = hasattr(edges, "__array__") or not np.iterable(edges)
        edges = edges if is_table else list(edges)
        real_array(f"edges, two sites a row, or {_FORMS},", edges, finite=False)  # or refuses
    names = names_of(edges)
    if names is not None and len(names) != n_sites:
        raise ValueError(f"the graph has {len(names)} nodes, and there are {n_sites} sites")
    places = _places_of(names, labels, n_sites)
    if is_networkx(edges):
        pairs = places[_of_networkx(edges, names)]
    elif issparse(edges) or np.shape(edges) == (n_sites, n_sites):
        pairs = places[_of_matrix(edges, n_sites)]
    else:
        pairs = np.asarray(edges)
    if pairs.size == 0:
        return np.zeros((0, 2), np.int64)
    if pairs.shape[1:] != (2,) or not np.issubdtype(pairs.dtype, np.integer):
        got = f"{pairs.dtype} of shape {pairs.shape}"
        raise ValueError(f"edges must be integers (m, 2), two sites a row; got {got}. Or {_FORMS}")
    low, high = np.sort(pairs).astype(np.int64).T
    _, first = np.unique(low * n_sites + high, return_index=True)
    again = ~np.isin(np.arange(len(pairs)), first)
    rules = {
        f"leaves the sites 0 ... {n_sites - 1}": (low < 0) | (high >= n_sites),
        "joins a site to itself: drop it": low == high,
        "is listed more than once: list it once, in either direction": again,
    }
    for rule, broken in rules.items():
        for a, b in pairs[broken]:
            raise ValueError(f"edge ({a}, {b}) {rule}")
    return pairs.astype(np.int64)


def is_networkx(graph: Any) -> bool:
    """Whether an object is a graph of networkx, or made like one."""
    return hasattr(graph, "is_directed") and hasattr(graph, "adj")


def names_of(graph: Any) -> list | None:
    """The nodes of a networkx graph, or the columns of a frame; None for what has no names."""
    if is_networkx(graph):
        return list(graph)
    columns = columns_of(graph)
    if columns is None or (not hasattr(graph, "index") and len(columns) != len(graph)):
        return None
    names = list(getattr(graph, "index", columns))  # those of rows, which polars does not have
    if columns != names:
        got = f"rows {names[:3]}..., columns {columns[:3]}...; of edges, pass .to_numpy()"
        raise ValueError(f"rows and columns of an adjacency matrix are the same sites; got {got}")
    return names


def _places_of(names, labels, n_sites):
    """The site of each node; of a graph or of data without names, those are places."""
    if names is not None and labels is not None:
        for what, given in {"the graph": names, "the data": labels}.items():
            name, times = Counter(given).most_common(1)[0]
            if times > 1:
                raise ValueError(
                    f"{what}: {times} sites are named {name!r}. Give each a name of its own, or "
                    "pass edges by places (m, 2), and data by .to_numpy()"
                )
        site = {label: place for place, label in enumerate(labels)}
        strange = [name for name in names if name not in site]
        if strange:
            lost = list(site.keys() - set(names))
            differ = f"nodes without data: {strange[:3]}, data without a node: {lost[:3]}"
            raise ValueError(f"the graph and the data must name each site once; {differ}")
        return np.array([site[name] for name in names])
    places = list(range(n_sites))
    only = names or places if labels is None else list(labels)
    if only != places and all(isinstance(name, int | np.integer) for name in only):
        got = f"sites are named {only[:3]}..., not by their places 0, 1, 2, ..."
        remedy = "give names to both, graph (networkx, a frame) and data (Series), or to neither"
        raise ValueError(f"{got}: {remedy}")
    return np.arange(n_sites)


def _of_networkx(network, names):
    if network.is_directed():
        raise ValueError("the graph is directed, neighbours are mutual: use graph.to_undirected()")
    for a, b, weight in network.edges(data="weight", default=1):
        if weight != 1:
            raise ValueError(f"edge ({a!r}, {b!r}) has weight {weight!r}: {_NO_WEIGHTS}")
    number = {node: place for place, node in enumerate(names)}
    pairs = [(number[a], number[b]) for a, b in network.edges()]
    return np.array(pairs, np.int64).reshape(-1, 2)


def _of_matrix(adjacency, n_sites):
    if not issparse(adjacency):
        adjacency = real_array("adjacency", adjacency, 2, finite=False)
    matrix = csr_array(adjacency, dtype=float, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if matrix.shape != (n_sites, n_sites):
        raise ValueError(f"an adjacency matrix {matrix.shape} must be ({n_sites}, {n_sites})")
    for entry in matrix.data[matrix.data != 1.0]:
        raise ValueError(f"adjacency entries are 0 or 1; found {entry:g}: {_NO_WEIGHTS}")
    for i, j in np.transpose((matrix != matrix.T).nonzero()):
        entries = f"[{i}, {j}] = {matrix[i, j]:g} and [{j}, {i}] = {matrix[j, i]:g}"
        raise ValueError(f"the adjacency matrix is not symmetric: {entries}; neighbours are mutual")
    return np.transpose(triu(matrix, format="coo").nonzero()).astype(np.int64)
