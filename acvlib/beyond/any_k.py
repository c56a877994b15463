"""The most that dropping any k rows of a regression can add to c'theta: a proof over all sets.

While the rows of S fade, t = 0 to 1, the optimum moves from params by delta on a path with

    grad F(params + delta) = t sum_S slope_n(eta_n + z_n'delta) z_n,   slope_n = loss_n'.

A region of boxes, for the move of each row's score, and of a ball is mapped to what this equation
says of its points. If that is inside, no path leaves the region. Within it no path reaches
c'delta = t if some multiple of the equation has no solution there. Where nothing is proved of all
sets, those of one row are bounded by certified Newton steps, and larger ones are split: those with
some row, refitted without it, and those that keep it.

Coordinates u = B z are those in which the Hessian is almost I. The chapter "Which data decide a
conclusion?" has the proof; the numbers of its steps are given here.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ..fit import fit as fit_model
from ..folds import leave_one_out
from ..methods.exact import exact
from ..methods.ladder import newton_step
from ..models import GLM
from ..parallel import pieces
from .boxes import SIGNS, Slopes, Terms, highest
from .certify import certify
from .certify.regressions import Regression
from .certify.verified import UP, NotCertified, gamma, norms

ROUNDS = 16  # maps of a region, at most
SHRUNK = 4  # of these from the first one into itself on
WIDEST = 4.0  # a radius, over that of the first map, at which a region is given up
AT_ONCE = 2**21  # numbers in memory together
FIRST = 4  # dangerous rows by which sets are split, and twice as many where that is not enough
FAMILIES = 4000  # of sets, at most
MANY = 50  # rows a parameter, from which on all but a few are bounded by the ball


class _Family:
    """The sets of at most k of some rows, all others of a fit being kept."""

    def __init__(self, fit: Any, slope: np.ndarray, rows: np.ndarray, k: int):
        self.fit, self.slope, self.rows = fit, slope, rows
        self.problem = problem = Regression(fit)
        model = fit.model
        used = np.flatnonzero(model.observed)
        self.z, self.weights, self.y = problem.z[used], model.sample_weight[used], model.y[used]
        n, dim = self.z.shape
        self.pairs = np.triu_indices(dim)
        self.few = 4.0 * gamma(4 * dim)
        self.all = 4.0 * gamma(n) + 8.0 * self.few
        self.c = model.columns.standard_gradient(slope)
        self.doubts = np.abs(model.columns.outward(np.eye(dim))) @ np.abs(slope)
        self.doubts = self.few * (self.doubts + np.abs(self.c))
        matrix, terms, error = problem.matrix
        self.b = np.linalg.inv(np.linalg.cholesky(matrix))
        bound = norms(np.abs(self.b) @ np.sqrt(np.maximum(terms, np.diag(matrix)))) ** 2
        off = norms((self.b @ matrix @ self.b.T - np.eye(dim)).ravel())
        self.off = UP * (off + (error + self.few) * bound)
        self.u = self.z @ self.b.T
        self.sizes = UP * norms(np.abs(self.z) @ np.abs(self.b.T))
        self.lengths = UP * (norms(self.u) + self.few * self.sizes)
        self.eta = self.z @ problem.at
        self.doubt = gamma(dim) * (np.abs(self.z) @ np.abs(problem.at))
        self.slopes, gradient, noise = self.near(np.zeros(dim))
        self.noise = UP * (norms(gradient) + noise)
        bent = self.slopes.curvature * self.lengths**2
        self.boxed = bent > max(8.0 * bent.mean(), 0.1) if n >= MANY * dim else bent >= 0.0
        self.free = rows[used]
        danger = self.slopes.slope**2 * self.lengths**2 / np.maximum(1.0 - bent, 0.05)
        self.dangerous = used[np.argsort(np.where(self.free, -danger, 1.0))]
        self.k = min(k, int(self.free.sum()))
        self.boxes, self.radius = np.zeros((4, n)), np.inf

    def largest(self, values: np.ndarray):
        """The k largest of each row, of which the least comes first."""
        least = values.shape[-1] - self.k
        return np.partition(values, least)[..., least:]

    def near(self, delta: np.ndarray):
        """(slopes, gradient in u, its noise) at params + B'delta."""
        doubt = self.doubt + self.few * (norms(delta) * self.sizes + np.abs(self.eta))
        eta = self.eta + self.u @ delta
        slopes = Slopes(self.problem.choices, self.weights, self.y, eta, doubt)
        ridge = self.problem.ridge
        gradient = slopes.slope @ self.u + self.b @ (ridge * (self.problem.at + delta @ self.b))
        pull = ridge * (np.abs(self.problem.at) + np.abs(delta) @ np.abs(self.b))
        noise = slopes.slip + self.all * self.weights * (slopes.mean + self.y)
        noise = noise @ self.sizes + self.all * norms(np.abs(self.b) @ pull)
        return slopes, gradient, UP * noise

    def settle(self) -> None:
        """Look for boxes (4, n) and a radius that no path of two rows or more leaves (step 5)."""
        boxes, radius, first, inside = self.boxes, 0.0, np.inf, 0
        for _ in range(ROUNDS if self.k > 1 else 0):
            found, size = self._map(boxes, radius)
            first = min(first, size)
            if not size <= WIDEST * first:
                break
            if inside or size < radius and (found < boxes).all():
                boxes, radius, inside = np.minimum(found, boxes), min(size, radius), inside + 1
                if inside == SHRUNK:
                    self.boxes, self.radius = boxes, radius
                    break
            else:
                radius = max(1.3 * size - 0.3 * radius, radius) * 1.003 + 1e-12
                boxes = np.maximum(1.3 * found - 0.3 * boxes, boxes) * 1.001
                boxes += 2e-3 * self.lengths * radius + 1e-12

    def _map(self, boxes, radius):
        """What the equation says of the points of a region: boxes, a radius (steps 2 to 4)."""
        slopes = self.slopes
        terms = Terms(self, slopes, boxes, radius, self.u)
        found = np.empty_like(boxes)
        own = np.arange(len(self.u))
        for rows in pieces(len(own), 1 + AT_ONCE // len(own)):
            found[:, rows] = terms.bounds(self.u[rows], own[rows]).reshape(4, -1)
        found += self.few * radius * self.sizes
        found[2:] *= self.free
        caps = np.minimum(boxes, self.lengths * radius) if radius else found
        chords = slopes.chords(-boxes[0], boxes[1])
        low, high = caps[2:] * SIGNS[:2]
        most = np.maximum(-low, high)
        ends = [slopes.slope * end + chords * end**2 for end in (low, high)]
        gains = np.maximum(np.maximum(*ends), (chords - slopes.chords(low, high)) * most**2)
        gains += most * slopes.slips(low, high)
        gains = UP * self.largest(self.free * np.maximum(gains, 0.0)).sum()
        lost = np.maximum(slopes.curvature - chords, 0.0)
        share = 1.0 - highest((self.u.T @ (self.u * lost[:, None]))[None])[0] - self.off
        share = (share - (self.all * lost + 4.0 * slopes.slip) @ self.sizes**2) / UP
        if not (share > 0.0 and np.isfinite(found).all()):
            return found, np.inf
        radius = UP * (self.noise + np.sqrt(self.noise**2 + 4.0 * share * gains)) / (2.0 * share)
        return np.minimum(found, self.lengths * radius), radius

    def excludes(self, level: float) -> bool:
        """Whether no path has c'delta = level (step 6)."""
        c = self.b @ self.c
        square = c @ c
        delta = level / square * c
        left = self.radius**2 * UP - level**2 / square / UP
        if left < 0.0:
            return True
        left = UP * np.sqrt(left)
        slopes, gradient, noise = self.near(delta)
        rows = self.u - np.outer(self.u @ c, c / square)
        lengths = UP * norms(rows)
        slack = self.few * self.sizes * (norms(delta) + self.radius)
        boxes = np.clip(self.boxes - SIGNS * (self.u @ delta) + slack, 0.0, lengths * left + slack)
        change = slopes.curvature - self.slopes.curvature
        hessian = self.u.T @ (self.u * change[:, None]) + np.eye(len(c))
        doubt = self.all * np.abs(change) + 4.0 * (slopes.slip + self.slopes.slip)
        doubt = doubt @ self.sizes**2 + self.off + self.few
        v = np.linalg.solve(hessian, c)
        long = UP * norms(v)
        lost = (norms(hessian @ v - c) + doubt * long) * left + self.few * norms(c) * norms(delta)
        lost += long * (noise + self.few * norms(gradient))
        most = Terms(self, slopes, boxes, left, rows).bounds(v[None], np.array([0]))[:, 1].max()
        return UP * (most + lost) < v @ gradient

    def ends(self, start: np.ndarray, params: np.ndarray, errors: np.ndarray) -> tuple:
        """(slope'(params - start) of params (n, D), above it within so many standard errors)."""
        ends = (params - start) @ self.slope
        rounding = self.few * ((np.abs(params) + np.abs(start)) @ np.abs(self.slope))
        length = self.problem.whole.dual(self.c[None]) + self.problem.whole.units @ self.doubts
        return ends, UP * (ends + rounding + errors * length)

    def bound(self, start: np.ndarray, most: float) -> float:
        """Above slope'(params - start) of all sets; `most`, or not far above, if that is proved."""
        params = self.fit.params[None]
        ahead = self.ends(start, params, self.problem.inward(params)[1])[1][0]
        ahead += norms(self.b.T) @ self.doubts * self.radius
        ahead += self.few * norms(np.abs(self.b) @ np.abs(self.c)) * self.radius
        high = float(UP * norms(self.b @ self.c) * self.radius)
        low = min(max(most - ahead, 1e-6 * high), high)
        if self.excludes(low):
            high = low
        while high - low > 4e-4 * low:
            middle = np.sqrt(low * high)
            low, high = (low, middle) if self.excludes(middle) else (middle, high)
        return float(UP * (ahead + high))

    def singles(self, start: np.ndarray, most: float) -> tuple:
        """(above slope'(params - start) without one row more, a set that does most, what)."""
        folds = leave_one_out(len(self.rows), self.rows)
        certificate = certify(newton_step(self.fit, folds))
        ends, tops = self.ends(start, certificate.result.params, certificate.theta_errors)
        ends[:] = -np.inf
        if (doubtful := np.flatnonzero(~(tops <= most))).size:
            refits = certify(exact(self.fit, folds[doubtful]), complete=True, sharp=True)
            refitted = self.ends(start, refits.result.params, refits.theta_errors)
            ends[doubtful], tops[doubtful] = refitted
        site = np.argmax(ends)
        return tops.max(), folds[site], ends[site]

    def split(self, count: int) -> list:
        """The sets without the most dangerous rows, and those with each first one (step 7)."""
        model, rows = self.fit.model, self.rows.copy()
        families = []
        for row in self.dangerous[: min(count, int(self.free.sum()))]:
            rows[row] = False
            weights = model.sample_weight.copy()
            weights[row] = 0.0
            without = fit_model(replace(model, sample_weight=weights), self.fit.params)
            families.append(_Family(without, self.slope, rows.copy(), self.k - 1))
        families.append(_Family(self.fit, self.slope, rows, self.k))
        return [family for family in families if family.k]


@np.errstate(all="ignore")
def proved(
    fit: Any, slope: np.ndarray, k: int, least: float
) -> tuple[float, np.ndarray | None, float]:
    """(above what dropping any k rows adds to slope'params, or inf; a set that adds more, what).

    slope (D,); least: what some set is found to add, which the bound is close to if it can be. A
    family of sets of which nothing is proved is split. The set is None where none was found.
    Raises NotCertified for other models than logistic and Poisson regressions.
    """
    regression(fit)
    best: np.ndarray | None = None
    most, effect = max(least, 0.0), least
    families = [(_Family(fit, slope, fit.model.observed, k), FIRST)]
    for _ in range(FAMILIES):
        family, count = families.pop()
        family.settle()
        if np.isfinite(family.radius):
            most = max(most, family.bound(fit.params, most))
        else:
            bound, row, end = family.singles(fit.params, most)
            most = max(most, bound)
            if end > effect:
                dropped = np.flatnonzero(fit.model.observed & ~family.fit.model.observed)
                best, effect = np.append(dropped, row), end
            if family.k > 1:
                families += [(each, 2 * count) for each in family.split(count)]
        if not families:
            return float(most), best, float(effect)
    return np.inf, best, effect


def regression(fit: Any) -> Regression:
    """The problem of a model whose subsets can be bounded. Raises NotCertified for others."""
    model = fit.model
    name = model.family.name if type(model) is GLM else type(model).__name__
    if name in ("logistic", "poisson", "poisson rate") and not model.site_penalty:
        return Regression(fit)
    if type(model) is GLM and model.site_penalty:
        name = f"site_penalty = {model.site_penalty:g}"
    remedy = "leave certify out, and read `exact`, which bounds it from below"
    if name == "gaussian":
        remedy = "of least squares, bounds are those of Rubinstein and Hopkins (2025); or " + remedy
    kinds = "logistic and Poisson GLMs without site_penalty"
    raise NotCertified(f"{name}: what any k rows can do is proved for {kinds}: {remedy}")
