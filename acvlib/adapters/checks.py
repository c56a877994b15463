"""What functions of another library must be: each check says what is not, and what to do."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np

from ..checks import check_kind

STEP = 1e-5  # of the differences
WRONG = 1e-3  # relative error of a derivative that is no rounding
ROUNDING = 1e-10  # of values that are differenced


def check_function(name: str, function: Any, *arguments: str) -> None:
    """Raise TypeError unless `function` can be called with these arguments."""
    check_kind(name, function, Callable)
    try:
        signature(function).bind(*arguments)
    except ValueError:  # a built-in one without a signature
        return
    except TypeError as error:
        wanted = f"{name} must be a function of ({', '.join(arguments)})"
        raise TypeError(f"{wanted}; it is one of {signature(function)}") from error


def check_model_of(
    calculus: Any, start: np.ndarray, n_sites: int, observed: Any, directions: int
) -> None:
    """Raise TypeError or ValueError unless F and the held-out losses are what methods need.

    F at `start`: one number in float64, finite, twice differentiable, and a function of the
    weights; held-out losses: one a site. `acvlib.check_model` checks more. directions: in which to
    take second derivatives, as many as later calls will take together.
    """
    backend = calculus.backend
    ones = np.ones(n_sites)
    sites = np.arange(n_sites) if observed is None else np.flatnonzero(observed)
    try:
        _check_output(backend, "loss", calculus.raw["loss"], (start, ones), ())
        for few in (sites[:1], sites[:2]):
            _check_output(backend, "heldout", calculus.raw["heldout"], (start, few), few.shape)
        _check_derivatives(calculus, start, ones, directions)
    except backend.errors as error:
        reason = str(error).strip().splitlines()[0]
        remedy = f"{backend.advice} ({type(error).__name__}: {reason:.200})"
        raise TypeError(
            f"{backend.name} cannot differentiate or batch a function: {remedy}"
        ) from error


def _check_output(backend, label, function, arguments, shape):
    found, dtype, narrow = backend.described(function, *arguments)
    if found != shape:
        each = "one number: sum over the sites" if label == "loss" else "one loss for each site"
        raise ValueError(f"{label} returns shape {found}, must be {shape}, {each}")
    if narrow or dtype != "float64":
        what = (
            f"{label} returns {dtype}" if dtype != "float64" else f"{label} computes with {narrow}"
        )
        raise ValueError(f"{what}, whose rounding spoils second derivatives: {backend.remedy}")


def _check_derivatives(calculus, start, ones, directions):
    rng = np.random.default_rng(0)
    along = rng.standard_normal((directions, len(start)))
    sideways = rng.uniform(-1.0, 1.0, len(ones))

    def around(move, change):
        arguments = (start + move)[None], (ones + change)[None]
        (value,), (gradient,) = calculus("value_and_gradient", 1, *arguments)
        return value, gradient

    value, gradient = around(0.0, 0.0)
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        raise ValueError(f"loss is {value} at start, its gradient {gradient}: start where both are")
    points = np.broadcast_to(start, along.shape), np.ones((directions, len(ones)))
    products, crosses = calculus("product", directions, *points, along)
    if not crosses.any():
        remedy = "multiply the term of each site by its weight"
        raise ValueError(f"the gradient of loss ignores the weights: {remedy}")
    if not products.any():
        raise ValueError(f"{_NOT_SMOOTH}: its second derivative is 0")
    ahead = around(STEP * along[0], 0.0)
    behind = around(-STEP * along[0], 0.0)
    heavier = around(0.0, STEP * sideways)[1]
    lighter = around(0.0, -STEP * sideways)[1]
    _compare("gradient", gradient @ along[0], ahead[0], behind[0])
    _compare("second derivative", products[0], ahead[1], behind[1])
    _compare("derivative by weights", crosses @ sideways, along @ heavier, along @ lighter)


_NOT_SMOOTH = (
    "loss is not twice differentiable (stop_gradient or detach, abs, relu, max, rounding, sorting)"
)


def _compare(name, derivative, ahead, behind):
    difference = (ahead - behind) / (2 * STEP)
    error = np.linalg.norm(derivative - difference)
    rounding = ROUNDING * (1.0 + np.linalg.norm(ahead)) / STEP
    if not error <= WRONG * np.linalg.norm(difference) + rounding:
        raise ValueError(f"{_NOT_SMOOTH}: at start its {name} is off by {error:.2g}")
