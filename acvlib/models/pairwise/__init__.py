"""Pairwise learning with a linear score f = X theta (Zhu and Liu 2021, Eq. 7, Example 3 and Corollary 6.2):

    F(theta, w) / p = sum_ij w_i w_j loss(f_i - f_j, t_ij) / (sum_i w_i)^2 + gamma_I |theta|^2

t_ij says how i and j relate. The factor p counts distances in the metric of F as those of p points.
"""

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import autograd.numpy as np
import numpy as onp
from scipy.special import expit

from .derivatives import PairwiseFast

SMOOTH = (
    0.1  # of the margin: |u| is taken as sqrt(u^2 + (SMOOTH margin)^2), Section 5.1 of the paper
)


class PairLoss(NamedTuple):
    """loss(u, t), u = f_i - f_j, and its derivatives in u; relation(y_i, y_j) gives t; value is even, slope odd."""

    value: callable
    slope: callable
    curvature: callable
    relation: callable
    convex: bool


def ranking():
    """abs(t) log(1 + exp(-t u)), t the sign of y_i - y_j: which of two points is the higher one."""
    return PairLoss(
        lambda u, t: abs(t) * np.logaddexp(0.0, -t * u),
        lambda u, t: -t * expit(-t * u),
        lambda u, t: abs(t) * expit(u) * expit(-u),
        lambda a, b: onp.sign(a - b),
        True,
    )


def contrastive(margin=1.0):
    """t u^2 + (1 - t) max(margin - |u|, 0)^2, t = 1 for points of one class and 0 otherwise; |u| smoothed at 0."""
    small = SMOOTH * margin

    def slope(u, t):
        size = onp.sqrt(u**2 + small**2)
        return 2.0 * t * u - 2.0 * (1.0 - t) * onp.maximum(margin - size, 0.0) * u / size

    def curvature(u, t):
        size = onp.sqrt(u**2 + small**2)
        bend = (size < margin) * (u / size) ** 2 - onp.maximum(
            margin - size, 0.0
        ) * small**2 / size**3
        return 2.0 * t + 2.0 * (1.0 - t) * bend

    return PairLoss(
        lambda u, t: t * u**2 + (1.0 - t) * np.maximum(margin - np.sqrt(u**2 + small**2), 0.0) ** 2,
        slope,
        curvature,
        lambda a, b: (a == b).astype(float),
        False,
    )


@dataclass(frozen=True)
class PairwiseLinear:
    """X (p, D); y (p,): responses for loss "ranking", classes for "contrastive", or a `PairLoss`.

    Every point is a site; a fold is scored by the pairs inside it. Raises ValueError for other shapes, NaN, one class
    or response only, gamma_i < 0.
    """

    X: onp.ndarray = field(repr=False)
    y: onp.ndarray = field(repr=False)
    loss: PairLoss | str = "ranking"
    gamma_i: float = 0.1
    normalised: ClassVar[bool] = True

    def __post_init__(self):
        x, y = onp.asarray(self.X, float), onp.asarray(self.y)
        if x.ndim != 2 or y.shape != x.shape[:1]:
            raise ValueError(
                f"X {x.shape} must be 2-d and y {y.shape} have one entry for each of its rows"
            )
        if not (onp.isfinite(x).all() and onp.isfinite(y).all()):
            raise ValueError("X or y holds NaN or infinity")
        if len(onp.unique(y)) < 2:
            raise ValueError(f"every y is {y[0]}: no two points differ")
        if not 0.0 <= self.gamma_i < onp.inf:
            raise ValueError(f"gamma_i = {self.gamma_i}: must be >= 0 and finite")
        for name, value in {"X": x, "y": y, "loss": _pair_loss(self.loss)}.items():
            object.__setattr__(self, name, value)

    @property
    def convex(self):
        return self.loss.convex

    @property
    def n_sites(self):
        return len(self.y)

    @property
    def fast(self):
        """Closed forms, block by block; tested against autograd of `objective`."""
        return PairwiseFast(self)

    def pair_losses(self, params, fold):
        """loss of every pair inside the fold, (len(fold), len(fold))."""
        f, y = np.dot(self.X[fold], params), self.y[fold]
        return self.loss.value(f[:, None] - f, self.loss.relation(y[:, None], y))

    def objective(self, params, weights):
        """F(params, weights), weights >= 0; forms all pairs at once, for small p."""
        losses = self.pair_losses(params, onp.arange(self.n_sites))
        mean = np.dot(weights, np.dot(losses, weights)) / np.sum(weights) ** 2
        return self.n_sites * (mean + self.gamma_i * np.sum(params**2))

    def heldout_loss(self, params, fold):
        """Each left-out point's mean loss over the pairs it makes inside the fold: Eq. 8 is the mean of these."""
        return np.mean(self.pair_losses(params, fold), axis=1)

    def initial_params(self, rng=None):
        """Zeros where F is convex; else the direction in which class means differ most. `rng` is not used."""
        if self.convex:
            return onp.zeros(self.X.shape[1])
        means = onp.array([self.X[self.y == label].mean(axis=0) for label in onp.unique(self.y)])
        return onp.linalg.svd(means - means.mean(axis=0))[2][0]


def _pair_loss(loss):
    known = {"ranking": ranking, "contrastive": contrastive}
    if isinstance(loss, PairLoss):
        return loss
    if loss not in known:
        raise ValueError(f"unknown loss {loss!r}: one of {', '.join(known)}, or a PairLoss")
    return known[loss]()
