"""The most that dropping any k rows of a regression can add to c'theta: a proof over all sets.

While the rows of S fade, t = 0 to 1, the optimum moves from params by delta on a path with

    grad F(params + delta) = t sum_S slope_n(eta_n + z_n'delta) z_n,   slope_n = loss_n'.

A region of boxes, for the move of each row's score, and of a ball is mapped to what this equation
says of its points. If that is inside, no path leaves the region. Within it no path reaches
c'delta = t if some multiple of the equation has no solution there. Where nothing is proved of all
sets, they are split: those with some row, refitted without it, and those that keep it.

Coordinates u = B z are those in which the Hessian is almost I. The chapter "Which data decide a
conclusion?" has the proof; the numbers of its steps are given here.
"""

import copy
from typing import Any

import numpy as np
from scipy.special import expit

from ..folds import WHOLE, Folds
from ..methods.exact import exact
from ..models import GLM
from ..parallel import pieces
from .certify.regressions import Regression
from .certify.verified import UNIT, UP, NotCertified, gamma, norms

ROUNDS = 40  # maps of a region, at most
AT_ONCE = 2**21  # numbers in memory together
TINY = 1e-150
SPLITS = 400  # of families of sets, at most


def largest(values: np.ndarray, k: int) -> np.ndarray:
    """The k largest of each row of values (..., n), in no order but that the least comes first."""
    n = values.shape[-1]
    return np.partition(values, n - k)[..., n - k :] if k else values[..., :0]


def highest(matrices: np.ndarray) -> np.ndarray:
    """Bounds (m,) of the largest eigenvalues of symmetric matrices (m, D, D), from 0 up.

    A Cholesky factor proves each. Source: Rump (2006), Theorem 2.3.
    """
    if not np.isfinite(matrices).all():
        return np.full(len(matrices), np.inf)
    sizes = np.abs(matrices).sum(axis=(1, 2)) + TINY
    tops = np.maximum(np.linalg.eigvalsh(matrices)[:, -1], 0.0) + 1e-12 * sizes
    rest = -matrices
    diagonal = np.einsum("mii->mi", rest)
    diagonal += (tops - 4.0 * gamma(matrices.shape[-1]) * (tops + sizes))[:, None]
    try:
        np.linalg.cholesky(rest)
    except np.linalg.LinAlgError:
        return np.full(len(matrices), np.inf)
    return UP * tops


class _Slopes:
    """Slopes of rows' losses around scores eta that are known up to a doubt."""

    def __init__(self, choices: bool, weights: Any, y: Any, eta: Any, doubt: Any):
        self.choices, self.weights, self.y, self.eta, self.doubt = choices, weights, y, eta, doubt
        self.mean = self._mean(eta)
        self.curvature = self.mean * expit(-eta) if choices else self.mean
        self.bend = self.curvature * (1.0 - 2.0 * self.mean) if choices else self.mean
        self.slope = weights * (self.mean - y)

    def _mean(self, eta):
        return expit(eta) if self.choices else np.exp(eta)

    def at(self, moves):
        """Slopes where scores move so far."""
        return self.weights * (self._mean(self.eta + moves) - self.y)

    def slips(self, low, high):
        """Above the rounding of all that is computed here for moves between low <= 0 <= high."""
        sizes = np.maximum(-low, high)
        doubt = 2.0 * self.doubt + 16.0 * UNIT * (1.0 + np.abs(self.eta) + sizes)
        tops = 2.0 * self._mean(self.eta + high) * (2.0 + sizes)
        return self.weights * (tops * doubt + 8.0 * UNIT * self.y)

    def rests(self, low, high):
        """The range of D(a) = slope(eta + a) - slope(eta) - curvature(eta) a, which has 0."""
        turns = np.clip(-2.0 * self.eta, low, high) if self.choices else 0.0 * low
        moves = np.array([low, high, turns])
        rests = self.weights * (self._mean(self.eta + moves) - self.mean - self.curvature * moves)
        slips = self.slips(low, high)
        return np.minimum(rests.min(axis=0), 0.0) - slips, np.maximum(
            rests.max(axis=0), 0.0
        ) + slips

    def quotients(self, low, high):
        """(middle, half width) of the range of D(a) / a^2 = bend / 2 + a / 6 (a third slope)."""
        ends = self._mean(self.eta + np.array([low, high]))
        if self.choices:
            curved = ends * (1.0 - ends)
            inside = (self.eta + low < 0.0) & (self.eta + high > 0.0)
            least, most = curved.min(axis=0), np.where(inside, 0.25, curved.max(axis=0))
            ends = np.array([least - 6.0 * least**2, most - 6.0 * most**2])
            peak = (least < 1.0 / 12.0) & (most > 1.0 / 12.0)
            ends = np.array([ends.min(axis=0), np.where(peak, 1.0 / 24.0, ends.max(axis=0))])
        upper = np.maximum(np.maximum(high * ends[1], low * ends[0]), 0.0) / 6.0
        lower = np.minimum(np.minimum(high * ends[0], low * ends[1]), 0.0) / 6.0
        half = 0.5 * (upper - lower) * self.weights + 4.0 * self.slips(low, high)
        return (0.5 * self.bend + 0.5 * (upper + lower)) * self.weights, half

    def chords(self, low, high):
        """Below [slope(eta + a) - slope(eta)] / a, for all a."""
        below = []
        for ends in (low, high):
            rise = np.abs(self.at(ends) - self.slope) - self.slips(low, high)
            near = self.weights * self.curvature * (1.0 - 0.5 * np.abs(ends) - 4.0 * self.doubt)
            below.append(np.fmax(near * (1.0 - 1e-13), rise / np.abs(ends) / UP))
        return np.maximum(np.minimum(*below), 0.0)


