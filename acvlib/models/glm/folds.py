"""H(w_o) of all folds of a GLM around one point, in closed form.

    H(w_o) = H - X_o' diag(s curvature) X_o - site_penalty P sum_o s_n

Single sites so share one inverse (Sherman and Morrison); larger folds have a matrix each.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...folds import Folds
from ...parallel import in_blas_threads, one_blas_thread, pieces
from ...solvers.inverse import DenseFolds, FoldSolver, inverse
from .separation import singular
from .sums import ROWS, by_rows, gram, row_sums, taken

SINGULAR = 1e-12  # share of the curvature in some direction that a fold must leave


class Point:
    """A GLM at params (D,): its eta, s slope and s curvature, each (n_sites,)."""

    def __init__(self, model: Any, params: np.ndarray):
        self.model = model
        self.params = params.copy()

    @cached_property
    def eta(self) -> np.ndarray:
        """The linear predictor."""
        with one_blas_thread:
            return self.model.design @ self.params + self.model.offset

    @cached_property
    def slope(self) -> np.ndarray:
        """s times the derivative of the loss in eta."""
        return self.model.sample_weight * self.model.family.slope(self.eta, self.model.y)

    @cached_property
    def curvature(self) -> np.ndarray:
        """s times the second derivative of the loss in eta."""
        model = self.model
        eta = model.y if model.quadratic else self.eta  # the same everywhere
        return model.sample_weight * model.family.curvature(eta, model.y)

    def hessian(self, weights: np.ndarray) -> np.ndarray:
        """X' diag(w s curvature) X + lambda P at weights w (n_sites,)."""
        model = self.model
        matrix = gram(model.design, weights * self.curvature)
        ridge = model.ridge(weights @ model.sample_weight)
        return matrix + np.diag(ridge * model.penalised)

    @cached_property
    def whole(self) -> np.ndarray:
        """H (D, D) at weights 1."""
        return self.hessian(np.ones(self.model.n_sites))

    def distances(self, moves: np.ndarray) -> np.ndarray:
        """How many standard errors long each of moves (n, D) is."""

        def squares(rows):
            return row_sums(moves[rows] @ self.whole, moves[rows])

        return np.sqrt(by_rows(squares, len(moves)))

    @cached_property
    def spreads(self) -> np.ndarray:
        """sqrt(x_n' H^-1 x_n) (n_sites,): how far each eta moves, at most, by a standard error."""
        covariance = inverse(self.whole)

        def squares(rows):
            x = self.model.design[rows]
            return row_sums(x @ covariance, x)

        return np.sqrt(by_rows(squares, self.model.n_sites))

    @cached_property
    def reach(self) -> float:
        """The largest of `spreads`."""
        return self.spreads.max()

    def error_bounds(self, params: np.ndarray, newton: np.ndarray, sites: np.ndarray) -> np.ndarray:
        """Bound the distance (n,) of params (n, D) without single sites from their refits, in H.

        newton (n, D): the Newton steps of the same sites. Along a step of length s no eta moves by
        more than M = reach s; a Hessian along it differs from H(w_o) by a factor within exp(+-M),
        on average by at most slack = (exp(M) - 1) / M - 1. So the gradient that is left, and by it
        the distance -log(1 - R nu) / R, are bounded; kept = 1 - leverage is what H(w_o) has of H.

        Source: Bach (2010), Proposition 2, for losses with |third| <= curvature.
        """
        length = self.distances(params - self.params)
        furthest = np.maximum(self.reach * length, 1e-8)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            slack = np.expm1(furthest) / furthest - 1.0
            kept = np.sqrt(1.0 - self.curvature[sites] * self.spreads[sites] ** 2)
            stretch = np.exp(0.5 * furthest)
            left = stretch * (self.distances(params - newton) + slack * length)
            reach = stretch * self.reach / kept
            bound = -np.log1p(-reach * left) / reach * stretch / kept
        return np.where(reach * left < 1.0, bound, np.inf)

    def pull(self, sites: np.ndarray) -> np.ndarray:
        """The curvature (D, D) of the penalty that comes with some sites."""
        total = self.model.sample_weight[sites].sum()
        return np.diag(total * self.model.pull)


