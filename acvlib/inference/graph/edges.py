"""Edges of graphs as users have them: pairs of sites, of networkx, or in adjacency matrices."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse, triu

from ...checks import real_array


def check_edges(edges: Any, n_sites: int) -> np.ndarray:
    """Return edges as integers (m, 2); ValueError names one that is none, or a repeated one.

    edges: two sites a row; or what `edges_of` takes, whose nodes or rows are then the sites.
    """
    if isinstance(edges, np.ma.MaskedArray):
        raise ValueError("edges are a masked array: pass its .compressed() or .filled() numbers")
    if _is_graph(edges, n_sites):
        _check_sites_of(edges, n_sites)
        edges = edges_of(edges)
    pairs = np.asarray(edges)
    if pairs.size == 0:
        return np.zeros((0, 2), np.int64)
    if pairs.shape[1:] != (2,) or not np.issubdtype(pairs.dtype, np.integer):
        found = f"{pairs.dtype} of shape {pairs.shape}"
        forms = "a networkx graph or an adjacency matrix of all sites (`.sparse` of libpysal's W)"
        raise ValueError(f"edges must be integers (m, 2), two sites a row; got {found}. Or {forms}")
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


def _is_graph(edges, n_sites):
    """Whether edges come as a graph: two edges of two sites would be one too many."""
    square = (n_sites, n_sites)
    return is_networkx(edges) or issparse(edges) or np.shape(edges) == square


def _check_sites_of(graph, n_sites):
    """Refuse a graph of other sites, and one whose nodes are their numbers in another order."""
    n_nodes = graph.shape[0] if issparse(graph) else len(graph)
    if n_nodes != n_sites:
        raise ValueError(f"the graph has {n_nodes} nodes, and there are {n_sites} sites")
    nodes = list(graph) if is_networkx(graph) else []
    numbers = list(range(n_sites))
    if nodes != numbers and set(nodes) == set(numbers):
        found = f"come in the order {nodes[:3]}...: site 0 could be node {nodes[0]} or node 0"
        remedy = "pass the data by node, as a dict, or networkx.relabel_nodes first"
        raise ValueError(f"the graph's nodes 0 ... {n_sites - 1} {found}; {remedy}")


def check_sites(sites: Any, n_sites: int) -> np.ndarray:
    """Return site numbers as integers (s,); ValueError for flags and for what is no site."""
    numbers = np.asarray(sites)
    integers = numbers.dtype.kind in "iu" or numbers.size == 0
    plain = integers and numbers.ndim == 1 and not isinstance(sites, np.ma.MaskedArray)
    if not plain or not np.isin(numbers, np.arange(n_sites)).all():
        raise ValueError(f"sites must be numbers among 0 ... {n_sites - 1}; got {sites}")
    return numbers.astype(np.int64)


def is_networkx(graph: Any) -> bool:
    """Whether an object is a graph of networkx, or made like one."""
    return hasattr(graph, "is_directed") and hasattr(graph, "adj")


def edges_of(graph: Any) -> np.ndarray:
    """Return the edges (m, 2) of a networkx graph, or of a 0/1 adjacency matrix, dense or sparse.

    Sites are numbered as the graph's nodes come, or the rows of the matrix. Raises ValueError
    unless neighbours are mutual and all alike: no weights, as one coupling serves all edges.
    """
    return _of_networkx(graph) if is_networkx(graph) else _of_matrix(graph)


def by_node(values: Any, graph: Any) -> np.ndarray:
    """Return numbers by node, a dict or a Series, in the order of a networkx graph's nodes."""
    named = dict(values.items())
    nodes = list(graph)
    lost = [node for node in nodes if node not in named]
    strange = [name for name in named if name not in graph]
    if lost or strange or len(named) != len(values):
        found = f"nodes without a number: {lost[:3]}; names of no node: {strange[:3]}"
        raise ValueError(f"numbers by node must name each node of the graph once; {found}")
    return np.array([named[node] for node in nodes])


def is_named(values: Any) -> bool:
    """Whether values have names: a dict, or a Series of pandas."""
    return isinstance(values, Mapping) or hasattr(values, "to_dict")


def _of_networkx(network):
    if network.is_directed():
        raise ValueError("the graph is directed, neighbours are mutual: use graph.to_undirected()")
    for a, b, weight in network.edges(data="weight", default=1):
        if weight != 1:
            raise ValueError(f"edge ({a!r}, {b!r}) has weight {weight!r}: {_NO_WEIGHTS}")
    number = {node: place for place, node in enumerate(network)}
    pairs = [(number[a], number[b]) for a, b in network.edges()]
    return np.array(pairs, np.int64).reshape(-1, 2)


_NO_WEIGHTS = "one coupling serves all edges, so that they are there or not"


def _of_matrix(adjacency):
    matrix = _real_matrix(adjacency)
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


def _real_matrix(adjacency):
    """A sparse matrix of floats, without zeros that are stored."""
    if issparse(adjacency):
        real_array("adjacency", adjacency.tocoo().data, finite=False)
        matrix = csr_array(adjacency, dtype=float, copy=True)
        matrix.sum_duplicates()
    else:
        _check_names(adjacency)
        matrix = csr_array(real_array("adjacency", adjacency, 2, finite=False))
    matrix.eliminate_zeros()
    return matrix


def _check_names(adjacency):
    """Refuse a frame whose rows and columns are not the same sites in the same order."""
    columns = getattr(adjacency, "columns", None)
    if columns is not None and list(columns) != list(adjacency.index):
        names = f"rows {list(adjacency.index)[:3]}..., columns {list(columns)[:3]}..."
        raise ValueError(f"rows and columns of an adjacency matrix are the same sites; got {names}")
