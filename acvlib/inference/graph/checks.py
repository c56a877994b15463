"""Edges, potentials and site numbers as the kernels take them; what is wrong with others."""

from typing import Any

import numpy as np


def check_edges(edges: Any, n_sites: int) -> np.ndarray:
    """Return edges as integers (m, 2).

    Raises
    ------
    ValueError
        Names an edge that is out of range, repeated, or joins a site to itself.
    """
    pairs = np.asarray(edges)
    if pairs.size == 0:
        return np.zeros((0, 2), np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        raise ValueError(
            f"edges must be integers (m, 2), two sites a row; got {pairs.dtype} of shape "
            f"{pairs.shape}. For a matrix: graph.edges_of"
        )
    ends = np.sort(pairs, axis=1)
    _, first = np.unique(ends, axis=0, return_index=True)
    repeated = np.ones(len(pairs), bool)
    repeated[first] = False
    outside = (ends[:, 0] < 0) | (ends[:, 1] >= n_sites)
    _refuse(pairs, outside, f"leaves the sites 0 ... {n_sites - 1}")
    _refuse(pairs, ends[:, 0] == ends[:, 1], "joins a site to itself: drop it")
    _refuse(pairs, repeated, "is listed more than once: list it once, in either direction")
    return pairs.astype(np.int64)


def _refuse(pairs, bad, reason):
    if bad.any():
        a, b = pairs[np.argmax(bad)]
        raise ValueError(f"edge ({a}, {b}) {reason}")


def edges_of(adjacency: Any) -> np.ndarray:
    """Return the edges (m, 2), lower site first, of a 0/1 adjacency matrix, dense or sparse.

    Raises
    ------
    ValueError
        The matrix is not square or not symmetric, has a diagonal, or entries other than 0 and 1.
    """
    matrix = adjacency.toarray() if hasattr(adjacency, "toarray") else np.asarray(adjacency)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"an adjacency matrix is square; got shape {matrix.shape}")
    strange = matrix[(matrix != 0) & (matrix != 1)]
    if strange.size:
        raise ValueError(f"adjacency entries are 0 or 1; found {strange[0]}")
    if (matrix != matrix.T).any():
        i, j = np.argwhere(matrix != matrix.T)[0]
        entries = f"[{i}, {j}] = {matrix[i, j]} and [{j}, {i}] = {matrix[j, i]}"
        raise ValueError(f"the adjacency matrix is not symmetric: {entries}; neighbours are mutual")
    if matrix.diagonal().any():
        site = np.argmax(matrix.diagonal() != 0)
        raise ValueError(f"site {site} is its own neighbour: clear the diagonal")
    return np.argwhere(np.triu(matrix))


def check_potentials(node: Any, edge: Any, elimination: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return node (n, K) and edge (m, K, K) as arrays of finite numbers, or raise ValueError."""
    check_shapes(node, edge, elimination)
    return check_table("node", node, np.shape(node)), check_table("edge", edge, np.shape(edge))


def check_shapes(node: Any, edge: Any, elimination: Any) -> None:
    """Raise ValueError unless node is (n, K) and edge (m, K, K); tracers of autograd will do."""
    k = elimination.n_states
    _check_shape("node", node, (len(elimination.site), k))
    _check_shape("edge", edge, (len(elimination.ends), k, k))


def _check_shape(name, values, shape):
    if np.shape(values) != shape:
        raise ValueError(f"{name} has shape {np.shape(values)}; this elimination is for {shape}")


def check_table(name: str, values: Any, shape: tuple) -> np.ndarray:
    """Return values as an array of finite numbers of this shape, or raise ValueError."""
    _check_shape(name, values, shape)
    array = np.ascontiguousarray(values, float)
    if not np.isfinite(array).all():
        raise ValueError(f"potentials must be finite: {name} has an entry that is nan or infinite")
    return array


def check_sites(sites: Any, n_sites: int) -> np.ndarray:
    """Return sites as integers (s,); ValueError names one outside 0 ... n_sites - 1."""
    sites = np.atleast_1d(np.asarray(sites))
    if sites.ndim != 1 or not (np.issubdtype(sites.dtype, np.integer) or sites.size == 0):
        raise ValueError(f"sites must be integers (s,), not {sites.dtype} of shape {sites.shape}")
    outside = (sites < 0) | (sites >= n_sites)
    if outside.any():
        raise ValueError(f"site {sites[outside][0]} is outside 0 ... {n_sites - 1}")
    return sites.astype(np.int64)
