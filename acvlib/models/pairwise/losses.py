"""Losses of the difference u = f_i - f_j of two scores, by how the points relate."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.special import expit

from ...checks import one_line, real_number

SMOOTH = 0.1  # of the margin: |u| is sqrt(u^2 + (SMOOTH margin)^2), Zhu and Liu (2021), Section 5.1


class PairLoss(NamedTuple):
    """value(u, t), even in u, and its derivatives in u; relation(y_i, y_j) gives t."""

    value: Callable
    slope: Callable
    curvature: Callable
    relation: Callable
    convex: bool

    def __repr__(self):
        return one_line(self)


def ranking() -> PairLoss:
    """abs(t) log(1 + exp(-t u)), t the sign of y_i - y_j: which of two points is the higher one."""
    return PairLoss(_logistic, _logistic_slope, _logistic_curvature, _sign, convex=True)


def _logistic(u, t):
    return abs(t) * anp.logaddexp(0.0, -t * u)


def _logistic_slope(u, t):
    return -t * expit(-t * u)


def _logistic_curvature(u, t):
    return abs(t) * expit(u) * expit(-u)


def _sign(a, b):
    return np.sign(a - b)


def contrastive(margin: float = 1.0) -> PairLoss:
    """t u^2 + (1 - t) max(margin - |u|, 0)^2, t = 1 within a class, else 0; |u| smoothed at 0."""
    margin = real_number("margin", margin, above=0.0)
    loss, slope, curvature = (
        partial(of, margin) for of in (_apart, _apart_slope, _apart_curvature)
    )
    return PairLoss(loss, slope, curvature, _same_class, convex=False)


def _size_and_gap(margin, u):
    size = anp.sqrt(u**2 + (SMOOTH * margin) ** 2)
    return size, anp.maximum(margin - size, 0.0)


def _apart(margin, u, t):
    _, gap = _size_and_gap(margin, u)
    return t * u**2 + (1.0 - t) * gap**2


def _apart_slope(margin, u, t):
    size, gap = _size_and_gap(margin, u)
    return 2.0 * u * (t - (1.0 - t) * gap / size)


def _apart_curvature(margin, u, t):
    size, gap = _size_and_gap(margin, u)
    ratio = (u / size) ** 2
    pushed = (gap > 0.0) * ratio
    return 2.0 * t + 2.0 * (1.0 - t) * (pushed - gap * (1.0 - ratio) / size)


def _same_class(a, b):
    return (a == b).astype(float)


LOSSES = {"ranking": ranking, "contrastive": contrastive}