class _Terms:
    """What bounds v'delta, for delta of a region and any v: sums over rows of v'u_n times these."""

    def __init__(self, family, slopes, ends, radius, rows):
        self.family, self.rows, self.radius = family, rows, radius
        low, high, inner_low, inner_high = ends
        self.middle, self.half = slopes.quotients(low, high)
        self.falls, self.rises = slopes.rests(low, high)
        falls, rises = slopes.rests(inner_low, inner_high)
        slope, bent = slopes.slope, slopes.weights * slopes.curvature
        slips = slopes.slips(np.minimum(low, inner_low), np.maximum(high, inner_high))
        inner = np.array([inner_low, inner_high])
        squares = np.max(inner**2, axis=0)
        apart = (
            np.maximum(slope + bent * inner_high, -falls),
            np.maximum(-slope - bent * inner_low, rises),
        )
        together = []
        for sign, rest in ((1.0, -falls), (-1.0, rises)):
            back = sign * self.middle - self.half
            turn = np.clip(-0.5 * sign * bent / np.where(back < 0.0, back, -TINY), *inner)
            places = np.array([*inner, turn])
            peaks = (sign * (slope + bent * places) + back * places**2).max(axis=0)
            together.append(np.maximum(peaks, rest + np.maximum(back, 0.0) * squares))
        slips = slips + 8.0 * UNIT * (np.abs(self.middle) + self.half) * squares
        free = 1.0 * family.free
        self.ways = []
        for boxed in (family.heavy, np.ones(len(free), bool))[: family.ways]:
            tops = [
                free * np.maximum(np.where(boxed, *pair) + slips, 0.0)
                for pair in zip(apart, together, strict=True)
            ]
            self.ways.append((boxed, tops))
        b = family.sizes
        doubts = largest(b * np.max([each for _, tops in self.ways for each in tops], 0), family.k)
        doubts = doubts.sum() + b @ (self.rises - self.falls)
        doubts += radius**2 * (b**3 @ (np.abs(self.middle) + self.half))
        self.doubt = family.all * doubts + family.off * radius + family.noise

    def bounds(self, vectors, own=None):
        """Above v'delta and -v'delta (2, m), and the same where rows `own` are in the set."""
        family = self.family
        products = vectors @ family.u.T
        sizes = np.abs(products)
        found = np.full((2, 2, len(vectors)), np.inf)
        if not family.k:
            found[1] = 0.0
        i, j = family.pairs
        for boxed, tops in self.ways:
            quadratic = not boxed.all()
            if quadratic:
                squares = self.rows[:, i] * self.rows[:, j] * ~boxed[:, None]
                odd, even = (
                    products @ (squares * self.middle[:, None]),
                    sizes @ (squares * self.half[:, None]),
                )
            for sign, up, down, top, bottom in (
                (0, -self.falls, self.rises, *tops),
                (1, self.rises, -self.falls, *tops[::-1]),
            ):
                raises = products > 0.0
                some = np.flatnonzero(boxed)
                rest = (sizes[:, some] * np.where(raises[:, some], up[some], down[some])).sum(1)
                if quadratic:
                    forms = np.empty((len(vectors), *2 * family.u.shape[1:]))
                    forms[:, i, j] = forms[:, j, i] = even - (odd if sign == 0 else -odd)
                    rest = rest + self.radius**2 * highest(forms)
                values = sizes * np.where(raises, top, bottom)
                if own is not None:
                    places = np.arange(len(own)), own
                    mine = values[places]
                    values[places] = 0.0
                best = largest(values, family.k)
                total = best.sum(axis=1)
                found[0, sign] = np.minimum(found[0, sign], total + rest)
                if own is not None and family.k:
                    total = mine + total - best.min(axis=1)
                    found[1, sign] = np.minimum(found[1, sign], total + rest)
        return UP * (found + UP * norms(vectors) * self.doubt)


