"""From a fitted scikit-learn estimator to a `GLM`: the conventions of each, spelled out and tested.

| estimator          | minimises                                  | as a GLM                      |
| LogisticRegression | C sum_n s_n loss_n + |beta|^2 / 2          | logistic, penalty = 1 / C     |
| Ridge              | sum_n s_n (y_n - eta_n)^2 + alpha |beta|^2 | gaussian, penalty = alpha     |
| PoissonRegressor   | mean_s loss_n + alpha |beta|^2 / 2         | poisson, site_penalty = alpha |

A mean of losses is penalised less, in all, by a smaller training set: `site_penalty` follows that.
"""

import warnings
from copy import copy
from typing import Any

import numpy as np

from ..checks import check_kind, real_array
from ..extras import require
from ..fit import UnconvergedFit, fit
from ..models.glm import GLM
from ..protocol import Fit

linear_model = require("sklearn.linear_model", extra="sklearn")
validation = require("sklearn.utils.validation", extra="sklearn")

CLOSE = 0.1  # standard errors from the optimum at which an estimator passes without a warning


def as_glm(estimator: Any, X: Any, y: Any, sample_weight: np.ndarray | None = None) -> GLM:
    """Translate a LogisticRegression (two classes, L2 or no penalty), Ridge or PoissonRegressor.

    Raises
    ------
    TypeError: another estimator, or sparse X.
    NotFittedError: the estimator is not fitted.
    ValueError: settings that are no smooth penalised likelihood, or whose meaning changes from fold
        to fold (class_weight="balanced").
    """
    _check_estimator(estimator)
    validation.check_consistent_length(X, y)
    columns = estimator.n_features_in_
    if np.shape(X)[1:] != (columns,):
        raise ValueError(f"X {np.shape(X)}: the estimator was fitted to {columns} columns")
    y = np.atleast_1d(y)
    weights = np.ones(len(y))
    if sample_weight is not None:
        weights = real_array("sample_weight", sample_weight, 1)
        validation.check_consistent_length(y, weights)
    settings = {"intercept": estimator.fit_intercept, "sample_weight": weights}
    return GLM(X, **settings | _TRANSLATIONS[type(estimator)](estimator, y, weights))


def _check_estimator(estimator):
    if type(estimator) not in _TRANSLATIONS:
        name = type(estimator).__name__
        known = ", ".join(kind.__name__ for kind in _TRANSLATIONS)
        raise TypeError(f"{name} has no translation to a GLM; there is one for {known}")
    validation.check_is_fitted(estimator)


def _logistic(estimator, y, weights):
    _refuse_logistic_settings(estimator)
    labels = list(estimator.classes_)
    if not np.isin(y, labels).all():
        raise ValueError(f"y holds labels that the estimator has not seen; it knows {labels}")
    unpenalised = getattr(estimator, "penalty", None) is None or np.isinf(estimator.C)
    class_weights = estimator.class_weight or {}
    return {
        "y": (y == labels[1]).astype(float),
        "family": "logistic",
        "penalty": 0.0 if unpenalised else 1.0 / estimator.C,
        "sample_weight": weights * [class_weights.get(label, 1.0) for label in y.tolist()],
    }


def _refuse_logistic_settings(estimator):
    n_classes = len(estimator.classes_)
    if n_classes != 2:
        raise ValueError(f"LogisticRegression with {n_classes} classes: only two are supported")
    if estimator.l1_ratio or getattr(estimator, "penalty", None) in ("l1", "elasticnet"):
        raise ValueError("an L1 penalty has no Hessian: use an L2 penalty or none")
    if estimator.solver == "liblinear" and estimator.fit_intercept:
        remedy = "fit with solver='lbfgs' or 'newton-cholesky'"
        raise ValueError(f"solver='liblinear' penalises the intercept: {remedy}")
    if estimator.class_weight == "balanced":
        remedy = "pass the weights as a dict"
        raise ValueError(f"class_weight='balanced' differs from fold to fold: {remedy}")


def _ridge(estimator, y, weights):
    if estimator.positive:
        reason = "is not smooth where a coefficient is 0"
        raise ValueError(f"Ridge(positive=True) {reason}: use positive=False")
    if np.size(estimator.alpha) != 1:
        raise ValueError(f"Ridge with {np.size(estimator.alpha)} values of alpha: pass one")
    return {"y": y, "family": "gaussian", "penalty": float(np.squeeze(estimator.alpha))}


def _poisson(estimator, y, weights):
    return {"y": y, "family": "poisson", "site_penalty": float(estimator.alpha)}


_TRANSLATIONS = {
    linear_model.LogisticRegression: _logistic,
    linear_model.Ridge: _ridge,
    linear_model.PoissonRegressor: _poisson,
}


def params_of(estimator: Any) -> np.ndarray:
    """[intercept, coefficients] of a fitted estimator; no intercept where it fits none."""
    _check_estimator(estimator)
    head = np.ravel(estimator.intercept_) if estimator.fit_intercept else np.empty(0)
    return np.concatenate([head, np.ravel(estimator.coef_)])


def with_params(estimator: Any, params: np.ndarray) -> Any:
    """The estimator as if it had been fitted to params (D,): what scorers ask for predictions."""
    _check_estimator(estimator)
    params = real_array("params", params, 1, finite=False)
    size = len(params_of(estimator))
    if len(params) != size:
        raise ValueError(f"params {params.shape} must be ({size},): [intercept, coefficients]")
    twin = copy(estimator)
    head = int(estimator.fit_intercept)
    twin.coef_ = params[head:].reshape(np.shape(estimator.coef_))
    if head:
        twin.intercept_ = params[0].reshape(np.shape(estimator.intercept_))
    return twin


def fit_of(estimator: Any, model: GLM) -> Fit:
    """Fit from the estimator's own coefficients; warn where they are far from the optimum."""
    check_kind("model", model, GLM)
    start = params_of(estimator)
    result = fit(model, start)
    distance = result.standard_errors_between(start, result.params)
    if distance > CLOSE:
        warnings.warn(
            f"the estimator's coefficients are {distance:.2g} standard errors from the optimum on "
            "X and y: was it fitted to these data, to convergence?",
            UnconvergedFit,
            stacklevel=3,
        )
    return result
