"""Theorem 1 of Giordano et al. (2019) for GLMs: how far the jackknife can be from the exact refit.

    |theta_IJ(w) - theta(w)| <= 2 C_op^2 C_IJ delta^2   where delta <= Delta_delta

Every supremum is taken over the ball |theta - theta_hat| <= radius, in which eta_n moves by at
most radius |x_n|: all constants are computed, none estimated. A penalty is one more term, which no
weight changes.
"""

from typing import NamedTuple

import numpy as np

import acvlib as acv

LARGEST = 10.0  # radius at which the search for one ends: curvatures are then e^10 times smaller
MARGIN = 1.001  # of the radius over C_op delta, so that the search ends
STEEPEST = float(np.log(2 + np.sqrt(3)))  # where |third| is largest: mean = 1/2 +- sqrt(3)/6
# (third derivative of the loss by its second, where the second is largest, where |third| is) inside
# an interval of eta, in which the second is least at an end.
THIRDS = {
    "logistic": (
        lambda curvature, eta: -curvature * np.tanh(0.5 * eta),
        [0.0],
        [-STEEPEST, STEEPEST],
    ),
    "poisson": (lambda curvature, eta: curvature, [], []),
}


class Theorem1(NamedTuple):
    """Delta_delta of Definition 3, and of each fold delta and the bound (n_folds,) on the Euclidean
    distance of params, valid where it `applies`.
    """

    limit: float
    delta: np.ndarray
    bound: np.ndarray

    @property
    def applies(self) -> np.ndarray:
        """Whether delta <= limit, the theorem's condition, (n_folds,)."""
        return self.delta <= self.limit


class Ball:
    """Suprema over |theta - theta_hat| <= radius of the derivatives of a GLM's terms.

    Raises
    ------
    ValueError: a family that is not in `THIRDS`, or a site_penalty, which is part of every term.
    """

    def __init__(self, model, params, radius):
        name = model.family.name
        if name not in THIRDS:
            raise ValueError(f"the {name} family has no constants: there are those of {[*THIRDS]}")
        if model.site_penalty:
            raise ValueError("site_penalty > 0 is part of every term: there is no bound for it")
        self._third, self._curvature_peaks, self._third_peaks = THIRDS[name]
        self.model = model
        self.n_terms = model.n_sites + np.any(model.penalty)
        self._length = np.linalg.norm(model.design, axis=1)
        self._total = abs(model.design).sum(axis=1)
        eta = model.design @ params
        reach = radius * self._length
        self._ends = np.array([eta - reach, eta + reach])

    def c_op(self):
        """sup |H(theta, 1)^-1|, by the least curvature of each term in the ball."""
        model = self.model
        curvature = model.family.curvature(self._ends, model.y)
        least = model.sample_weight * curvature.min(axis=0)
        penalty = np.diag(model.ridge(0.0))
        hessian = (model.design.T * least) @ model.design + penalty
        smallest = np.linalg.eigvalsh(hessian)[0]
        return self.n_terms / smallest if smallest > 0 else np.inf

    def averages(self):
        """(C_g, C_h) of Assumption 3."""
        slope = self._largest(self.model.family.slope, ()) * self._length
        curvature = self._largest(self.model.family.curvature, self._curvature_peaks)
        root = np.sqrt(self.n_terms)
        return np.linalg.norm(slope) / root, np.linalg.norm(curvature * self._length**2) / root

    def l_h(self):
        """A Lipschitz constant of |h|_2 / sqrt(N)."""
        third = self._largest(self._of_third, self._third_peaks)
        return np.linalg.norm(third * self._length**3) / np.sqrt(self.n_terms)

    def deltas(self, folds):
        """delta of Condition 1 for each fold's weights, (n_folds,)."""
        family = self.model.family
        slope = self._largest(family.slope, ()) * self._total
        curvature = self._largest(family.curvature, self._curvature_peaks) * self._total**2
        omitted = folds.indicator(self.model.n_sites)
        return np.maximum(omitted @ slope, omitted @ curvature) / self.n_terms

    def _of_third(self, eta, y):
        return self._third(self.model.family.curvature(eta, y), eta)

    def _largest(self, function, peaks):
        """sup |s function(eta, y)|, which is attained at an end or at a peak inside."""
        inside = [np.clip(peak, *self._ends) for peak in peaks]
        values = function(np.array([*self._ends, *inside]), self.model.y)
        return self.model.sample_weight * abs(values).max(axis=0)


def theorem1(fit, folds):
    """Bound the error of the infinitesimal jackknife of every fold.

    The ball's radius is the smallest in which the condition on Delta_theta holds for all folds, or
    0 where there is none: the theorem then applies to no fold.
    """
    model = fit.model
    folds = acv.Folds.of(folds, model)
    radius = _smallest_radius(model, fit, folds)
    ball = Ball(model, fit.params, radius)
    c_op = ball.c_op()
    c_ij = 1.0 + len(fit.params) * ball.l_h() * c_op  # C_w <= 1: weights of 0 and 1
    limit = min(radius / c_op, 0.5 / (c_ij * c_op))
    delta = ball.deltas(folds)
    bound = 2 * c_op**2 * c_ij * delta**2
    return Theorem1(limit, delta, bound)


def _smallest_radius(model, fit, folds):
    """The fixed point of radius = C_op delta, reached from below; 0 where there is none."""
    radius = 0.0
    smaller = -1.0
    while smaller < radius < LARGEST:
        ball = Ball(model, fit.params, radius)
        delta = ball.deltas(folds).max()
        smaller = radius
        radius = max(radius, MARGIN * ball.c_op() * delta)
    return radius if radius < LARGEST else 0.0
