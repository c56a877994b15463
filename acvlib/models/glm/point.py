"""A regression at one point, and H(w_o) of all folds there, in closed form.

    H(w_o) = H - X_o' diag(s curvature) X_o - diag(pull) sum_o s_n

Single sites so share an inverse (Sherman, Morrison and Woodbury), or a few; larger folds have a
Hessian each.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...derivatives import at
from ...parallel import in_blas_threads, one_blas_thread, pieces
from ...solvers.inverse import DenseFolds, FoldSolver, least_share
from .hessians import JointHessian, TargetHessian
from .separation import singular
from .sums import by_rows, row_sums, span

SINGULAR = 1e-12  # share of the curvature in some direction that a fold must leave
HELD = 2**17  # numbers that a thread has in memory for a tile of sites


def scaled(curvature: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Each site's curvature, a number or a matrix, times its weight."""
    return (curvature.T * weights).T


class Point:
    """Scores (K, n), and what follows from them, at params (D,)."""

    def __init__(self, model: Any, params: np.ndarray):
        self.model = model
        self.params = params.copy()

    @cached_property
    def scores(self) -> np.ndarray:
        """Those of the sites, (K, n)."""
        with one_blas_thread:
            return self.model.scores(self.params, self.model.design) + self.model.offset

    @cached_property
    def slope(self) -> np.ndarray:
        """(K, n) the losses' derivatives in the scores, times the sites' weights at w = 1."""
        return self.model.likelihood.residual(self.scores, self.model.y) * self.model.full_weights

    @cached_property
    def curvature(self) -> np.ndarray:
        """The losses' second derivatives in eta, times the same: (n, q, q); (n,) of targets."""
        curvature = self.model.likelihood.curvature(self.scores, self.model.y)
        return scaled(curvature, self.model.full_weights)

    def hessian(self, weights: np.ndarray) -> Any:
        """H at weights (n_sites,)."""
        model = self.model
        curvature = scaled(self.curvature, model.balance.relative(weights))
        gram = model.likelihood.gram(model.design, curvature)
        return model.likelihood.hessian(gram, model.ridge(weights @ model.sample_weight))

    @cached_property
    def whole(self) -> Any:
        """H at weights 1."""
        return self.hessian(np.ones(self.model.n_sites))

    @cached_property
    def class_grams(self) -> list[np.ndarray]:
        """What each class adds to H at weights 1."""
        model = self.model
        members = [model.balance.classes == c for c in range(model.balance.n_classes)]
        return [model.likelihood.gram(model.design[m], self.curvature[m]) for m in members]

    def mixed(self, factors: np.ndarray) -> Any:
        """H at weights 1 with the classes weighted by factors (C,)."""
        if len(factors) == 1:
            return self.whole
        gram = sum(factor * gram for factor, gram in zip(factors, self.class_grams, strict=True))
        return self.model.likelihood.hessian(gram, self.model.prior)

    def distances(self, moves: np.ndarray) -> np.ndarray:
        """How many standard errors long each of moves (n, D) is."""

        def squares(rows):
            return row_sums(moves[rows] @ self.whole, moves[rows])

        return np.sqrt(by_rows(squares, len(moves)))

    @cached_property
    def reach(self) -> float:
        """How far scores of a site move (apart), at most, by a standard error."""
        model = self.model
        leverages = self.whole.leverages(model.design, model.n_outputs)
        return model.likelihood.spreads(leverages).max()


class AroundOnePoint(FoldSolver):
    """Hessians at one point, of losses whose curvature changes slowly if `self_concordant`."""

    point: Point

    def contraction(
        self, before: np.ndarray, after: np.ndarray, rows: np.ndarray | None = None
    ) -> np.ndarray:
        """exp(M) - 1, M < 1 a bound on how far any score is from here along the step; else inf.

        By self-concordance every curvature stays within exp(+-M) of its value here, hence the mean
        Hessian H' of the step has |I - H(w_o)^-1/2 H' H(w_o)^-1/2| <= exp(M) - 1.
        """
        if not self.point.model.likelihood.self_concordant:
            return super().contraction(before, after, rows)
        moves = (params - self.point.params for params in (before, after))
        distance = np.maximum(*map(self.point.distances, moves))
        furthest = self.point.reach * distance
        bound = np.expm1(np.minimum(furthest, 1.0))
        return np.where(furthest < 1.0, bound, np.inf)


class SiteVectors(NamedTuple):
    """The vectors rest_b + factor_n (x) x_n of single sites n, b = base_of[n]."""

    rest: np.ndarray  # (n_bases, D)
    factor: np.ndarray  # (n, q)


class SingleSites(AroundOnePoint):
    """base_b - curvature_n (x) x_n x_n' for single sites n, b = base_of[n]: downdates of rank q."""

    def __init__(
        self,
        point: Point,
        sites: np.ndarray,
        bases: Sequence[JointHessian | TargetHessian],
        base_of: np.ndarray,
        curvature: np.ndarray,
    ):
        self.point = point
        self.sites = sites
        self._bases = bases
        self._base_of = base_of
        self._curvature = curvature

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
    """H(w_o) of folds of any size. Raises LinAlgError where one of a single predictor is singular."""

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
