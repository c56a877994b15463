"""What is known of a fit: of logistic, multinomial and Poisson regressions, and of chain CRFs.

Third derivatives along u, v, v are at most second ones along v times how far u moves a score, or
two scores of a row apart. As log Z generates the cumulants of a sentence's features S, it is the
range of u'S over tag sequences there: the largest differences of u among first tags, T - 1 times
among transitions, and among last tags. R is how far a step of length 1 moves scores, in any site.
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
from .verified import SIDES, UNIT, UP, Metric, choices_range, gamma, norms


class Regression:
    """Of a GLM, whose D = q dim coordinates are those of standard columns z."""

    def __init__(self, fit: Any):
        self.model = model = fit.model
        self.z = model.columns.standard
        (n, dim), self.q = self.z.shape, model.n_outputs
        self.choices = model.family.name in ("logistic", "multinomial")
        self.ridge = model.standard_ridge(0.0)
        self.each = gamma(self.q + dim)  # relative error of a score
        self.block = math.isqrt(n) + 1
        self.sums = gamma(2 * self.block + 8 * self.q)  # and of sums over rows, in blocks
        self.point = Point(model, fit.params)
        self.at = self.point.standard
        self.tall = UP * norms(self.z)
        self.whole = Metric(*self.with_errors(fit.hessian.matrix, self.at))
        self.bent = np.abs(self.z) @ self.whole.units.reshape(self.q, dim).sum(axis=0)
        self.met = np.full((n, self.q, self.q), np.nan)  # leverages, of rows that were met

    @cached_property
    def leverages(self) -> np.ndarray:
        """Above z'H^-1 z of each row, (n, q, q)."""
        if (left := np.isnan(self.met[:, 0, 0])).any():
            self.met[left] = leverages(self.whole.inverse, self.z[left])
        off = 8.0 * gamma(2 * len(self.at)) * self.bent**2
        return UP / (1.0 - self.whole.doubt) * (self.met + off[:, None, None] * np.eye(self.q))

    @cached_property
    def spreads(self) -> np.ndarray:
        """How far a standard error moves scores of each observed row (apart), (n,): R at most."""
        return UP * self.model.family.spreads(self.leverages) * self.model.observed

    def inward(self, params: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(those of standard columns, how far these are off by rounding, in standard errors)."""
        columns = self.model.columns
        if columns.plain:
            return params, np.zeros(len(params))
        sides = self.whole.sides.reshape(self.q, -1) @ np.abs(columns.matrix)
        return columns.inward(params), 2.0 * self.each * (np.abs(params) @ sides.ravel())

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
        bends = 0.5 * self.model.sample_weight if self.choices else sizes
        heights = self.tall * np.sqrt(np.einsum("nii->n", self.leverages))
        noise = np.expm1(self._doubt(points)) / self.tall.max() * (bends @ heights)
        terms = sizes @ self.bent + np.abs(self.ridge * points) @ self.whole.units
        return 2.0 * UP * (noise + self.sums * terms)

    def with_errors(self, matrix: np.ndarray, point: np.ndarray, gradient: Any = None) -> tuple:
        """As `Metric` takes it: (H, terms, error). Curvatures of classes are what cancels."""
        squares = 2.0 * (self.model.family.name == "multinomial") * self.model.sample_weight
        terms = self.ridge + np.tile(squares @ self.z**2, self.q)
        return matrix, terms, 2.0 * gamma(len(self.z) + 8 * self.q) + 8.0 * self._doubt(point)

    def kept(self, folds: Folds) -> np.ndarray:
        """What share of the fit's curvature each fold keeps there: 1 - tr(C L) of single rows."""
        whole, curvature = self.whole, self.point.curvature
        if folds.sizes.max() > 1:
            taken = (gram(self.z[fold], curvature[fold]) for fold in folds)
            return np.array([whole.share(whole.matrix - each) for each in taken])
        taken = np.einsum("nij,nji->n", curvature, self.leverages)
        taken += 2.0 * whole.error * self._sizes(self.point.eta) * self.bent**2
        return np.maximum(1.0 - UP * taken[folds.omitted.sites], 0.0)

    def gradients(self, points: np.ndarray, folds: Folds) -> tuple:
        """(g (n, D), its errors, how far scores moved (apart) from the fit's) of folds."""
        model = self.model
        eta = model.predictors(points)
        slopes = model.family.slope(eta, model.responses) * model.sample_weight
        apart = model.family.apart(eta - self.point.eta) * model.observed
        rows, sites = folds.indicator(len(self.z)).nonzero()
        slopes[rows, :, sites] = 0.0
        apart[rows, sites] = 0.0
        drifts = apart.max(axis=1) + 4.0 * (self._doubt(points) + self._doubt(self.at))
        return self._gradients(slopes, points), self._noise(points, eta), UP * drifts

    def single_rows(self, points: np.ndarray, folds: Folds) -> tuple[np.ndarray, np.ndarray]:
        """Above (lengths of gradients, how far scores moved) of folds of one row each.

        A step v from the fit leaves r = H v + g - z l, l = s + C z'v, of the fold's gradient, and
        its curvature changes by exp(R |v|) at most: what r lacks is (exp(x) - 1 - x) |v| / x long,
        x = R |v|. In lengths, r is H^-1 r = v + H^-1 g - H^-1 z l.
        """
        whole, point, sites = self.whole, self.point, folds.omitted.sites
        gradient = self._gradients(point.slope, self.at)
        step = whole.inverse @ gradient
        ways, (far, left) = np.empty((len(sites), self.q)), np.empty((2, len(sites)))
        for rows in pieces(len(sites), 1 + HELD // len(self.at)):
            some = sites[rows]
            solved, met = solved_rows(whole.inverse, self.z[some, None])
            self.met[some] = met[:, 0, :, 0]
            steps = points[rows] - self.at
            along = np.einsum("nqd,nd->nq", steps.reshape(len(steps), self.q, -1), self.z[some])
            ways[rows] = np.einsum("nij,nj->ni", point.curvature[some], along) + point.slope.T[some]
            far[rows] = UP * norms(steps) * norms(whole.sides)
            steps += step - np.einsum("nq,nqd->nd", ways[rows], solved)
            left[rows] = np.abs(steps) @ whole.sides
            if left[rows].max() > 1e-9:
                left[rows] = whole.length(steps)
        pulls = np.einsum("ni,nij,nj->n", ways, self.leverages[sites], ways)
        noise = self._noise(self.at, point.eta)
        push = whole.dual(gradient[None]) + noise + UP * np.sqrt(pulls)
        # what rounding adds: to l, to H^-1, to sums by it, and to steps
        bent, tiny = self.bent[sites], gamma(2 * len(self.at)) * (whole.sides @ whole.units)
        slips = self.q * norms(ways) + self._sizes(point.eta)[sites] * (1.0 + 2.0 * bent * far)
        ends = whole.units @ np.abs(gradient) + far + bent * slips
        left += 2.0 * (noise + whole.doubt * push + (tiny + whole.error) * ends)
        rate = self.spreads.max()
        drifts = UP * rate * (left + push)
        rest = np.expm1(drifts) - drifts + 1e-15 * drifts
        return UP * (left + rest / rate), drifts

    def losses(self, params: np.ndarray, moves: np.ndarray, folds: Folds) -> np.ndarray:
        """Ends (2, .) of the scored rows' losses, end to end, where scores move so far."""
        sites, sizes = folds.scored.sites, folds.scored.sizes
        moves = UP * (moves + 4.0 * np.repeat(self._doubt(self.inward(params)[0]), sizes))
        eta = own_scores(self.model, params, sites, sizes)
        if self.choices:
            losses = self.model.family.losses(eta, self.model.responses[..., sites])
            return choices_range(losses, 16.0 * UNIT * (1.0 + norms(eta.T)), moves)
        y, ends = self.model.y[sites], eta[0] + SIDES * moves
        places = np.array([np.clip(np.log(y), *ends), *ends])  # of the minimum between, and ends
        terms = np.array([np.exp(places), -y * places, gammaln(y + 1.0) + 0.0 * places])
        errors = 16.0 * UNIT * (1.0 + np.abs(terms).sum(axis=0)) * [[-1.0], [1.0], [1.0]]
        least, *ends = terms.sum(axis=0) + errors
        return np.array([least, np.maximum(*ends)])


class Chain:
    """Of a linear-chain CRF of sentences, whose scores may have any level.

    Posteriors are ratios of sums of positive terms, whose rounding errors are relative.
    """

    def __init__(self, fit: Any):
        self.derivatives = fit.derivatives
        self.at, self.hessian = fit.params, fit.hessian
        model, k = fit.model, fit.model.n_tags
        self.ridge = np.broadcast_to(model.ridge, len(self.at))
        self.blocks = np.split(np.arange(len(self.at)), [k, k + k**2])
        self.counts = model.sample_weight @ model.tokens.observed[:, model.free]
        self.lengths = model.tokens.lengths
        self.steepest = k + 6.0 + np.abs(model.tokens.offset).max()
        _, gradient = self.derivatives.value_and_gradient(self.at, np.ones(model.n_sites))
        self.whole = Metric(*self.with_errors(fit.hessian.matrix, self.at, gradient))
        variance = self.whole.inverse.diagonal()
        squares = variance[:, None] + variance - 2.0 * self.whole.inverse
        squares += 8.0 * gamma(len(squares)) * variance.max()
        widest = np.array([squares[np.ix_(block, block)].max() for block in self.blocks])
        self.spreads = self._range(UP * np.sqrt(widest / (1.0 - self.whole.doubt)))

    def inward(self, params: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(params as they are, 0: nothing is lost by that)."""
        return params, np.zeros(len(params))

    def _range(self, widths):
        """The range of a sum of features of each sentence (..., N), by that of each block."""
        first, link, last = widths[..., None]
        return UP * (first + (self.lengths - 1) * link + last)

    def _error(self, points):
        """The relative error of posteriors at points (..., D): of scores, K and T at each of T."""
        scores = sum(np.abs(points[..., block]).max(axis=-1) for block in self.blocks)
        longest = 8.0 * UNIT * float(self.lengths.max()) ** 2
        return longest * (self.steepest + scores) + gamma(2 * self.lengths.sum())

    def _terms(self, points, gradients):
        """Above sums of expected features, of those of the labels and the ridge's pull."""
        return 2.0 * (self.counts + np.abs(gradients) + self.ridge * np.abs(points))

    def with_errors(self, matrix: np.ndarray, point: np.ndarray, gradient: np.ndarray) -> tuple:
        """As `Metric` takes it: E[S_i S_j] <= (T + 1) sqrt(E[S_i] E[S_j]), with errors as T^2."""
        terms = 2.0 * (self.lengths.max() + 1) * self._terms(point, gradient)
        return matrix, self.ridge + terms, 4.0 * self._error(point)

    def kept(self, folds: Folds) -> np.ndarray:
        """What share of the fit's curvature each fold keeps there."""
        near = self.derivatives.fold_hessians(self.at, folds, 0.0, self.hessian).matrices
        return np.array([self.whole.share(each) for each in near])

    def gradients(self, points: np.ndarray, folds: Folds) -> tuple:
        """(g (n, D), its errors, how far scores moved apart from the fit's) of folds."""
        _, gradients = self.derivatives.fold_gradients(points, folds, values=False)
        noise = self._error(points) * (self._terms(points, gradients) @ self.whole.units)
        widths = [np.ptp(points[:, block] - self.at[block], axis=1) for block in self.blocks]
        return gradients, UP * noise, self._range(np.array(widths)).max(axis=1)

    def losses(self, params: np.ndarray, moves: np.ndarray, folds: Folds) -> np.ndarray:
        """Ends (2, .) of the scored sentences' losses, end to end, where scores move so far."""
        losses = np.concatenate(list(self.derivatives.heldout(params, folds)))
        errors = np.repeat(2.0 * self._error(params), folds.scored.sizes)
        return choices_range(losses, errors * (1.0 + np.abs(losses)), moves)
