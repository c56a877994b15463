"""From a fitted scikit-learn estimator to a model: the conventions of each, spelled out and tested.

| estimator             | minimises                                  | as a model                |
| LogisticRegression    | C sum_n s_n loss_n + |beta|^2 / 2          | logistic, penalty = 1 / C |
|   of K > 2 classes    | the same, softmax of K rows of beta        | multinomial, the same     |
|   balanced            | the same, s_n times n / (K n_c)            | multinomial, balanced     |
| Ridge                 | sum_n s_n (y_n - eta_n)^2 + alpha |beta|^2 | gaussian, penalty = alpha |
| LinearRegression      | the same without alpha                     | gaussian                  |
| PoissonRegressor, ... | mean_s loss_n + alpha |beta|^2 / 2         | site_penalty = alpha      |

Balanced classes, and more than two, are "multinomial" (two at twice the penalty, as their rows of
coefficients are +-beta / 2). LogisticRegressionCV and RidgeCV count as what they chose; Gamma- and
TweedieRegressor are as the Poisson one, with their losses. A mean of losses is penalised less, in
all, by a smaller training set: `site_penalty` follows that.
"""

import warnings
from copy import copy
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ..checks import check_kind, real_array
from ..extras import require
from ..fit import UnconvergedFit, fit
from ..models.glm import GLM
from ..models.glm.families import tweedie
from ..models.glm.likelihoods import Multinomial
from ..results import Fit

linear_model = require("sklearn.linear_model", extra="sklearn")
validation = require("sklearn.utils.validation", extra="sklearn")

CLOSE = 0.1  # standard errors from the optimum at which an estimator passes without a warning


def as_glm(estimator: Any, X: Any, y: Any, sample_weight: np.ndarray | None = None) -> GLM:
    """Translate a fitted linear estimator of the table above.

    Raises
    ------
    TypeError: another estimator, or sparse X.
    NotFittedError: the estimator is not fitted.
    ValueError: settings that are no smooth penalised likelihood.
    """
    if not issparse(X):  # GLM says what to do
        X = real_array("X", X, 2)
    y = responses(estimator, X, y)
    return model_of(X, settings_of(estimator, y, sample_weight))


def model_of(X: np.ndarray, settings: dict) -> GLM:
    """The model of X and `settings_of` an estimator."""
    return GLM(X, **settings)


def settings_of(estimator: Any, y: np.ndarray, sample_weight: np.ndarray | None) -> dict:
    """What a model is made of besides X. Raises as `as_glm` does."""
    _check_estimator(estimator)
    weights = np.ones(len(y))
    if sample_weight is not None:
        weights = real_array("sample_weight", sample_weight, 1)
        validation.check_consistent_length(y, weights)
    settings = {"intercept": estimator.fit_intercept, "sample_weight": weights}
    return settings | _TRANSLATIONS[type(estimator)](estimator, y, weights)


def responses(estimator: Any, X: Any, y: Any) -> np.ndarray:
    """Numbers, (n,) or (n, targets), or names of classes, once X is what was fitted."""
    _check_estimator(estimator)
    columns = estimator.n_features_in_
    if X.shape[1] != columns:
        raise ValueError(f"X {X.shape}: the estimator was fitted to {columns} columns")
    if isinstance(y, np.ma.MaskedArray):
        raise ValueError("y is a masked array: leave out its masked rows, here and in X")
    try:
        y = np.asarray(y)
    except ValueError:
        raise ValueError("y holds rows of different lengths: it must be one value a row") from None
    validation.check_consistent_length(X, y)
    return y


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
    if _is_multinomial(estimator):
        codes = np.searchsorted(estimator.classes_, y)
        settings = {"y": codes, "family": "multinomial"}
        scale = 2.0 if len(labels) == 2 else 1.0
    else:
        settings = {"y": (y == labels[1]).astype(float), "family": "logistic"}
        scale = 1.0
    settings["penalty"] = scale / _strength(estimator)
    if estimator.class_weight == "balanced":
        return settings | {"balanced": True}
    class_weights = estimator.class_weight or {}
    own = [class_weights.get(label, 1.0) for label in y.tolist()]
    return settings | {"sample_weight": weights * own}


def _is_multinomial(estimator):
    """Whether a classifier, or regression, counts as one of K score vectors."""
    classes = getattr(estimator, "classes_", ())
    return len(classes) > 2 or getattr(estimator, "class_weight", None) == "balanced"


def _strength(estimator):
    """C, or that which a LogisticRegressionCV chose; infinity where nothing is penalised."""
    if getattr(estimator, "penalty", "l2") is None:
        return np.inf
    return float(np.ravel(getattr(estimator, "C_", getattr(estimator, "C", np.inf)))[0])


