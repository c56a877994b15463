"""Generalised linear models with an L2 penalty.

    eta_n = offset_n + b + x_n beta
    lambda(w) = penalty + site_penalty sum_n w_n s_n
    F(theta, w) = sum_n w_n s_n loss(eta_n, y_n) + lambda(w) |beta|^2 / 2

The objective is linear in w, so the jackknife is one frozen Newton step without rescaling.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import autograd.numpy as anp
import numpy as np
from scipy.sparse import issparse

from ...folds import Folds
from ...protocol import ModelDefaults, own_copy
from .derivatives import GLMDerivatives
from .families import FAMILIES, Family, family_of
from .separation import Columns, NoFiniteOptimum, check_folds, separating_direction

EXTREME = 15.0  # |eta| up to which no response is fitted to better than 3e-7: nothing is separated


@dataclass(frozen=True, eq=False)
class GLM(ModelDefaults):
    """A GLM's MAP in D = p + intercept coordinates [b, beta], b unpenalised.

    Parameters
    ----------
    X, y: (n, p) covariates and (n,) responses; both are copied.
    family: "gaussian" (unit variance), "logistic", "poisson", "probit", or a `Family`.
    penalty: the ridge lambda of the sum of losses.
    site_penalty: one that comes with each unit of weight: for a penalised *mean* of losses.
    offset: (n,) or one number, added to eta.
    sample_weight: s >= 0, (n,) or one number; a site of sample weight 0 is missing, in no fold.

    Raises
    ------
    TypeError: X is sparse.
    ValueError: shapes, NaN, responses outside the family's range, one class only, or collinear
        columns without a penalty.
    """

    X: np.ndarray = field(repr=False)
    y: np.ndarray = field(repr=False)
    family: Family | str = "logistic"
    penalty: float = 0.0
    site_penalty: float = 0.0
    intercept: bool = True
    offset: Any = field(default=0.0, repr=False)
    sample_weight: Any = field(default=1.0, repr=False)
    design: np.ndarray = field(init=False, repr=False)  # (n, D): ones for an intercept, then X
    _columns: Columns = field(init=False, repr=False)  # without a penalty
    convex = True  # every family's loss is convex in eta

    def __post_init__(self):
        if issparse(self.X):
            raise TypeError("X is sparse: GLM forms dense Hessians; pass X.toarray()")
        shape = np.shape(self.X)
        length = np.shape(self.y)
        if len(shape) != 2 or length != shape[:1]:
            raise ValueError(f"X {shape} must be 2-d and y {length} have one entry for each row")
        head = int(self.intercept)
        ones = np.ones((*length, head))
        design = np.column_stack([ones, np.asarray(self.X, float)])
        design.setflags(write=False)
        object.__setattr__(self, "design", design)
        object.__setattr__(self, "X", design[:, head:])
        object.__setattr__(self, "family", family_of(self.family))
        for name in ("y", "offset", "sample_weight"):
            column = np.broadcast_to(getattr(self, name), length)
            object.__setattr__(self, name, own_copy(column))
        self._check_values()
        self._check_identified()

    def _check_values(self):
        for name in ("X", "offset", "sample_weight", "penalty", "site_penalty"):
            if not np.isfinite(getattr(self, name)).all():
                raise ValueError(f"{name} holds NaN or infinity")
        if min(self.penalty, self.site_penalty, self.sample_weight.min(initial=0.0)) < 0:
            raise ValueError("penalty, site_penalty and sample_weight must be >= 0")
        bad = self.y[~self.family.accepts(self.y)]
        if bad.size:
            rule = f"y of the {self.family.name} family must be {self.family.response}"
            raise ValueError(f"{rule}; found {bad[:3]}")

    def _check_identified(self):
        y = self.y[self.observed]
        if not len(y):
            raise ValueError("no site has a positive sample_weight: nothing to fit")
        free = self.family.free_direction(y)
        if self.intercept and abs(free.sum()) == len(y):
            raise NoFiniteOptimum(f"every y is {y[0]:g}: the intercept has no finite optimum")
        if not self._is_penalised:
            object.__setattr__(self, "_columns", Columns(self.design[self.observed]))

    @property
    def _is_penalised(self):
        return self.penalty > 0.0 or self.site_penalty > 0.0

    @property
    def n_sites(self) -> int:
        """How many rows X has."""
        return len(self.y)

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
        """The penalty lambda that goes with a total weight."""
        return self.penalty + self.site_penalty * total

    @property
    def derivatives(self) -> GLMDerivatives:
        """Closed forms; tested against autograd of `objective`."""
        return GLMDerivatives(self)

    def objective(self, params: np.ndarray, weights: np.ndarray) -> float:
        """F(params, weights), weights >= 0."""
        weights = weights * self.sample_weight
        eta = anp.dot(self.design, params) + self.offset
        losses = anp.sum(weights * self.family.loss(eta, self.y))
        ridge = self.ridge(anp.sum(weights))
        return losses + 0.5 * ridge * anp.sum(self.penalised * params**2)

    def heldout_loss(self, params: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """-log p(y_n | x_n; params) for each n of the fold, without sample weights."""
        eta = self.design[fold] @ params + self.offset[fold]
        return self.family.loss(eta, self.y[fold])

    def predict(self, params: np.ndarray, X: np.ndarray, offset: float = 0.0) -> np.ndarray:
        """E[y | x; params] for each row of X (n, p)."""
        eta = X @ params[int(self.intercept) :] + offset
        if self.intercept:
            eta = eta + params[0]
        return self.family.mean(eta)

    def initial_params(self, rng: np.random.Generator | None = None) -> np.ndarray:
        """Zeros, and the intercept that fits the mean; F is convex, so `rng` is not used."""
        start = np.zeros(self.design.shape[1])
        if self.intercept:
            start[0] = self.family.link(np.average(self.y, weights=self.sample_weight))
        return start

    def check_optimum(self, params: np.ndarray) -> None:
        """Raise NoFiniteOptimum where params (D,) run to infinity: separable data, no penalty."""
        if self._is_penalised:
            return
        furthest = abs(self.design @ params).max()
        if furthest <= EXTREME:
            return
        free = self.family.free_direction(self.y[self.observed])
        if separating_direction(self.design[self.observed], free) is not None:
            raise NoFiniteOptimum(
                f"the {self.family.name} likelihood has no finite maximum: a linear combination of "
                f"the columns separates the responses (fitted |eta| up to {furthest:.3g}). "
                "Pass penalty > 0"
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
