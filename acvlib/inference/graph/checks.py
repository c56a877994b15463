"""Edges and site numbers as the kernels take them; what is wrong with others."""

from typing import Any

import numpy as np
from scipy.sparse import issparse

from .forms import edges_of, is_networkx


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