class _Family:
    """The sets of at most k free rows, around params without the rows that were dropped."""

    def __init__(self, problem: Regression, fit: Any, dropped: list, free: np.ndarray, k: int):
        model = problem.model
        fold = Folds([dropped]) if dropped else WHOLE
        params = exact(fit, fold).params if dropped else fit.params[None]
        points, self.slack = problem.inward(params)
        self.point = point = points[0]
        weights = model.sample_weight.copy()
        weights[dropped] = 0.0
        self.used = used = np.flatnonzero(weights)
        self.problem, self.dropped = problem, dropped
        self.z, self.weights, self.y = problem.z[used], weights[used], model.y[used]
        self.ridge = problem.ridge
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
        self.off = norms((self.b @ matrix @ self.b.T - np.eye(dim)).ravel())
        self.off = UP * (self.off + (error + self.few) * bound)
        self.u = self.z @ self.b.T
        self.sizes = UP * norms(np.abs(self.z) @ np.abs(self.b.T))
        self.lengths = UP * (norms(self.u) + self.few * self.sizes)
        offset = model.offset[used]
        self.eta = self.z @ point + offset
        self.doubt = gamma(dim) * (np.abs(self.z) @ np.abs(point) + np.abs(offset))
        self.slopes, gradient, noise = self.near(np.zeros(dim))
        self.noise = UP * (norms(gradient) + noise)
        bent = self.slopes.weights * self.slopes.curvature * self.lengths**2
        self.heavy = bent > max(8.0 * bent.mean(), 0.1)
        self.ways = 2 if self.heavy.any() or n < 200 else 1
        self.danger = self.slopes.slope**2 * self.lengths**2 / np.maximum(1.0 - bent, 0.05)
        self.choose(free, k)

    def choose(self, free, k):
        """Look at the sets of at most k free rows (n_sites,)."""
        self.every = free
        self.free = free[self.used]
        self.k = min(k, int(self.free.sum()))
        self.boxes, self.radius = self._region()

    def near(self, delta):
        """(slopes, gradient in u, its noise) at params + B'delta."""
        doubt = self.doubt + self.few * (norms(delta) * self.sizes + np.abs(self.eta))
        eta = self.eta + self.u @ delta
        slopes = _Slopes(self.problem.choices, self.weights, self.y, eta, doubt)
        pull = self.ridge * (self.point + delta @ self.b)
        gradient = slopes.slope @ self.u + self.b @ pull
        noise = slopes.slips(0.0 * eta, 0.0 * eta) + self.all * slopes.weights * (
            slopes.mean + self.y
        )
        pull = self.ridge * (np.abs(self.point) + np.abs(delta) @ np.abs(self.b))
        noise = noise @ self.sizes + self.all * norms(np.abs(self.b) @ pull)
        return slopes, gradient, UP * noise

    def _region(self):
        """(boxes (4, n), radius) that no path leaves (step 5); infinite where none is found."""
        boxes = np.zeros((4, len(self.u)))
        radius = 0.0
        lost = np.full_like(boxes, np.inf), np.inf
        first = np.inf
        for turn in range(ROUNDS):
            found, size = self._map(boxes, radius)
            if not (np.isfinite(found).all() and size <= 3.0 * first):
                return lost
            first = size if turn == 0 else first
            if turn and size < radius and (found < boxes).all():
                break
            found = np.maximum(found + 0.3 * np.maximum(found - boxes, 0.0), boxes) * 1.001
            size = max(size + 0.3 * max(size - radius, 0.0), radius) * 1.001
            boxes = found + 2e-3 * self.lengths * size + 1e-12
            radius = 1.002 * size + 1e-12
        else:
            return lost
        for _ in range(3):
            found, size = self._map(boxes, radius)
            boxes, radius = np.minimum(found, boxes), min(size, radius)
        return boxes, radius

    def _map(self, boxes, radius):
        """What the equation says of the points of a region: boxes, and a radius (steps 2 to 4)."""
        ends = boxes * np.array([[-1.0], [1.0], [-1.0], [1.0]])
        terms = _Terms(self, self.slopes, ends, radius, self.u)
        found = np.empty_like(boxes)
        for rows in pieces(len(boxes.T), 1 + AT_ONCE // len(boxes.T)):
            own = np.arange(len(boxes.T))[rows]
            up = terms.bounds(self.u[rows], own)
            found[:, rows] = up[:, ::-1].reshape(4, -1) + self.few * radius * self.sizes[rows]
        found[2:] *= self.free
        if not np.isfinite(found).all():
            return found, np.inf
        caps = np.minimum(boxes if radius else found, self.lengths * (radius or np.inf))
        chords = self.slopes.chords(*ends[:2])
        inner = self.slopes.chords(-caps[2], caps[3])
        most = caps[2:].max(axis=0)
        slope = self.slopes.slope
        gains = slope * caps[3] + chords * caps[3] ** 2, -slope * caps[2] + chords * caps[2] ** 2
        gains = np.maximum(np.maximum(*gains), (chords - inner) * most**2)
        gains += most * self.slopes.slips(-caps[2], caps[3])
        gains = UP * largest(self.free * np.maximum(gains, 0.0), self.k).sum()
        lost = np.maximum(self.slopes.weights * self.slopes.curvature - chords, 0.0)
        share = highest((self.u.T @ (self.u * lost[:, None]))[None])[0] + self.off
        doubt = self.all * lost + 4.0 * self.slopes.slips(0.0 * slope, 0.0 * slope)
        share = (1.0 - share - doubt @ self.sizes**2) / UP
        if share <= 0.0:
            return found, np.inf
        radius = UP * (self.noise + np.sqrt(self.noise**2 + 4.0 * share * gains)) / (2.0 * share)
        return np.minimum(found, self.lengths * radius), radius

    def excludes(self, c, level):
        """Whether no path has c'delta = level, for delta in coordinates u (step 6)."""
        square = c @ c
        delta = level / square * c
        left = self.radius**2 * UP - level**2 / square / UP
        if left < 0.0:
            return True
        slopes, gradient, noise = self.near(delta)
        rows = self.u - np.outer(self.u @ c, c / square)
        wide = np.sqrt(norms(rows) ** 2 + (self.few * self.sizes) ** 2) + self.few * self.sizes
        caps = UP * wide * np.sqrt(left)
        shifts = self.u @ delta * np.array([[1.0], [-1.0], [1.0], [-1.0]])
        slack = self.few * self.sizes * (norms(delta) + self.radius)
        boxes = np.clip(self.boxes + shifts + slack, 0.0, caps + slack)
        ends = boxes * np.array([[-1.0], [1.0], [-1.0], [1.0]])
        terms = _Terms(self, slopes, ends, np.sqrt(left) * UP, rows)
        change = slopes.weights * slopes.curvature - self.slopes.weights * self.slopes.curvature
        hessian = self.u.T @ (self.u * change[:, None]) + np.eye(len(c))
        v = np.linalg.solve(hessian, c)
        doubt = (self.all * np.abs(change)) @ self.sizes**2 + self.off
        doubt += (
            4.0
            * (slopes.slips(*ends[:2] * 0.0) + self.slopes.slips(*ends[:2] * 0.0))
            @ (self.sizes**2)
        )
        length = UP * norms(v)
        bound = (
            terms.bounds(v[None])[0, 0, 0] + length * noise + self.few * length * norms(gradient)
        )
        bound += (norms(hessian @ v - c) + (doubt + self.few) * length) * terms.radius
        return bool(v @ gradient - UP * bound > 0.0)

    def bound(self, c, least):
        """Above c'delta of all paths, not much above `least` if this can be proved."""
        c = self.b @ c
        top = UP * norms(c) * self.radius
        if not np.isfinite(top) or top <= least:
            return top
        low = max(least, 1e-6 * top)
        gap = 2e-4 * low
        while low + gap < top and not self.excludes(c, low + gap):
            low, gap = low + gap, 2.0 * gap
        high = min(low + gap, top)
        for _ in range(5 if high - low > 4e-4 * low else 0):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.excludes(c, middle) else (middle, high)
        return UP * high

    def doubt_of(self, c, doubts, start, slack):
        """How far rounding leaves c'(params - start) + c'delta open."""
        lengths = norms(self.b.T) * self.radius + np.abs(self.point) + np.abs(start[0])
        found = lengths @ (doubts + self.few * np.abs(c))
        return UP * (found + self.few * norms(np.abs(self.b) @ np.abs(c)) * self.radius)

    def split(self, fit):
        """The sets without the most dangerous free row, and those with it, refitted."""
        if not self.k:
            raise NotCertified("a refit has no bound")
        row = self.used[np.argmax(np.where(self.free, self.danger, -1.0))]
        free = self.every.copy()
        free[row] = False
        kept = copy.copy(self)
        kept.choose(free, self.k)
        return [kept, _Family(self.problem, fit, [*self.dropped, row], free, self.k - 1)]


def proved(fit: Any, slope: np.ndarray, k: int, least: float) -> float:
    """Above what dropping any k rows adds to slope'params, or inf; close to `least` if it can be.

    slope (D,); least: what some set is found to add. A family of sets of which nothing is proved is
    split by its most dangerous row (step 7).

    Raises NotCertified for other models than logistic and Poisson regressions.
    """
    problem = regression(fit)
    columns = problem.model.columns
    c = columns.standard_gradient(slope)
    doubts = np.abs(columns.outward(np.eye(len(c)))) @ np.abs(slope)
    doubts *= 4.0 * gamma(2 * len(c))
    start, slack = problem.inward(fit.params[None])
    most = least
    with np.errstate(all="ignore"):
        open_ = [_Family(problem, fit, [], problem.model.observed.copy(), k)]
        for _ in range(SPLITS):
            if not open_:
                return most
            family = open_.pop()
            if not np.isfinite(family.radius):
                open_ += family.split(fit)
                continue
            ahead = c @ (family.point - start[0]) + family.doubt_of(c, doubts, start, slack)
            most = max(most, UP * (ahead + family.bound(c, max(least, most) - ahead)))
    return np.inf


def regression(fit: Any) -> Regression:
    """The problem of a model whose subsets can be bounded. Raises NotCertified for others."""
    model = fit.model
    name = model.family.name if type(model) is GLM else type(model).__name__
    if name in ("logistic", "poisson", "poisson rate") and not model.site_penalty:
        return Regression(fit)
    remedy = "leave certify out, and read `exact`, which bounds it from below"
    if name == "gaussian":
        remedy = "of least squares, bounds are those of Rubinstein and Hopkins (2025); or " + remedy
    kinds = "logistic and Poisson GLMs without site_penalty"
    raise NotCertified(f"{name}: what any k rows can do is proved for {kinds}: {remedy}")
