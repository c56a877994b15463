"""Edges, potentials and site numbers as the kernels take them; what is wrong with others."""

from typing import Any

import numpy as np


def check_edges(edges: Any, n_sites: int) -> np.ndarray:
    """Return edges as integers (m, 2); ValueError names one that is none, or a repeated one."""
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
    matrix = adjacency.toarray() if hasattr(adjacency, "toarray") else np.asarray(adjacency)
    if matrix.ndim != 2 or len(set(matrix.shape)) != 1:
        raise ValueError(f"an adjacency matrix is square; got shape {matrix.shape}")
    strange = matrix[~np.isin(matrix, [0, 1])]
    if strange.size:
        raise ValueError(f"adjacency entries are 0 or 1; found {strange[0]}")
    for i, j in np.argwhere(matrix != matrix.T):
        entries = f"[{i}, {j}] = {matrix[i, j]} and [{j}, {i}] = {matrix[j, i]}"
        raise ValueError(f"the adjacency matrix is not symmetric: {entries}; neighbours are mutual")
    for site in np.flatnonzero(matrix.diagonal()):
        raise ValueError(f"site {site} is its own neighbour: clear the diagonal")
    return np.argwhere(np.triu(matrix))


def check_potentials(node: Any, edge: Any, elimination: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return node (n, K) and edge (m, K, K) as arrays of finite numbers, or raise ValueError."""
    check_shapes(node, edge, elimination)
    return check_finite("node", node), check_finite("edge", edge)


def check_shapes(node: Any, edge: Any, elimination: Any) -> None:
    """Raise ValueError unless node is (n, K) and edge (m, K, K), numbers or autograd's boxes."""
    k = elimination.n_states
    check_shape("node", node, (len(elimination.site), k))
    check_shape("edge", edge, (len(elimination.ends), k, k))


def check_shape(name: str, values: Any, shape: tuple) -> None:
    """Raise ValueError unless values have this shape."""
    if np.shape(values) != shape:
        raise ValueError(f"{name} has shape {np.shape(values)}; this elimination is for {shape}")


def check_finite(name: str, values: Any) -> np.ndarray:
    """Return values as floats for a kernel; ValueError if one is not finite."""
    if np.iscomplexobj(values):
        raise ValueError(f"{name} is complex: give real numbers")
    array = np.ascontiguousarray(values, float)
    with np.errstate(over="ignore"):
        size = np.abs(array).sum()
    if not np.isfinite(size):
        found = f"{name} has an entry that is nan, infinite or too large to add up"
        raise ValueError(f"potentials must be finite: {found}")
    return array


def check_sites(sites: Any, n_sites: int) -> np.ndarray:
    """Return site numbers as integers (s,); ValueError for flags and for what is no site."""
    numbers = np.asarray(sites)
    flags = numbers.dtype == bool
    if numbers.ndim != 1 or flags or not np.isin(numbers, np.arange(n_sites)).all():
        raise ValueError(f"sites must be numbers among 0 ... {n_sites - 1}; got {sites}")
    return numbers.astype(np.int64)
