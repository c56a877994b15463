"""H(w_o) of all folds of a regression around one point, in standard params:

    H(w_o) = H - X_o' C_o X_o,   H(w_o)^-1 = H^-1 + Z_o' (I - C_o L_o)^-1 C_o Z_o
    Z_o = X_o H^-1,   L_o = Z_o X_o'

X_o has k rows I (x) z_n a site, for k coupled predictors, and C_o holds their curvature; folds of
unequal size are filled up with rows of curvature 0. With gradients rest - X_o' r_o a Newton step is

    H^-1 rest - Z_o' (I - C_o L_o)^-1 (r_o - C_o X_o H^-1 rest)
"""

from typing import Any

import numpy as np

from ...folds import Folds
from ...parallel import in_blas_threads, pieces
from ...solvers.inverse import CONDITIONED, DenseHessian, FoldSolver, invert
from .hessians import leverages, span

HELD = 2**17  # numbers that a thread has in memory for a tile of folds


class Downdates(FoldSolver):
    """Those of folds of few rows and, where a penalty goes with the weights, of one weight."""

    def __init__(self, point: Any, folds: Folds, damping: float):
        model = point.model
        total = model.sample_weight.sum()
        kept = total - model.sample_weight[folds[0]].sum() if model.site_penalty else total
        ridge = model.standard_ridge(kept)
        self.point = point
        self.folds = folds
        self.rest = np.tile(ridge, model.n_params // len(ridge)) * point.standard
        self.rest += point.gradient(np.ones(model.n_sites))
        matrix = point.whole.damped(damping).matrix
        self.base = DenseHessian(matrix + np.diag(ridge - model.standard_ridge(total)))
        self.inverse = invert(self.base.matrix)
        self.present = np.arange(folds.sizes.max()) < folds.sizes[:, None]
        self.sites: np.ndarray = np.zeros(self.present.shape, int)
        self.sites[self.present] = folds.omitted.sites

    @property
    def sharp(self) -> bool:
        """Whether no digits are lost: folds of one row, or what they take is far from all of H."""
        if self.sites.shape[1] == 1:
            return True
        of_rows = leverages(self.inverse, self.point.model.columns.standard)
        taken = np.einsum("nij,nji->n", self.point.curvature, of_rows)
        shares = self.folds.indicator(len(taken)) @ taken
        return self.base.conditioned and shares.max() < 1.0 - CONDITIONED

    @property
    def indefinite(self) -> np.ndarray:
        """(n_folds,) False: every loss is convex."""
        return np.zeros(len(self.sites), bool)

    def solve(self, vectors: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """H(w_o)^-1 times one vector a fold."""
        rows = np.arange(len(self.sites)) if rows is None else rows
        return -self._moved(np.zeros(vectors.shape[1]), vectors, rows)

    def step_from(self, params: np.ndarray, vectors: np.ndarray | None) -> np.ndarray:
        """params - H(w_o)^-1 vectors; None: the gradients at the point, in half the time."""
        return self._moved(params, vectors, np.arange(len(self.sites)))

    def _moved(self, params, vectors, rows):
        model = self.point.model
        sets = (-1, model.n_outputs // model.family.coupled, len(self.inverse))
        start = model.columns.inward(params).reshape(sets)
        known = vectors is None
        rests = self.rest if known else model.columns.standard_gradient(vectors)
        rests = rests.reshape(sets)
        ends = np.empty((len(rows), *sets[1:]))
        size = self.sites.shape[1] * model.family.coupled

        def of_tile(tile: slice):
            x, curvature, slopes = self._rows(rows[tile])
            rest = rests if known else rests[tile]
            solved, leverage = self._solved(x)
            whole = (rest.reshape(-1, sets[-1]) @ self.inverse).reshape(rest.shape)
            lengths = slopes * known - curvature @ self._along(x, whole)
            left = np.eye(size) - curvature @ leverage
            lengths = lengths / left if size == 1 else np.linalg.solve(left, lengths)
            np.subtract(start, whole, out=ends[tile])
            ends[tile] += np.einsum("frt,frb->ftb", lengths, solved)

        in_blas_threads(of_tile, pieces(len(rows), max(1, HELD // (size * sets[-1]))))
        return model.columns.outward(ends.reshape(len(rows), -1))

    def _rows(self, folds):
        """(x (F, m, D'), C (F, m k, m k), r (F, m k, t)) of some folds."""
        model = self.point.model
        k = model.family.coupled
        sites = self.sites[span(folds)]
        present = self.present[span(folds)]
        m = sites.shape[1]
        few = span(sites.ravel())
        x = model.columns.standard[few].reshape(*sites.shape, -1)
        curvature = self.point.curvature[few].reshape(*sites.shape, k, k)
        blocks = np.zeros((len(sites), m, k, m, k))
        for row in range(m):
            blocks[:, row, :, row] = curvature[:, row] * present[:, row, None, None]
        slopes = self.point.slope[:, few].reshape(-1, k, *sites.shape) * present
        slopes = slopes.transpose(2, 3, 1, 0).reshape(len(sites), m * k, -1)
        return x, blocks.reshape(len(sites), m * k, m * k), slopes

    def _solved(self, x):
        """(Z_o (F, m k, B), L_o (F, m k, m k)) of rows x (F, m, D')."""
        F, m, dim = x.shape
        k = len(self.inverse) // dim
        solved = x.reshape(F * m, dim) @ self.inverse.reshape(k, dim, k * dim)
        solved = solved.reshape(k, F, m, k, dim).transpose(1, 2, 0, 3, 4)
        leverage = np.einsum("fmkjd,fnd->fmknj", solved, x)
        return solved.reshape(F, m * k, k * dim), leverage.reshape(F, m * k, m * k)

    def _along(self, x, vectors):
        """X_o v of vectors (F or 1, t, B), (F, m k, t)."""
        F, m, dim = x.shape
        n, t, B = vectors.shape
        blocks = vectors.reshape(n, t, B // dim, dim)
        if n == 1:
            products = np.tensordot(x, blocks[0], axes=(-1, -1))
        else:
            products = np.einsum("fmd,ftkd->fmtk", x, blocks)
        return products.swapaxes(2, 3).reshape(F, -1, t)
