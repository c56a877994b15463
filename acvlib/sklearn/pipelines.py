"""What stands around the estimator that is fitted anew: a search, the other steps of a Pipeline.

These stay as they were fitted to all rows: what refits of a StandardScaler or a PCA would add to a
fold is left out.
"""

import warnings
from copy import copy
from typing import Any

from ..checks import check_kind
from ..extras import require

sklearn = require("sklearn", extra="sklearn")
base = require("sklearn.base", extra="sklearn")
pipeline = require("sklearn.pipeline", extra="sklearn")
validation = require("sklearn.utils.validation", extra="sklearn")


def unwrap(whole: Any, X: Any) -> tuple[Any, Any]:
    """(the last step of a fitted Pipeline or search, X as the other steps make it).

    Raises ValueError for a step that learns from y, which all folds would then have seen.
    """
    inner = getattr(whole, "best_estimator_", whole)
    if not isinstance(inner, pipeline.Pipeline):
        return inner, X
    validation.check_is_fitted(inner)
    for name, step in inner.steps[:-1]:
        if hasattr(step, "transform"):  # it is not "passthrough"
            if not _fits_without_y(step, X):
                raise ValueError(
                    f"the Pipeline's step {name!r} learns from y, and stays as fitted to all rows: "
                    "the scores would be too good. Use scikit-learn's cross_validate, or transform "
                    "X first if the step has not seen these y"
                )
            X = step.transform(X)
    return unwrap(inner.steps[-1][1], X)


def _fits_without_y(step, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            base.clone(step).fit(X, None)
        except Exception:  # each says so in its own way
            return False
    return True


def with_last(whole: Any, last: Any) -> Any:
    """A shallow copy of a Pipeline or search that ends in another estimator."""
    twin = copy(whole)
    if hasattr(whole, "best_estimator_"):
        twin.best_estimator_ = with_last(whole.best_estimator_, last)
    elif isinstance(whole, pipeline.Pipeline):
        name, step = whole.steps[-1]
        twin.steps = [*whole.steps[:-1], (name, with_last(step, last))]
    else:
        return last
    return twin


def routed(whole: Any, params: Any, groups: Any, scoring: Any) -> tuple[Any, Any]:
    """(sample_weight, groups) of `params`, under the names that `cross_validate` knows them by.

    Raises TypeError for params that are no dict, ValueError for other names, and where metadata
    routing does not ask for weights where they are used, in the last step alone.
    """
    params = {} if params is None else params
    check_kind("params", params, dict)
    name = "sample_weight"
    last = getattr(whole, "best_estimator_", whole)
    if isinstance(last, pipeline.Pipeline):
        step, last = last.steps[-1]
        name = f"{step}__sample_weight"
    known = [name]
    if sklearn.get_config()["enable_metadata_routing"]:
        known = ["sample_weight", "groups"]
        groups = params.get("groups", groups)
        if "sample_weight" in params:
            _check_requests(last, scoring)
    if other := sorted(map(str, params.keys() - set(known))):
        raise ValueError(f"params {other}: only {' and '.join(known)} can be passed on")
    return params.get(known[0]), groups


def _check_requests(last, scoring):
    """Raise ValueError unless the last step asks for sample_weight, and no scorer does."""
    if last.get_metadata_routing().fit.requests.get("sample_weight") is not True:
        remedy = f"use {type(last).__name__}(...).set_fit_request(sample_weight=True)"
        raise ValueError(f"the estimator does not ask for sample_weight: {remedy}")
    for scorer in scoring.values() if isinstance(scoring, dict) else [scoring]:
        routing = getattr(scorer, "get_metadata_routing", None)
        if routing and routing().score.requests.get("sample_weight"):
            raise ValueError("sample_weight weighs fitting alone: use a scorer without it")
