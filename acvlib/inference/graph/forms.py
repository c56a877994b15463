"""Graphs as users have them: of networkx, or as adjacency matrices, dense or sparse."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse, triu

from ...checks import real_array


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
