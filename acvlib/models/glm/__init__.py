"""Generalised linear models with an L2 penalty.

    eta_n = offset_n + b + x_n beta
    lambda(w) = penalty + site_penalty sum_n w_n s_n
    F(theta, w) = sum_n w_n s_n loss(eta_n, y_n) + lambda(w) |beta|^2 / 2

The objective is linear in w, so the jackknife is one frozen Newton step without rescaling.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...checks import real_number
from ...folds import Folds
from ...model import checked, number_or_array, own_copy
from ...trials import NoFiniteOptimum
from ...weighting import site_weights
from .balance import Balance
from .families import Family, family_of
from .likelihoods import Single
from .regression import Regression, column, with_intercept
from .separation import Columns, check_folds


@dataclass(frozen=True, eq=False, repr=False)
class GLM(Regression):
    """A GLM's MAP in D = p + intercept coordinates [b, beta], b unpenalised.

    Parameters
    ----------
    X, y: (n, p) covariates and (n,) responses; both are copied.
    family: "gaussian" (unit variance), "logistic", "poisson", "poisson rate" (counts over an
        exposure, which is the sample weight), "gamma", "probit", or a `Family` such as `tweedie`.
    penalty: the ridge lambda of the sum of losses; one number, or one a column of X (p,).
    site_penalty: one that comes with each unit of weight: for a penalised *mean* of losses.
    offset: (n,) or one number, added to eta.
    sample_weight: s >= 0, (n,) or one number; a site of sample weight 0 is missing, in no fold.

    Raises
    ------
    TypeError: X is sparse.
    ValueError: shapes, NaN, what is no real number, responses outside the family's range, one class
        only, an offset too large for exp, or collinear columns without a penalty.
    """

    X: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    family: Family | str = "logistic"
    penalty: Any = 0.0
    site_penalty: float = 0.0
    intercept: bool = True
    offset: Any = field(default=0.0, repr=False)
    sample_weight: Any = field(default=1.0, repr=False)
    design: np.ndarray = field(init=False, repr=False)  # (n, D): ones for an intercept, then X
    _columns: Columns = field(init=False, repr=False)  # without a penalty

    def __post_init__(self):
        design = with_intercept(self.X, self.intercept)
        X = design[:, int(self.intercept) :]
        y = own_copy(self.y, name="y")
        if y.shape != X.shape[:1]:
            raise ValueError(f"X {X.shape} must be 2-d and y {y.shape} have one entry for each row")
        self._set(
            X=X,
            y=y,
            family=family_of(self.family),
            penalty=number_or_array("penalty", self.penalty, X.shape[1], "column", least=0.0),
            site_penalty=real_number("site_penalty", self.site_penalty, least=0.0),
            offset=column("offset", self.offset, len(y)),
            sample_weight=site_weights(self.sample_weight, len(y)),
            design=design,
        )
        self._set(
            is_penalised=np.min(self.penalty) > 0.0 or self.site_penalty > 0.0,
            prior=np.append(np.zeros(int(self.intercept)), np.full(X.shape[1], self.penalty)),
            pull=self.site_penalty * self.penalised,
            likelihood=Single(family_of(self.family)),
            balance=Balance(np.zeros(len(y), int), self.sample_weight),
        )
        self._check_values()
        self._check_columns()
        self._check_start()

    def _check_values(self):
        bad = self.y[~self.family.accepts(self.y)]
        if bad.size:
            rule = f"y of the {self.family.name} family must be {self.family.response}"
            raise ValueError(f"{rule}; found {bad[:3]}")
        y = self.y[self.observed]
        free = self.family.free_direction(y)
        if self.intercept and abs(free.sum()) == len(y):
            raise NoFiniteOptimum(f"every y is {y[0]:g}: the intercept has no finite optimum")

    def _check_start(self):
        """The offset alone may be too much for exp."""
        eta = self.design @ self.initial_params() + self.offset
        with np.errstate(all="ignore"):
            values = self.family.loss(eta, self.y) + self.family.slope(eta, self.y)
            finite = np.isfinite(values + self.family.curvature(eta, self.y))
        if not finite.all():
            row = np.argmin(finite)
            where = f"at eta = {eta[row]:.3g} of row {row}, where a fit starts (offset included)"
            raise ValueError(f"the {self.family.name} loss is not finite {where}: rescale")

    def own_means(self, params: np.ndarray, sites: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """E[y | x] of sites (n,), the first sizes[0] at params[0] (D,) and so on."""
        return self.family.mean(self.own_scores(params, sites, sizes)[0])

    @checked
    def predict(self, params: np.ndarray, X: np.ndarray, offset: Any = 0.0) -> np.ndarray:
        """E[y | x; params] for each row of X (n, p)."""
        eta = self._scores_of(params, X)[0]
        return self.family.mean(eta + column("offset", offset, len(eta)))

    def check_folds(self, folds: Folds) -> None:
        """Raise for a fold that leaves nothing to fit some parameter by.

        NoFiniteOptimum where it leaves one class, and there is an intercept; LinAlgError where it
        holds the only rows that tell collinear columns apart, and there is no penalty.
        """
        if self.intercept:
            check_folds(self.family.free_direction(self.y), self.observed, folds)
        if not self.is_penalised:
            self._columns.check_folds(self.design, folds)
