"""Sums over all sites of a GLM for many params or weights at once, tile by tile.

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
    family: Family, x: np.ndarray, mean: np.ndarray, curvature: np.ndarray, moves: np.ndarray
) -> np.ndarray:
    """sum_n s_n [slope(eta_n + x_n move) - slope(eta_n)] x_n of each move (n, D), in float32.

    mean, curvature (n_sites,): at eta, the latter times s.
    """
    x = x.astype(np.float32)
    mean = mean.astype(np.float32)
    curvature = curvature.astype(np.float32)
    moves = moves.astype(np.float32)

    def changes(few, sites):
        change = family.change(mean[sites], moves[few] @ x[sites].T)
        change *= curvature[sites]
        product = change @ x[sites]
        return product.astype(float)

    return over_sites(changes, len(moves), len(x))


def sum_of(function: Callable, n_rows: int, size: int) -> np.ndarray:
    """Sum function(slice) of `size` rows each."""
    if n_rows <= size:
        return function(slice(0, n_rows))  # in less time than asking for threads takes
    return np.sum(in_blas_threads(function, pieces(n_rows, size)), axis=0)


def gram(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """X' diag(weights) X for weights >= 0, half of it computed, in at most 16 blocks of rows."""
    root = np.sqrt(weights)[:, None]

    def of_rows(rows):
        block = x[rows] * root[rows]
        return block.T @ block

    return sum_of(of_rows, len(x), max(ROWS, -(-len(x) // 16)))


def many_grams(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """X' diag(w) X for each row w of weights (n, n_sites), (n, D, D), as one matrix product."""
    dim = x.shape[1]
    grams = np.zeros((len(weights), dim, dim))
    for sites in pieces(len(x), SITES):
        block = x[sites]
        squares = block[:, :, None] * block[:, None, :]
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
