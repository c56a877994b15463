"""What bounds the moves of an optimum in a region of boxes: slopes of rows, and sums of them.

The steps are those of the proof in the chapter "Which data decide a conclusion?".
"""

from typing import Any

import numpy as np
from scipy.special import expit

from .certify.verified import UNIT, UP, are_above, gamma, norms

TINY = 1e-150
SIGNS = np.array([[-1.0], [1.0], [-1.0], [1.0]])  # of boxes: down and up, out of a set and in it


def highest(matrices: np.ndarray) -> np.ndarray:
    """Bounds (m,) of the largest eigenvalues of symmetric matrices (m, D, D), from 0 up."""
    dim = matrices.shape[-1]
    if np.isfinite(matrices).all():
        slack = 8.0 * gamma(dim) * dim * (np.abs(matrices).sum(axis=(1, 2)) + TINY)
        tops = np.maximum(np.linalg.eigvalsh(matrices)[:, -1], 0.0) + 3.0 * slack
        if are_above(tops[:, None, None] * np.eye(dim) - matrices, slack):
            return UP * tops
    return np.full(len(matrices), np.inf)


class Slopes:
    """Slopes of rows' losses around scores eta that are known up to a doubt (step 1)."""

    def __init__(self, choices: bool, weights: Any, y: Any, eta: Any, doubt: Any):
        self.choices, self.weights, self.y, self.eta, self.doubt = choices, weights, y, eta, doubt
        self.mean = self._mean(eta)
        variance = self.mean * expit(-eta) if choices else self.mean
        self.curvature = weights * variance
        self.bend = self.curvature * (1.0 - 2.0 * self.mean) if choices else self.curvature
        self.slope = weights * (self.mean - y)
        self.slip = self.slips(0.0 * eta, 0.0 * eta)

    def _mean(self, eta):
        return expit(eta) if self.choices else np.exp(eta)

    def at(self, moves: np.ndarray):
        """Slopes where scores move so far."""
        return self.weights * (self._mean(self.eta + moves) - self.y)

    def slips(self, low: np.ndarray, high: np.ndarray):
        """Above the rounding of all that is computed here for moves between low <= 0 <= high."""
        sizes = np.maximum(-low, high)
        doubt = 2.0 * self.doubt + 16.0 * UNIT * (1.0 + np.abs(self.eta) + sizes)
        tops = 2.0 * self._mean(self.eta + high) * (2.0 + sizes)
        return self.weights * (tops * doubt + 8.0 * UNIT * self.y)

    def rests(self, low: np.ndarray, high: np.ndarray):
        """The range of D(a) = slope(eta + a) - slope(eta) - curvature(eta) a, which has 0."""
        turns = np.clip(-2.0 * self.eta, low, high) if self.choices else 0.0 * low
        rests = [self.at(a) - self.slope - self.curvature * a for a in (low, high, turns)]
        rests.append(0.0 * low)
        slips = self.slips(low, high)
        return np.minimum.reduce(rests) - slips, np.maximum.reduce(rests) + slips

    def quotients(self, low: np.ndarray, high: np.ndarray):
        """(middle, half width) of the range of D(a) / a^2 = bend / 2 + a / 6 (a third slope)."""
        ends = self._mean(self.eta + np.array([low, high]))
        if self.choices:  # of which v = p (1 - p) have a third slope v - 6 v^2
            ends *= 1.0 - ends
            inside = (self.eta + low < 0.0) & (self.eta + high > 0.0)
            least, most = ends.min(axis=0), np.where(inside, 0.25, ends.max(axis=0))
            ends = np.array([least, np.clip(1.0 / 12.0, least, most), most])
            ends -= 6.0 * ends**2
        third = self.weights * np.abs(ends).max(axis=0)
        half = np.maximum(-low, high) * third / 6.0 + 4.0 * self.slips(low, high)
        return 0.5 * self.bend, half

    def chords(self, low: np.ndarray, high: np.ndarray):
        """Below [slope(eta + a) - slope(eta)] / a, for all a."""
        ends = np.array([low, high])
        rises = (np.abs(self.at(ends) - self.slope) - self.slips(low, high)) / np.abs(ends) / UP
        near = self.curvature * (1.0 - 0.5 * np.abs(ends) - 4.0 * self.doubt - 1e-13)
        return np.maximum(np.fmax(near, rises).min(axis=0), 0.0)


class Terms:
    """What bounds v'delta, for delta of a region and any v: sums over rows of v'u_n times these."""

    def __init__(self, family, slopes, boxes, radius, rows):
        self.family, self.rows, self.radius = family, rows, radius
        low, high, inner_low, inner_high = boxes * SIGNS
        least, most = np.minimum(low, inner_low), np.maximum(high, inner_high)
        self.middle, self.half = slopes.quotients(least, most)
        self.falls, self.rises = slopes.rests(low, high)
        falls, rises = slopes.rests(inner_low, inner_high)
        apart = (
            np.maximum(slopes.slope + slopes.curvature * inner_high, -falls),
            np.maximum(-slopes.slope - slopes.curvature * inner_low, rises),
        )
        together = slopes.at(inner_high), -slopes.at(inner_low)
        tops = np.where(family.boxed, apart, together) + slopes.slips(least, most)
        self.tops = family.free * np.maximum(tops, 0.0)
        b = family.sizes
        doubts = family.largest(b * self.tops.max(axis=0)).sum() + b @ (self.rises - self.falls)
        doubts += radius**2 * (b**3 @ (np.abs(self.middle) + self.half))
        self.doubt = family.all * doubts + family.off * radius + family.noise

    def bounds(self, vectors: np.ndarray, own: np.ndarray):
        """Above -v'delta and v'delta, rows `own` out of the set and in it (2, 2, m) (step 2)."""
        family, boxed = self.family, self.family.boxed
        products = vectors @ family.u.T
        sizes = np.abs(products)
        found = np.empty((2, 2, len(vectors)))
        places = np.arange(len(vectors)), own
        balls = np.zeros((2, len(vectors)))
        if not boxed.all():
            i, j = family.pairs
            squares = (self.rows[:, i] * self.rows[:, j] * ~boxed[:, None]).T
            odd = products @ (squares * self.middle).T
            even = sizes @ (squares * self.half).T
            forms = np.empty((2, len(vectors), *2 * vectors.shape[1:]))
            forms[..., i, j] = forms[..., j, i] = even + SIGNS[1::-1, None] * odd
            balls = self.radius**2 * highest(forms.reshape(-1, *forms.shape[2:])).reshape(2, -1)
        for side, sign in enumerate((-1.0, 1.0)):
            raises = sign * products > 0.0
            rest = np.where(raises[:, boxed], -self.falls[boxed], self.rises[boxed])
            total = (sizes[:, boxed] * rest).sum(axis=1) + balls[side]
            values = sizes * np.where(raises, *self.tops)
            mine = values[places]
            values[places] = 0.0
            best = family.largest(values)
            total += best.sum(axis=1)
            found[:, side] = total, total + mine - best[:, 0]
        return UP * (found + UP * norms(vectors) * self.doubt)
