"""Generalised linear models with an L2 penalty: y_n independent given eta_n = offset_n + b + x_n beta.

    F(theta, w) = sum_n w_n s_n loss(eta_n, y_n) + [penalty + site_penalty sum_n w_n s_n] |beta|^2 / 2

The objective is linear in w, so one frozen step without rescaling and the infinitesimal jackknife coincide.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import autograd.numpy as np
import numpy as onp
from scipy.sparse import issparse

from .derivatives import GLMFast
from .families import FAMILIES, Family
from .separation import NoFiniteOptimum, separating_direction

COLLINEAR = (
    1e-12  # smallest eigenvalue of the scaled columns' correlations that counts as full rank
)
EXTREME = (
    15.0  # |eta| below which separation needs no search: no response is fitted to better than 3e-7
)


@dataclass(frozen=True)
class GLM:
    """y (n,) given X (n, p); MAP in D = p + intercept coordinates: [b, beta], b unpenalised.

    family: "gaussian" (unit variance), "logistic", "poisson", "probit", or a `Family`; penalty: the ridge
    lambda of the sum of losses; site_penalty: one that comes with each unit of weight, as where a mean of
    losses is penalised; offset (n,); sample_weight s (n,) >= 0: a site of sample weight 0 is missing and in no
    fold. Raises TypeError for sparse X, ValueError for what cannot be fitted: shapes, NaN, responses outside
    the family's range, one class only, collinear columns without a penalty.
    """

    X: onp.ndarray = field(repr=False)
    y: onp.ndarray = field(repr=False)
    family: Family | str = "logistic"
    penalty: float = 0.0
    site_penalty: float = 0.0
    intercept: bool = True
    offset: onp.ndarray = field(default=0.0, repr=False)
    sample_weight: onp.ndarray = field(default=1.0, repr=False)
    convex: ClassVar[bool] = True  # every family's loss is convex in eta

    def __post_init__(self):
        if issparse(self.X):
            raise TypeError(
                "X is sparse: GLM needs a dense array, X.toarray(), as it works with dense Hessians"
            )
        x = onp.asarray(self.X, float)
        if x.ndim != 2 or onp.shape(self.y) != x.shape[:1]:
            raise ValueError(
                f"X {x.shape} must be 2-d and y {onp.shape(self.y)} have one entry for each of its rows"
            )
        for name, value in {
            "X": x,
            "y": onp.asarray(self.y, float),
            "family": _family(self.family),
            "offset": onp.broadcast_to(onp.asarray(self.offset, float), x.shape[:1]),
            "sample_weight": onp.broadcast_to(onp.asarray(self.sample_weight, float), x.shape[:1]),
        }.items():
            object.__setattr__(self, name, value)
        self._check_values()
        self._check_identified()

    def _check_values(self):
        for name in ("X", "offset", "sample_weight", "penalty", "site_penalty"):
            if not _is_finite(getattr(self, name)):
                raise ValueError(f"{name} holds NaN or infinity")
        if min(self.penalty, self.site_penalty, self.sample_weight.min(initial=0.0)) < 0:
            raise ValueError("penalty, site_penalty and sample_weight must be >= 0")
        bad = self.y[~self.family.accepts(self.y)]
        if bad.size:
            raise ValueError(
                f"y of the {self.family.name} family must be {self.family.response}; found {bad[:3]}"
            )

    def _check_identified(self):
        y = self.y[self.observed]
        if not self.observed.sum():
            raise ValueError("no site has a positive sample_weight: nothing to fit")
        if self.intercept and abs(self.family.free_direction(y).sum()) == len(y):
            raise NoFiniteOptimum(f"every y is {y[0]:g}: the intercept has no finite optimum")
        if self.penalty == self.site_penalty == 0.0:
            _check_rank(self.design[self.observed])

    @property
    def n_sites(self):
        return len(self.y)

    @property
    def quadratic(self):
        """Whether the Hessian is the same everywhere."""
        return self.family is FAMILIES["gaussian"]

    @cached_property
    def observed(self):
        """(n,) False where the sample weight is 0."""
        return self.sample_weight > 0

    @cached_property
    def design(self):
        """(n, D): X, behind a column of ones where there is an intercept."""
        return onp.column_stack([onp.ones((self.n_sites, int(self.intercept))), self.X])

    @cached_property
    def penalised(self):
        """(D,): 1 for beta, 0 for the intercept."""
        return onp.concatenate([onp.zeros(int(self.intercept)), onp.ones(self.X.shape[1])])

    @property
    def fast(self):
        """Closed forms; tested against autograd of `objective`."""
        return GLMFast(self)

    def objective(self, params, weights):
        """F(params, weights), weights >= 0."""
        weights = weights * self.sample_weight
        ridge = self.penalty + self.site_penalty * np.sum(weights)
        losses = self.family.loss(np.dot(self.design, params) + self.offset, self.y)
        return np.sum(weights * losses) + 0.5 * ridge * np.sum(self.penalised * params**2)

    def heldout_loss(self, params, fold):
        """-log p(y_n | x_n; params) for each n of the fold, without sample weights."""
        eta = self.design[fold] @ params + self.offset[fold]
        return self.family.loss(eta, self.y[fold])

    def predict(self, params, X, offset=0.0):
        """E[y | x; params] for each row of X."""
        return self.family.mean(
            X @ params[int(self.intercept) :] + self.intercept * params[0] + offset
        )

    def initial_params(self, rng=None):
        """Zeros, and the intercept that fits the mean; `rng` is not used, as the objective is convex."""
        start = onp.zeros(self.design.shape[1])
        if self.intercept:
            start[0] = self.family.link(onp.average(self.y, weights=self.sample_weight))
        return start

    def check_optimum(self, params):
        """Raises NoFiniteOptimum where params (D,) are on their way to infinity: separable data, no penalty."""
        if self.penalty > 0.0 or self.site_penalty > 0.0:
            return
        eta = self.design @ params
        if abs(eta).max() > EXTREME and not self._is_attained():
            raise NoFiniteOptimum(
                f"the {self.family.name} likelihood has no finite maximum: a linear combination of the columns "
                f"separates the responses (fitted |eta| up to {abs(eta).max():.3g}). Pass penalty > 0"
            )

    def _is_attained(self):
        kept = self.observed
        return (
            separating_direction(self.design[kept], self.family.free_direction(self.y[kept]))
            is None
        )


def _is_finite(values):
    with onp.errstate(over="ignore", invalid="ignore"):  # a finite sum settles it in half the time
        return onp.isfinite(onp.sum(values)) or onp.isfinite(values).all()


def _family(family):
    if isinstance(family, Family):
        return family
    if family not in FAMILIES:
        raise ValueError(f"unknown family {family!r}: one of {', '.join(FAMILIES)}, or a Family")
    return FAMILIES[family]


def _check_rank(design):
    """Raises ValueError where some columns are combinations of others, naming the most nearly dependent one."""
    scaled = design / onp.maximum(onp.linalg.norm(design, axis=0), onp.finfo(float).tiny)
    values, vectors = onp.linalg.eigh(scaled.T @ scaled)
    if len(values) and values[0] <= COLLINEAR * values[-1]:
        worst = onp.argmax(abs(vectors[:, 0]))
        raise ValueError(
            f"the {design.shape[1]} columns (intercept first, if any) of {len(design)} observed rows are collinear, "
            f"column {worst} among them: drop it, or pass penalty > 0"
        )
