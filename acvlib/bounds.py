"""Theorem 1 of Giordano et al. (2019) for GLMs: how far the infinitesimal jackknife can be from the exact refit.

    |theta_IJ(w) - theta(w)| <= 2 C_op^2 C_IJ delta^2   where delta <= Delta_delta

Every supremum is taken over the ball |theta - theta_hat| <= radius, in which eta_n moves by at most
radius |x_n|, so that all constants are computed, none estimated. A penalty counts as one more term,
which no weight changes.
"""

from dataclasses import dataclass, field

import numpy as np

from .folds import indicator

LARGEST = 10.0  # radius at which the search for one ends: every curvature is then e^10 times smaller or less
MARGIN = 1.001  # of the radius over C_op delta, so that the search ends


@dataclass(frozen=True)
class Theorem1:
    """The constants of Definition 3 for one fit, and delta, bound and applies (n_folds,) for each fold.

    c_op: Assumption 2; l_h: Assumption 4, with Delta_theta = radius; c_ij, limit (Delta_delta):
    Definition 3; bound: Euclidean distance of params, valid where `applies`, that is delta <=
    limit.
    """

    radius: float
    c_op: float
    l_h: float
    c_ij: float
    limit: float
    delta: np.ndarray = field(repr=False)
    bound: np.ndarray = field(repr=False)

    @property
    def applies(self):
        """Whether delta <= limit, the theorem's condition."""
        return self.delta <= self.limit


class Ball:
    """Suprema over |theta - theta_hat| <= radius of the derivatives of a GLM's terms."""

    def __init__(self, model, params, radius):
        if model.site_penalty:
            raise ValueError(
                "site_penalty > 0 makes the penalty part of every term: no bound for it here"
            )
        self.model, self.x, self.s = model, model.design, model.sample_weight
        self.n_terms = model.n_sites + (model.penalty > 0)
        self.length, self.total = np.linalg.norm(self.x, axis=1), abs(self.x).sum(axis=1)
        self.eta = self.x @ params + model.offset
        self.low, self.high = self.eta - radius * self.length, self.eta + radius * self.length

    def _at_ends(self, function):
        return np.array([function(end, self.model.y) for end in (self.low, self.high)])

    def _largest(self, function, peaks):
        inner = [function(np.clip(peak, self.low, self.high), self.model.y) for peak in peaks]
        return abs(np.array([*self._at_ends(function), *inner])).max(axis=0)

    def c_op(self):
        """sup |H(theta, 1)^-1|, by the least curvature of each term in the ball."""
        least = self.s * self._at_ends(self.model.family.curvature).min(axis=0)
        hessian = (self.x.T * least) @ self.x + self.model.penalty * np.diag(self.model.penalised)
        smallest = np.linalg.eigvalsh(hessian / self.n_terms)[0]
        return 1.0 / smallest if smallest > 0 else np.inf

    def l_h(self):
        """A Lipschitz constant of |h|_2 / sqrt(N)."""
        third = self.s * self._largest(self.model.family.third, self.model.family.third_peaks)
        return np.sqrt(np.sum((third * self.length**3) ** 2) / self.n_terms)

    def deltas(self, folds):
        """delta of Condition 1 for each fold's weights, (n_folds,)."""
        slope = self.s * self._largest(self.model.family.slope, ()) * self.total
        curvature = self.s * self._largest(
            self.model.family.curvature, self.model.family.curvature_peaks
        )
        drop = indicator(folds, self.model.n_sites)
        return np.maximum(drop @ slope, drop @ (curvature * self.total**2)) / self.n_terms


def theorem1(model, fit, folds, radius=None):
    """The `Theorem1` of a fitted GLM and its folds.

    radius: of the ball; by default the smallest in which the condition on Delta_theta holds for all
    folds, or 0, with the smallest constants of any, where there is none: the theorem then applies
    to no fold. Raises ValueError for a model with a site_penalty.
    """
    radius = _smallest_radius(model, fit, folds) if radius is None else radius
    ball = Ball(model, fit.params, radius)
    c_op, l_h, delta = ball.c_op(), ball.l_h(), ball.deltas(folds)
    c_ij = 1.0 + len(fit.params) * l_h * c_op  # C_w <= 1: weights of 0 and 1
    limit = min(radius / c_op, 0.5 / (c_ij * c_op))
    return Theorem1(radius, c_op, l_h, c_ij, limit, delta, 2 * c_op**2 * c_ij * delta**2)


def _smallest_radius(model, fit, folds):
    """The fixed point of radius = C_op delta, reached from below; 0 where there is none."""
    radius, smaller = 0.0, -1.0
    while smaller < radius < LARGEST:
        ball, smaller = Ball(model, fit.params, radius), radius
        radius = max(radius, MARGIN * ball.c_op() * ball.deltas(folds).max())
    return radius if radius < LARGEST else 0.0
