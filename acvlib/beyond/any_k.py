"""The most that dropping any k rows of a regression can add to c'theta: a proof over all sets.

While the rows of S fade, t = 0 to 1, the optimum moves from params by delta on a path with

    grad F(params + delta) = t sum_S slope_n(eta_n + z_n'delta) z_n,   slope_n = loss_n'.

A region that the equation maps into its inside is left by no path, and within it none reaches a
c'delta at which the equation has no solution. Sets of which nothing is proved are split. Chapter
"Which data decide a conclusion?" has the proof, by steps, in u = B z, in which the Hessian is I.
"""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from ..fit import fit as fit_model
from ..folds import leave_one_out
from ..methods.exact import exact
from ..methods.ladder import newton_step
from ..models import GLM
from ..parallel import pieces
from ..trials import FAILURES
from .certify import PROVED, certify
from .certify.problems import Regression
from .certify.verified import SIDES, UP, NotCertified, gamma, highest, norms

ROUNDS = 10  # maps of a region
AT_ONCE = 2**17  # products of rows in memory together
FIRST = 4  # dangerous rows by which sets are split, and twice as many where that is not enough
FAMILIES = 4000  # of sets, at most


class Terms:
    """What bounds v'(path - point), for points of a region around params + B'delta and any v."""

    def __init__(self, paths: Any, delta: np.ndarray, boxes: np.ndarray, radius: float):
        """The slopes there and their sum, with rounding (step 1); then ranges (steps 2 and 3)."""
        model, problem, tiny = paths.fit.model, paths.problem, paths.tiny
        weights, sizes, length = model.sample_weight, paths.sizes, norms(delta)
        eta = paths.eta + paths.u @ delta
        mean = model.family.mean(eta)
        self.slope = weights * (mean - model.y)
        self.curvature = weights * model.family.curvature(eta, model.y)
        pull = problem.ridge * (problem.at + delta @ paths.b)
        self.gradient = self.slope @ paths.u + paths.b @ pull
        (low, high), far = boxes, boxes.max(axis=0)
        slip = 2.0 * tiny * weights * (mean + model.y) * (paths.scores + length * sizes)
        slip *= (1.0 + far) * np.exp(far)
        self.slips = slip  # of the slope of each row, and above that of its curvature
        pull = problem.ridge * (np.abs(problem.at) + length * paths.units)
        self.noise = UP * (slip @ sizes + tiny * (pull @ paths.units))
        # third derivatives, within half of the middle, and what chords lack of the curvature
        middle = self.curvature * (0.5 - mean if problem.choices else 0.5)
        fourth = weights / 8.0 if problem.choices else np.inf
        fourth = np.minimum(self.curvature * (3.0 + np.exp(far)) / 4.0, fourth)
        half = far * fourth / 6.0 + slip
        self.lost = np.maximum(low * (half + middle), high * (half - middle))
        self.forms = np.array([half - middle, half + middle])
        # above -D(a) and D(a) = slope(eta + a) - slope(eta) - curvature a, and more in a set
        moves = np.array([-low, high, np.clip(-2.0 * eta, -low, high), 0.0 * low])
        rests = weights * (model.family.mean(eta + moves) - mean) - self.curvature * moves
        self.rests = np.array([-rests.min(axis=0), rests.max(axis=0)]) + slip
        ends = self.curvature * boxes[::-1] - SIDES * self.slope + slip
        self.apart = paths.free * np.maximum(ends - self.rests, 0.0)
        self.together = paths.free * np.maximum(ends + self.rests[::-1], 0.0)
        doubts = sizes @ (self.apart + self.together + self.rests).max(axis=0)
        doubts += radius**2 * (sizes**3 @ self.forms.max(axis=0))
        self.doubt = tiny * doubts + paths.off * radius + self.noise


