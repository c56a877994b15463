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
from ...models.glm.derivatives import own_scores
from ...models.glm.hessians import HELD, Point, gram, leverages, solved_rows
from ...parallel import pieces
from .verified import UNIT, UP, Metric, choices_range, counts_range, gamma, norms


class Regression:
    """A fit, whose D = q dim coordinates are those of standard columns z."""

    def __init__(self, fit: Any):
        self.fit = fit
        self.model = model = fit.model
        self.z = model.columns.standard
        n, dim = self.z.shape
        self.q = model.n_outputs
        self.choices = model.family.name in ("logistic", "multinomial")
        self.ridge = model.standard_ridge(0.0)
        self.together = 1 + 2**21 // (self.q * n)
        self.each = gamma(self.q + dim)  # relative error of a score
        self.block = math.isqrt(n) + 1
        self.sums = gamma(2 * self.block + 8 * self.q)  # and of sums over rows, in blocks
        self.point = Point(model, fit.params)
        self.at = self.point.standard
        self.tall = UP * norms(self.z)
        self.whole = Metric(*self.with_errors(fit.hessian.matrix, self.at), self.ridge)
        self.bent = np.abs(self.z) @ self.whole.units.reshape(self.q, dim).sum(axis=0)
        self.found = np.full((n, self.q, self.q), np.nan)  # leverages, of rows that were met

    @cached_property
    def leverages(self) -> np.ndarray:
        """Above z'H^-1 z of each row, (n, q, q)."""
        if (left := np.isnan(self.found[:, 0, 0])).any():
            self.found[left] = leverages(self.whole.inverse, self.z[left])
        off = 8.0 * gamma(2 * len(self.at)) * self.bent**2
        return UP / (1.0 - self.whole.doubt) * (self.found + off[:, None, None] * np.eye(self.q))

    @cached_property
    def spreads(self) -> np.ndarray:
        """How far a standard error moves scores of each row (apart), (n,)."""
        return UP * self.model.family.spreads(self.leverages)

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
        return self.each * self.tall.max() * UP * norms(points)

    def _sizes(self, eta):
        """Above the terms of slopes, and above curvatures."""
        terms = 2.0 if self.choices else np.exp(eta[..., 0, :]) + self.model.y
        return self.model.sample_weight * terms

    def _gradients(self, slopes, points):
        """z'slopes, summed in blocks, + ridge points, (n, D)."""
        sums = np.zeros((*slopes.shape[:-1], self.z.shape[1]))
        for rows in pieces(len(self.z), self.block):
            sums += slopes[..., rows] @ self.z[rows]
        return sums.reshape(points.shape) + self.ridge * points

    def _noise(self, points, eta):
        """How long errors of gradients are: of scores, as exp(x) - 1 is convex, and of sums."""
        sizes = self._sizes(eta)
        heights = np.sqrt(np.einsum("nii->n", self.leverages))  # |z u| for |u| = 1; `bent` is above
        bends = 0.5 * self.model.sample_weight if self.choices else sizes
        noise = np.expm1(self._doubt(points)) / self.tall.max() * (bends @ (self.tall * heights))
        noise += self.sums * (sizes @ self.bent)
        noise += self.sums * (np.abs(self.ridge * points) @ self.whole.units)
        return 2.0 * UP * noise

    def with_errors(
        self, matrix: np.ndarray, point: np.ndarray, gradient: Any = None
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """As `Metric` takes it: (H, terms, error)."""
        terms = matrix.diagonal()
        if self.q > 1:
            terms = self.ridge + 2.0 * np.tile(self.model.sample_weight @ self.z**2, self.q)
        return matrix, terms, 2.0 * gamma(len(self.z) + 8 * self.q) + 8.0 * self._doubt(point)

    def kept(self, folds: Folds) -> np.ndarray:
        """What share of the fit's curvature each fold keeps there: 1 - tr(C L) of single rows."""
        curvature = self.point.curvature
        if folds.sizes.max() > 1:
            taken = (gram(self.z[fold], curvature[fold]) for fold in folds)
            return np.array([self.whole.share(self.whole.matrix - each) for each in taken])
        taken = np.einsum("nij,nji->n", curvature, self.leverages)
        doubts = self.bent**2 * (gamma(8 * self.q) + self.whole.error)
        taken += self._sizes(self.point.eta) * doubts / (1.0 - self.whole.doubt)
        return np.maximum(1.0 - UP * taken[folds.omitted.sites], 0.0)

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
        return self._gradients(slopes, points), self._noise(points, eta), UP * drifts

    def single_rows(self, points: np.ndarray, folds: Folds) -> tuple[np.ndarray, np.ndarray]:
        """Above (lengths of gradients, how far scores moved) of folds of one row each.

        A step v from the fit leaves r = H v + g - z l, l = s + C z'v, of the fold's gradient, and
        its curvature changes by exp(R |v|) at most: what r lacks is (exp(x) - 1 - x) |v| / x long,
        x = R |v|. In lengths, r is H^-1 r = v + H^-1 g - H^-1 z l.
        """
        whole, point = self.whole, self.point
        sites = folds.omitted.sites
        gradient = self._gradients(point.slope, self.at)
        step = whole.inverse @ gradient
        ways = np.empty((len(sites), self.q))
        far, left = np.empty((2, len(sites)))
        for rows in pieces(len(sites), 1 + HELD // len(self.at)):
            own = sites[rows]
            solved, found = solved_rows(whole.inverse, self.z[own, None])
            self.found[own] = found[:, 0, :, 0]
            steps = points[rows] - self.at
            along = np.einsum("nqd,nd->nq", steps.reshape(len(steps), self.q, -1), self.z[own])
            ways[rows] = np.einsum("nij,nj->ni", point.curvature[own], along) + point.slope.T[own]
            far[rows] = norms(steps)
            steps += step - np.einsum("nq,nqd->nd", ways[rows], solved)
            left[rows] = np.abs(steps) @ whole.sides
            if left[rows].max() > 1e-9:
                left[rows] = whole.length(steps)
        pulls = np.einsum("ni,nij,nj->n", ways, self.leverages[sites], ways)
        noise = self._noise(self.at, point.eta)
        push = whole.dual(gradient[None]) + noise + UP * np.sqrt(pulls)
        # what rounding adds: to l; to H^-1, and sums by it; to steps
        bent, lengths = self.bent[sites], norms(ways)
        slips = lengths + self._sizes(point.eta)[sites] * (1.0 + 2.0 * self.tall[sites] * far)
        ends = whole.units @ np.abs(gradient) + self.q * bent * lengths
        ends *= gamma(2 * len(self.at)) * (whole.sides @ whole.units)
        left += whole.error * bent * slips + whole.doubt * push + ends
        left += 2.0 * noise + 8.0 * UNIT * norms(whole.sides) * far
        drifts = UP * self.rate * (left + push)
        rest = np.expm1(drifts) - drifts + 1e-15 * drifts
        return UP * (left + rest / self.rate), drifts

    def losses(self, params: np.ndarray, moves: np.ndarray, folds: Folds) -> np.ndarray:
        """Ends (2, .) of the scored rows' losses, end to end, where scores move so far."""
        sites, sizes = folds.scored.sites, folds.scored.sizes
        doubts = np.repeat(self._doubt(self.inward(params)[0]), sizes)
        moves = UP * (moves + 4.0 * doubts)
        eta = own_scores(self.model, params, sites, sizes)
        if not self.choices:
            y = self.model.y[sites]
            return counts_range(eta[0], y, moves, gammaln(y + 1.0))
        losses = self.model.family.losses(eta, self.model.responses[..., sites])
        return choices_range(losses, 16.0 * UNIT * (1.0 + norms(eta.T)), moves)
