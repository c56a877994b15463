"""Logistic, multinomial and Poisson regressions, in standard units.

Their third derivatives are at most their second ones times how far a score moves, or two of a row
move apart. So R is how far a step of length 1 moves scores (apart), in any row.
"""

import math
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

    def __init__(self, fit: Any):
        self.model = model = fit.model
        self.z = model.columns.standard
        n, dim = self.z.shape
        self.q = model.n_outputs
        self.choices = model.family.name in ("logistic", "multinomial")
        self.ridge = model.standard_ridge(0.0)
        self.each = gamma(self.q + dim)  # relative error of a score
        self.all = gamma(n + 8 * self.q)  # and of a sum over rows,
        self.block = math.isqrt(n) + 1  # or in blocks
        self.blocked = gamma(2 * self.block + 8 * self.q)
        self.point = Point(model, fit.params)
        self.at = self.point.standard
        self.tall = UP * norms(self.z)
        self.tallest = self.tall.max()
        self.matrix = self._with_errors(self.at, fit.hessian.matrix)
        self.whole = Metric(*self.matrix)
        self.together = 1 + AT_ONCE // (self.q * n)
        self.bent = np.abs(self.z) @ self.whole.units.reshape(self.q, dim).sum(axis=0)
        self.off = 8.0 * gamma(2 * len(self.at)) * self.bent**2  # of leverages, eight times
        self._leverages = np.full((n, self.q, self.q), np.nan)

    def _solved(self, rows):
        """H^-1 z of some rows (q, m, D), whose leverages are kept."""
        z = self.z[rows]
        solved = np.matmul(z, self.whole.inverse.reshape(self.q, -1, len(self.at)))
        blocks = solved.reshape(self.q, len(z), self.q, -1)
        self._leverages[rows] = np.einsum("bmad,md->mba", blocks, z)
        return solved

    @cached_property
    def leverages(self) -> np.ndarray:
        """z'H^-1 z of each row, (n, q, q)."""
        for rows in pieces(len(self.z), TILE // len(self.at) + 1):
            if np.isnan(self._leverages[rows, 0, 0]).any():
                self._solved(rows)
        return self._leverages

    @cached_property
    def heights(self) -> np.ndarray:
        """How long z u is in H^-1 at most, for |u| = 1, (n,); `bent` is above that without it."""
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

    def inward(self, params: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(those of standard columns, how far intercepts are off by that, in standard errors)."""
        columns = self.model.columns
        if columns.plain:
            return params, np.zeros(len(params))
        sizes = np.abs(params).reshape(len(params), self.q, -1) @ np.abs(columns.matrix[0])
        return columns.inward(params), self.each * (sizes @ self.whole.sides[:: self.z.shape[1]])

    def _doubt(self, points):
        """How far scores at points (..., D) are off by rounding."""
        return self.each * self.tallest * UP * norms(points)

    def _sizes(self, eta):
        """Above the terms of slopes, and above curvatures."""
        terms = 2.0 if self.choices else np.exp(eta[..., 0, :]) + self.model.y
        return self.model.sample_weight * terms

    def _gradients(self, slopes, points, eta):
        """(z'slopes + ridge points (n, D), how long errors of scores and of sums are)."""
        sums = np.zeros((*slopes.shape[:-1], self.z.shape[1]))
        for rows in pieces(len(self.z), self.block):
            sums += slopes[..., rows] @ self.z[rows]
        sizes = self._sizes(eta)
        bends = 0.5 * self.model.sample_weight if self.choices else sizes
        noise = self.each * norms(points) * (bends @ (self.tall * self.heights))
        noise += self.blocked * (sizes @ self.bent)
        pull = self.ridge * points
        noise = UP * (2.0 * noise + self.blocked * (np.abs(pull) @ self.whole.units))
        return sums.reshape(points.shape) + pull, noise

    def _with_errors(self, point, matrix):
        """(H, terms, error) as `Metric` takes them."""
        terms = matrix.diagonal()
        if self.q > 1:
            terms = self.ridge + 2.0 * np.tile(self.model.sample_weight @ self.z**2, self.q)
        return matrix, terms, 2.0 * self.all + 8.0 * self._doubt(point)

    def hessian(self, point: np.ndarray, fold: Folds) -> tuple:
        """A fold's own, as `Metric` takes it."""
        curvature = self.model.family.curvatures(self.model.predictors(point), self.model.responses)
        curvature *= self.model.sample_weight[:, None, None]
        curvature[fold[0]] = 0.0
        return self._with_errors(point, gram(self.z, curvature) + np.diag(self.ridge))

    def kept(self, folds: Folds) -> np.ndarray:
        """What share of the fit's curvature each fold keeps there: 1 - tr(C L) of single rows."""
        curvature = self.point.curvature
        if folds.sizes.max() > 1:
            taken = (gram(self.z[fold], curvature[fold]) for fold in folds)
            return np.array([self.whole.share(self.matrix[0] - each) for each in taken])
        sites = folds.omitted.sites
        taken = np.einsum("nij,nji->n", curvature[sites], self.leverages[sites])
        doubts = self.bent**2 * (gamma(8 * self.q) + self.matrix[2]) + self.off
        taken += (self._sizes(self.point.eta) * doubts)[sites]
        return np.maximum(1.0 - UP * taken / (1.0 - self.whole.doubt), 0.0)

    def gradients(self, points: np.ndarray, folds: Folds) -> tuple:
        """(g (n, D), its errors, how far scores moved (apart) from the fit's) of folds."""
        model = self.model
        eta = model.predictors(points)
        slopes = model.family.slope(eta, model.responses) * model.sample_weight
        apart = model.family.apart(eta - self.point.eta) * model.observed
        for slope, drift, fold in zip(slopes, apart, folds, strict=True):
            slope[:, fold] = 0.0
            drift[fold] = 0.0
        drifts = apart.max(axis=1) + 4.0 * (self._doubt(points) + self._doubt(self.at))
        return *self._gradients(slopes, points, eta), UP * drifts

    def single_rows(self, points: np.ndarray, folds: Folds) -> tuple[np.ndarray, np.ndarray]:
        """Above (lengths of gradients, how far scores moved) of folds of one row each.

        A step v from the fit leaves r = H v + g - z l, l = s + C z'v, of the fold's gradient, and
        its curvature changes by exp(R |v|) at most: what r lacks is (exp(x) - 1 - x) |v| / x long,
        x = R |v|.
        """
        whole = self.whole
        sites = folds.omitted.sites
        gradient, noise = self._gradients(self.point.slope, self.at, self.point.eta)
        step = whole.inverse @ gradient
        lengths, far, residuals, pulls = np.empty((4, len(sites)))
        for rows in pieces(len(sites), TILE // len(self.at) + 1):
            own = span(sites[rows])
            z = self.z[own]
            steps = points[rows] - self.at
            solved = self._solved(own)
            along = np.einsum("nqd,nd->nq", steps.reshape(len(z), self.q, -1), z)
            factors = np.einsum("nij,nj->ni", self.point.curvature[own], along)
            factors += self.point.slope.T[own]
            pulls[rows] = np.einsum("ni,nij,nj->n", factors, self._leverages[own], factors)
            lengths[rows], far[rows] = norms(factors), norms(steps)
            steps += step
            steps -= np.einsum("nq,qnd->nd", factors, solved)
            residuals[rows] = np.abs(steps) @ whole.sides
            if residuals[rows].max() > 1e-9:
                residuals[rows] = whole.length(steps)
        pulls = np.maximum(pulls, 0.0) + self.off[sites] * lengths**2
        push = whole.dual(gradient[None]) + noise + np.sqrt(pulls / (1.0 - whole.doubt))
        # what rounding adds: to slopes, curvatures and products; to H^-1 and sums; to steps
        bent = self.bent[sites]
        terms = self._sizes(self.point.eta)[sites] * (1.0 + 2.0 * self.tallest * far) + lengths
        terms *= bent * (self.all + self.matrix[2])
        ends = whole.units @ np.abs(gradient) + self.q * bent * lengths
        terms += (whole.doubt + gamma(2 * len(self.at)) * (whole.sides @ whole.units)) * ends
        residuals += terms + 2.0 * noise + 8.0 * UNIT * norms(whole.sides) * far
        drifts = UP * self.rate * (residuals + push)
        rest = np.expm1(drifts) - drifts + 1e-15 * drifts
        return UP * (residuals + rest / self.rate), drifts

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
