"""Sums over all sites of a GLM for many parameter vectors at once, tile by tile."""

from functools import cached_property

import numpy as np

from ...parallel import in_blas_threads, pieces

TILE = (
    128,
    512,
)  # folds and sites handled together: a work array that stays in the cache between passes
SINGLE = 5e-7  # relative error of `SlopeChanges`, in the metric of H; tested


def over_sites(function, params, n_sites):
    """Sums over all sites of the arrays that function(params, sites) gives for a tile, a row for each of params.

    Each thread has rows of its own.
    """

    def rows(cut):
        tiles = [function(params[cut], sites) for sites in pieces(n_sites, TILE[1])]
        return [np.sum(part, axis=0, dtype=float) for part in zip(*tiles, strict=True)]

    parts = in_blas_threads(rows, pieces(len(params), TILE[0]), "gradients")
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


class SlopeChanges:
    """sum_n s_n [slope(eta_n + d_n) - slope(eta_n)] x_n for d = X (params - centre), in single precision.

    The change is small where the parameters are near, and so is its rounding error: the gradient itself is
    that of the centre, known in double precision, plus this. `expansion`: a `glm_folds.Expansion`.
    """

    def __init__(self, fast, expansion):
        self._fast, self._expansion = fast, expansion

    @cached_property
    def _x(self):
        return self._fast.x.astype(np.float32)

    @cached_property
    def _mean(self):
        return self._fast.family.mean(self._expansion.eta).astype(np.float32)

    @cached_property
    def _curvature(self):
        return self._expansion.curvature.astype(np.float32)

    def __call__(self, params, sites):
        """((n, D),): the sum over a slice of sites for each row of params (n, D)."""
        moves = (params - self._expansion.params).astype(np.float32)
        change = self._fast.family.change(self._mean[sites], moves @ self._x[sites].T)
        change *= self._curvature[sites]
        return (change @ self._x[sites],)
