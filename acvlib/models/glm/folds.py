"""H(w_o) of all folds of a regression around one point, in closed form.

    H(w_o) = H - X_o' diag(s curvature) X_o - diag(pull) sum_o s_n

Single sites so share an inverse (Sherman, Morrison and Woodbury), or a few where classes are
balanced anew; folds of few rows, beside the columns, share a factor; larger ones have a Hessian
each.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...derivatives import at
from ...folds import Folds
from ...parallel import in_blas_threads, pieces
from ...solvers.inverse import DenseFolds, FoldSolver, least_share
from .downdates import Downdates
from .hessians import JointHessian, TargetHessian
from .point import AroundOnePoint, Point, scaled
from .separation import singular
from .sums import span

SINGULAR = 1e-12  # share of the curvature in some direction that a fold must leave
HELD = 2**17  # numbers that a thread has in memory for a tile of sites


class Bases(NamedTuple):
    """What the Hessians of single sites (n,) are downdates of: keys (B, C + 1), base_of (n,).

    A key has the factors of the classes' weights and, last, the weight that takes a penalty with
    it.
    """

    sites: np.ndarray
    keys: np.ndarray
    base_of: np.ndarray

    @classmethod
    def of(cls, model: Any, folds: Folds) -> "Bases | None":
        """Those of folds of one site that share few; None for others."""
        if folds.table is None or folds.table.shape[1] != 1:
            return None
        sites = folds.table[:, 0]
        has_pull = model.pull.any()
        if model.balance.n_classes == 1 and not has_pull:
            return cls(sites, np.array([[1.0, 0.0]]), np.zeros(len(sites), int))
        factors = model.balance.factors(folds).round(14)
        keys = np.column_stack([factors, model.sample_weight[sites] * has_pull])
        distinct, base_of = np.unique(keys, axis=0, return_inverse=True)
        few = len(distinct) <= model.balance.n_classes
        return cls(sites, distinct, base_of.ravel()) if few else None


def hessians_around(point: Point, folds: Folds, damping: float, together: bool) -> FoldSolver:
    """H(w_o) + damping I; together: by what the folds share, if they share some."""
    shared = _shared(point, folds, damping) if together else None
    if shared is not None:
        return shared
    kind = TargetFolds if isinstance(point.whole, TargetHessian) else Blocks
    return kind(point, _own(point, folds, damping))


def _shared(point, folds, damping):
    """Downdates of few Hessians, or None."""
    bases = Bases.of(point.model, folds)
    if bases is None:
        return Downdates.of(point, folds, damping)
    hessians = []
    for *factors, weight in bases.keys:
        whole = point.mixed(np.array(factors))
        less = weight * point.model.pull - damping
        hessians.append(whole.less(0.0, less) if less.any() else whole)
    return SingleSites(point, bases, hessians)


def _own(point, folds, damping):
    """The Hessian of each fold."""
    model = point.model
    hessians = []
    for fold, factors in zip(folds, model.balance.factors(folds), strict=True):
        curvature = scaled(point.curvature[fold], factors[model.balance.classes[fold]])
        gram = model.likelihood.gram(model.design[fold], curvature)
        less = model.sample_weight[fold].sum() * model.pull - damping
        hessians.append(point.mixed(factors).less(gram, less))
    return hessians


class SiteVectors(NamedTuple):
    """The vectors rest_b + factor_n (x) x_n of single sites n, b = base_of[n]."""

    rest: np.ndarray  # (n_bases, D)
    factor: np.ndarray  # (n, q)


class SingleSites(AroundOnePoint):
    """base_b - curvature_n (x) x_n x_n' for single sites n, b = base_of[n]: downdates of rank q."""

    def __init__(
        self, point: Point, bases: Bases, hessians: Sequence[JointHessian | TargetHessian]
    ):
        self.point = point
        self.bases = bases
        self.sites, keys, self._base_of = bases
        shares = keys[self._base_of, point.model.balance.classes[self.sites]]
        self._curvature = scaled(point.curvature[self.sites], shares)
        self._bases = hessians

    @property
    def indefinite(self) -> np.ndarray:
        """(n,) False: every loss is convex."""
        return np.zeros(len(self.sites), bool)

    def solve(self, vectors: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """H(w_n)^-1 times one vector a fold."""
        rows = np.arange(len(self.sites)) if rows is None else rows
        nowhere = np.zeros(self.point.model.n_params)
        return -self._moved(nowhere, vectors, rows)[0]

    def step_from(self, params: np.ndarray, vectors: np.ndarray | SiteVectors) -> np.ndarray:
        """params - H(w_n)^-1 vectors; `SiteVectors` take half the time."""
        return self._moved(params, vectors, np.arange(len(self.sites)))[0]

    def newton(
        self, params: np.ndarray, vectors: np.ndarray | SiteVectors
    ) -> tuple[np.ndarray, np.ndarray]:
        """The leverages are kept."""
        ends, self.leverage, squares = self._moved(params, vectors, np.arange(len(self.sites)))
        return ends, np.sqrt(np.maximum(squares, 0.0))

    def least_shares(self, factor: np.ndarray) -> np.ndarray:
        """The base's share times what a site leaves of the base."""
        spare = self._bases[0].spare(self._curvature, self.leverage)
        if self.of_whole:
            return spare
        shares = [least_share(factor, np.asarray(base)) for base in self._bases]
        return spare * np.array(shares)[self._base_of]

    @property
    def of_whole(self) -> bool:
        """Whether the one base is the Hessian of all sites."""
        return len(self._bases) == 1 and not self.point.model.pull.any()

    def lengths(self, moves: np.ndarray) -> np.ndarray:
        """sqrt(m' H(w_n) m)."""
        squares = np.empty(len(moves))
        for number, base in enumerate(self._bases):
            own = np.flatnonzero(self._base_of == number)
            x = self.point.model.design[self.sites[own]]
            squares[own] = base.quadratic(x, self._curvature[own], moves[own])
        return np.sqrt(np.maximum(squares, 0.0))

    def _moved(self, start, vectors, rows):
        """(start - steps, leverages in the bases, vectors' steps), tile by tile."""
        model = self.point.model
        dense = not isinstance(vectors, SiteVectors)
        out = np.empty((len(rows), model.n_params))
        size = max(16, HELD // max(1, model.n_outputs * model.n_params))
        groups = [np.flatnonzero(self._base_of[rows] == b) for b in range(len(self._bases))]
        squares = np.empty(len(rows))
        leverages = []
        for number, (base, own) in enumerate(zip(self._bases, groups, strict=True)):

            def move_tile(tile, number=number, base=base, own=own):
                few = span(own[tile])
                numbers = span(rows[few])
                sites = self.sites[numbers]
                factor = 0.0 if dense else vectors.factor[numbers]
                out[few], leverage, squares[few] = base.without_sites(
                    at(start, few),
                    model.design[span(sites)],
                    self._curvature[numbers],
                    vectors[few] if dense else vectors.rest[number],
                    np.broadcast_to(factor, (len(sites), model.n_outputs)),
                )
                return leverage

            leverages += in_blas_threads(move_tile, pieces(len(own), size))
        leverage = np.concatenate(leverages)[np.argsort(np.concatenate(groups))]
        if model.n_outputs == 1 or model.quadratic:  # else it is a bound alone
            spare = self._bases[0].spare(self._curvature[rows], leverage)
            check_spare(spare, "site", self.sites[rows])
        return out, leverage, squares


class Blocks(AroundOnePoint, DenseFolds):
    """H(w_o) of folds of any size. Raises LinAlgError for one predictor where one is singular."""

    def __init__(self, point: Point, hessians: Sequence[JointHessian]):
        self.point = point
        super().__init__(np.array([hessian.matrix for hessian in hessians]))
        if point.model.n_outputs == 1 and not self.conditioned:
            values = np.linalg.eigvalsh(self.matrices)
            check_spare(values[:, 0] / values[:, -1], "fold", np.arange(len(hessians)))


def check_spare(spare: np.ndarray, kind: str, numbers: np.ndarray) -> None:
    """Raise LinAlgError for the first site or fold without which the Hessian is singular."""
    if spare.min() < SINGULAR:
        raise singular(kind, numbers[np.argmax(spare < SINGULAR)])


class TargetFolds(AroundOnePoint):
    """A `TargetHessian` a fold."""

    def __init__(self, point: Point, hessians: Sequence[TargetHessian]):
        self.point = point
        self._hessians = hessians

    @cached_property
    def indefinite(self) -> np.ndarray:
        """(n,) True where rounding left no curvature."""
        return np.array([hessian.indefinite for hessian in self._hessians])

    def solve(self, vectors: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """H(w_o)^-1 times one vector a fold."""
        rows = np.arange(len(self._hessians)) if rows is None else rows
        pairs = zip(rows, vectors, strict=True)
        return np.array([self._hessians[row].solve(v) for row, v in pairs]).reshape(vectors.shape)

    @property
    def matrices(self) -> np.ndarray:
        """H(w_o) of each fold, (n, D, D)."""
        return np.array([np.asarray(hessian) for hessian in self._hessians])

    def lengths(self, moves: np.ndarray) -> np.ndarray:
        """sqrt(move' H(w_o) move)."""
        pairs = zip(moves, self._hessians, strict=True)
        return np.sqrt(np.array([max((move @ hessian) @ move, 0.0) for move, hessian in pairs]))

    def least_shares(self, factor: np.ndarray) -> np.ndarray:
        """The least eigenvalues of L^-1 H(w_o) L^-T."""
        return np.array([least_share(factor, np.asarray(each)) for each in self._hessians])
