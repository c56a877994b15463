"""H(w_o) of all folds of a regression around one point, in standard params:

    H(w_o) = H - X_o' C_o X_o,   H(w_o)^-1 = H^-1 + Z_o' (I - C_o L_o)^-1 C_o Z_o
    Z_o = X_o H^-1,   L_o = Z_o X_o'

X_o has k rows I (x) z_n a site, for k coupled predictors, and C_o holds their curvature; folds of
unequal size are filled up with rows of curvature 0. With gradients rest - X_o' r_o a Newton step is

    H^-1 rest - Z_o' (I - C_o L_o)^-1 (r_o - C_o X_o H^-1 rest)

Balanced classes, or a penalty that comes with the weights, take a few such H.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...derivatives import at
from ...folds import Folds
from ...folds.checks import end_to_end
from ...parallel import in_blas_threads, pieces
from ...solvers.inverse import CONDITIONED, FoldSolver
from .point import Point
from .separation import singular
from .sums import span

SINGULAR = 1e-12  # share of the curvature in some direction that a fold must leave
HELD = 2**17  # numbers that a thread has in memory for a tile of folds


class Bases(NamedTuple):
    """What the Hessians of folds are downdates of: keys (B, C + 1), base_of (n_folds,).

    A key has the factors of the classes' weights and, last, the weight that takes a penalty with
    it. rows: how many a fold has at most.
    """

    keys: np.ndarray
    base_of: np.ndarray
    rows: int

    @classmethod
    def of(cls, model: Any, folds: Folds) -> "Bases | None":
        """Those of folds of one row, or of few beside the columns, that share few; else None."""
        rows = int(folds.sizes.max())
        if rows != 1 and not 0 < 2 * rows <= model.columns.dim:
            return None
        if model.balance.n_classes == 1 and not model.pull.any():
            return cls(np.array([[1.0, 0.0]]), np.zeros(len(folds), int), rows)
        keys = fold_keys(model, folds)
        distinct, base_of = np.unique(keys.round(14), axis=0, return_inverse=True)
        few = len(distinct) <= model.balance.n_classes
        return cls(distinct, base_of.ravel(), rows) if few else None


def fold_keys(model: Any, folds: Folds) -> np.ndarray:
    """(n_folds, C + 1): as of `Bases`."""
    omitted = folds.indicator(model.n_sites) @ model.sample_weight * model.pull.any()
    return np.column_stack([model.balance.factors(folds), omitted])


class Downdates(FoldSolver):
    """Those of folds of few rows, solved for tile by tile."""

    def __init__(self, point: Point, folds: Folds, bases: Bases, damping: float):
        self.point = point
        self.folds = folds
        self.keys, self.base_of, rows = bases
        self.bases = [point.mixed(key[:-1], key[-1]).damped(damping) for key in self.keys]
        self.coupled = point.model.likelihood.coupled
        self.n_sets = point.model.likelihood.n_outputs // self.coupled
        self.sites, self.present = _filled_up(folds, rows)

    @property
    def single(self) -> bool:
        """Whether each fold is of one row."""
        return self.sites.shape[1] == 1

    @property
    def sharp(self) -> bool:
        """Whether neither the bases, nor what larger folds leave of them, are near singular."""
        return (
            self.single
            or all(base.conditioned for base in self.bases)
            and self.spare.min() > CONDITIONED
        )

    @property
    def indefinite(self) -> np.ndarray:
        """(n_folds,) False: every loss is convex."""
        return np.zeros(len(self.sites), bool)

    def solve(self, vectors: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """H(w_o)^-1 times one vector a fold."""
        rows = np.arange(len(self.sites)) if rows is None else rows
        return -self._moved(np.zeros(self.point.model.n_params), vectors, rows)

    def step_from(self, params: np.ndarray, vectors: np.ndarray | None) -> np.ndarray:
        """params - H(w_o)^-1 vectors; None: the gradients at the point, in half the time."""
        return self._moved(params, vectors, np.arange(len(self.sites)))

    @cached_property
    def spare(self) -> np.ndarray:
        """What share of its base each fold leaves, in any direction, (n_folds,); or a bound."""
        spare = np.empty(len(self.sites))

        def of_tile(base, rows):
            x, curvature, _ = self._rows(base, rows)
            parts = [curvature @ self._solved(x, R)[1] for R in self.bases[base].inverses]
            least = _bound if self.single else _least
            spare[rows] = np.min([least(share) for share in parts], axis=0)

        self._by_tiles(of_tile, np.arange(len(self.sites)))
        return spare

    def _moved(self, params, vectors, rows):
        """params - H(w_o)^-1 vectors; None: the gradients at the point."""
        columns = self.point.model.columns
        starts = columns.inward(params)
        if vectors is None:
            rests = [self._rest(key)[None] for key in self.keys]
        else:
            vectors = columns.standard_gradient(vectors)
        ends = np.empty((len(rows), len(self.point.params)))
        spare = np.empty(len(rows))

        def of_tile(base, tile):
            x, curvature, slopes = self._rows(base, span(rows[tile]))
            rest = rests[base] if vectors is None else vectors[tile]
            slopes = slopes if vectors is None else np.zeros_like(slopes)
            given = (x, curvature, slopes, rest, np.atleast_2d(at(starts, tile)))
            out = ends[tile]  # a view where folds of one base follow one another
            spare[tile] = self._tile(self.bases[base], *given, out)
            if isinstance(tile, np.ndarray):
                ends[tile] = out

        self._by_tiles(of_tile, rows)
        if self.single and self.coupled == 1 and spare.min(initial=1.0) < SINGULAR:
            raise singular(self.folds, rows[np.argmax(spare < SINGULAR)])
        return columns.outward(ends)

    def _tile(self, base, x, curvature, slopes, rest, start, out):
        """Bounds of `spare` of folds of one base, for v = rest - X' slopes; ends go to `out`."""
        out = out.reshape(len(x), *base.ridge.shape)
        rest = rest.reshape(len(rest), *base.ridge.shape)
        start = start.reshape(len(start), *base.ridge.shape)
        spare = np.ones(len(x))
        for number, inverse in enumerate(base.inverses):
            sets = span(np.flatnonzero(base.which == number))
            few = rest[:, sets]
            solved, leverage = self._solved(x, inverse)
            whole = (few.reshape(len(few) * few.shape[1], -1) @ inverse).reshape(few.shape)
            along = _along(x, whole, self.coupled)
            share = _times(curvature, leverage)
            length = _solve(share, slopes[:, :, sets] - _times(curvature, along))
            out[:, sets] = start[:, sets] - whole
            out[:, sets] += _combined(length, solved)
            spare = np.minimum(spare, _bound(share))
        return spare

    def _rows(self, base, rows):
        """(x (F, m, D'), C (F, m k, m k), r (F, m k, t)) of some folds of one base."""
        model = self.point.model
        sites = self.sites[rows]
        few = span(sites.ravel())
        size = sites.shape[1]
        weights = self.present[rows] * self.keys[base][model.balance.classes[sites]]
        x = model.columns.standard[few].reshape(*sites.shape, -1)
        curvature = self.point.curvature[few].reshape(*sites.shape, self.coupled, self.coupled)
        curvature = curvature * weights[:, :, None, None]
        blocks = np.einsum("fmij,mn->fminj", curvature, np.eye(size)) if size > 1 else curvature
        width = size * self.coupled
        slopes = self.point.slope[:, few].reshape(self.n_sets, self.coupled, *sites.shape) * weights
        slopes = slopes.transpose(2, 3, 1, 0).reshape(len(sites), width, self.n_sets)
        return x, blocks.reshape(len(sites), width, width), slopes

    def _solved(self, x, inverse):
        """(Z_o (F, m k, B), L_o (F, m k, m k)) of rows x (F, m, D')."""
        F, m, dim = x.shape
        k = self.coupled
        solved = x.reshape(F * m, dim) @ inverse.reshape(k, dim, k * dim)
        solved = solved.reshape(k, F, m, k * dim).transpose(1, 2, 0, 3).reshape(F, m * k, k * dim)
        parts = solved.reshape(F, m * k * k, dim)
        leverage = np.einsum("frd,fmd->frm", parts, x) if m == 1 else parts @ x.swapaxes(1, 2)
        leverage = leverage.reshape(F, m * k, k, m).swapaxes(2, 3).reshape(F, m * k, m * k)
        return solved, leverage

    def _rest(self, key):
        """The gradient (D,) of all losses, of classes weighted by a key, and of the penalty."""
        point = self.point
        total = point.model.sample_weight.sum() - key[-1]
        pulls = point.model.standard_ridge(total).ravel() * point.standard
        return point.gradients(key[None, :-1])[0] + pulls

    def _by_tiles(self, function: Callable, rows: np.ndarray) -> None:
        """Call function(base, places in rows) for tiles of folds of one base."""
        width = self.sites.shape[1] * self.coupled * self.bases[0].shape[0] // self.n_sets
        for base in range(len(self.bases)):
            few = np.flatnonzero(self.base_of[rows] == base)
            tiles = pieces(len(few), max(1, HELD // max(1, width)))
            in_blas_threads(lambda tile, b=base, few=few: function(b, span(few[tile])), tiles)


def _filled_up(folds, rows):
    """(sites (n_folds, rows), whether each is there)."""
    if folds.table is not None:
        return folds.table, np.ones(folds.table.shape)
    present = np.arange(rows) < folds.sizes[:, None]
    sites = np.zeros(present.shape, int)
    sites[present] = end_to_end(folds.omitted).sites
    return sites, present.astype(float)


def _along(x, vectors, k):
    """X_o v of vectors (F or 1, t, B), (F, m k, t)."""
    (F, m, dim), (n, t) = x.shape, vectors.shape[:2]
    blocks = vectors.reshape(n, t * k, dim)
    if n == 1:
        products = x.reshape(F * m, dim) @ blocks[0].T
    else:
        products = np.einsum("fmd,fbd->fmb", x, blocks) if m == 1 else x @ blocks.swapaxes(1, 2)
    return products.reshape(F, m, t, k).swapaxes(2, 3).reshape(F, m * k, t)


def _times(matrices, vectors):
    return matrices * vectors if matrices.shape[1] == 1 else matrices @ vectors


def _solve(share, vectors):
    """(I - share)^-1 vectors."""
    if share.shape[1] == 1:
        return vectors / (1.0 - share)
    return np.linalg.solve(np.eye(share.shape[1]) - share, vectors)


def _combined(lengths, solved):
    """sum_r length_r solved_r of each fold and set, (F, t, B)."""
    if lengths.shape[1:] == (1, 1):
        solved *= lengths
        return solved
    return lengths.swapaxes(1, 2) @ solved


def _least(share):
    """1 - the largest eigenvalue of each C L."""
    return 1.0 - np.linalg.eigvals(share).real.max(axis=1)


def _bound(share):
    """1 - the sum of the eigenvalues of each C L, which is the same of one number."""
    return 1.0 - np.einsum("fii->f", share)
