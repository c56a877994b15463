"""Logistic, multinomial and Poisson regressions, in standard units.

Their third derivatives are at most their second ones times how far a score moves, or two of a row
move apart. So R is how far a step of length 1 moves scores (apart), in any row that is kept.
"""

from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammaln

from ...folds import Folds
from ...parallel import pieces
from .verified import UNIT, UP, Metric, counts_range, excess, gamma, norms, odds_of, odds_range

AT_ONCE = 2**21  # numbers in memory together
TILE = 2**15  # and in the cache


class Regression:
    """A fit, whose D = q dim coordinates are those of standard columns z."""

    floor = 0.0  # intercepts have no ridge

    def __init__(self, fit: Any):
        self.model = model = fit.model
        self.z = model.columns.standard
        self.n, dim = self.z.shape
        self.q = model.n_outputs
        self.classes = model.family.name in ("logistic", "multinomial")
        self.weights = model.sample_weight
        self.ridge = model.standard_ridge(0.0).ravel()
        self.each = gamma(self.q + dim)  # relative error of a score
        self.all = gamma(self.n + 8 * self.q)  # and of a sum over rows
        self.at = model.columns.inward(fit.params)
        self.eta = model.predictors(self.at)
        self.curvature = self._curvature(self.eta)
        self.slope = (model.family.slope(self.eta, model.responses) * self.weights).T
        self.terms = self.weights * self._sizes(self.eta)
        self.tiles = pieces(self.n, 1 + TILE // len(self.at))
        self.tallest = UP * norms(self.z).max()
        self.matrix = self._with_errors(self.at, fit.hessian.matrix)
        self.whole = Metric(*self.matrix)
        units = self.whole.units.reshape(self.q, -1).sum(axis=0)
        self.bent = np.concatenate([np.abs(self.z[rows]) @ units for rows in self.tiles])
        self.together = 1 + AT_ONCE // (self.q * self.n)
        self._leverages = np.full((self.n, self.q, self.q), np.nan)

    def inward(self, params: np.ndarray) -> np.ndarray:
        """Those of standard columns."""
        return self.model.columns.inward(params)

    def slack(self, params: np.ndarray) -> Any:
        """How far intercepts are off by that, in standard errors."""
        if self.model.columns.plain:
            return 0.0
        dim = self.z.shape[1]
        level = np.abs(self.inward(np.eye(dim))[:, 0])
        sizes = np.abs(params).reshape(len(params), self.q, dim) @ level
        return self.each * (sizes @ self.whole.sides[::dim])

    def _doubt(self, points):
        """How far scores at points (..., D) are off by rounding."""
        return self.each * (self.tallest * UP * norms(points) + np.abs(self.model.offset).max())

    def _sizes(self, eta):
        """Above the terms of slopes, and above curvatures."""
        return 2.0 if self.classes else np.exp(eta[..., 0, :]) + self.model.y

    def _curvature(self, eta):
        likelihood = self.model.family
        return likelihood.curvatures(eta, self.model.responses) * self.weights[:, None, None]

    def _gram(self, curvature, sites):
        """sum_n C_n (x) z_n z_n' of some rows."""
        z = self.z[sites]
        gram = np.empty((self.q, z.shape[1], self.q, z.shape[1]))
        for a in range(self.q):
            for b in range(a + 1):
                gram[a, :, b] = z.T @ (curvature[:, a, b, None] * z)
                gram[b, :, a] = gram[a, :, b].T
        return gram.reshape(len(self.ridge), -1)

    def _with_errors(self, point, matrix):
        """(H, terms, error) as `Metric` takes them."""
        terms = matrix.diagonal()
        if self.q > 1:
            terms = self.ridge + 2.0 * np.tile(self.weights @ self.z**2, self.q)
        return matrix, terms, 2.0 * self.all + 8.0 * self._doubt(point)

    def _solved(self, z):
        """H^-1 times what moves each score of rows z (m, dim), (q, m, D), and their leverages."""
        solved = np.matmul(z, self.whole.inverse.reshape(self.q, -1, len(self.at)))
        blocks = solved.reshape(self.q, len(z), self.q, -1)
        return solved, np.einsum("bmad,md->mba", blocks, z)

    @cached_property
    def leverages(self) -> np.ndarray:
        """z'H^-1 z of each row, (n, q, q), which may be off by an eighth of `off`."""
        for rows in self.tiles:
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
        squares = self.model.family.spreads(np.maximum(self.leverages, 0.0)) ** 2
        return UP * np.sqrt((squares + self.off) / (1.0 - self.whole.doubt))

    def rates(self, folds: Folds) -> np.ndarray:
        """R of each fold in standard errors: the largest spread that it keeps."""
        spreads = self.spreads * self.model.observed
        few = np.argsort(-spreads)[: folds.sizes.max() + 1]
        omitted = folds.indicator(self.n).tocsc()[:, few].toarray() > 0.0
        return np.where(omitted.all(axis=1), 0.0, spreads[few[omitted.argmin(axis=1)]])

    def kept(self, folds: Folds, shares: tuple) -> np.ndarray:
        """What share of the fit's curvature each fold keeps there: 1 - |C L| of single rows."""
        if folds.sizes.max() > 1:
            matrix, terms, error = self.matrix
            less = (self._gram(self.curvature[fold], fold) for fold in folds)
            return np.array(
                [self.whole.share(matrix - each, terms, 3.0 * error, shares) for each in less]
            )
        sites = folds.omitted.sites
        C = self.curvature[sites]
        both = C @ self.leverages[sites]
        terms = self.terms[sites] * self.heights[sites] ** 2
        squares = np.maximum(np.einsum("nij,nji->n", both, both), 0.0)
        largest = np.sqrt(squares + gamma(8 * self.q) * terms**2) + self.matrix[2] * terms
        largest += self.terms[sites] * self.off[sites]
        return np.maximum(1.0 - UP * largest / (1.0 - self.whole.doubt), 1e-300)

    def hessian(self, point: np.ndarray, fold: Folds) -> tuple:
        """A fold's own, as `Metric` takes it."""
        curvature = self._curvature(self.model.predictors(point))
        curvature[fold[0]] = 0.0
        gram = self._gram(curvature, slice(None)) + np.diag(self.ridge)
        return self._with_errors(point, gram)

    def gradients(self, points: np.ndarray, folds: Folds) -> tuple:
        """(g (n, D), its errors, how far scores moved from the fit (apart)) of folds."""
        eta = self.model.predictors(points)
        slopes = self.model.family.slope(eta, self.model.responses)
        slopes *= self.weights
        apart = self.model.family.apart(eta - self.eta)
        if not self.model.observed.all():
            apart *= self.model.observed
        for slope, drift, fold in zip(slopes, apart, folds, strict=True):
            slope[:, fold] = 0.0
            drift[fold] = 0.0
        doubts = self._doubt(points)
        drifts = apart.max(axis=1) + 4.0 * (doubts + self._doubt(self.at))
        pulls = self.ridge * points
        terms = self.weights * self._sizes(eta)
        noise = doubts * (terms @ self.heights) + 2.0 * self.all * (terms @ self.bent)
        noise += self.all * (np.abs(pulls) @ self.whole.units)
        return (slopes @ self.z).reshape(points.shape) + pulls, UP * noise, UP * drifts

    def single_rows(self, points: np.ndarray, folds: Folds) -> tuple[np.ndarray, np.ndarray]:
        """(distances of points from the refits without one row each, R nu), by leverages.

        A step v from the fit leaves H v + g - z l of the fold's gradient, l = s + C z'v: so
        v + H^-1 (g - z l) is how far it ends from the Newton step, but for the row's share of H.
        """
        sites = folds.omitted.sites
        pull = self.ridge * self.at
        gradient = (self.slope.T @ self.z).ravel() + pull
        step = self.whole.inverse @ gradient
        factors, along = np.empty((2, len(sites), self.q))
        far, distances = np.empty((2, len(sites)))
        for rows in pieces(len(sites), 1 + TILE // len(self.at)):
            own = sites[rows]
            z = self.z[own]
            steps = points[rows] - self.at
            solved, self._leverages[own] = self._solved(z)
            along[rows] = np.einsum("nqd,nd->nq", steps.reshape(len(z), self.q, -1), z)
            factors[rows] = self.slope[own]
            factors[rows] += (self.curvature[own] * along[rows, None]).sum(axis=2)
            far[rows] = norms(steps)
            steps += step
            steps -= (factors[rows].T[:, :, None] * solved).sum(axis=0)
            distances[rows] = np.abs(steps) @ self.whole.sides
            if distances[rows].max() > 1e-9:
                distances[rows] = self.whole.length(steps)
        slopes, heights = self.slope[sites], self.heights[sites]
        lengths, ways = norms(factors), norms(along) + self.tallest * far
        doubt = self._doubt(self.at)
        noise = self.terms @ (doubt * self.heights + 2.0 * self.all * self.bent)
        noise += self.all * (np.abs(pull) @ self.whole.units)
        push = self.whole.dual(gradient[None]) + noise
        pulls = np.einsum("ni,nij,nj->n", slopes, self.leverages[sites], slopes)
        pulls = np.maximum(pulls, 0.0) + self.off[sites] * norms(slopes) ** 2
        share = np.sqrt(self.kept(folds, ()))
        nu = UP * (push + np.sqrt(pulls / (1.0 - self.whole.doubt))) / share
        reach = UP * self.rates(folds) * nu / share
        # what rounding adds: to slopes, curvatures and products; then to H^-1, and to sums
        terms = heights * (self.all + self.matrix[2])
        terms *= self.terms[sites] * (1.0 + ways) + lengths
        terms += 2.0 * noise + self.whole.doubt * (push + heights * lengths)
        sizes = self.whole.units @ np.abs(gradient) + self.q * self.bent[sites] * lengths
        terms += gamma(2 * len(self.at)) * (self.whole.sides @ self.whole.units) * sizes
        distances = UP * (distances + terms + 8.0 * UNIT * norms(self.whole.sides) * far)
        return UP * (excess(reach) * nu + distances / share) / share, reach

    def losses(self, points: np.ndarray, radii: np.ndarray, folds: Folds) -> np.ndarray:
        """Ends (2, .) of the scored rows' losses, end to end, within radii of points."""
        sites, sizes = folds.scored.sites, folds.scored.sizes
        fold = np.repeat(np.arange(len(folds)), sizes)
        theta = points.reshape(len(points), self.q, -1)
        eta = np.empty((self.q, len(sites)))
        for rows in pieces(len(sites), 1 + TILE // len(self.at)):
            eta[:, rows] = np.einsum("nqd,nd->qn", theta[fold[rows]], self.z[sites[rows]])
        eta += self.model.offset[sites]
        moves = UP * (radii[fold] * self.spreads[sites] + 4.0 * self._doubt(points)[fold])
        if not self.classes:
            y = self.model.y[sites]
            return counts_range(eta[0], y, moves, gammaln(y + 1.0))
        if self.model.family.name == "logistic":
            return odds_range((1.0 - 2.0 * self.model.y[sites]) * eta[0], moves)
        losses = self.model.family.losses(eta, self.model.responses[..., sites])
        errors = 16.0 * UNIT * (1.0 + np.linalg.norm(eta, axis=0))
        return odds_range(odds_of(losses, errors), moves)
