"""Graphs as users have them: edges, networkx, adjacency matrices; and data by the names of sites.

Names of sites are the nodes of a networkx graph, the index of a Series or frame, a dict's keys.
"""

from collections.abc import Mapping
from operator import length_hint
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse, triu

from ...checks import real_array

_NO_WEIGHTS = "one coupling serves all edges, so that they are there or not"


def check_edges(edges: Any, n_sites: int) -> np.ndarray:
    """Return edges as integers (m, 2); ValueError names one that is none, or a repeated one.

    edges: two sites a row; or what `edges_of` takes, whose nodes or rows are then the sites.
    """
    if isinstance(edges, np.ma.MaskedArray):
        raise ValueError("edges are a masked array: pass its .compressed() or .filled() numbers")
    if is_networkx(edges) or issparse(edges) or np.shape(edges) == (n_sites, n_sites):
        n_nodes = edges.shape[0] if issparse(edges) else len(edges)
        if n_nodes != n_sites:
            raise ValueError(f"the graph has {n_nodes} nodes, and there are {n_sites} sites")
        _check_places(_names_of(edges))
        edges = edges_of(edges)
    pairs = np.asarray(edges)
    if pairs.size == 0:
        return np.zeros((0, 2), np.int64)
    if pairs.shape[1:] != (2,) or not np.issubdtype(pairs.dtype, np.integer):
        got = f"{pairs.dtype} of shape {pairs.shape}"
        forms = "a networkx graph or an adjacency matrix of all sites (`.sparse` of libpysal's W)"
        raise ValueError(f"edges must be integers (m, 2), two sites a row; got {got}. Or {forms}")
    low = pairs.min(axis=1)
    high = pairs.max(axis=1)
    for a, b in pairs[(low < 0) | (high >= n_sites)]:
        raise ValueError(f"edge ({a}, {b}) leaves the sites 0 ... {n_sites - 1}")
    for a, b in pairs[low == high]:
        raise ValueError(f"edge ({a}, {b}) joins a site to itself: drop it")
    _, first = np.unique(low.astype(np.int64) * n_sites + high, return_index=True)
    for a, b in np.delete(pairs, first, axis=0):
        once = "list it once, in either direction"
        raise ValueError(f"edge ({a}, {b}) is listed more than once: {once}")
    return pairs.astype(np.int64)


def in_one_order(edges: Any, data: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return edges and data by site in one order of sites: what has names is aligned by them.

    The order is that of the graph's nodes or rows, else of the first data that have names. Raises
    ValueError where names differ, where several data are in another order than the rows of an
    adjacency matrix, and where something without names, which goes by places, is beside names in
    several orders.
    """
    n_sites = length_hint(next(iter(data.values())))
    is_graph = is_networkx(edges) or np.shape(edges) == (n_sites, n_sites)
    names = {"the graph": _names_of(edges) if is_graph else None}
    names |= {what: _names_of(values) for what, values in data.items()}
    named = {what: own for what, own in names.items() if own is not None}
    if not named:
        return edges, data
    order = next(iter(named.values()))
    for what, own in named.items():
        _check_same(what, own, order)
    apart = [what for what, own in named.items() if own != order]
    if apart and len(named) < len(names):
        remedy = "what has no names goes by places: give names to all, or to none"
        raise ValueError(f"{apart[0]} is in another order than {order[:3]}...; {remedy}")
    if len(apart) > 1 and "the graph" in named and not is_networkx(edges):
        remedy = "put its rows and columns in theirs, by .loc[index, index]"
        raise ValueError(f"{' and '.join(apart)} are in another order than the graph: {remedy}")
    if len(named) < len(names):
        _check_places(order)
    elif is_graph:
        edges = edges_of(edges)
    return edges, {what: _in_order(values, order) for what, values in data.items()}


def is_networkx(graph: Any) -> bool:
    """Whether an object is a graph of networkx, or made like one."""
    return hasattr(graph, "is_directed") and hasattr(graph, "adj")


def _names_of(values):
    """The names of sites that data or a graph bring; None for arrays, lists and other tables."""
    if is_networkx(values) or isinstance(values, Mapping):
        return list(values)
    index = getattr(values, "index", None)
    if not hasattr(index, "equals"):
        return None
    names = list(index)
    columns = list(getattr(values, "columns", names))
    if columns != names:
        got = f"rows {names[:3]}..., columns {columns[:3]}..."
        raise ValueError(f"rows and columns of an adjacency matrix are the same sites; got {got}")
    return names


def _check_places(names):
    """Refuse sites that are named by numbers which are not those of their places."""
    numbers = all(isinstance(name, int | np.integer) for name in names or [])
    if names and numbers and names != list(range(len(names))):
        places = f"sites are named {names[:3]}..., not by their places 0, 1, 2, ..."
        remedy = "name all data, as dicts or Series, or use networkx.relabel_nodes first"
        raise ValueError(f"{places}: {remedy}")


def _check_same(what, names, order):
    unique = set(names)
    lost = [name for name in order if name not in unique]
    strange = unique.difference(order)
    if lost or strange or len(unique) != len(names):
        differ = f"without a number: {lost[:3]}; names of no site: {list(strange)[:3]}"
        raise ValueError(f"{what} must name each site once; sites {differ}")


def _in_order(values, order):
    """Numbers of a Series or dict as an array in the order of these names; others as they are."""
    if _names_of(values) is None:
        return values
    named = dict(values.items())
    return np.array([named[name] for name in order])


def edges_of(graph: Any) -> np.ndarray:
    """Return the edges (m, 2) of a networkx graph, or of a 0/1 adjacency matrix, dense or sparse.

    Sites are numbered as the graph's nodes come, or the rows of the matrix. Raises ValueError
    unless neighbours are mutual and all alike: no weights, as one coupling serves all edges.
    """
    return _of_networkx(graph) if is_networkx(graph) else _of_matrix(graph)


def _of_networkx(network):
    if network.is_directed():
        raise ValueError("the graph is directed, neighbours are mutual: use graph.to_undirected()")
    for a, b, weight in network.edges(data="weight", default=1):
        if weight != 1:
            raise ValueError(f"edge ({a!r}, {b!r}) has weight {weight!r}: {_NO_WEIGHTS}")
    number = {node: place for place, node in enumerate(network)}
    pairs = [(number[a], number[b]) for a, b in network.edges()]
    return np.array(pairs, np.int64).reshape(-1, 2)


def _of_matrix(adjacency):
    sparse = issparse(adjacency)
    entries = adjacency.tocoo().data if sparse else adjacency
    checked = real_array("adjacency", entries, None if sparse else 2, finite=False)
    matrix = csr_array(adjacency, dtype=float, copy=True) if sparse else csr_array(checked)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if len(set(matrix.shape)) != 1:
        raise ValueError(f"an adjacency matrix is square; got shape {matrix.shape}")
    for entry in matrix.data[~np.isin(matrix.data, [0, 1])]:
        raise ValueError(f"adjacency entries are 0 or 1; found {entry:g}: {_NO_WEIGHTS}")
    for i, j in np.transpose((matrix - matrix.T).nonzero()):
        entries = f"[{i}, {j}] = {matrix[i, j]:g} and [{j}, {i}] = {matrix[j, i]:g}"
        raise ValueError(f"the adjacency matrix is not symmetric: {entries}; neighbours are mutual")
    for site in np.flatnonzero(matrix.diagonal()):
        raise ValueError(f"site {site} is its own neighbour: clear the diagonal")
    return np.transpose(triu(matrix, format="csr").nonzero()).astype(np.int64)
