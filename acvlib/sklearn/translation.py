"""A fitted estimator, alone or at the end of a Pipeline, as a model that is cheap to refit.

Where X has more columns than rows and every coefficient is penalised, refits of any rows stay in
the span of the rows of X: beta = B gamma, B = X' M orthonormal, M (n, r), r <= n. So the model has
the r columns X B, the same penalty |gamma|^2 = |beta|^2 and the same folds.
"""

from inspect import Parameter, signature
from typing import Any

import numpy as np
from scipy.linalg.lapack import dtrtri
from scipy.sparse import issparse

from ..checks import check_kind, real_array
from ..extras import require
from ..solvers.inverse import DenseHessian
from .estimators import model_of, params_of, responses, settings_of, with_params

sklearn = require("sklearn", extra="sklearn")
feature_selection = require("sklearn.feature_selection", extra="sklearn")
pipeline = require("sklearn.pipeline", extra="sklearn")
utils = require("sklearn.utils", extra="sklearn")
validation = require("sklearn.utils.validation", extra="sklearn")

RANK = 1e-12  # share of the largest squared singular value below which one counts as 0
LARGEST = 2**31  # bytes of a dense X that is made of a sparse one


def unwrap(estimator: Any, X: Any) -> tuple[Any, Any]:
    """(the last step of a fitted Pipeline or search, X as the other steps make it).

    These steps stay as they were fitted to all rows: what refits of a StandardScaler or a PCA would
    add to a fold is left out.

    Raises
    ------
    ValueError: a step that learns from y, which all folds would then have seen.
    """
    found = getattr(estimator, "best_estimator_", estimator)
    if not isinstance(found, pipeline.Pipeline):
        return found, X
    validation.check_is_fitted(found)
    for name, step in found.steps[:-1]:
        if _learns_from_y(step):
            raise ValueError(
                f"the Pipeline's step {name!r} learns from y, and stays as fitted to all rows: the "
                "scores would be too good. Use scikit-learn's cross_validate, or transform X first "
                "if the step has not seen these y"
            )
    if len(found) > 1:
        X = found[:-1].transform(X)
    return unwrap(found[-1], X)


def routed(
    estimator: Any, params: dict | None, groups: Any = None, scoring: Any = None
) -> tuple[Any, Any]:
    """(sample_weight, groups) of `params`, under the names that `cross_validate` knows them by.

    Raises
    ------
    TypeError: params that are no dict.
    ValueError: other names, and metadata routing that does not ask for weights where they are used,
        in the last step alone.
    """
    params = {} if params is None else params
    check_kind("params", params, dict)
    last = getattr(estimator, "best_estimator_", estimator)
    known = ["sample_weight"]
    if isinstance(last, pipeline.Pipeline):
        known = [f"{last.steps[-1][0]}__sample_weight"]
        last = last.steps[-1][1]
    if sklearn.get_config()["enable_metadata_routing"]:
        known = ["sample_weight", "groups"]
        groups = params.get("groups", groups)
        if "sample_weight" in params:
            _check_requests(last, scoring)
    other = sorted(map(str, params.keys() - set(known)))
    if other:
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


def _learns_from_y(step):
    """Whether a transformer, or one inside it, is told y: one that selects columns by it, say."""
    for name in ("steps", "transformers_", "transformer_list"):
        if hasattr(step, name):
            return any(_learns_from_y(part[1]) for part in getattr(step, name))
    if not hasattr(step, "fit"):  # "passthrough"
        return False
    selects = isinstance(step, feature_selection.SelectorMixin)
    by_y = selects and not isinstance(step, feature_selection.VarianceThreshold)
    y = signature(step.fit).parameters.get("y")
    needed = y is not None and y.default is Parameter.empty
    return by_y or needed or utils.get_tags(step).target_tags.required


class Translation:
    """The model of a fitted estimator, and the way back from its params."""

    def __init__(self, estimator: Any, X: Any, y: Any, sample_weight: np.ndarray | None = None):
        X = X if issparse(X) else real_array("X", X, 2)
        settings = settings_of(estimator, responses(estimator, X, y), sample_weight)
        penalty = np.add(settings.get("penalty", 0.0), settings.get("site_penalty", 0.0))
        self.estimator = estimator
        self.head = int(estimator.fit_intercept)
        self._X = X
        self._mix = None
        if X.shape[1] > X.shape[0] and np.all(penalty > 0.0):
            X, self._mix = _in_row_span(X)
        self.model = model_of(_dense(X), settings)

    @property
    def start(self) -> np.ndarray:
        """The params (D,) of the estimator."""
        return self._each_row(
            params_of(self.estimator), lambda rows: (self._X @ rows.T).T @ self._mix
        )

    def estimator_at(self, params: np.ndarray) -> Any:
        """The estimator as if it had been fitted to params (D,)."""
        params = self._each_row(params, lambda rows: (self._X.T @ (self._mix @ rows.T)).T)
        return with_params(self.estimator, params)

    def _each_row(self, params, change):
        """Params with the coefficients (q, .) of the linear predictors changed to another basis."""
        if self._mix is None:
            return params
        rows = params.reshape(self.model.n_outputs, -1)
        return np.hstack([rows[:, : self.head], change(rows[:, self.head :])]).ravel()


def _in_row_span(X):
    """(X B (n, r), M (n, r)), B = X' M an orthonormal basis of the span of the rows of X."""
    few = issparse(X) and _size(X) <= LARGEST
    products = X @ (X.T.toarray(order="C") if few else X.T)
    if issparse(products):
        products = products.toarray()
    whole = DenseHessian(products)
    if whole.conditioned:  # X X' = U'U, B = X' U^-1
        upper = np.triu(whole.factor[0])
        inverse, _ = dtrtri(upper)
        return upper.T, inverse
    if issparse(X):
        squares, left = np.linalg.eigh(products)
        sizes = np.sqrt(np.maximum(squares, 0.0))
    else:
        left, sizes, _ = np.linalg.svd(X, full_matrices=False)
    kept = sizes**2 > RANK * sizes.max() ** 2
    return left[:, kept] * sizes[kept], left[:, kept] / sizes[kept]


def _dense(X):
    if not issparse(X):
        return X
    if _size(X) > LARGEST:
        raise TypeError(
            f"X is sparse, and would take {_size(X) / 1e9:.1f} GB as a dense array, which the "
            "Hessian needs unless it has more columns than rows: select columns, or reduce them "
            "by a TruncatedSVD in a Pipeline"
        )
    return X.toarray()


def _size(X):
    """Bytes of X as a dense array."""
    return 8 * X.shape[0] * X.shape[1]
