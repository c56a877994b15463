"""Semi-supervised learning with a manifold term (Zhu and Liu 2021, Eqs. 1, 2 and 6), s labelled points of p:

    F(theta, w) / s = gamma_S sum_i w_i loss(f_i, y_i) / sum_i w_i            over labelled i
                    + gamma_P sum_ij w_i w_j W_ij (f_i - f_j)^2 / (sum_i w_i)^2    over all i, j
                    + gamma_I theta' R theta,       f = Phi theta

With weights 0 and 1 the sums of weights are the paper's s - v and p - v. The factor s makes a distance in the
metric of F one in standard errors for the logistic loss; for the square loss, once divided by the root of twice the
residual variance.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, NamedTuple

import autograd.numpy as np
import numpy as onp
from scipy.special import expit

from .derivatives import SemiSupervisedFast
from .energy import ManifoldEnergy


class Loss(NamedTuple):
    """loss(f, y), and its first two derivatives in f."""

    value: callable
    slope: callable
    curvature: callable
    labels: bool


LOSSES = {
    "square": Loss(
        lambda f, y: (f - y) ** 2, lambda f, y: 2.0 * (f - y), lambda f, y: 2.0 + 0.0 * f, False
    ),
    "logistic": Loss(
        lambda f, y: np.logaddexp(0.0, -y * f),
        lambda f, y: -y * expit(-y * f),
        lambda f, y: expit(f) * expit(-f),
        True,
    ),
    "squared_hinge": Loss(
        lambda f, y: np.maximum(0.0, 1.0 - y * f) ** 2,
        lambda f, y: -2.0 * y * onp.maximum(0.0, 1.0 - y * f),
        lambda f, y: 2.0 * (y * f < 1.0),
        True,
    ),
}


FLAT = 1e-10  # smallest eigenvalue of a Hessian over the largest at 0, below which a direction is undetermined


@dataclass(frozen=True)
class SemiSupervised:
    """LapRLS (loss "square"), LapRLR ("logistic") or LapSVM ("squared_hinge"); D = the columns of Phi.

    energy: Phi and the affinity, shared by models that differ in the rest; y (p,): nan where unlabelled, -1 or +1
    for classification; ridge: R (D, D), the identity if None. A site is a point; only labelled ones may be in a fold.
    Raises ValueError for other labels, fewer than two of them, gammas that are negative or leave nothing to fit.
    """

    energy: ManifoldEnergy = field(repr=False)
    y: onp.ndarray = field(repr=False)
    loss: str = "square"
    gamma_s: float = 1.0
    gamma_p: float = 0.1
    gamma_i: float = 0.1
    ridge: onp.ndarray | None = field(default=None, repr=False)
    convex: ClassVar[bool] = True
    normalised: ClassVar[bool] = (
        True  # a mean, not a sum: leaving points out does not take curvature away
    )

    def __post_init__(self):
        object.__setattr__(self, "y", onp.asarray(self.y, float))
        if self.loss not in LOSSES:
            raise ValueError(f"unknown loss {self.loss!r}: one of {', '.join(LOSSES)}")
        if self.y.shape != (self.n_sites,):
            raise ValueError(
                f"y {self.y.shape} must have an entry for each of {self.n_sites} points"
            )
        self._check_labels()
        self._check_gammas()
        self.check_optimum(self.initial_params())  # every loss is curved at f = 0

    def _check_labels(self):
        known = self.y[self.observed]
        if len(known) < 2:
            raise ValueError(f"{len(known)} points have a label: at least two are needed")
        if LOSSES[self.loss].labels and not onp.isin(known, (-1.0, 1.0)).all():
            raise ValueError(
                f"labels must be -1 or +1; found {onp.setdiff1d(known, (-1.0, 1.0))[:3]}"
            )
        if not onp.isfinite(known).all():
            raise ValueError("y holds infinity")

    def _check_gammas(self):
        for name in ("gamma_s", "gamma_p", "gamma_i"):
            if not 0.0 <= getattr(self, name) < onp.inf:
                raise ValueError(f"{name} = {getattr(self, name)}: must be >= 0 and finite")
        if self.gamma_s == 0.0:
            raise ValueError(
                "gamma_s = 0: without its labels a semi-supervised model fits nothing but 0"
            )

    @property
    def quadratic(self):
        """Whether F is: Newton's method then takes one step."""
        return self.loss == "square"

    @property
    def n_sites(self):
        return len(self.energy.features)

    @cached_property
    def observed(self):
        """(p,) True where labelled."""
        return ~onp.isnan(self.y)

    @cached_property
    def labelled(self):
        """The labelled points, (s,)."""
        return onp.flatnonzero(self.observed)

    @cached_property
    def penalty(self):
        """R (D, D)."""
        size = self.energy.features.shape[1]
        return onp.eye(size) if self.ridge is None else onp.asarray(self.ridge, float)

    @cached_property
    def labelled_features(self):
        """(s, D)."""
        return self.energy.features[self.labelled]

    @property
    def fast(self):
        """Closed forms; tested against autograd of `objective`."""
        return SemiSupervisedFast(self, LOSSES[self.loss])

    def objective(self, params, weights):
        """F(params, weights), weights >= 0; forms W, for small p."""
        at, kept = self.labelled, weights[self.labelled]
        losses = LOSSES[self.loss].value(np.dot(self.energy.features[at], params), self.y[at])
        value = self.gamma_s * np.sum(kept * losses) / np.sum(kept)
        if self.gamma_p:
            value = value + self.gamma_p * self.energy.value(params, weights) / np.sum(weights) ** 2
        return len(at) * (value + self.gamma_i * np.dot(params, np.dot(self.penalty, params)))

    def heldout_loss(self, params, fold):
        """loss(f_i, y_i) of each point i of the fold: the evaluation function of Eq. 4."""
        return LOSSES[self.loss].value(np.dot(self.energy.features[fold], params), self.y[fold])

    def initial_params(self, rng=None):
        """Zeros; `rng` is not used, as the objective is convex."""
        return onp.zeros(self.energy.features.shape[1])

    def check_optimum(self, params):
        """Raises ValueError where gamma_i = 0 leaves a direction undetermined, or the optimum at infinity."""
        if self.gamma_i == 0.0:
            at = (params, self.initial_params())
            values = [onp.linalg.eigvalsh(self.fast.hessian(p, onp.ones(self.n_sites))) for p in at]
            if values[0][0] <= FLAT * values[1][-1]:
                raise ValueError(
                    "gamma_i = 0 and the points leave a direction of theta undetermined: pass gamma_i > 0"
                )


def kernel_form(points, centres, sigma):
    """(Phi (p, n), R (n, n)) of f(x) = sum_c theta_c k(x, c), R(theta) = |f|^2 in the kernel's space; k Gaussian.

    With all points as centres it is the full kernel form; with fewer, Nystrom's.
    """
    square = ((points[:, None] - centres[None]) ** 2).sum(axis=2)
    own = ((centres[:, None] - centres[None]) ** 2).sum(axis=2)
    return onp.exp(-square / (2.0 * sigma)), onp.exp(-own / (2.0 * sigma))
