"""Edges and site numbers as the kernels take them; what is wrong with others."""

from typing import Any

import numpy as np

from ...checks import real_array


def check_edges(edges: Any, n_sites: int) -> np.ndarray:
    """Return edges as integers (m, 2); ValueError names one that is none, or a repeated one."""
    if isinstance(edges, np.ma.MaskedArray):
        raise ValueError("edges are a masked array: pass its .compressed() or .filled() numbers")
    pairs = np.asarray(edges)
    if pairs.size == 0:
        return np.zeros((0, 2), np.int64)
    if pairs.shape[1:] != (2,) or not np.issubdtype(pairs.dtype, np.integer):
        found = f"{pairs.dtype} of shape {pairs.shape}"
        remedy = "For a matrix: graph.edges_of"
        raise ValueError(f"edges must be integers (m, 2), two sites a row; got {found}. {remedy}")
    seen = set()
    for a, b in pairs.tolist():
        name = f"edge ({a}, {b})"
        if min(a, b) < 0 or max(a, b) >= n_sites:
            raise ValueError(f"{name} leaves the sites 0 ... {n_sites - 1}")
        if a == b:
            raise ValueError(f"{name} joins a site to itself: drop it")
        if (a, b) in seen:
            raise ValueError(f"{name} is listed more than once: list it once, in either direction")
        seen |= {(a, b), (b, a)}
    return pairs.astype(np.int64)


def edges_of(adjacency: Any) -> np.ndarray:
    """Return the edges (m, 2), lower site first, of a 0/1 adjacency matrix, dense or sparse.

    Raises ValueError unless it is square, symmetric and without a diagonal.
    """
    dense = adjacency.toarray() if hasattr(adjacency, "toarray") else adjacency
    matrix = real_array("adjacency", dense, finite=False)
    if matrix.ndim != 2 or len(set(matrix.shape)) != 1:
        raise ValueError(f"an adjacency matrix is square; got shape {matrix.shape}")
    strange = matrix[~np.isin(matrix, [0, 1])]
    if strange.size:
        raise ValueError(f"adjacency entries are 0 or 1; found {strange[0]:g}")
    for i, j in np.argwhere(matrix != matrix.T):
        entries = f"[{i}, {j}] = {matrix[i, j]:g} and [{j}, {i}] = {matrix[j, i]:g}"
        raise ValueError(f"the adjacency matrix is not symmetric: {entries}; neighbours are mutual")
    for site in np.flatnonzero(matrix.diagonal()):
        raise ValueError(f"site {site} is its own neighbour: clear the diagonal")
    return np.argwhere(np.triu(matrix))


def check_sites(sites: Any, n_sites: int) -> np.ndarray:
    """Return site numbers as integers (s,); ValueError for flags and for what is no site."""
    numbers = np.asarray(sites)
    integers = numbers.dtype.kind in "iu" or numbers.size == 0
    plain = integers and numbers.ndim == 1 and not isinstance(sites, np.ma.MaskedArray)
    if not plain or not np.isin(numbers, np.arange(n_sites)).all():
        raise ValueError(f"sites must be numbers among 0 ... {n_sites - 1}; got {sites}")
    return numbers.astype(np.int64)
