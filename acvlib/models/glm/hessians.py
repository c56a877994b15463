"""A regression at one point, and Hessians around it: a matrix for each set of coupled predictors.

    M = sum_n w_n s_n C_n (x) z_n z_n' + diag(ridge),    H = A' (I (x) M) A

Several targets have the same M each; the predictors of classes are one set. Of folds of few rows,

    M(w_o) = M - X_o' C_o X_o,   M(w_o)^-1 = M^-1 + Z_o' (I - C_o L_o)^-1 C_o Z_o
    Z_o = X_o M^-1,   L_o = Z_o X_o'

X_o has k rows I (x) z_n a site, for k coupled predictors, and C_o holds their curvature; folds of
unequal size are filled up with rows of curvature 0. With gradients rest - X_o' r_o a Newton step is

    M^-1 rest - Z_o' (I - C_o L_o)^-1 (r_o - C_o X_o M^-1 rest)
"""

from functools import cached_property
from typing import Any

import numpy as np

from ...folds import Folds
from ...parallel import in_blas_threads, one_blas_thread, pieces
from ...solvers.inverse import CONDITIONED, DenseFolds, DenseHessian, FoldSolver, invert
from .columns import Columns

ROWS = 1024  # rows that are handled alone
AT_ONCE = 2**20  # coefficients that a thread has in memory
TILE = 256  # rows whose leverages are computed together
HELD = 2**17  # numbers that a thread has in memory for a tile of folds


