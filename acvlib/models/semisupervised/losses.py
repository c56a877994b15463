"""Losses of a score f against a label y, by name."""

from collections.abc import Callable
from typing import NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.special import expit


class Loss(NamedTuple):
    """value(f, y), differentiable by autograd; its derivatives in f; for_signs: y is -1 or +1."""

    value: Callable
    slope: Callable
    curvature: Callable
    for_signs: bool


SQUARE = Loss(
    value=lambda f, y: (f - y) ** 2,
    slope=lambda f, y: 2.0 * (f - y),
    curvature=lambda f, y: np.full_like(f, 2.0),
    for_signs=False,
)
LOGISTIC = Loss(
    value=lambda f, y: anp.logaddexp(0.0, -y * f),
    slope=lambda f, y: -y * expit(-y * f),
    curvature=lambda f, y: expit(f) * expit(-f),
    for_signs=True,
)
SQUARED_HINGE = Loss(
    value=lambda f, y: anp.maximum(0.0, 1.0 - y * f) ** 2,
    slope=lambda f, y: -2.0 * y * np.maximum(0.0, 1.0 - y * f),
    curvature=lambda f, y: 2.0 * (y * f < 1.0),
    for_signs=True,
)
LOSSES = {"square": SQUARE, "logistic": LOGISTIC, "squared_hinge": SQUARED_HINGE}
