"""Balls that are proved to hold the optima of folds, from one Newton step of each.

At an anchor a, with the fold's own gradient g and Hessian H there, and norms |v| = sqrt(v' H v):

1. nu = sqrt(g' H^-1 g) is the length of the Newton step, which ends at a - H^-1 g.
2. Let |F'''[u, v, v]| <= R |u| F''[v, v] for all u, v and, along any ray, up to the length d of 4.
   Then F'' changes at a relative rate of at most R: exp(-R t) H <= F''(a + t u) <= exp(R t) H for
   |u| = 1.
3. So the slope along a ray is F'(a + t u)[u] >= -nu + (1 - exp(-R t)) / R.
4. If R nu < 1 that is 0 or more at t = d = -log(1 - R nu) / R. F falls on no ray that leaves the
   ball of radius d, and so the least point in it is a minimum of F, the only one as F is convex.
5. There 0 = g + H' (optimum - a), H' the mean Hessian of the way, which by 2 lies between
   H (1 - exp(-R d)) / (R d) and H (exp(R d) - 1) / (R d).
6. Hence the optimum is within [R d / (1 - exp(-R d)) - 1] nu = d - nu of the Newton step's end.
7. H may be that of another point, if F'' at the anchor is within exp(+-M) of it. Then exp(-M)
   stands before (1 - exp(-R t)) / R in 3, and d = -log(1 - exp(M) R nu) / R, d - nu as in 6.

Source: steps 2 to 4, Bach (2010), Propositions 1 and 2.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from .checks import NotFinite
from .folds import Folds
from .model import with_defaults
from .parallel import blas_for, pieces
from .solvers.inverse import FoldSolver

EPSILON = float(np.finfo(float).eps)
LOOSEST = 0.98  # of R nu: the bound d is then four times nu, as far as `Concordance.rate` looks
FURTHEST = 4.0
TILE = 1024  # vectors that are solved for together
LARGEST_SLACK = 0.1  # relative rounding error of a Hessian beyond which nothing is proved


class NotConcordant(ValueError):
    """Nothing bounds a model's third derivatives, so that nothing is proved of its folds."""


def refusal(model: Any) -> str:
    """Say why no refit of a model can be certified."""
    name = type(model).__name__
    why = "no bound on its third derivatives by its second ones is known"
    if not with_defaults(model).convex:
        why = (
            "its objective is not convex, so that no point of a fold tells where the refit ends: a "
            "constant of Newton and Kantorovich would have to be sampled, and so proves nothing"
        )
    return f"{name}: {why}. Use acv.check_result, which estimates, or acv.exact"


