"""H(w_o) of all folds of a GLM around one point, in closed form.

Omitting the sites o takes a few outer products from the Hessian,

    H(w_o) = H - X_o' diag(s curvature) X_o - diag(pull) sum_o s_n,     pull = site_penalty P,

so that single sites share one inverse (Sherman and Morrison); larger folds have a matrix each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...folds import Folds
from ...parallel import blas_beside_threads, in_threads, pieces, shares
from ...solvers.inverse import DenseFolds, FoldSolver

ROWS = 512  # sites handled together: their rows stay in the cache
SINGULAR = 1e-12  # share of the curvature in some direction that a fold must leave


@dataclass(frozen=True, eq=False)
class Expansion:
    """A GLM around params (D,), for steps by the Hessian there.

    hessian (D, D): at weights 1, damping included; x (n, D); s (n,): sample weights; curvature
    (n,): s times that of the losses; pull (D,): the diagonal of site_penalty P.
    """

    params: np.ndarray
    hessian: np.ndarray
    x: np.ndarray
    s: np.ndarray
    curvature: np.ndarray
    pull: np.ndarray
    self_concordant: bool

    def without(self, sites: np.ndarray) -> np.ndarray:
        """H(w_o) (D, D)."""
        x = self.x[sites]
        pull = np.diag(self.s[sites].sum() * self.pull)
        return self.hessian - (x.T * self.curvature[sites]) @ x - pull

    def contraction(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """exp(M) - 1, M < 1 a bound on how far any eta is from here along the step; else inf.

        By self-concordance every curvature stays within exp(+-M) of its value here, hence the mean
        Hessian H' of the step has |I - H(w_o)^-1/2 H' H(w_o)^-1/2| <= exp(M) - 1.
        """
        if not self.self_concordant:
            return np.full(len(after), np.inf)
        furthest = self._reach * np.maximum(self._distance(before), self._distance(after))
        return np.where(furthest < 1.0, np.expm1(np.minimum(furthest, 1.0)), np.inf)

    def _distance(self, params):
        """In standard errors."""
        gap = params - self.params
        return np.sqrt(_row_sums(gap @ self.hessian, gap))

    @cached_property
    def _reach(self):
        """max_n sqrt(x_n' H^-1 x_n): no eta moves further for a step of one standard error."""
        inverse = np.linalg.inv(self.hessian)
        blocks = (self.x[rows] for rows in pieces(len(self.x), ROWS))
        return np.sqrt(max(_row_sums(block @ inverse, block).max() for block in blocks))


class _AroundOnePoint(FoldSolver):
    at: Expansion

    def contraction(
        self, before: np.ndarray, after: np.ndarray, rows: np.ndarray | None = None
    ) -> np.ndarray:
        """As `Expansion.contraction`."""
        return self.at.contraction(before, after)


class SingleSites(_AroundOnePoint):
    """H(w_n) for single sites n of one sample weight: rank-one downdates of one inverse."""

    def __init__(self, at: Expansion, sites: np.ndarray):
        self.at = at
        self.sites = sites
        self._inverse = np.linalg.inv(at.hessian - np.diag(at.s[sites[0]] * at.pull))

    @cached_property
    def indefinite(self) -> np.ndarray:
        """(n,) False: every loss is convex."""
        return np.zeros(len(self.sites), bool)

    def solve(self, vectors: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """H(w_n)^-1 times one vector a fold."""
        sites = self.sites if rows is None else self.sites[rows]

        def finish(cut, x, z, leverage, growth):
            solved = vectors[cut] @ self._inverse
            z *= (growth * _row_sums(solved, x))[:, None]
            z += solved

        return self._downdated(sites, finish)

    def newton(self, gradient: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """H(w_n)^-1 (gradient - slope_n x_n), by one matrix product in place of two."""
        solved = self._inverse @ gradient
        slope = slope[self.sites]

        def finish(cut, x, z, leverage, growth):
            along = x @ solved - slope[cut] * leverage
            z *= (growth * along - slope[cut])[:, None]
            z += solved

        return self._downdated(self.sites, finish)

    def _downdated(self, sites: np.ndarray, finish: Callable) -> np.ndarray:
        """For each site x_n, z = H^-1 x_n, which `finish` turns into H(w_n)^-1 v_n.

        H(w_n)^-1 v = H^-1 v + z growth x_n' H^-1 v,   growth = curvature / (1 - curvature x_n' z).
        """
        out = np.empty((len(sites), len(self._inverse)))

        def solve_share(share):
            for cut in pieces(share.stop, ROWS, share.start):
                x = self.at.x[sites[cut]]
                curvature = self.at.curvature[sites[cut]]
                z = np.matmul(x, self._inverse, out=out[cut])
                leverage = _row_sums(z, x)
                spare = 1.0 - curvature * leverage
                check_spare(spare, "site", sites[cut])
                finish(cut, x, z, leverage, curvature / spare)

        work = out.size * len(self._inverse)
        with blas_beside_threads(work):
            in_threads(solve_share, shares(len(sites), work))
        return out


class Blocks(_AroundOnePoint, DenseFolds):
    """H(w_o) of folds of any size. Raises LinAlgError where one is singular."""

    def __init__(self, at: Expansion, folds: Folds):
        super().__init__(np.array([at.without(sites) for sites in folds]))
        self.at = at
        values = np.linalg.eigvalsh(self.matrices)
        check_spare(values[:, 0] / values[:, -1], "fold", np.arange(len(folds)))


def check_spare(spare: np.ndarray, kind: str, numbers: np.ndarray) -> None:
    """Raise LinAlgError for the first site or fold without which the Hessian is singular."""
    singular = spare < SINGULAR
    if singular.any():
        raise np.linalg.LinAlgError(
            f"the Hessian is singular without {kind} {numbers[np.argmax(singular)]}, which alone "
            "identifies some parameter: leave it in, or pass penalty > 0"
        )


def _row_sums(a, b):
    return np.einsum("nd,nd->n", a, b)