class Conclusion:
    """What the sets of at most k of some rows add to slope'params of a fit, the others being kept.

    boxes (2, n): how far scores fall and rise on paths; radius: of delta; inf: nothing is proved.
    """

    def __init__(self, fit: Any, slope: np.ndarray, rows: np.ndarray, k: int):
        self.fit, self.free, self.k = fit, rows, min(k, int(rows.sum()))
        self.problem = problem = Regression(fit)
        (n, dim), whole, columns = problem.z.shape, problem.whole, fit.model.columns
        self.tiny = 8.0 * gamma(n + 4 * dim)
        self.sizes, self.units = problem.bent, whole.units
        self.b = whole.white
        self.off = whole.doubt
        self.u = problem.z @ self.b.T
        self.lengths = UP * (norms(self.u) + self.tiny * self.sizes)
        self.eta = problem.z @ problem.at
        self.scores = 2.0 + np.abs(problem.z) @ np.abs(problem.at)
        self.boxes, self.radius = np.full((2, n), np.inf), np.inf
        self.start = Terms(self, np.zeros(dim), np.zeros((2, n)), 0.0)
        self.noise = UP * (norms(self.start.gradient) + self.start.noise)
        standard = columns.standard_gradient(slope)
        self.slope, self.c = slope, self.b @ standard
        inverse = np.abs(columns.standard_gradient(np.eye(dim)))
        self.blur = 2.0 * self.tiny * (np.abs(slope) @ inverse @ whole.units)
        self.length = whole.dual(standard[None])[0] + self.blur

    def largest(self, values: np.ndarray) -> np.ndarray:
        """The sum of the k largest values of each row."""
        least = values.shape[-1] - self.k
        return np.partition(values, least)[..., least:].sum(axis=-1)

    def settle(self) -> None:
        """Look for boxes (2, n) and a radius that no path of two rows or more leaves (step 5)."""
        region = np.zeros(2 * len(self.u) + 1)
        slack = np.append(np.tile(2e-3 * self.lengths, 2), 4e-3) + 1e-12
        for _ in range(ROUNDS if self.k > 1 else 0):
            image = self._map(region[:-1].reshape(2, -1), region[-1])
            if self.radius < np.inf or (image < region).all():
                region = np.minimum(image, region)
                self.boxes, self.radius = region[:-1].reshape(2, -1), region[-1]
            else:
                region = region + 1.3 * np.maximum(image - region, 0.0) + slack * image[-1]

    def _map(self, boxes, radius):
        """What the equation says of the points of a region: boxes, then a radius (steps 2 to 4)."""
        terms = Terms(self, np.zeros(len(self.b)), boxes, radius)
        moves = np.empty_like(boxes)
        for rows in pieces(len(self.u), 1 + AT_ONCE // len(self.u)):
            up = np.maximum(SIDES[..., None] * (self.u[rows] @ self.u.T), 0.0)
            most = self.largest(up * terms.apart[0] + up[::-1] * terms.apart[1])
            moves[:, rows] = up @ terms.rests[0] + up[::-1] @ terms.rests[1] + most
        noise = self.noise + terms.noise
        slack = self.lengths * (terms.doubt + noise) + self.tiny * radius * self.sizes
        moves = UP * (moves + slack)
        chords = np.maximum(terms.curvature - terms.lost, 0.0)
        gains = moves * SIDES * terms.slope + chords * moves**2
        gain = UP * self.largest(self.free * np.maximum(gains.max(axis=0), 0.0))
        share = 1.0 - highest((self.u.T * (terms.curvature - chords)) @ self.u) - self.off
        share -= (2.0 * terms.slips + self.tiny * terms.curvature) @ self.sizes**2
        root = np.sqrt(noise**2 + 4.0 * share * gain)
        radius = UP * (noise + root) / (2.0 * share) if share > 0.0 else np.inf
        return np.append(np.minimum(moves, self.lengths * radius), radius)

    def excludes(self, level: float) -> bool:
        """Whether no path has c'delta = level > 0 (step 6)."""
        c, square = self.c, self.c @ self.c
        delta = level / square * c
        left = UP * np.sqrt(max(self.radius**2 * UP - level**2 / square / UP, 0.0))
        rows = self.u - np.outer(self.u @ c, c / square)
        slack = self.tiny * self.sizes * (norms(delta) + self.radius)
        boxes = self.boxes - SIDES * (self.u @ delta) + slack
        terms = Terms(self, delta, np.clip(boxes, 0.0, UP * norms(rows) * left + slack), left)
        change = terms.curvature - self.start.curvature
        hessian = (self.u.T * change) @ self.u + np.eye(len(c))
        doubt = self.tiny * np.abs(change) + terms.slips + self.start.slips
        doubt = doubt @ self.sizes**2 + self.tiny + self.off
        v = np.linalg.solve(hessian, c)
        long = UP * norms(v)
        lost = (norms(hessian @ v - c) + doubt * long) * left + self.tiny * norms(c) * norms(delta)
        lost += long * (terms.doubt + self.noise + self.tiny * norms(terms.gradient))
        up, down = np.maximum([self.u @ v, -self.u @ v], 0.0)
        most = self.largest(up * terms.together[0] + down * terms.together[1])
        form = up * terms.forms[0] + down * terms.forms[1]
        most += left**2 * highest((rows.T * form) @ rows)
        return UP * (most + lost) < v @ terms.gradient

    def above(self, start: np.ndarray, params: np.ndarray, errors: np.ndarray) -> np.ndarray:
        """Above slope'(params - start) within so many standard errors of params (n, D)."""
        rounding = self.tiny * ((np.abs(params) + np.abs(start)) @ np.abs(self.slope))
        return UP * ((params - start) @ self.slope + rounding + errors * self.length)

    def bound(self, start: np.ndarray, most: float) -> float:
        """Above slope'(params - start) of all sets; `most`, or not far above, if that is proved."""
        params = self.fit.params[None]
        ahead = self.above(start, params, self.problem.inward(params)[1])[0]
        ahead += self.blur * self.radius
        high = self.length * self.radius
        low = min(max(most - ahead, 1e-6 * high), high)
        high = low if self.excludes(low) else high
        while high - low > 4e-4 * low:
            middle = np.sqrt(low * high)
            low, high = (low, middle) if self.excludes(middle) else (middle, high)
        return float(UP * (ahead + high))

    def singles(self, start: np.ndarray, most: float) -> tuple:
        """(above slope'(params - start) without one row more, or `most`; a row; what it does)."""
        folds = leave_one_out(len(self.free), self.free)
        steps = certify(newton_step(self.fit, folds))
        tops = self.above(start, steps.result.params, steps.theta_errors)
        folds = folds[np.flatnonzero(~(tops <= most))]
        if not len(folds):
            return most, None, -np.inf
        refits = certify(exact(self.fit, folds), complete=True, sharp=True)
        ends = (refits.result.params - start) @ self.slope
        tops = self.above(start, refits.result.params, refits.theta_errors)
        return max(most, tops.max()), folds[np.argmax(ends)], ends.max()

    def split(self, count: int) -> list:
        """The sets without the most dangerous rows, and those with each first one (step 7)."""
        rows, weights = self.free.copy(), self.fit.model.sample_weight
        danger = rows * np.abs(self.start.slope) * self.lengths
        families = []
        for row in np.argsort(-danger)[: min(count, rows.sum())]:
            rows[row] = False
            kept = weights * (np.arange(len(rows)) != row)
            without = fit_model(replace(self.fit.model, sample_weight=kept), self.fit.params)
            families.append(Conclusion(without, self.slope, rows.copy(), self.k - 1))
        families.append(Conclusion(self.fit, self.slope, rows, self.k))
        return [(family, 2 * count) for family in families if family.k]


@np.errstate(all="ignore")
def proved(fit: Any, slope: np.ndarray, k: int, least: float) -> tuple[float, Any, float]:
    """(above what dropping any k rows adds to slope'params, or inf; a set that adds more, what).

    slope (D,); least: what some set is found to add, which the bound is close to if it can be. The
    set is None where none was found. Raises NotCertified for models that `check_family` refuses.
    """
    check_family(fit)
    best, most, effect = None, max(least, 0.0), least
    families = [(Conclusion(fit, slope, fit.model.observed, k), FIRST)]
    with suppress(NotCertified, *FAILURES):  # of some set: nothing bounds what it does
        for _ in range(FAMILIES):
            family, count = families.pop()
            family.settle()
            if np.isfinite(family.radius):
                most = max(most, family.bound(fit.params, most))
            else:
                most, row, end = family.singles(fit.params, most)
                if end > effect:
                    dropped = np.flatnonzero(fit.model.observed & ~family.fit.model.observed)
                    best, effect = np.append(dropped, row), end
                families += family.split(count) if family.k > 1 else []
            if not families:
                return float(most), best, float(effect)
    return np.inf, best, effect


def check_family(fit: Any) -> None:
    """Raise NotCertified for a model of whose subsets nothing can be proved."""
    model = fit.model
    if type(model) is not GLM or model.family not in PROVED or model.site_penalty:
        kind = getattr(getattr(model, "family", None), "name", type(model).__name__)
        raise NotCertified(
            f"{kind}: what any k rows can do is proved for logistic and Poisson GLMs without "
            "site_penalty (of gaussian ones see Rubinstein and Hopkins, 2025): leave certify out, "
            "and read `exact`, which bounds it from below"
        )
