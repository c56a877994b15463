"""What a GLM knows of its third derivative: see `acvlib.concordance`.

|third| <= c curvature of a loss makes |F'''[u, v, v]| <= max_n c |x_n' u| F''[v, v], and |x_n' u|
is at most sqrt(x_n' H^-1 x_n), the spread of x_n, for u of a standard error.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit

from ...concordance import EPSILON, Concordance, convex_range, spreads
from ...folds import Folds
from ...folds.checks import end_to_end
from ...parallel import pieces
from ...protocol import Fit
from ...solvers.inverse import FoldSolver
from .folds import SingleSites

AT_ONCE = 2**21  # numbers eta that are in memory together


class GLMConcordance(Concordance):
    """c = 1, or 0 where the loss is quadratic, or the family's `steepness` near the params."""

    shared = True

    def __init__(self, model: Any, fit: Fit, cheap: Callable):
        super().__init__(fit, model.n_sites, cheap)
        self.model = model

    def rates(self, factor: np.ndarray) -> np.ndarray:
        """The spread of each row that has a weight."""
        if self.model.quadratic:
            return np.zeros(self.model.n_sites)
        return np.where(self.model.observed, spreads(factor, self.model.design), 0.0)

    def learn(self, hessians: FoldSolver) -> None:
        """The leverages of single sites, where each of them is a fold, are the spreads squared."""
        if not isinstance(hessians, SingleSites) or self.model.site_penalty:
            return
        if np.array_equal(np.sort(hessians.sites), np.arange(self.model.n_sites)):
            spread = np.empty(self.model.n_sites)
            spread[hessians.sites] = np.sqrt(hessians.leverage)
            self.spreads = spread

    @cached_property
    def whole_rates(self) -> np.ndarray:
        """`spreads`, of what has a weight and bends."""
        return np.where(self.model.observed & (not self.model.quadratic), self.spreads, 0.0)

    @cached_property
    def spreads(self) -> np.ndarray:
        """How far, at most, a standard error of the fit moves each eta, (n_sites,)."""
        return self.lengths(self.model.design)

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
        here = model.design @ self.fit.params + model.offset
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
        |x_nd| is at most the spread of x_n times sqrt(H_dd).
        """
        model = self.model
        points = np.atleast_2d(params)
        dim = points.shape[1]
        tall = np.linalg.norm(self.factor, axis=1)  # sqrt(H_dd)
        spread = model.sample_weight * self.spreads
        summed = 4.0 + (self.terms + dim) * tall @ self.units
        bent = 4.0 * (dim + 2.0) * (1.0 + np.abs(points) @ tall)
        pull = points * model.ridge(model.sample_weight.sum())
        total = 4.0 * dim * np.abs(pull) @ self.units
        with np.errstate(all="ignore"):
            for few, eta in self._etas(points):
                slope = np.abs(model.family.slope(eta, model.y)) * summed + 4.0 * np.abs(model.y)
                curvature = model.family.curvature(eta, model.y)
                offsets = 4.0 * curvature * (2.0 * np.abs(model.offset) + 1.0)
                total[few] += (slope + offsets) @ spread
                total[few] += bent[few] * (curvature @ (spread * self.spreads))
        return EPSILON * (total if params.ndim == 2 else total[0])

    def _etas(self, points):
        """Yield (slice, eta (m, n_sites)) of rows of points."""
        for few in pieces(len(points), max(1, AT_ONCE // self.model.n_sites)):
            yield few, points[few] @ self.model.design.T + self.model.offset

    def loss_range(
        self, centre: np.ndarray, radius: np.ndarray, folds: Folds
    ) -> tuple[np.ndarray, np.ndarray]:
        """The losses where each eta may be."""
        sites, sizes = end_to_end(folds.scored)
        eta, moves = self.eta_range(centre, radius, sites, sizes)
        y = self.model.y[sites]
        with np.errstate(all="ignore"):
            best = self.model.family.link(y)
        return convex_range(lambda at: self.model.family.loss(at, y), eta, moves, best)

    def eta_range(
        self, centre: np.ndarray, radius: np.ndarray, sites: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(eta, how far it may be off) of sites, the first sizes[0] of the first fold and so on."""
        fold = np.repeat(np.arange(len(sizes)), sizes)
        offset = self.model.offset[sites]
        eta, size = _products(self.model.design, sites, centre, fold)
        rounding = 4.0 * centre.shape[1] * EPSILON * (size + np.abs(offset))
        return eta + offset, self.spreads[sites] * radius[fold] * (1.0 + 1e-12) + rounding


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _products(x, sites, params, fold):
    """(x' theta, |x|' |theta|) of each site and its fold's params, two (n,)."""
    total = np.empty(len(sites))
    size = np.empty(len(sites))
    for n in range(len(sites)):
        row = x[sites[n]]
        point = params[fold[n]]
        signed = absolute = 0.0
        for d in range(len(row)):
            product = row[d] * point[d]
            signed += product
            absolute += abs(product)
        total[n] = signed
        size[n] = absolute
    return total, size
