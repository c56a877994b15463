"""Prior densities of parameters x (..., d): (minus the log density (...), its slopes (..., d)).

Up to a constant. All take complex x: second derivatives are slopes after an imaginary step.
"""

from typing import Any

import autograd.numpy as anp

Slopes = tuple[Any, Any]


def normal(x: Any, mean: Any, precision: Any) -> Slopes:
    """Each x ~ Normal(mean, 1 / precision)."""
    slopes = precision * (x - mean)
    return 0.5 * anp.sum(slopes * (x - mean), axis=-1), slopes


def log_sd(x: Any, shape: float, scale: float) -> Slopes:
    """exp(x)^2 ~ InverseGamma(shape, scale), so that no state collapses onto a point."""
    tail = scale * anp.exp(-2.0 * x)
    return anp.sum(2.0 * (shape + 1.0) * x + tail, axis=-1), 2.0 * (shape + 1.0) - 2.0 * tail


def log_rate(x: Any, shape: float, rate: float) -> Slopes:
    """exp(x) ~ Gamma(shape, rate)."""
    terms = rate * anp.exp(x)
    return anp.sum(terms - (shape - 1.0) * x, axis=-1), terms - (shape - 1.0)
