"""Losses of the difference u = f_i - f_j of two scores, by how the points relate."""

from collections.abc import Callable
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.special import expit

SMOOTH = 0.1  # of the margin: |u| is sqrt(u^2 + (SMOOTH margin)^2), Zhu and Liu (2021), Section 5.1


class PairLoss(NamedTuple):
    """value(u, t), even in u, and its derivatives in u; relation(y_i, y_j) gives t."""

    value: Callable
    slope: Callable
    curvature: Callable
    relation: Callable
    convex: bool


def ranking() -> PairLoss:
    """abs(t) log(1 + exp(-t u)), t the sign of y_i - y_j: which of two points is the higher one."""
    return PairLoss(
        value=lambda u, t: abs(t) * anp.logaddexp(0.0, -t * u),
        slope=lambda u, t: -t * expit(-t * u),
        curvature=lambda u, t: abs(t) * expit(u) * expit(-u),
        relation=lambda a, b: np.sign(a - b),
        convex=True,
    )


def contrastive(margin: float = 1.0) -> PairLoss:
    """t u^2 + (1 - t) max(margin - |u|, 0)^2, t = 1 within a class, else 0; |u| smoothed at 0."""
    small = SMOOTH * margin

    def size_and_gap(u):
        size = anp.sqrt(u**2 + small**2)
        return size, anp.maximum(margin - size, 0.0)

    def value(u, t):
        _, gap = size_and_gap(u)
        return t * u**2 + (1.0 - t) * gap**2

    def slope(u, t):
        size, gap = size_and_gap(u)
        return 2.0 * u * (t - (1.0 - t) * gap / size)

    def curvature(u, t):
        size, gap = size_and_gap(u)
        bend = gap * small**2 / size**3
        apart = (gap > 0.0) * (u / size) ** 2 - bend
        return 2.0 * t + 2.0 * (1.0 - t) * apart

    def same_class(a, b):
        return (a == b).astype(float)

    return PairLoss(value, slope, curvature, same_class, convex=False)


LOSSES = {"ranking": ranking, "contrastive": contrastive}
