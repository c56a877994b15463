"""Sums over all sites of a regression for many params at once, tile by tile.

Each tile's BLAS has one thread of its own: threads of BLAS spin on after a call, in others' way.
"""

from collections.abc import Callable

import numpy as np

from ...parallel import in_blas_threads, pieces
from .families import Family

FOLDS = 128  # folds, and sites, handled together: the work array stays in the cache
SITES = 512
ROWS = 1024  # rows that are handled alone
SINGLE = 5e-7  # relative error of `slope_changes`, in standard errors; tested


def by_rows(
    function: Callable, n_rows: int, size: int = ROWS, label: str | None = None
) -> np.ndarray:
    """Concatenate function(slice) of `size` rows each."""
    return np.concatenate(in_blas_threads(function, pieces(n_rows, size), label))


def over_sites(function: Callable, n_points: int, n_sites: int) -> np.ndarray:
    """Sum function(points, sites), of slices, a row for each point, over all sites."""

    def tiles(few):
        return sum(function(few, sites) for sites in pieces(n_sites, SITES))

    return by_rows(tiles, n_points, FOLDS, "gradients")


def slope_changes(
    family: Family, z: np.ndarray, mean: np.ndarray, curvature: np.ndarray, moves: np.ndarray
) -> np.ndarray:
    """sum_n s_n [slope(eta_n + z_n move) - slope(eta_n)] z_n of each move (n, D), in float32.

    mean, curvature (n_sites,): at eta, the latter times s.
    """
    z, mean, curvature, moves = (each.astype(np.float32) for each in (z, mean, curvature, moves))

    def changes(few, sites):
        change = family.change(mean[sites], moves[few] @ z[sites].T)
        change *= curvature[sites]
        product = change @ z[sites]
        return product.astype(float)

    return over_sites(changes, len(moves), len(z))


def gram(z: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """sum_n C_n (x) z_n z_n' of curvature (n, k, k), half of it computed, in at most 16 parts."""
    k = curvature.shape[1]
    dim = z.shape[1]

    def of_rows(rows):
        total = np.empty((k, dim, k, dim))
        for i in range(k):
            root = z[rows] * np.sqrt(np.maximum(curvature[rows, i, i, None], 0.0))
            total[i, :, i] = root.T @ root
            weighted = z[rows][:, None, :] * curvature[rows, i, :i, None]
            product = z[rows].T @ weighted.reshape(len(root), i * dim)
            total[i, :, :i] = product.reshape(dim, i, dim)
            total[:i, :, i] = total[i, :, :i].transpose(1, 0, 2)
        return total.reshape(k * dim, k * dim)

    size = max(ROWS, -(-len(z) // 16))
    if len(z) <= size:  # in less time than asking for threads takes
        return of_rows(slice(None))
    return np.sum(in_blas_threads(of_rows, pieces(len(z), size)), axis=0)


def many_grams(z: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Z' diag(w) Z for each row w of weights (n, n_sites), (n, D, D), as one matrix product."""
    dim = z.shape[1]
    grams = np.zeros((len(weights), dim, dim))
    for sites in pieces(len(z), SITES):
        squares = z[sites][:, :, None] * z[sites][:, None, :]
        grams += np.tensordot(weights[:, sites], squares, axes=1)
    return grams


def row_sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Sum a b (n, D) over each row."""
    return np.einsum("nd,nd->n", a, b)


def span(rows: np.ndarray) -> np.ndarray | slice:
    """The rows as a slice, which copies nothing, where they follow one another."""
    if len(rows) and (np.diff(rows) == 1).all():
        return slice(rows[0], rows[0] + len(rows))
    return rows
