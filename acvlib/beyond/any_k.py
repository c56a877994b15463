"""The most that dropping any k rows of a regression can add to c'theta: a proof over all sets.

While the rows of S fade, t = 0 to 1, the optimum moves from params by delta on a path with

    grad F(params + delta) = t sum_S slope_n(eta_n + z_n'delta) z_n,   slope_n = loss_n'.

A region of boxes, for the move of each row's score, and of a ball is mapped to what this equation
says of its points. If that is inside, no path leaves the region. Within it no path reaches
c'delta = t if some multiple of the equation has no solution there. Where nothing is proved of all
sets, they are split: those with some row, refitted without it, and those that keep it; sets of one
row more are refitted, and certified, one by one.

Coordinates u = B z are those in which the Hessian is almost I. The chapter "Which data decide a
conclusion?" has the proof; the numbers of its steps are given here.
"""

import copy
from typing import Any

import numpy as np

from ..folds import WHOLE, Folds
from ..methods.exact import exact
from ..models import GLM
from ..parallel import pieces
from .boxes import SIGNS, Slopes, Terms, highest
from .certify import certify
from .certify.regressions import Regression
from .certify.verified import UP, NotCertified, gamma, norms

ROUNDS = 40  # maps of a region, at most
SHRUNK = 4  # of these from the first one into itself on
WIDEST = 4.0  # a radius, over that of the first map, at which a region is given up
AT_ONCE = 2**21  # numbers in memory together
CLOSER = 1  # times that boxes of a slice are mapped
ASIDE = (0.3, 1.0, 3.0)  # lengths of a row
FIRST = 4  # dangerous rows by which sets are split, and twice as many where that is not enough
FAMILIES = 4000  # of sets, at most
MANY = 200  # rows, of which but a few are bounded by the ball


class _Family:
    """The sets of at most k free rows, around params without the rows that were dropped."""

    def __init__(self, problem: Regression, fit: Any, dropped: list, free: np.ndarray, k: int):
        model = problem.model
        fold = Folds([dropped]) if dropped else WHOLE
        params = exact(fit, fold).params if dropped else fit.params[None]
        self.point = point = problem.inward(params)[0][0]
        weights = model.sample_weight.copy()
        weights[dropped] = 0.0
        self.used = used = np.flatnonzero(weights)
        self.problem, self.dropped = problem, dropped
        self.z, self.weights, self.y = problem.z[used], weights[used], model.y[used]
        n, dim = self.z.shape
        self.pairs = np.triu_indices(dim)
        self.few = 4.0 * gamma(4 * dim)
        self.all = 4.0 * gamma(n) + 8.0 * self.few
        matrix, terms, error = problem.hessian(point, fold)
        try:
            self.b = np.linalg.inv(np.linalg.cholesky(matrix))
        except np.linalg.LinAlgError:
            raise NotCertified("the Hessian is not positive: use a penalty") from None
        bound = norms(np.abs(self.b) @ np.sqrt(np.maximum(terms, np.diag(matrix)))) ** 2
        off = norms((self.b @ matrix @ self.b.T - np.eye(dim)).ravel())
        self.off = UP * (off + (error + self.few) * bound)
        self.u = self.z @ self.b.T
        self.sizes = UP * norms(np.abs(self.z) @ np.abs(self.b.T))
        self.lengths = UP * (norms(self.u) + self.few * self.sizes)
        self.eta = self.z @ point
        self.doubt = gamma(dim) * (np.abs(self.z) @ np.abs(point))
        self.slopes, gradient, noise = self.near(np.zeros(dim))
        self.noise = UP * (norms(gradient) + noise)
        bent = self.slopes.curvature * self.lengths**2
        self.boxed = bent > max(8.0 * bent.mean(), 0.1) if n >= MANY else bent >= 0.0
        self.danger = self.slopes.slope**2 * self.lengths**2 / np.maximum(1.0 - bent, 0.05)
        self.every, self.free = free, free[used]
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
        gradient = slopes.slope @ self.u + self.b @ (ridge * (self.point + delta @ self.b))
        pull = ridge * (np.abs(self.point) + np.abs(delta) @ np.abs(self.b))
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

    def excludes(self, c: np.ndarray, level: float) -> bool:
        """Whether no path has c'delta = level, for delta in coordinates u (step 6)."""
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
        noise += self.few * norms(gradient)
        for _ in range(1 + CLOSER):
            terms = Terms(self, slopes, boxes, left, rows)

            def above(z, own, terms=terms):
                """Above z'(a point of the slice - delta), rows own out of the set and in it."""
                v = np.linalg.solve(hessian, z.T).T
                long = UP * norms(v)
                lost = (norms(v @ hessian - z) + doubt * long) * left
                lost += long * noise + self.few * norms(z) * norms(delta)
                return UP * (terms.bounds(v, own)[:, 1] + lost) - v @ gradient

            if above(c[None], [0]).max() < 0.0:
                return True
            # rows that count in the sum, in the set, along what has the same product there
            along = self.u @ np.linalg.solve(hessian, c)
            up = along > 0.0
            values = self.free * np.abs(along) * np.where(up, *terms.tops)
            own = np.argsort(-values)[: 2 * self.k + 20]
            z = np.where(up[own], 1.0, -1.0)[:, None] * rows[own]
            aside = np.outer(lengths[own], c / np.sqrt(square))
            best = np.min([above(z + share * aside, own)[1] for share in ASIDE], axis=0)
            place = 2 + up[own], own
            boxes[place] = np.clip(best + slack[own], 0.0, boxes[place])
        return False

    def bound(self, c: np.ndarray, least: float) -> float:
        """Above c'delta of all paths, not much above `least` if this can be proved."""
        c = self.b @ c
        high = float(UP * norms(c) * self.radius)
        low = min(max(least, 1e-6 * high), high)
        while high - low > 4e-4 * low:
            middle = np.sqrt(low * high)
            low, high = (low, middle) if self.excludes(c, middle) else (middle, high)
        return float(UP * high)

    def split(self, fit: Any, count: int) -> list:
        """The sets without the most dangerous free rows, and those with each first one (step 7)."""
        rows = self.used[np.argsort(np.where(self.free, -self.danger, 1.0))]
        kept = copy.copy(self)
        kept.every = self.every.copy()
        found = [kept]
        for row in rows[: min(count, int(self.free.sum()))].tolist():
            kept.every[row] = False
            dropped = [*self.dropped, row]
            found.append(_Family(self.problem, fit, dropped, kept.every.copy(), self.k - 1))
        kept.free = kept.every[self.used]
        kept.k = min(self.k, int(kept.free.sum()))
        return found