class Concordance:
    """What a convex model knows of its third derivative, near a fit.

    terms: how many numbers a gradient sums up; cheap: says of folds whether balls around Newton
    steps from the fit cost less than a gradient a fold; shared: whether folds' Hessians around the
    fit cost less than their own.
    """

    shared = False

    def __init__(self, fit: Any, terms: int, cheap: Callable[[Folds], bool] = lambda folds: False):
        self.fit = fit
        self.terms = terms
        self.cheap = cheap

    def drift(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """M (n,) of step 7 of each fold, from the fit's params to its own (n, D)."""
        moves = self.fit.standard_errors_between(params, self.fit.params)
        return moves * largest_kept(self.whole_rates, folds)

    def rates(self, metric: np.ndarray) -> np.ndarray:
        """The R of step 2 of each site's term, (n_sites,), with moves as long as H = metric says.

        A sum of terms changes as fast as the fastest of them.
        """
        raise NotImplementedError

    def own_rates(self, matrix: np.ndarray, share: float) -> np.ndarray:
        """Bound `rates` of a fold's own H = matrix, which is at least share of the fit's."""
        return self.rates(matrix)

    def rate(
        self, params: np.ndarray, folds: Folds, radius: np.ndarray, rates: np.ndarray
    ) -> np.ndarray:
        """R (n,) of each fold, of the sites it keeps, by rates (n_sites,), or a row a fold.

        radius (n,): how many standard errors from its params it must hold.
        """
        return largest_kept(rates, folds)

    def noise(self, params: np.ndarray, folds: Folds) -> Any:
        """Bound the rounding error of gradients at params, (D,) or (n, D), in `lengths`."""
        raise NotImplementedError

    def loss_range(
        self, centre: np.ndarray, radius: np.ndarray, folds: Folds
    ) -> tuple[np.ndarray, np.ndarray]:
        """Bound the scored sites' losses, end to end, within a radius (n,) of centres (n, D)."""
        raise NotImplementedError

    @cached_property
    def metric(self) -> np.ndarray:
        """The fit's metric (D, D), of the params that the model itself works with."""
        return np.asarray(self.fit.metric)

    @cached_property
    def factor(self) -> np.ndarray:
        """The lower Cholesky factor of the fit's metric."""
        return np.linalg.cholesky(self.metric)

    @cached_property
    def slack(self) -> float:
        """Relative rounding error of a Hessian and its solutions, of the fit's own.

        4 (terms + D) D epsilons of the condition number, once each column has length 1.
        """
        matrix = self.metric
        scale = np.sqrt(np.diag(matrix))
        values = np.linalg.eigvalsh(matrix / np.outer(scale, scale))
        dim = len(matrix)
        return 4.0 * (self.terms + dim) * dim * EPSILON * values[-1] / max(values[0], 1e-300)

    def learn(self, hessians: FoldSolver) -> None:
        """Keep what the Hessians of folds around the fit's params know already."""

    @cached_property
    def whole_rates(self) -> np.ndarray:
        """`rates` in standard errors of the fit."""
        return self.rates(self.metric)

    @cached_property
    def units(self) -> np.ndarray:
        """`lengths` of the axes (D,): an error by components is at most their sum, so weighed."""
        return self.lengths(np.eye(len(self.factor)))

    def lengths(self, vectors: np.ndarray) -> np.ndarray:
        """sqrt(v' metric^-1 v) of vectors (n, D): how far a standard error moves each v' theta."""
        unit = np.eye(len(self.factor))
        inverse = solve_triangular(self.factor, unit, lower=True, check_finite=False)
        solved = [vectors[rows] @ inverse.T for rows in pieces(len(vectors), TILE)]
        return np.sqrt(np.concatenate([np.einsum("nd,nd->n", part, part) for part in solved]))


class Balls(NamedTuple):
    """One ball a fold: centre (n, D), and its radius (n,) in the fold's own H and standard errors.

    gap: how far the points asked for are from the centre, in the fold's own H; inf where nothing is
    proved. reach: R nu, slack: the share of the radius that is there for rounding.
    """

    centre: np.ndarray
    own_radius: np.ndarray
    radius: np.ndarray
    gap: np.ndarray
    reach: np.ndarray
    slack: np.ndarray


def balls(
    derivatives: Any,
    known: Concordance,
    anchors: np.ndarray,
    points: np.ndarray,
    folds: Folds,
    chord: bool = False,
) -> Balls:
    """The ball of each fold, from the fit's params (D,), or anchors (n, D); points are measured.

    chord: take the fold's Hessian at the fit's params for that at its anchor, as in step 7. Folds
    whose Hessian is singular have none.
    """
    try:
        with blas_for(len(known.factor) ** 3):
            return _balls(derivatives, known, anchors, points, folds, chord)
    except (np.linalg.LinAlgError, NotFinite):
        if len(folds) == 1:
            own_radius, radius, gap, reach = np.full((4, 1), np.inf)
            return Balls(points, own_radius, radius, gap, reach, np.zeros(1))
    half = len(folds) // 2
    found = []
    for part in (slice(half), slice(half, None)):
        own = anchors if anchors.ndim == 1 else anchors[part]
        found.append(balls(derivatives, known, own, points[part], folds[part], chord))
    return Balls(*map(np.concatenate, zip(*found, strict=True)))


def _expanded(derivatives, known, anchors, folds, chord):
    """(gradients, Hessians, exp(M)) of each fold."""
    fit = known.fit
    if anchors.ndim == 1:
        return *derivatives.fold_expansion(anchors, folds, 0.0, fit.hessian), np.ones(len(folds))
    _, gradients = derivatives.fold_gradients(anchors, folds, values=False)
    if not chord:
        return gradients, derivatives.fold_hessians(anchors, folds), np.ones(len(folds))
    with np.errstate(over="ignore"):
        changed = np.exp(known.drift(anchors, folds) * (1.0 + 1e-9) + 1e-12)
    return gradients, derivatives.fold_hessians(fit.params, folds, 0.0, fit.hessian), changed


def _balls(derivatives, known, anchors, points, folds, chord):
    gradients, H, changed = _expanded(derivatives, known, anchors, folds, chord)
    if H.indefinite.any():
        raise np.linalg.LinAlgError("a Hessian is not positive definite")
    centre, nu = H.newton(anchors, gradients)
    known.learn(H)
    share = H.least_shares(known.factor)
    with np.errstate(all="ignore"):
        slack = known.slack / share
        share = share * (1.0 - slack)
        noise = known.noise(anchors, folds) / np.sqrt(share)
        longest = nu * (1.0 + slack) + noise
        furthest = FURTHEST * changed * longest / np.sqrt(share)
        own = None if chord or anchors.ndim == 1 else H.matrices
        reach = _rate(known, own, anchors, folds, furthest, share) * changed * longest
        rounding = 2.0 * (slack * nu + noise)
        own_radius = (changed - 1.0 + changed * excess(reach)) * longest + rounding
        gap = np.zeros(len(points))
        if not np.array_equal(points, centre):
            gap = H.lengths(points - centre) * (1.0 + slack)
        proved = (share > 0.0) & (slack < LARGEST_SLACK) & (reach <= LOOSEST)
        proved &= np.isfinite(own_radius + gap)
        radius = own_radius / np.sqrt(share)
    own_radius, radius, gap = (np.where(proved, v, np.inf) for v in (own_radius, radius, gap))
    share_of_slack = np.where(proved, rounding / np.maximum(own_radius, 1e-300), 0.0)
    return Balls(centre, own_radius, radius, gap, reach, share_of_slack)


def _rate(known, matrices, anchors, folds, furthest, share):
    """R of each fold in its own H; by way of the fit's metric without matrices of the anchors."""
    if matrices is None:
        return known.rate(anchors, folds, furthest, known.whole_rates) / np.sqrt(share)
    rates = []
    for number, matrix in enumerate(matrices):
        one = slice(number, number + 1)
        own = known.own_rates(matrix, share[number])
        rates.append(known.rate(anchors[one], folds[one], furthest[one], own))
    return np.concatenate(rates)


def excess(reach: np.ndarray) -> np.ndarray:
    """(d - nu) / nu = -log(1 - x) / x - 1 of x = R nu; of small x its series, rounded up."""
    series = reach / 2.0 + reach**2 / (3.0 * (1.0 - reach))
    exact = -np.log1p(-reach) / np.maximum(reach, 1e-2) - 1.0
    return np.where(reach < 1e-2, series, exact)


def largest_kept(values: np.ndarray, folds: Folds) -> np.ndarray:
    """The largest of values (n_sites,) >= 0 that each fold keeps, 0 where it keeps none, (n,)."""
    n = min(int(folds.sizes.max()) + 1, len(values))
    largest = np.argpartition(-values, n - 1)[:n]
    order = largest[np.argsort(-values[largest])]
    rank = np.full(len(values), n)
    rank[order] = np.arange(n)
    sorted_values = np.append(values[order], 0.0)
    if folds.table is not None:
        return sorted_values[_first_absent(np.sort(rank[folds.table], axis=1))]
    return np.array([sorted_values[_first_absent(np.sort(rank[f])[None])[0]] for f in folds])


def _first_absent(ranks):
    """The least of 0, 1, ... that is not in each sorted row of ranks."""
    ahead = ranks == np.arange(ranks.shape[1])
    return np.where(ahead.all(axis=1), ranks.shape[1], np.argmin(ahead, axis=1))


def convex_range(
    loss: Callable, eta: np.ndarray, moves: np.ndarray, best: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of a convex loss, which is least at eta = best, where eta moves by at most `moves`."""
    ends = np.array([eta - moves, eta + moves])
    with np.errstate(all="ignore"):
        low = loss(np.clip(best, *ends))
        high = np.max([loss(end) for end in ends], axis=0)
    return widened(low, high)


def widened(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of losses with 16 epsilons of slack; all numbers where one is not known."""
    known = np.isfinite(low) & np.isfinite(high)
    low = np.where(known, low - 16.0 * EPSILON * (1.0 + np.abs(low)), -np.inf)
    high = np.where(known, high + 16.0 * EPSILON * (1.0 + np.abs(high)), np.inf)
    return low, high
