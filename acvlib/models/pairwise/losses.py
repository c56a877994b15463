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

    def value(u, t):
        gap = anp.maximum(margin - anp.sqrt(u**2 + small**2), 0.0)
        return t * u**2 + (1.0 - t) * gap**2

    def slope(u, t):
        size = np.sqrt(u**2 + small**2)
        gap = np.maximum(margin - size, 0.0)
        return 2.0 * t * u - 2.0 * (1.0 - t) * gap * u / size

    def curvature(u, t):
        size = np.sqrt(u**2 + small**2)
        gap = np.maximum(margin - size, 0.0)
        apart = (size < margin) * (u / size) ** 2 - gap * small**2 / size**3
        return 2.0 * t + 2.0 * (1.0 - t) * apart

    return PairLoss(value, slope, curvature, lambda a, b: (a == b).astype(float), convex=False)


LOSSES = {"ranking": ranking, "contrastive": contrastive}
