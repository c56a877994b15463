"""Logistic, multinomial and Poisson regressions, in standard units.

Their third derivatives are at most their second ones times how far a score moves, or two of a row
move apart. So R is how far a step of length 1 moves scores (apart), in any row.
"""

from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammaln

from ...folds import Folds
from ...models.glm.hessians import Point, gram, own_scores, span
from ...parallel import pieces
from .verified import UNIT, UP, Metric, choices_range, counts_range, gamma, norms

AT_ONCE = 2**21  # numbers in memory together
TILE = 2**15  # and in the cache


class Regression:
    """A fit, whose D = q dim coordinates are those of standard columns z."""

    floor = 0.0  # intercepts have no ridge

    def __init__(self, fit: Any):
        self.model = model = fit.model
        self.z = model.columns.standard
        n, dim = self.z.shape
        self.q = model.n_outputs
        self.choices = model.family.name in ("logistic", "multinomial")
        self.ridge = model.standard_ridge(0.0)
        self.each = gamma(self.q + dim)  # relative error of a score
        self.all = gamma(n + 8 * self.q)  # and of a sum over rows
        self.point = Point(model, fit.params)
        self.at = self.point.standard
        self.tallest = UP * norms(self.z).max()
        self.sizes = model.sample_weight * self._sizes(self.point.eta)
        self.matrix = self._with_errors(self.at, fit.hessian.matrix)
        self.whole = Metric(*self.matrix)
        units = self.whole.units.reshape(self.q, dim).sum(axis=0)
        self.bent = np.abs(self.z) @ units
        self.together = 1 + AT_ONCE // max(self.q * n, len(self.at) ** 2)
        self._leverages = np.full((n, self.q, self.q), np.nan)

    def inward(self, params: np.ndarray) -> tuple[np.ndarray, Any]:
        """(those of standard columns, how far intercepts are off by that, in standard errors)."""
        columns = self.model.columns
        points = columns.inward(params)
        if columns.plain:
            return points, np.zeros(len(points))
        dim = self.z.shape[1]
        level = np.abs(columns.inward(np.eye(dim))[:, 0])
        sizes = np.abs(params).reshape(len(params), self.q, dim) @ level
        return points, self.each * (sizes @ self.whole.sides[::dim])

    def _doubt(self, points):
        """How far scores at points (..., D) are off by rounding."""
        return self.each * self.tallest * UP * norms(points)

    def _noise(self, doubts, sizes, pulls):
        """The length of errors of gradients, of scores' doubts and of sums."""
        noise = 2.0 * (doubts * (sizes @ self.heights) + self.all * (sizes @ self.bent))
        return UP * (noise + self.all * (np.abs(pulls) @ self.whole.units))

    def _sizes(self, eta):
        """Above the terms of slopes, and above curvatures."""
        return 2.0 if self.choices else np.exp(eta[..., 0, :]) + self.model.y

    def _with_errors(self, point, matrix):
        """(H, terms, error) as `Metric` takes them."""
        terms = matrix.diagonal()
        if self.q > 1:
            terms = self.ridge + 2.0 * np.tile(self.model.sample_weight @ self.z**2, self.q)
        return matrix, terms, 2.0 * self.all + 8.0 * self._doubt(point)

    def _solved(self, z):
        """H^-1 times what moves each score of rows z (m, dim), (q, m, D), and their leverages."""
        solved = np.matmul(z, self.whole.inverse.reshape(self.q, -1, len(self.at)))
        blocks = solved.reshape(self.q, len(z), self.q, -1)
        return solved, np.einsum("bmad,md->mba", blocks, z)

    @cached_property
    def leverages(self) -> np.ndarray:
        """z'H^-1 z of each row, (n, q, q), which may be off by an eighth of `off`."""
        for rows in pieces(len(self.z), 1 + TILE // len(self.at)):
            if np.isnan(self._leverages[rows, 0, 0]).any():
                self._leverages[rows] = self._solved(self.z[rows])[1]
        return self._leverages

    @cached_property
    def off(self) -> np.ndarray:
        """Eight times the rounding error of each row's leverages."""
        return 8.0 * gamma(2 * len(self.at)) * self.bent**2

    @cached_property
    def heights(self) -> np.ndarray:
        """How long z u is in H^-1 at most, for |u| = 1, (n,)."""
        traces = np.trace(self.leverages, axis1=1, axis2=2)
        return UP * np.sqrt((traces + self.off) / (1.0 - self.whole.doubt))

    @cached_property
    def spreads(self) -> np.ndarray:
        """How far a standard error moves scores of each row (apart), (n,)."""
        squares = self.model.family.spreads(self.leverages) ** 2
        return UP * np.sqrt((squares + self.off) / (1.0 - self.whole.doubt))

    @cached_property
    def rate(self) -> float:
        """R in standard errors."""
        return self.spreads[self.model.observed].max()

    def near(self, folds: Folds) -> np.ndarray:
        """Each fold's Hessian at the fit, (n, D, D)."""
        less = [gram(self.z[fold], self.point.curvature[fold]) for fold in folds]
        return self.matrix[0] - np.array(less)

    def outward(self, moves: np.ndarray) -> np.ndarray:
        """Moves (n, D) of the params of x."""
        return self.model.columns.outward(moves)

    def kept(self, folds: Folds) -> np.ndarray:
        """What share of the fit's curvature each fold keeps there: 1 - |C L| of single rows."""
        if folds.sizes.max() > 1:
            return self.whole.shares(self.near(folds))
        sites = folds.omitted.sites
        leverages = self.leverages[sites]
        both = self.point.curvature[sites] @ leverages
        terms = self.sizes[sites] * self.heights[sites] ** 2
        squares = np.maximum(np.einsum("nij,nji->n", both, both), 0.0)
        largest = np.sqrt(squares + gamma(8 * self.q) * terms**2) + self.matrix[2] * terms
        largest += self.sizes[sites] * self.off[sites]
        return np.maximum(1.0 - UP * largest / (1.0 - self.whole.doubt), 1e-300)

    def hessian(self, point: np.ndarray, fold: Folds) -> tuple:
        """A fold's own, as `Metric` takes it."""
        curvature = self.model.family.curvatures(self.model.predictors(point), self.model.responses)
        curvature *= self.model.sample_weight[:, None, None]
        curvature[fold[0]] = 0.0
        return self._with_errors(point, gram(self.z, curvature) + np.diag(self.ridge))

    def gradients(self, points: np.ndarray, folds: Folds, centre: Any = None) -> tuple:
        """(g (n, D), its errors, how far scores moved (apart) from centre, or the fit) of folds."""
        model = self.model
        eta = model.predictors(points)
        slopes = model.family.slope(eta, model.responses) * model.sample_weight
        start = self.point.eta if centre is None else model.predictors(centre)
        apart = model.family.apart(eta - start) * model.observed
        for slope, drift, fold in zip(slopes, apart, folds, strict=True):
            slope[:, fold] = 0.0
            drift[fold] = 0.0
        doubts = self._doubt(points)
        drifts = apart.max(axis=1) + 4.0 * (
            doubts + self._doubt(self.at if centre is None else centre)
        )
        pulls = self.ridge * points
        noise = self._noise(doubts, model.sample_weight * self._sizes(eta), pulls)
        return (slopes @ self.z).reshape(points.shape) + pulls, noise, UP * drifts

    def single_rows(self, points: np.ndarray, folds: Folds) -> tuple[np.ndarray, ...]:
        """(residuals, gradients, shares) as `_Search.keep` takes them, of folds of one row each.

        A step v from the fit leaves H v + g - z l of the fold's gradient, l = s + C z'v: so
        v + H^-1 (g - z l) is how far it ends from the Newton step, but for the row's share of H.
        """
        whole = self.whole
        sites = folds.omitted.sites
        pull = self.ridge * self.at
        gradient = self.point.gradient(np.ones(len(self.z))) + pull
        step = whole.inverse @ gradient
        lengths, ways, far, residuals = np.empty((4, len(sites)))
        for rows in pieces(len(sites), 1 + TILE // len(self.at)):
            own = span(sites[rows])
            z = self.z[own]
            steps = points[rows] - self.at
            solved, self._leverages[own] = self._solved(z)
            along = np.einsum("nqd,nd->nq", steps.reshape(len(z), self.q, -1), z)
            factors = self.point.slope.T[own] + np.einsum(
                "nij,nj->ni", self.point.curvature[own], along
            )
            lengths[rows] = norms(factors)
            ways[rows] = norms(along)
            far[rows] = norms(steps)
            steps += step
            steps -= np.einsum("nq,qnd->nd", factors, solved)
            residuals[rows] = np.abs(steps) @ whole.sides
            if residuals[rows].max() > 1e-9:
                residuals[rows] = whole.length(steps)
        slopes, bent, sizes = self.point.slope.T[sites], self.bent[sites], self.sizes[sites]
        noise = self._noise(self._doubt(self.at), self.sizes, pull)
        pulls = np.einsum("ni,nij,nj->n", slopes, self.leverages[sites], slopes)
        pulls = np.maximum(pulls, 0.0) + self.off[sites] * norms(slopes) ** 2
        push = whole.dual(gradient[None]) + noise + np.sqrt(pulls / (1.0 - whole.doubt))
        # what rounding adds: to slopes, curvatures and products; to H^-1 and sums; to steps
        terms = sizes * (1.0 + ways + self.tallest * far) + lengths
        terms *= bent * (self.all + self.matrix[2])
        ends = whole.units @ np.abs(gradient) + self.q * bent * lengths
        terms += (whole.doubt + gamma(2 * len(self.at)) * (whole.sides @ whole.units)) * ends
        terms += 2.0 * noise + 8.0 * UNIT * norms(whole.sides) * far
        return residuals + terms, push, self.kept(folds)

    def losses(self, params: np.ndarray, radii: np.ndarray, folds: Folds) -> np.ndarray:
        """Ends (2, .) of the scored rows' losses, end to end, within radii of params."""
        sites, sizes = folds.scored.sites, folds.scored.sizes
        doubts = self._doubt(self.inward(params)[0])
        radii, doubts = (np.repeat(each, sizes) for each in (radii, doubts))
        moves = UP * (radii * self.spreads[sites] + 4.0 * doubts)
        eta = own_scores(self.model, params, sites, sizes)
        if not self.choices:
            y = self.model.y[sites]
            return counts_range(eta[0], y, moves, gammaln(y + 1.0))
        losses = self.model.family.losses(eta, self.model.responses[..., sites])
        return choices_range(losses, 16.0 * UNIT * (1.0 + norms(eta.T)), moves)
