"""Generalised linear models with an L2 penalty.

    eta_n = offset_n + b + x_n beta
    lambda(w) = penalty + site_penalty sum_n w_n s_n
    F(theta, w) = sum_n w_n s_n loss(eta_n, y_n) + sum_j lambda_j(w) beta_j^2 / 2

The objective is linear in w, so the jackknife is one frozen Newton step without rescaling.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import autograd.numpy as anp
import numpy as np

from ...checks import real_array, real_number
from ...folds import Folds
from ...folds import weights as fold_weights
from ...parallel import pieces
from ...protocol import ModelDefaults, checked, own_copy
from .derivatives import GLMDerivatives
from .design import column, sample_weights, with_intercept
from .families import FAMILIES, Family, family_of
from .separation import Columns, NoFiniteOptimum, check_folds, separating_direction
from .sums import by_rows, row_sums

EXTREME = 15.0  # |eta| up to which no response is fitted to better than 3e-7: nothing is separated


@dataclass(frozen=True, eq=False)
class GLM(ModelDefaults):
    """A GLM's MAP in D = p + intercept coordinates [b, beta], b unpenalised.

    Parameters
    ----------
    X, y: (n, p) covariates and (n,) responses; both are copied.
    family: "gaussian" (unit variance), "logistic", "poisson", "poisson rate" (counts over an
        exposure, which is the sample weight), "gamma", "probit", or a `Family` such as `tweedie`.
    penalty: the ridge lambda of the sum of losses: one number, or one a column (p,).
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
    convex = True  # every family's loss is convex in eta

    def __post_init__(self):
        design, head = with_intercept(self.X, self.intercept)
        X = design[:, head:]
        y = own_copy(self.y, name="y")
        if y.shape != X.shape[:1]:
            raise ValueError(f"X {X.shape} must be 2-d and y {y.shape} have one entry for each row")
        checked_fields = {
            "X": X,
            "y": y,
            "family": family_of(self.family),
            "penalty": _penalty(self.penalty, X.shape[1]),
            "site_penalty": real_number("site_penalty", self.site_penalty, least=0.0),
            "offset": column("offset", self.offset, len(y)),
            "sample_weight": sample_weights(self.sample_weight, len(y)),
            "design": design,
        }
        for name, value in checked_fields.items():
            object.__setattr__(self, name, value)
        self._check_values()
        self._check_identified()
        self._check_start()

    def _check_values(self):
        bad = self.y[~self.family.accepts(self.y)]
        if bad.size:
            rule = f"y of the {self.family.name} family must be {self.family.response}"
            raise ValueError(f"{rule}; found {bad[:3]}")

    def _check_identified(self):
        y = self.y[self.observed]
        free = self.family.free_direction(y)
        if self.intercept and abs(free.sum()) == len(y):
            raise NoFiniteOptimum(f"every y is {y[0]:g}: the intercept has no finite optimum")
        if not self._is_penalised:
            object.__setattr__(self, "_columns", Columns(self.design[self.observed]))

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

    @property
    def _is_penalised(self):
        return np.min(self.penalty) > 0.0 or self.site_penalty > 0.0

    @property
    def n_sites(self) -> int:
        """How many rows X has."""
        return len(self.y)

    @property
    def n_params(self) -> int:
        """D."""
        return self.design.shape[1]

    @property
    def quadratic(self) -> bool:
        """Whether the Hessian is the same everywhere."""
        return self.family is FAMILIES["gaussian"]

    @cached_property
    def observed(self) -> np.ndarray:
        """(n,) False where the sample weight is 0."""
        return self.sample_weight > 0

    @cached_property
    def penalised(self) -> np.ndarray:
        """(D,) 1 for beta, 0 for the intercept."""
        return np.repeat([0.0, 1.0], [int(self.intercept), self.X.shape[1]])

    @property
    def pull(self) -> np.ndarray:
        """(D,) the diagonal of the penalty's curvature that comes with each unit of weight."""
        return self.site_penalty * self.penalised

    def ridge(self, total: Any) -> Any:
        """lambda (D,) of a total weight; with a site_penalty, (n, D) of totals (n,)."""
        own = np.append(np.zeros(int(self.intercept)), np.full(self.X.shape[1], self.penalty))
        return own + total[..., None] * self.pull if self.site_penalty else own

    @property
    def derivatives(self) -> GLMDerivatives:
        """Closed forms; tested against autograd of `objective`."""
        return GLMDerivatives(self)

    @checked
    def objective(self, params: np.ndarray, weights: np.ndarray) -> float:
        """F(params, weights), weights >= 0."""
        weights = weights * self.sample_weight
        eta = anp.dot(self.design, params) + self.offset
        losses = anp.sum(weights * self.family.loss(eta, self.y))
        ridge = self.ridge(anp.sum(weights))
        return losses + 0.5 * anp.sum(ridge * params**2)

    @checked
    def heldout_loss(self, params: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """-log p(y_n | x_n; params) for each n of the fold, without sample weights."""
        eta = self.design[fold] @ params + self.offset[fold]
        return self.family.loss(eta, self.y[fold])

    def own_means(self, params: np.ndarray, sites: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """E[y | x] of sites (n,), the first sizes[0] at params[0] (D,) and so on."""
        folds = np.repeat(np.arange(len(params)), sizes)

        def etas(rows):
            return row_sums(self.design[sites[rows]], params[folds[rows]])

        return self.family.mean(by_rows(etas, len(sites)) + self.offset[sites])

    @checked
    def predict(self, params: np.ndarray, X: np.ndarray, offset: Any = 0.0) -> np.ndarray:
        """E[y | x; params] for each row of X (n, p)."""
        X = real_array("X", X, 2)
        if X.shape[1] != self.X.shape[1]:
            raise ValueError(f"X {X.shape} must have {self.X.shape[1]} columns, as the model's X")
        eta = X @ params[int(self.intercept) :] + column("offset", offset, len(X))
        if self.intercept:
            eta = eta + params[0]
        return self.family.mean(eta)

    @checked
    def initial_params(self, rng: np.random.Generator | None = None) -> np.ndarray:
        """Zeros, and the intercept that fits the mean; F is convex, so `rng` is not used."""
        start = np.zeros(self.n_params)
        if self.intercept:
            start[0] = self.family.link(np.average(self.y, weights=self.sample_weight))
        return start

    def check_optimum(self, params: np.ndarray) -> None:
        """Raise NoFiniteOptimum where params (D,) run to infinity: separable data, no penalty."""
        if not self._is_penalised:
            self._check_finite(params, self.observed, "")

    def check_refits(self, params: np.ndarray, folds: Folds) -> None:
        """Raise NoFiniteOptimum for the first fold whose params (n_folds, D) run to infinity."""
        if self._is_penalised:
            return
        furthest = [abs(self.design @ params[rows].T).max(0) for rows in pieces(len(folds), 64)]
        for number in np.flatnonzero(np.concatenate(furthest) > EXTREME):
            kept = self.observed & (fold_weights(self.n_sites, folds[number]) > 0.0)
            self._check_finite(params[number], kept, f"without fold {number} ")

    def _check_finite(self, params, sites, where):
        furthest = abs(self.design[sites] @ params).max()
        free = self.family.free_direction(self.y[sites])
        if furthest > EXTREME and separating_direction(self.design[sites], free) is not None:
            raise NoFiniteOptimum(
                f"{where}the {self.family.name} likelihood has no finite maximum: a linear "
                "combination of the columns separates the responses (fitted |eta| up to "
                f"{furthest:.3g}). Pass penalty > 0"
            )

    def check_folds(self, folds: Folds) -> None:
        """Raise for a fold that leaves nothing to fit some parameter by.

        NoFiniteOptimum where it leaves one class, and there is an intercept; LinAlgError where it
        holds the only rows that tell collinear columns apart, and there is no penalty.
        """
        if self.intercept:
            check_folds(self.family.free_direction(self.y), self.observed, folds)
        if not self._is_penalised:
            self._columns.check_folds(self.design, folds)


def _penalty(values, n_columns):
    """One number >= 0, or one a column."""
    penalty = own_copy(values, name="penalty")
    if penalty.ndim == 0:
        return real_number("penalty", values, least=0.0)
    if penalty.shape != (n_columns,) or not (penalty >= 0.0).all():
        raise ValueError(f"penalty {penalty} must be one number >= 0, or {n_columns}, one a column")
    return penalty
