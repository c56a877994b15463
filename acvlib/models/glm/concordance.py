"""What a regression knows of its third derivative: see `acvlib.concordance`.

One linear predictor: |third| <= c curvature of a loss makes |F'''[u, v, v]| <= max_n c |x_n' u|
F''[v, v], and |x_n' u| is at most sqrt(x_n' H^-1 x_n), the spread of x_n, for u of a standard
error. Classes: with a = scores of u, b = scores of v, the third cumulant of a, b and b is at most
the range of a times the variance of b: the spread is how far scores of a site move apart by a
standard error.
A quadratic loss has no third derivative.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from ...concordance import EPSILON, Concordance, NotConcordant
from ...folds import Folds
from ...folds.checks import end_to_end
from ...parallel import one_blas_thread, pieces
from ...results import Fit
from ...solvers.inverse import FoldSolver
from .downdates import Downdates, matrix_of
from .hessians import leverages
from .sums import SITES, row_sums, span

AT_ONCE = 2**21  # numbers eta that are in memory together
ROWS = 64  # whose leverages are computed together, until no other may be larger


class RegressionConcordance(Concordance):
    """Of classes, or of several targets: c = 1. All is in standard params."""

    shared = True

    def __init__(self, model: Any, fit: Fit, cheap: Callable, sums: int):
        super().__init__(fit, model.n_sites * sums, cheap)
        self.model = model
        self.z = model.columns.standard

    @cached_property
    def metric(self) -> np.ndarray:
        """H of standard params, (D, D)."""
        return matrix_of(self.fit.hessian)

    def lengths(self, vectors: np.ndarray) -> np.ndarray:
        """As of any model, of derivatives in the params of x."""
        return super().lengths(self.model.columns.standard_gradient(vectors))

    @cached_property
    def units(self) -> np.ndarray:
        """Lengths of the axes (D,) of derivatives in standard params."""
        return super().lengths(np.eye(len(self.factor)))

    def rates(self, metric: np.ndarray) -> np.ndarray:
        """The spread of each row that has a weight."""
        model = self.model
        if model.quadratic:
            return np.zeros(model.n_sites)
        return self._spreads(metric, slice(None)) * model.observed

    def _spreads(self, metric, sites):
        few = leverages(np.linalg.inv(metric), self.z[sites])
        return self.model.likelihood.spreads(few)

    def own_rates(self, matrix: np.ndarray, share: float) -> np.ndarray:
        """Exact where they may be the largest; elsewhere by the share of the fit's metric."""
        model = self.model
        with np.errstate(all="ignore"):
            bounds = self.whole_rates / np.sqrt(share) * (1.0 + 1e-9)
        if not np.isfinite(bounds).all():
            return self.rates(matrix)
        inverse = np.linalg.inv(matrix)
        largest = 0.0
        for rows in pieces(model.n_sites, ROWS):
            sites = self.by_rate[rows]
            if bounds[sites[0]] <= largest:
                break
            few = leverages(inverse, self.z[sites])
            bounds[sites] = model.likelihood.spreads(few) * model.observed[sites]
            largest = max(largest, bounds[sites].max())
        return bounds

    @cached_property
    def by_rate(self) -> np.ndarray:
        """The sites, those of the largest `whole_rates` first."""
        return np.argsort(-self.whole_rates)

    def learn(self, hessians: FoldSolver) -> None:
        """The leverages of single sites, where each of them is a fold, are the spreads squared."""
        if not (isinstance(hessians, Downdates) and hessians.single and hessians.of_whole):
            return
        order = np.argsort(hessians.sites[:, 0])
        if np.array_equal(hessians.sites[order, 0], np.arange(self.model.n_sites)):
            self.spreads = self.model.likelihood.spreads(hessians.leverage)[order]

    @cached_property
    def whole_rates(self) -> np.ndarray:
        """`spreads`, of what has a weight and bends."""
        return self.spreads * (self.model.observed & (not self.model.quadratic))

    @cached_property
    def spreads(self) -> np.ndarray:
        """How far a standard error of the fit moves scores of each site (apart), (n_sites,)."""
        return self.model.likelihood.spreads(self.fit.hessian.leverages(self.z))

    def noise(self, params: np.ndarray, folds: Folds) -> Any:
        """4 (terms + D) epsilons of all that a gradient sums up; residuals are at most 1."""
        model = self.model
        standard = model.columns.inward(params)
        x = np.abs(self.z)
        units = self.units.reshape(model.n_outputs, -1)
        tall = (x @ units.T).sum(axis=1) * model.full_weights
        size = 2.0 + np.abs(standard).max(axis=-1)[..., None] * x.sum(axis=1)
        size = size + model.columns.cancelled(params)[..., None]
        if model.quadratic:
            size = size + np.abs(model.responses).max(axis=0)
        grown = np.maximum(model.balance.factors(folds).max(axis=1), 1.0)
        pulls = np.abs(model.standard_ridge(0.0).ravel() * standard) @ self.units
        return 4.0 * (self.terms + len(self.units)) * EPSILON * (grown * (size @ tall) + pulls)

    def loss_range(
        self, centre: np.ndarray, radius: np.ndarray, folds: Folds
    ) -> tuple[np.ndarray, np.ndarray]:
        """The losses where scores may be."""
        sites, sizes = end_to_end(folds.scored)
        eta, apart = self.score_range(centre, radius, sites, sizes)
        return self.model.likelihood.loss_range(eta, self.model.responses[..., sites], apart)

    def score_range(
        self, centre: np.ndarray, radius: np.ndarray, sites: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(eta (q, n), how far scores may be off) of sites, the first sizes[0] of fold 0, ..."""
        model = self.model
        standard = model.columns.inward(centre)
        z = self.z[span(sites)]
        squares = row_sums(z, z) * np.repeat(row_sums(standard, standard), sizes)
        summed = np.sqrt(squares) + np.abs(model.offset[sites])
        summed += np.repeat(model.columns.cancelled(centre), sizes)
        rounding = 4.0 * model.n_params * EPSILON * summed
        moves = self.spreads[sites] * np.repeat(radius, sizes)
        eta = model.own_scores(centre, sites, sizes)
        return eta, moves * (1.0 + 1e-12) + rounding


class GLMConcordance(RegressionConcordance):
    """Of one linear predictor: c = 1, or the family's `steepness` near the params."""

    def rate(
        self, params: np.ndarray, folds: Folds, radius: np.ndarray, rates: np.ndarray
    ) -> np.ndarray:
        """R of each fold: of probit, by its eta and how far they may move."""
        steepness = self.model.family.steepness
        if steepness is None:
            return super().rate(params, folds, radius, rates)
        found = np.empty(len(folds))
        for few, eta in self._etas(np.broadcast_to(params, (len(folds), params.shape[-1]))):
            moves = np.outer(radius[few], self.spreads)
            steep = rates * steepness(eta, moves, self.model.y)
            omitted = folds[few].indicator(self.model.n_sites).toarray() > 0.0
            found[few] = np.where(omitted, 0.0, steep).max(axis=1)
        return found

    def drift(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """By how far each eta that a fold keeps is from the full fit's, times the steepness."""
        model = self.model
        steepness = model.family.steepness
        found = np.zeros(len(folds))
        if model.quadratic:
            return found
        here = model.predictors(model.columns.inward(self.fit.params))[0]
        for few, eta in self._etas(params):
            moves = np.abs(eta - here) * model.observed
            if steepness is not None:
                moves *= steepness(here, moves, model.y)
            omitted = folds[few].indicator(model.n_sites)
            moves[omitted.nonzero()] = 0.0
            found[few] = moves.max(axis=1)
        return found

    def noise(self, params: np.ndarray, folds: Folds) -> Any:
        """4 epsilons of what makes a slope, and n + D of all that a gradient sums up.

        A slope is off by an epsilon of itself, of y, and of eta's sum of products times curvature.
        |x_nd| is at most the spread of x_n times sqrt(H_dd). Gradients of several points are sums
        over tiles of sites, less what each fold omits: they add up fewer terms at a time.
        """
        model = self.model
        points = np.atleast_2d(model.columns.inward(params))
        dim = points.shape[1]
        terms = self.terms
        if len(folds) > 1 and params.ndim == 2:
            terms = min(terms, SITES + terms // SITES + 1 + folds.sizes.max())
        tall = np.linalg.norm(self.factor, axis=1)  # sqrt(H_dd)
        spread = model.sample_weight * self.spreads
        summed = 4.0 + (terms + dim) * tall @ self.units
        size = np.abs(points) @ tall + model.columns.cancelled(np.atleast_2d(params))
        bent = 4.0 * (dim + 2.0) * (1.0 + size)
        ridge = model.standard_ridge(model.sample_weight.sum()).ravel()
        total = 4.0 * dim * np.abs(points * ridge) @ self.units
        with np.errstate(all="ignore"):
            for few, eta in self._etas(np.atleast_2d(params)):
                slope = np.abs(model.family.slope(eta, model.y)) * summed + 4.0 * np.abs(model.y)
                curvature = model.family.curvature(eta, model.y)
                offsets = 4.0 * curvature * (2.0 * np.abs(model.offset) + 1.0)
                total[few] += (slope + offsets) @ spread
                total[few] += bent[few] * (curvature @ (spread * self.spreads))
        return EPSILON * (total if params.ndim == 2 else total[0])

    def _etas(self, points):
        """Yield (slice, eta (m, n_sites)) of rows of points."""
        for few in pieces(len(points), max(1, AT_ONCE // self.model.n_sites)):
            with one_blas_thread:
                yield few, self.model.predictors(self.model.columns.inward(points[few]))[:, 0]


def concordance_of(model: Any, fit: Fit, cheap: Callable) -> Concordance:
    """That of a regression; NotConcordant for a family of which no bound is known."""
    if model.family == "multinomial" or model.n_outputs > 1:
        return RegressionConcordance(model, fit, cheap, 1 + model.balance.n_classes)
    family = model.family
    if not (family.self_concordant or family.steepness):
        raise NotConcordant(f"no bound on |third| / curvature of {family.name} is known")
    return GLMConcordance(model, fit, cheap, 1)
