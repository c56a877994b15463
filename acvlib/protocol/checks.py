"""What a model, a method and their arguments must be; each check names what is not."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

import numpy as np
from autograd.tracer import isbox

from .. import weighting
from ..checks import LARGEST, check_kind, generator, real_array
from ..folds import Folds
from ..folds.checks import one_fold
from .results import CVResult, Fit


def own_copy(values: Any, dtype: Any = float, name: str = "data") -> np.ndarray:
    """Copy an array that a model is given, read-only: the caller may change theirs."""
    copied = real_array(name, values, finite=False) if dtype is float else np.array(values, dtype)
    large = np.isfinite(copied) & (abs(copied) > LARGEST)
    if large.any():
        raise ValueError(f"{name} holds {copied[large][0]:.2g}, whose square overflows: rescale it")
    copied.setflags(write=False)
    return copied


def checked(method: Callable) -> Callable:
    """Have a model's method check its params, weights, fold, folds and rng, by these names.

    What autograd passes through is its own business.
    """
    names = signature(method)

    @wraps(method)
    def with_checks(self, *args, **named):
        bound = names.bind(self, *args, **named)
        for name in bound.arguments.keys() & _CHECKS.keys():
            value = bound.arguments[name]
            if not isbox(value) and value is not names.parameters[name].default:
                bound.arguments[name] = _CHECKS[name](self, value)
        return method(*bound.args, **bound.kwargs)

    return with_checks


def _checked_params(model, params):
    params = real_array("params", params, 1, finite=False)
    if len(params) != model.n_params:
        raise ValueError(f"params ({len(params)},) must be ({model.n_params},), as a fit's are")
    return params


def _checked_weights(model, weights):
    weighting.check(weights, model.n_sites)
    weights = np.asarray(weights, float)
    total = weights.sum()
    if model.normalised and not 1.0 / LARGEST < total < LARGEST:
        raise ValueError(f"weights sum to {total}: F divides by the square of that")
    return weights


def _checked_fold(model, fold):
    return one_fold(fold, model.n_sites)


def _checked_folds(model, folds):
    check_kind("folds", folds, Folds)
    return Folds.of(folds, model.n_sites, model.observed)


_CHECKS = {
    "params": _checked_params,
    "weights": _checked_weights,
    "fold": _checked_fold,
    "folds": _checked_folds,
    "rng": lambda model, rng: generator(rng),
}


def check_is_model(model: Any) -> None:
    """Raise TypeError unless an object has what a `Model` or an `EstimatingEquation` has."""
    members = ("n_sites", "heldout_loss", "initial_params")
    if isinstance(model, type) or not all(hasattr(model, name) for name in members):
        found = f"{model!r:.60} has no {', '.join(members)}"
        raise TypeError(f"{found}: give a model, of acv.models or of your own (acv.Model)")


def check_fit(model: Any, fit: Any) -> None:
    """Raise TypeError or ValueError unless `fit` is a `Fit`, and may be of this model."""
    check_is_model(model)
    check_kind("fit", fit, Fit)
    n_params = getattr(model, "n_params", len(fit.params))
    if len(fit.params) != n_params:
        size = f"{len(fit.params)} parameters, the model {n_params}"
        raise ValueError(f"the fit has {size}: it is another model's")


def check_result_of(model: Any, result: Any) -> None:
    """Raise TypeError or ValueError unless `result` is a `CVResult`, and may be of this model."""
    check_kind("result", result, CVResult)
    check_fit(model, result.fit)
    if result.n_sites != model.n_sites:
        sizes = f"of {result.n_sites} sites, and the model of {model.n_sites}"
        raise ValueError(f"the result is {sizes}: it is another model's")