def _refuse_logistic_settings(estimator):
    chosen = np.ravel(getattr(estimator, "l1_ratio_", getattr(estimator, "l1_ratio", None)))[0]
    if chosen or getattr(estimator, "penalty", None) in ("l1", "elasticnet"):
        raise ValueError("an L1 penalty has no Hessian: use an L2 penalty or none")
    if estimator.solver == "liblinear" and estimator.fit_intercept:
        remedy = "fit with solver='lbfgs' or 'newton-cholesky'"
        raise ValueError(f"solver='liblinear' penalises the intercept: {remedy}")


def _least_squares(estimator, y, weights):
    _refuse_positive(estimator)
    return {"y": y, "family": "gaussian"}


def _ridge(estimator, y, weights):
    _refuse_positive(estimator)
    alpha = getattr(estimator, "alpha_", getattr(estimator, "alpha", None))
    if np.size(alpha) not in (1, np.shape(y)[-1] if y.ndim == 2 else 1):
        raise ValueError(f"Ridge with {np.size(alpha)} values of alpha: pass one, or one a target")
    return {"y": y, "family": "gaussian", "penalty": np.squeeze(alpha)}


def _refuse_positive(estimator):
    if getattr(estimator, "positive", False):
        name = type(estimator).__name__
        reason = "is not smooth where a coefficient is 0"
        raise ValueError(f"{name}(positive=True) {reason}: use positive=False")


def _poisson(estimator, y, weights):
    counts = np.issubdtype(y.dtype, np.number) and (y == np.floor(y)).all()
    family = "poisson" if counts else "poisson rate"
    return {"y": y, "family": family, "site_penalty": float(estimator.alpha)}


def _gamma(estimator, y, weights):
    return {"y": y, "family": "gamma", "site_penalty": float(estimator.alpha)}


def _tweedie(estimator, y, weights):
    power = estimator.power
    link = estimator.link if estimator.link != "auto" else ("log" if power > 0 else "identity")
    if power == 0 and link == "identity":
        return {"y": y, "family": "gaussian", "site_penalty": float(estimator.alpha)}
    if power == 1 and link == "log":
        return _poisson(estimator, y, weights)
    if link != "log" or not 1 < power <= 2:
        raise ValueError(
            f"TweedieRegressor(power={power:g}, link={estimator.link!r}): its loss is convex, as "
            "it must be, for power 0 with link 'identity' and for 1 <= power <= 2 with link 'log'"
        )
    return {"y": y, "family": tweedie(power), "site_penalty": float(estimator.alpha)}


_TRANSLATIONS = {
    linear_model.LogisticRegression: _logistic,
    linear_model.LogisticRegressionCV: _logistic,
    linear_model.LinearRegression: _least_squares,
    linear_model.Ridge: _ridge,
    linear_model.RidgeCV: _ridge,
    linear_model.PoissonRegressor: _poisson,
    linear_model.GammaRegressor: _gamma,
    linear_model.TweedieRegressor: _tweedie,
}


def params_of(estimator: Any) -> np.ndarray:
    """[intercept, coefficients] of each target of a fitted estimator; no intercept if it fits none.

    Of "multinomial" classes the coordinates in which the model has them.
    """
    _check_estimator(estimator)
    rows = np.atleast_2d(estimator.coef_)
    if estimator.fit_intercept:
        rows = np.column_stack([np.ravel(estimator.intercept_), rows])
    return (np.linalg.pinv(_spread(estimator)) @ rows).ravel()


def with_params(estimator: Any, params: np.ndarray) -> Any:
    """The estimator as if it had been fitted to params (D,): what scorers ask for predictions."""
    _check_estimator(estimator)
    params = real_array("params", params, 1, finite=False)
    size = len(params_of(estimator))
    if len(params) != size:
        raise ValueError(f"params {params.shape} must be ({size},): [intercept, coefficients]")
    spread = _spread(estimator)
    rows = spread @ params.reshape(spread.shape[1], -1)
    twin = copy(estimator)
    head = int(estimator.fit_intercept)
    twin.coef_ = rows[:, head:].reshape(np.shape(estimator.coef_))
    if head:
        twin.intercept_ = rows[:, 0].reshape(np.shape(estimator.intercept_))
    return twin


def _spread(estimator):
    """What takes the q rows of a model's params to the rows of coef_."""
    if not _is_multinomial(estimator):
        return np.eye(len(np.atleast_2d(estimator.coef_)))
    spread = Multinomial(len(estimator.classes_)).spread
    return spread if len(spread) > 2 else spread[1:] - spread[:1]


def fit_of(estimator: Any, model: GLM) -> Fit:
    """Fit from the estimator's own coefficients; warn where they are far from the optimum."""
    check_kind("model", model, GLM)
    return fit_from(params_of(estimator), model)


def fit_from(start: np.ndarray, model: GLM) -> Fit:
    """Fit from an estimator's params (D,); warn where they are far from the optimum."""
    result = fit(model, start)
    distance = result.standard_errors_between(start, result.params)
    if distance > CLOSE:
        warnings.warn(
            f"the estimator's coefficients are {distance:.2g} standard errors from the optimum on "
            "X and y: was it fitted to these data, to convergence?",
            UnconvergedFit,
            stacklevel=4,
        )
    return result