def proved(
    fit: Any, slope: np.ndarray, k: int, least: float
) -> tuple[float, np.ndarray | None, float]:
    """(above what dropping any k rows adds to slope'params, or inf; a set that adds more, what).

    slope (D,); least: what some set is found to add, which the bound is close to if it can be. A
    family of sets of which nothing is proved is split. The set is None where none was found.
    Raises NotCertified for other models than logistic and Poisson regressions.
    """
    problem = regression(fit)
    columns = problem.model.columns
    c = columns.standard_gradient(slope)
    doubts = np.abs(columns.outward(np.eye(len(c)))) @ np.abs(slope)
    doubts = 4.0 * gamma(4 * len(c)) * (doubts + np.abs(c))
    start, slack = problem.inward(fit.params[None])
    best: np.ndarray | None = None
    most, effect = max(least, 0.0), least
    with np.errstate(all="ignore"):
        length = float(problem.whole.dual(c[None])[0])
        slack = float(np.max(slack)) * length + np.abs(start[0]) @ doubts
        families = [(_Family(problem, fit, [], problem.model.observed.copy(), k), FIRST)]
        for _ in range(FAMILIES):
            family, count = families.pop()
            family.settle()
            if family.k <= 1:
                drops = [[*family.dropped, row] for row in np.flatnonzero(family.every).tolist()]
                drops += [family.dropped] if family.dropped else []
                result = exact(fit, Folds(drops))
                certificate = certify(result, complete=True, sharp=not family.dropped)
                points = problem.inward(certificate.result.params)[0]
                ends = (points - start) @ c
                if ends.max() > effect:
                    best, effect = np.array(drops[np.argmax(ends)]), float(ends.max())
                ends += np.abs(points) @ doubts + certificate.theta_errors * length
                most = max(most, UP * (float(ends.max()) + slack))
            elif np.isfinite(family.radius):
                ahead = c @ (family.point - start[0]) + slack
                ahead += (norms(family.b.T) * family.radius + np.abs(family.point)) @ doubts
                ahead += family.few * norms(np.abs(family.b) @ np.abs(c)) * family.radius
                most = max(most, UP * (ahead + family.bound(c, max(most - ahead, 0.0))))
            else:
                families += [(each, 2 * count) for each in family.split(fit, count)]
            if not families:
                return most, best, effect
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
