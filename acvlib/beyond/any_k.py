"""The most that dropping any k rows of a regression can add to c'theta: a proof over all sets.

A region that no path to a refit leaves (`barrier`) bounds c'theta, and slices of it bound it
closely. Sets of which nothing is proved are split.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ..fit import fit as fit_model
from ..folds import leave_one_out
from ..methods.exact import exact
from ..methods.ladder import newton_step
from ..models import GLM
from .barrier import Barrier
from .certify import PROVED, certify
from .certify.verified import UP, NotCertified

FIRST = 4  # dangerous rows by which sets are split, and twice as many where that is not enough
FAMILIES = 4000  # of sets, at most


class Conclusion(Barrier):
    """What the sets of at most k of some rows add to slope'params of a fit."""

    def __init__(self, fit: Any, slope: np.ndarray, rows: np.ndarray, k: int):
        super().__init__(fit, rows, k)
        columns, whole = fit.model.columns, self.problem.whole
        self.slope, self.c = slope, columns.standard_gradient(slope)
        self.blur = 2.0 * self.tiny * (np.abs(slope) @ np.abs(columns.inverse) @ whole.units)
        self.length = whole.dual(self.c[None])[0] + self.blur

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
        high = low if self.excludes(self.c, low) else high
        while high - low > 4e-4 * low:
            middle = np.sqrt(low * high)
            low, high = (low, middle) if self.excludes(self.c, middle) else (middle, high)
        return float(UP * (ahead + high))

    def singles(self, start: np.ndarray, most: float) -> tuple:
        """(above slope'(params - start) without one row more, or `most`; a row; what it does)."""
        folds = leave_one_out(len(self.free), self.free)
        steps = certify(newton_step(self.fit, folds))
        tops = self.above(start, steps.result.params, steps.theta_errors)
        doubtful = np.flatnonzero(~(tops <= most))
        if not doubtful.size:
            return most, None, -np.inf
        refits = certify(exact(self.fit, folds[doubtful]), complete=True, sharp=True)
        ends = (refits.result.params - start) @ self.slope
        tops = self.above(start, refits.result.params, refits.theta_errors)
        return max(most, tops.max()), folds[doubtful[np.argmax(ends)]], ends.max()

    def split(self, count: int) -> list:
        """The sets without the most dangerous rows, and those with each first one (step 7)."""
        rows, weights = self.free.copy(), self.fit.model.sample_weight
        bent = np.minimum(self.start.curvature * self.lengths**2, 0.95)
        danger = rows * (self.start.slope * self.lengths) ** 2 / (1.0 - bent)
        families = []
        for row in np.argsort(-danger)[: min(count, rows.sum())]:
            rows[row] = False
            others = replace(self.fit.model, sample_weight=weights * (np.arange(len(rows)) != row))
            without = fit_model(others, self.fit.params)
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
