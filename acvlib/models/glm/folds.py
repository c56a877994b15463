"""H(w_o) of all folds of a GLM around one point, in closed form.

    H(w_o) = H - X_o' diag(s curvature) X_o - site_penalty P sum_o s_n

Single sites so share one inverse (Sherman and Morrison); larger folds have a matrix each.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from ...folds import Folds
from ...parallel import in_blas_threads, one_blas_thread, pieces
from ...solvers.inverse import DenseFolds, FoldSolver, invert, least_share
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
        return matrix + np.diag(ridge)

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
        covariance = invert(self.whole)

        def squares(rows):
            x = self.model.design[rows]
            return row_sums(x @ covariance, x)

        return np.sqrt(by_rows(squares, self.model.n_sites))

    @cached_property
    def reach(self) -> float:
        """The largest of `spreads`."""
        return self.spreads.max()

    def pull(self, sites: np.ndarray) -> np.ndarray:
        """The curvature (D, D) of the penalty that comes with some sites."""
        total = self.model.sample_weight[sites].sum()
        return np.diag(total * self.model.pull)


class AroundOnePoint(FoldSolver):
    """Hessians at one point, of losses whose curvature changes slowly if `self_concordant`."""

    point: Any

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


class SingleSites(AroundOnePoint):
    """base - curvature_n x_n x_n' for single sites n: rank-one downdates of one inverse base^-1."""

    def __init__(self, point: Point, sites: np.ndarray, inverse: np.ndarray, curvature: np.ndarray):
        self.point = point
        self.sites = sites
        self._inverse = inverse
        self._curvature = curvature

    @property
    def indefinite(self) -> np.ndarray:
        """(n,) False: every loss is convex."""
        return np.zeros(len(self.sites), bool)

    def solve(self, vectors: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """H(w_n)^-1 times one vector a fold."""
        sites = self.sites if rows is None else self.sites[rows]
        nowhere = np.zeros(len(self._inverse))
        opposite = SiteVectors(-vectors, np.zeros(len(sites)))
        return self._moved(nowhere, opposite, sites)[0]

    def step_from(self, params: np.ndarray, vectors: np.ndarray | SiteVectors) -> np.ndarray:
        """params - H(w_n)^-1 vectors; `SiteVectors` that share `rest` take half the time."""
        if isinstance(vectors, SiteVectors):
            return self._moved(params, vectors, self.sites)[0]
        return super().step_from(params, vectors)

    def newton(
        self, params: np.ndarray, vectors: np.ndarray | SiteVectors
    ) -> tuple[np.ndarray, np.ndarray]:
        """The leverages x_n' base^-1 x_n are kept; lengths of `SiteVectors` come from them."""
        if not isinstance(vectors, SiteVectors):
            opposite = SiteVectors(-vectors, np.zeros(len(self.sites)))
            steps, self.leverage, _ = self._moved(np.zeros(params.shape[-1]), opposite, self.sites)
            return params - steps, np.sqrt(np.maximum(row_sums(steps, vectors), 0.0))
        ends, self.leverage, along = self._moved(params, vectors, self.sites)
        c = self._curvature[self.sites]
        squares = row_sums(vectors.rest @ self._inverse, vectors.rest)
        squares = squares + vectors.factor * (2.0 * along - vectors.factor * self.leverage)
        squares += c * along**2 / (1.0 - c * self.leverage)
        return ends, np.sqrt(np.maximum(squares, 0.0))

    def least_shares(self, factor: np.ndarray) -> np.ndarray:
        """That of base times 1 - curvature leverage, which is what H(w_n) has of base."""
        spare = 1.0 - self._curvature[self.sites] * self.leverage
        if not self.point.model.site_penalty:
            return spare
        base = self.point.whole - self.point.pull(self.sites[:1])
        return least_share(factor, base) * spare

    def lengths(self, moves: np.ndarray) -> np.ndarray:
        """sqrt(m' base m - curvature (x' m)^2)."""
        x = taken(self.point.model.design, self.sites)
        base = self.point.whole - self.point.pull(self.sites[:1])
        own = self._curvature[self.sites] * row_sums(x, moves) ** 2
        return np.sqrt(np.maximum(row_sums(moves @ base, moves) - own, 0.0))

    def _moved(self, start, vectors, sites):
        """(start - H(w_n)^-1 v, leverages, x_n' base^-1 v), tile by tile: base^-1 x_n first."""
        out = np.empty((len(sites), len(self._inverse)))
        leverage, along = np.empty((2, len(sites)))

        def move_tile(tile):
            x = taken(self.point.model.design, sites[tile])
            rest = vectors.rest if len(vectors.rest) == 1 else vectors.rest[tile]
            curvature = self._curvature[sites[tile]]
            z = np.matmul(x, self._inverse, out=out[tile])
            rest = rest @ self._inverse
            factor = vectors.factor[tile]
            _finish(z, x, curvature, factor, rest, start, leverage[tile], along[tile])

        in_blas_threads(move_tile, pieces(len(sites), ROWS))
        check_spare(1.0 - self._curvature[sites] * leverage, "site", sites)
        return out, leverage, along


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _finish(z, x, curvature, factor, rest, start, leverage, along):
    """Put start - H(w_n)^-1 v in the place of z = base^-1 x_n; rest: base^-1 times that of v.

    H(w_n)^-1 v = rest + (factor + curvature along / spare) z, along = x_n' base^-1 v,
    spare = 1 - curvature leverage, leverage = x_n' z, base = H(w_n) + curvature x_n x_n'.
    """
    for n in range(len(z)):
        shared = min(n, len(rest) - 1)
        own = total = 0.0
        for d in range(len(start)):
            own += x[n, d] * z[n, d]
            total += x[n, d] * rest[shared, d]
        total += factor[n] * own
        leverage[n] = own
        along[n] = total
        length = factor[n] + curvature[n] * total / (1.0 - curvature[n] * own)
        for d in range(len(start)):
            z[n, d] = start[d] - rest[shared, d] - length * z[n, d]


class Blocks(AroundOnePoint, DenseFolds):
    """H(w_o) of folds of any size. Raises LinAlgError where one is singular."""

    def __init__(self, point: Point, hessian: np.ndarray, folds: Folds):
        self.point = point
        super().__init__(np.array([self._downdated(hessian, sites) for sites in folds]))
        if not self.conditioned:
            values = np.linalg.eigvalsh(self.matrices)
            spare = values[:, 0] / values[:, -1]
            check_spare(spare, "fold", np.arange(len(folds)))

    def _downdated(self, hessian, sites):
        x = self.point.model.design[sites]
        left = (x.T * -self.point.curvature[sites]) @ x
        left += hessian
        if self.point.model.site_penalty:
            left -= self.point.pull(sites)
        return left


def check_spare(spare: np.ndarray, kind: str, numbers: np.ndarray) -> None:
    """Raise LinAlgError for the first site or fold without which the Hessian is singular."""
    if spare.min() < SINGULAR:
        raise singular(kind, numbers[np.argmax(spare < SINGULAR)])