class _AroundOnePoint(FoldSolver):
    point: Point

    def contraction(
        self, before: np.ndarray, after: np.ndarray, rows: np.ndarray | None = None
    ) -> np.ndarray:
        """exp(M) - 1, M < 1 a bound on how far any eta is from here along the step; else inf.

        By self-concordance every curvature stays within exp(+-M) of its value here, hence the mean
        Hessian H' of the step has |I - H(w_o)^-1/2 H' H(w_o)^-1/2| <= exp(M) - 1.
        """
        if not self.point.model.family.self_concordant:
            return super().contraction(before, after, rows)
        moves = (params - self.point.params for params in (before, after))
        distance = np.maximum(*map(self.point.distances, moves))
        furthest = self.point.reach * distance
        bound = np.expm1(np.minimum(furthest, 1.0))
        return np.where(furthest < 1.0, bound, np.inf)


class SiteVectors(NamedTuple):
    """The vectors rest + factor_n x_n of single sites n: rest (1, D), shared, or (n, D)."""

    rest: np.ndarray
    factor: np.ndarray

    def some(self, piece: slice) -> "SiteVectors":
        """Those of some sites."""
        rest = self.rest if len(self.rest) == 1 else self.rest[piece]
        return SiteVectors(rest, self.factor[piece])


class SingleSites(_AroundOnePoint):
    """H(w_n) for single sites n of one sample weight: rank-one downdates of one inverse."""

    def __init__(self, point: Point, hessian: np.ndarray, sites: np.ndarray):
        self.point = point
        self.sites = sites
        self._inverse = inverse(hessian - point.pull(sites[:1]))

    @property
    def indefinite(self) -> np.ndarray:
        """(n,) False: every loss is convex."""
        return np.zeros(len(self.sites), bool)

    def solve(
        self, vectors: np.ndarray | SiteVectors, rows: np.ndarray | None = None
    ) -> np.ndarray:
        """H(w_n)^-1 times one vector a fold; `SiteVectors` that share `rest` take half the time."""
        sites = self.sites if rows is None else self.sites[rows]
        if not isinstance(vectors, SiteVectors):
            vectors = SiteVectors(vectors, np.zeros(len(vectors)))
        out = np.empty((len(sites), len(self._inverse)))

        def solve_piece(piece):
            self._solve(sites[piece], vectors.some(piece), out[piece])

        in_blas_threads(solve_piece, pieces(len(sites), ROWS))
        return out

    def _solve(self, sites, vectors, out):
        """H(w_n)^-1 v = base^-1 v + growth (x_n' base^-1 v) z,   z = base^-1 x_n,

        growth = curvature / (1 - curvature x_n' z), base = H(w_n) + curvature x_n x_n'.
        """
        x = taken(self.point.model.design, sites)
        curvature = self.point.curvature[sites]
        z = np.matmul(x, self._inverse, out=out)
        leverage = row_sums(z, x)
        spare = 1.0 - curvature * leverage
        check_spare(spare, "site", sites)
        growth = curvature / spare
        rest = vectors.rest @ self._inverse
        along = x @ rest[0] if len(rest) == 1 else row_sums(x, rest)
        along += vectors.factor * leverage
        z *= (vectors.factor + growth * along)[:, None]
        z += rest


class Blocks(_AroundOnePoint, DenseFolds):
    """H(w_o) of folds of any size. Raises LinAlgError where one is singular."""

    def __init__(self, point: Point, hessian: np.ndarray, folds: Folds):
        self.point = point
        super().__init__(np.array([self._downdated(hessian, sites) for sites in folds]))
        values = np.linalg.eigvalsh(self.matrices)
        spare = values[:, 0] / values[:, -1]
        check_spare(spare, "fold", np.arange(len(folds)))

    def _downdated(self, hessian, sites):
        x = self.point.model.design[sites]
        curvature = (x.T * self.point.curvature[sites]) @ x
        return hessian - curvature - self.point.pull(sites)


def check_spare(spare: np.ndarray, kind: str, numbers: np.ndarray) -> None:
    """Raise LinAlgError for the first site or fold without which the Hessian is singular."""
    if spare.min() < SINGULAR:
        raise singular(kind, numbers[np.argmax(spare < SINGULAR)])
