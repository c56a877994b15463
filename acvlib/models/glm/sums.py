"""Sums over all sites of a GLM for many params or weights at once, tile by tile."""

from collections.abc import Callable

import numpy as np

from ...parallel import blas_for, in_blas_threads, pieces
from .families import Family

FOLDS = 128  # folds, and sites, handled together: the work array stays in the cache
SITES = 512
SINGLE = 5e-7  # relative error of `slope_changes`, in standard errors; tested


def over_sites(function: Callable, params: np.ndarray, n_sites: int) -> list[np.ndarray]:
    """Sum function(params, sites), arrays with a row for each of params (n, D), over all sites."""

    def sums(cut):
        tiles = [function(params[cut], sites) for sites in pieces(n_sites, SITES)]
        return [np.sum(part, axis=0, dtype=float) for part in zip(*tiles, strict=True)]

    parts = in_blas_threads(sums, pieces(len(params), FOLDS), "gradients")
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


def slope_changes(
    family: Family, x: np.ndarray, mean: np.ndarray, curvature: np.ndarray, moves: np.ndarray
) -> np.ndarray:
    """sum_n s_n [slope(eta_n + x_n move) - slope(eta_n)] x_n of each move (n, D), in float32.

    mean, curvature (n_sites,): at eta, the latter times s.
    """
    x, mean, curvature = (part.astype(np.float32) for part in (x, mean, curvature))

    def changes(few, sites):
        change = family.change(mean[sites], few @ x[sites].T)
        change *= curvature[sites]
        return (change @ x[sites],)

    return over_sites(changes, moves.astype(np.float32), len(x))[0]


def gram(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """X' diag(weights) X for weights >= 0, half of it computed, block by block of rows."""
    with blas_for(x.size * x.shape[1]):
        if np.ptp(weights) == 0.0:  # no weighted copy of x
            return weights[0] * (x.T @ x)
        gram = np.zeros((x.shape[1], x.shape[1]))
        root = np.sqrt(weights)[:, None]
        for rows in pieces(len(x), 2048):
            block = x[rows] * root[rows]
            gram += block.T @ block
    return gram


def many_grams(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """X' diag(w) X for each row w of weights (n, n_sites), (n, D, D), as one matrix product."""
    grams = np.zeros((len(weights), x.shape[1], x.shape[1]))
    for sites in pieces(len(x), SITES):
        squares = x[sites, :, None] * x[sites, None, :]
        grams += np.tensordot(weights[:, sites], squares, axes=1)
    return grams


def row_sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Sum a b (n, D) over each row."""
    return np.einsum("nd,nd->n", a, b)