class Hessian(DenseHessian):
    """H (D, D) of params of x; `matrix` is M (B, B)."""

    def __init__(self, columns: Columns, matrix: np.ndarray, n_params: int):
        super().__init__(matrix)
        self.columns = columns
        self.shape = (n_params, n_params)

    def __array__(self, dtype=None, copy=None):
        whole = np.kron(np.eye(self.shape[0] // len(self.matrix)), self.matrix)
        whole = self.columns.gradient(self.columns.gradient(whole).T)
        return whole.astype(dtype or float)

    def __matmul__(self, columns):
        return (np.transpose(columns) @ self).T

    def __rmatmul__(self, rows):
        standard = self.columns.inward(rows)
        products = super().__rmatmul__(standard.reshape(-1, len(self.matrix)))
        return self.columns.gradient(products.reshape(standard.shape))

    def solve(self, columns: np.ndarray) -> np.ndarray:
        """H^-1 columns, (D,) or (D, n). Raises IndefiniteHessian."""
        rows = self.columns.standard_gradient(columns.T)
        solved = super().solve(rows.reshape(-1, len(self.matrix)).T).T
        return self.columns.outward(solved.reshape(rows.shape)).T

    def damped(self, damping: float) -> "Hessian":
        """H + damping I, of the params of x."""
        if not damping:
            return self
        added = damping * self.columns.identity(len(self.matrix))
        return Hessian(self.columns, self.matrix + added, self.shape[0])


class Point:
    """What follows from params (D,): linear predictors eta (q, n), and derivatives in them."""

    def __init__(self, model: Any, params: np.ndarray):
        self.model = model
        self.params = params.copy()
        self.standard = model.columns.inward(params)
        with one_blas_thread:
            self.eta = model.predictors(self.standard)

    @cached_property
    def slope(self) -> np.ndarray:
        """(q, n) the losses' derivatives in eta, times the sample weights."""
        model = self.model
        return model.family.slope(self.eta, model.responses) * model.sample_weight

    @cached_property
    def curvature(self) -> np.ndarray:
        """(n, k, k) their second derivatives in coupled predictors, times the same."""
        model = self.model
        curvature = model.family.curvatures(self.eta, model.responses)
        return curvature * model.sample_weight[:, None, None]

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """That of the losses, in standard params (D,)."""
        with one_blas_thread:
            return ((self.slope * weights) @ self.model.columns.standard).ravel()

    def hessian(self, weights: np.ndarray) -> Hessian:
        """H at site weights (n,)."""
        model = self.model
        curvature = self.curvature * model.balanced_weights(weights)[:, None, None]
        ridge = np.diag(model.standard_ridge(weights @ model.sample_weight))
        matrix = gram(model.columns.standard, curvature) + ridge
        return Hessian(model.columns, matrix, model.n_params)

    @cached_property
    def whole(self) -> Hessian:
        """H at weights 1."""
        return self.hessian(np.ones(self.model.n_sites))


class OwnHessians(FoldSolver):
    """A matrix M (n_folds, B, B) for each fold, to which damping is added."""

    def __init__(self, columns: Columns, matrices: np.ndarray, damping: float):
        if damping:
            matrices = matrices + damping * columns.identity(matrices.shape[1])
        self.columns = columns
        self.folds = DenseFolds(matrices)

    @property
    def indefinite(self) -> np.ndarray:
        """(n_folds,)."""
        return self.folds.indefinite

    def solve(self, vectors: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """H(w_o)^-1 times one vector a fold."""
        return self._each(self.folds.solve, vectors, rows)

    def descend(self, vectors: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """|H(w_o)|^-1 times one vector a fold."""
        return self._each(self.folds.descend, vectors, rows)

    def _each(self, solve, vectors, rows):
        standard = self.columns.standard_gradient(vectors)
        sets = standard.reshape(len(vectors), -1, self.folds.matrices.shape[1])
        solved = [solve(sets[:, number], rows) for number in range(sets.shape[1])]
        return self.columns.outward(np.stack(solved, axis=1).reshape(vectors.shape))


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
            solved, leverage = solved_rows(self.inverse, x)
            whole = (rest.reshape(-1, sets[-1]) @ self.inverse).reshape(rest.shape)
            lengths = slopes * known - curvature @ _along(x, whole)
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


def solved_rows(inverse: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(Z_o (F, m k, B), L_o (F, m k, m k)) of rows x (F, m, D') and M^-1 (B, B), B = k D'."""
    F, m, dim = x.shape
    k = len(inverse) // dim
    solved = x.reshape(F * m, dim) @ inverse.reshape(k, dim, k * dim)
    solved = solved.reshape(k, F, m, k, dim).transpose(1, 2, 0, 3, 4)
    leverage = np.einsum("fmkjd,fnd->fmknj", solved, x)
    return solved.reshape(F, m * k, k * dim), leverage.reshape(F, m * k, m * k)


def leverages(inverse: np.ndarray, z: np.ndarray) -> np.ndarray:
    """L_n of each row alone, (n, k, k)."""
    parts = pieces(len(z), TILE)
    return np.concatenate(in_blas_threads(lambda own: solved_rows(inverse, z[own, None])[1], parts))


def _along(x, vectors):
    """X_o v of vectors (F or 1, t, B), (F, m k, t)."""
    F, m, dim = x.shape
    n, t, B = vectors.shape
    blocks = vectors.reshape(n, t, B // dim, dim)
    if n == 1:
        products = np.tensordot(x, blocks[0], axes=(-1, -1))
    else:
        products = np.einsum("fmd,ftkd->fmtk", x, blocks)
    return products.swapaxes(2, 3).reshape(F, -1, t)


def gram(z: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """sum_n C_n (x) z_n z_n' of curvature (n, k, k), half of it computed, in at most 16 parts."""
    k = curvature.shape[1]
    dim = z.shape[1]

    def of_rows(rows: slice):
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


def own_scores(model: Any, params: np.ndarray, sites: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """eta (q, n) of sites (n,), the first sizes[0] at params[0] (D,) and so on."""
    theta = model.columns.inward(params).reshape(len(params), model.n_outputs, -1)
    fold = np.repeat(np.arange(len(sizes)), sizes)

    def of_rows(rows: slice):
        z = model.columns.standard[span(sites[rows])]
        return np.einsum("nqd,nd->nq", theta[span(fold[rows])], z)

    tiles = pieces(len(sites), max(16, AT_ONCE // model.n_params))
    return np.concatenate(in_blas_threads(of_rows, tiles)).T + model.offset[sites]


def span(rows: np.ndarray) -> np.ndarray | slice:
    """The rows as a slice, which copies nothing, where they follow one another."""
    if len(rows) and (np.diff(rows) == 1).all():
        return slice(rows[0], rows[0] + len(rows))
    return rows
