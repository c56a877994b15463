"""A regression at one point, and Hessians around it, in params of standard columns z.

    M = sum_n w_n s_n C_n (x) z_n z_n' + diag(ridge)
    M(w_o)^-1 v = u + Z_o' (I - C_o L_o)^-1 C_o X_o u,   u = M^-1 v
    Z_o = X_o M^-1,   L_o = Z_o X_o'

X_o has q rows I (x) z_n a site of fold o, and C_o holds their curvature; folds of unequal size are
filled up with rows of curvature 0. With gradients v = rest - X_o' r_o a Newton step is

    M^-1 rest - Z_o' (I - C_o L_o)^-1 (r_o - C_o X_o M^-1 rest)
"""

from functools import cached_property
from typing import Any

import numpy as np

from ...folds import Folds
from ...parallel import in_blas_threads, one_blas_thread, pieces
from ...solvers.inverse import DenseHessian, FoldSolver, invert

ROWS = 1024  # rows that are handled alone
HELD = 2**17  # numbers that a thread has in memory for a tile of rows or folds
WELL = 1e-4  # share of H's least eigenvalue from which on a row's leverage says enough
DIGITS = 1e-10  # share of an eigenvalue that a fold must leave: 1e-6 of what it says is then right
SINGULAR = (
    "the Hessian is singular, to rounding: columns of X are all but collinear, or in units too far "
    "apart. Drop one, scale them, or take a larger penalty"
)
LOST = (
    "the Hessian is singular, to rounding, without {}, which holds nearly all that some parameter "
    "is known by: leave it in, check its largest numbers, or take a larger penalty"
)


class Point:
    """What follows from params (D,): linear predictors eta (q, n), and derivatives in them."""

    def __init__(self, model: Any, params: np.ndarray):
        self.model = model
        self.params = params.copy()
        self.standard = model.standard(params)
        with one_blas_thread.inside():
            self.eta = model.predictors(self.standard)

    @cached_property
    def slope(self) -> np.ndarray:
        """(q, n) the losses' derivatives in eta, times the sample weights."""
        model = self.model
        return model.family.slope(self.eta, model.responses) * model.sample_weight

    @cached_property
    def curvature(self) -> np.ndarray:
        """(n, q, q) their second derivatives, times the same."""
        model = self.model
        curvature = model.family.curvatures(self.eta, model.responses)
        return curvature * model.sample_weight[:, None, None]

    def gradient(self, weights: np.ndarray, total: float) -> np.ndarray:
        """dF of losses with weights (n,) and the ridge of a total, in standard params (D,)."""
        with one_blas_thread.inside():
            sums = ((self.slope * weights) @ self.model.columns.standard).ravel()
        return sums + self.model.standard_ridge(total) * self.standard

    def hessian(self, weights: np.ndarray) -> DenseHessian:
        """H at site weights (n,)."""
        model = self.model
        curvature = self.curvature * model.balanced_weights(weights)[:, None, None]
        ridge = np.diag(model.standard_ridge(weights @ model.sample_weight))
        matrix = gram(model.columns.standard, curvature) + ridge
        return DenseHessian(matrix, model.columns.basis(model.n_outputs))

    @cached_property
    def whole(self) -> DenseHessian:
        """H at weights 1."""
        return self.hessian(np.ones(self.model.n_sites))


