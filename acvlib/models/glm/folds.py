"""H(w_o) of all folds of a GLM around one point, in closed form.

    H(w_o) = H - X_o' diag(s curvature) X_o - site_penalty P sum_o s_n

Single sites so share one inverse (Sherman and Morrison); larger folds have a matrix each.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...folds import Folds
from ...parallel import in_blas_threads, pieces
from ...solvers.inverse import DenseFolds, FoldSolver
from .sums import row_sums

ROWS = 512  # sites handled together: their rows stay in the cache
SINGULAR = 1e-12  # share of the curvature in some direction that a fold must leave


@dataclass(frozen=True, eq=False)
class Expansion:
    """A GLM around params (D,): H (D, D) at weights 1, damped, and s curvature (n_sites,)."""

    model: Any
    params: np.ndarray
    hessian: np.ndarray
    curvature: np.ndarray

    def without(self, sites: np.ndarray) -> np.ndarray:
        """H(w_o) (D, D)."""
        x = self.model.design[sites]
        curvature = (x.T * self.curvature[sites]) @ x
        return self.hessian - curvature - self.pull(sites)

    def pull(self, sites: Any) -> np.ndarray:
        """The curvature (D, D) of the penalty that comes with some sites."""
        total = self.model.sample_weight[sites].sum()
        return np.diag(total * self.model.pull)

    @cached_property
    def reach(self) -> float:
        """max_n sqrt(x_n' H^-1 x_n): no eta moves further for a step of one standard error."""
        inverse = np.linalg.inv(self.hessian)
        largest = 0.0
        for rows in pieces(self.model.n_sites, ROWS):
            x = self.model.design[rows]
            largest = max(largest, row_sums(x @ inverse, x).max())
        return np.sqrt(largest)

    def distance(self, params: np.ndarray) -> np.ndarray:
        """How many standard errors each of params (n, D) is away."""
        gap = params - self.params
        return np.sqrt(row_sums(gap @ self.hessian, gap))


class _AroundOnePoint(FoldSolver):
    at: Expansion

    def contraction(
        self, before: np.ndarray, after: np.ndarray, rows: np.ndarray | None = None
    ) -> np.ndarray:
        """exp(M) - 1, M < 1 a bound on how far any eta is from here along the step; else inf.

        By self-concordance every curvature stays within exp(+-M) of its value here, hence the mean
        Hessian H' of the step has |I - H(w_o)^-1/2 H' H(w_o)^-1/2| <= exp(M) - 1.
        """
        if not self.at.model.family.self_concordant:
            return super().contraction(before, after, rows)
        distance = np.maximum(self.at.distance(before), self.at.distance(after))
        furthest = self.at.reach * distance
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

    def __init__(self, at: Expansion, sites: np.ndarray):
        self.at = at
        self.sites = sites
        self._inverse = np.linalg.inv(at.hessian - at.pull(sites[:1]))

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
        x = self.at.model.design[sites]
        curvature = self.at.curvature[sites]
        z = np.matmul(x, self._inverse, out=out)
        leverage = row_sums(z, x)
        spare = 1.0 - curvature * leverage
        check_spare(spare, "site", sites)
        growth = curvature / spare
        rest = vectors.rest @ self._inverse
        along = row_sums(x, rest) + vectors.factor * leverage
        z *= (vectors.factor + growth * along)[:, None]
        z += rest


class Blocks(_AroundOnePoint, DenseFolds):
    """H(w_o) of folds of any size. Raises LinAlgError where one is singular."""

    def __init__(self, at: Expansion, folds: Folds):
        super().__init__(np.array([at.without(sites) for sites in folds]))
        self.at = at
        values = np.linalg.eigvalsh(self.matrices)
        spare = values[:, 0] / values[:, -1]
        check_spare(spare, "fold", np.arange(len(folds)))


def check_spare(spare: np.ndarray, kind: str, numbers: np.ndarray) -> None:
    """Raise LinAlgError for the first site or fold without which the Hessian is singular."""
    if spare.min() < SINGULAR:
        first = numbers[np.argmax(spare < SINGULAR)]
        raise np.linalg.LinAlgError(
            f"the Hessian is singular without {kind} {first}, which alone identifies some "
            "parameter: leave it in, or pass penalty > 0"
        )