class Downdates(FoldSolver):
    """Those of folds of few rows, all of one weight where a penalty goes with it."""

    indefinite: Any = None  # (n_folds,) False: every loss is convex

    def __init__(self, point: Point, folds: Folds, damping: float):
        model = point.model
        self.point = point
        self.folds = folds
        self.indefinite = np.zeros(len(folds), bool)
        taken = model.sample_weight[folds[0]].sum()
        self.rest = point.gradient(np.ones(model.n_sites), model.sample_weight.sum() - taken)
        change = -taken * model.standard_pull
        self.base = DenseHessian(point.whole.damped(damping).matrix + np.diag(change))
        self.inverse = invert(self.base.matrix)
        self.present = np.arange(folds.sizes.max()) < folds.sizes[:, None]
        self.sites: np.ndarray = np.zeros(self.present.shape, int)
        self.sites[self.present] = folds.omitted.sites

    @property
    def sharp(self) -> bool:
        """Whether no digits are lost, as what folds take is far from all of H."""
        single = self.sites.shape[1] == 1
        if single and self.base.share > WELL:
            return True
        taken = self.point.curvature @ leverages(self.inverse, self.point.model.columns.standard)
        most = np.linalg.eigvals(taken).real.max(axis=1) if single else np.einsum("nii->n", taken)
        left = 1.0 - self.folds.indicator(len(most)) @ most
        return self.base.share * left.min() > DIGITS

    def solve(self, vectors: np.ndarray, rows: Any = slice(None)) -> np.ndarray:
        """H(w_o)^-1 times one vector a fold."""
        columns = self.point.model.columns
        return columns.outward(self._solved(columns.standard_gradient(vectors), rows, 0.0))

    def newton_ends(self, derivatives: Any, params: np.ndarray, folds: Folds) -> np.ndarray:
        """Newton steps from the point, whose gradients are known: in half the time."""
        moves = self._solved(self.rest[None], slice(None), 1.0)
        model = self.point.model
        return model.columns.outward(self.point.standard - moves) + model.level

    def _solved(self, vectors, rows, share):
        """M(w_o)^-1 (v - share X_o' r_o) of vectors v, one a fold or one for all."""
        point = self.point
        numbers = np.arange(len(self.sites))[rows]
        size = self.sites.shape[1] * len(point.slope)
        out = np.empty((len(numbers), len(self.inverse)))

        def of_tile(tile: slice):
            sites = self.sites[numbers[tile]]
            there = self.present[numbers[tile], :, None]
            x = point.model.columns.standard.take(sites, axis=0)
            curvature = point.curvature[sites] * there[..., None]
            u = (vectors if len(vectors) == 1 else vectors[tile]) @ self.inverse
            solved, leverage = solved_rows(self.inverse, x)
            along = np.einsum("fmd,fqd->fmq", x, u.reshape(len(u), len(point.slope), -1))
            ways = point.slope.T[sites] * (share * there)
            ways -= np.einsum("fmij,fmj->fmi", curvature, along)
            bent = np.einsum("fmij,fmjnk->fmink", curvature, leverage)
            left = np.eye(size) - bent.reshape(-1, size, size)
            if size == 1 and left.min() < DIGITS:
                name = self.folds.name(numbers[tile][left.argmin()])
                raise np.linalg.LinAlgError(LOST.format(name))
            ways = ways.reshape(-1, size, 1)
            ways = ways / left if size == 1 else np.linalg.solve(left, ways)
            np.subtract(u, np.einsum("fri,frb->fb", ways, solved), out=out[tile])

        in_blas_threads(of_tile, pieces(len(out), max(1, HELD // (size * len(self.inverse)))))
        return out


def solved_rows(inverse: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(Z_o (F, m q, D), L_o (F, m, q, m, q)) of rows x (F, m, D') and M^-1 (D, D), D = q D'."""
    F, m, dim = x.shape
    q = len(inverse) // dim
    solved = x.reshape(F * m, dim) @ inverse.reshape(q, dim, q * dim)
    solved = solved.reshape(q, F, m, q, dim).transpose(1, 2, 0, 3, 4)
    leverage = np.einsum("fmkjd,fnd->fmknj", solved, x)
    return solved.reshape(F, m * q, q * dim), leverage


def leverages(inverse: np.ndarray, z: np.ndarray) -> np.ndarray:
    """L_n of each row alone, (n, q, q)."""

    def of_rows(rows: slice):
        return solved_rows(inverse, z[rows, None])[1][:, 0, :, 0]

    tiles = pieces(len(z), max(1, HELD // len(inverse)))
    return np.concatenate(in_blas_threads(of_rows, tiles))


def gram(z: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """sum_n C_n (x) z_n z_n' of curvature (n, q, q), half of it computed, in at most 16 parts."""
    q = curvature.shape[1]
    dim = z.shape[1]

    def of_rows(rows: slice):
        total = np.zeros((q, dim, q, dim))
        for i in range(q):
            root = z[rows] * np.sqrt(np.maximum(curvature[rows, i, i, None], 0.0))
            total[i, :, i] = root.T @ root
            for j in range(i):
                if curvature[rows, i, j].any():  # none of targets, which are apart
                    total[i, :, j] = (z[rows] * curvature[rows, i, j, None]).T @ z[rows]
                    total[j, :, i] = total[i, :, j]
        return total.reshape(q * dim, q * dim)

    if len(z) <= ROWS:  # in less time than asking for threads takes
        return of_rows(slice(None))
    tiles = pieces(len(z), max(ROWS, -(-len(z) // 16)))
    return np.sum(in_blas_threads(of_rows, tiles), axis=0)
