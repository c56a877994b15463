"""From a fitted scikit-learn estimator to our models, and back: the conventions of each, tested.

| estimator             | minimises                                  | as a model                |
| LogisticRegression    | C sum_n s_n loss_n + |beta|^2 / 2          | logistic, penalty = 1 / C |
|   of K > 2 classes    | the same, softmax of K rows of beta        | multinomial, the same     |
|   balanced            | the same, s_n times n / (K n_c)            | multinomial, balanced     |
| Ridge                 | sum_n s_n (y_n - eta_n)^2 + alpha |beta|^2 | gaussian, penalty = alpha |
| LinearRegression      | the same without alpha                     | gaussian                  |
| PoissonRegressor      | mean_s loss_n + alpha |beta|^2 / 2         | site_penalty = alpha      |

Two balanced classes have twice the penalty, as their rows of coefficients are +-beta / 2. Several
targets are one model. LogisticRegressionCV and RidgeCV count as what they chose. A mean of losses
is penalised less, in all, by a smaller training set: `site_penalty` follows that.
"""

import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np
from scipy.sparse import issparse

from ..checks import columns_of, in_columns_of, real_array, require
from ..models.glm import GLM

sklearn = require("sklearn", extra="sklearn")
base = require("sklearn.base", extra="sklearn")
linear_model = require("sklearn.linear_model", extra="sklearn")
search = require("sklearn.model_selection._search", extra="sklearn")
pipeline = require("sklearn.pipeline", extra="sklearn")
utils = require("sklearn.utils", extra="sklearn")
validation = require("sklearn.utils.validation", extra="sklearn")

FIRST = 99  # rows whose medians are the levels that are taken off before digits are lost
ALIKE = 1e-12  # relative difference of what a step makes of other data, that is rounding
SINGLE = 1e-5  # the same of other rows in single precision
ROWS = 500  # about so many, at least, show what a step makes of X


def chosen(whole: Any) -> Any:
    """The estimator that a fitted search chose, or what was given."""
    if not isinstance(whole, search.BaseSearchCV):
        return whole
    remedy = "%(name)s has no best_estimator_: fit it, with refit=True"
    validation.check_is_fitted(whole, "best_estimator_", msg=remedy)
    return whole.best_estimator_


def layers_of(whole: Any) -> list:
    """What was given, and what stands in it: what a search chose, a Pipeline's last step."""
    is_pipeline = isinstance(whole, pipeline.Pipeline)
    inner = whole.steps[-1][1] if is_pipeline else chosen(whole)
    return [whole] if inner is whole else [whole, *layers_of(inner)]


def in_order(layers: list, X: Any) -> Any:
    """X with its columns in the order of those that were fitted, where it has the same names."""
    named = (layer.feature_names_in_ for layer in layers if hasattr(layer, "feature_names_in_"))
    fitted = list(next(named, ()))
    names = columns_of(X) or []
    is_same = len(names) == len(fitted) and set(names) == set(fitted)
    return in_columns_of(fitted, "X", X) if is_same else X


def inputs_of(layers: list, X: Any, y: Any = None) -> Any:
    """X as the other steps of fitted Pipelines make it of a copy, as it comes to the last step.

    Raises ValueError for a step without transform, or one that learns from y, if given: that of all
    folds; and for columns of other names than the last step's.
    """
    steps = [pair for layer in layers for pair in getattr(layer, "steps", [])[:-1]]
    for name, step in steps:
        if step not in (None, "passthrough"):
            if not hasattr(step, "transform"):  # a resampler of imbalanced-learn
                raise ValueError(f"step {name!r} has no transform: use sklearn's cross_validate")
            X = _copied(X)
            if y is not None and _learns_from_y(step, X, y):
                raise ValueError(
                    f"the Pipeline's step {name!r} learns from y, and stays as fitted to all rows: "
                    "the scores would be too good. Use scikit-learn's cross_validate, or transform "
                    "X first if the step has not seen these y"
                )
            (X,) = utils.indexable(step.transform(X))
    if hasattr(layers[-1], "feature_names_in_") and hasattr(X, "columns"):
        validation._check_feature_names(layers[-1], X, reset=False)
    return X


def see_rows_alone(layers: list, X: Any, inputs: Any, parts: Iterable) -> bool:
    """Whether the other steps make of each part of the rows what they make of it among all."""
    with warnings.catch_warnings(action="ignore"):
        try:
            for rows in parts:
                alone = _numbers(inputs_of(layers, utils._safe_indexing(X, rows)))
                among = _numbers(utils._safe_indexing(inputs, rows))
                if not _alike(alone, among, SINGLE if among.dtype == np.float32 else ALIKE):
                    return False
        except Exception:  # of few rows, say
            return False
    return True


def _learns_from_y(step, X, y):
    """Whether a step needs y to fit, or other y change what it makes of X.

    A step that draws anew at each fit, whatever its random_state, counts as learning nothing.
    """
    step = base.clone(step)
    for name, value in step.get_params().items():
        if value is None and name.split("__")[-1] == "random_state":
            step.set_params(**{name: 0})
    rows = np.arange(validation._num_samples(X))

    def made(y):
        every = 1 + len(rows) // ROWS
        return _numbers(base.clone(step).fit(_copied(X), y).transform(_copied(X, every)))

    with warnings.catch_warnings(action="ignore"):
        try:
            base.clone(step).fit(_copied(X), None)
            first = made(y)
            orders = np.random.default_rng(0).choice(rows, (2, len(rows)))  # two other y
            others = (made(utils._safe_indexing(y, each)) for each in orders)
            return _alike(first, made(y)) and not all(_alike(first, other) for other in others)
        except Exception:  # each says so in its own way
            return True


def _copied(X, every=1):
    """Rows that a step may write into."""
    return utils._safe_indexing(X, np.arange(validation._num_samples(X))[::every])


def _numbers(out):
    """What a step made of rows, as an array: some of those of a sparse one."""
    return out.tocsr()[:: 1 + out.shape[0] // ROWS].toarray() if issparse(out) else np.asarray(out)


def _alike(a, b, rounding=ALIKE):
    if a.shape == b.shape and a.dtype.kind == b.dtype.kind == "f":
        least = rounding * np.nanmax(abs(a), initial=0.0)
        return np.allclose(a, b, rtol=rounding, atol=least, equal_nan=True)
    return np.array_equal(a, b)


def with_last(layers: list, last: Any) -> Any:
    """A shallow copy of a Pipeline or search that ends in another estimator."""
    for layer in reversed(layers[:-1]):
        twin = copy(layer)
        if hasattr(layer, "steps"):
            twin.steps = [*layer.steps[:-1], (layer.steps[-1][0], last)]
        else:
            twin.best_estimator_ = last
        last = twin
    return last


def weights_of(layers: list, params: dict | None) -> Any:
    """The sample weights (n,) among `params`, by the name that `cross_validate` knows."""
    if not params:
        return None
    if sklearn.get_config()["enable_metadata_routing"]:
        remedy = "pass weights with enable_metadata_routing=False, and groups as groups="
        raise ValueError(f"params {[*params]} would be routed, which is not done here: {remedy}")
    names = [layer.steps[-1][0] for layer in layers if hasattr(layer, "steps")]
    name = "__".join([*names, "sample_weight"])
    if other := sorted(map(str, params.keys() - {name})):
        raise ValueError(f"params {other}: only {name} can be passed on")
    return params[name] if params[name] is None else real_array("sample_weight", params[name], 1)


def outcomes_of(estimator: Any, X: Any, y: Any) -> np.ndarray:
    """Numbers (n,) or (n, targets), or names of classes (n,), once X is what was fitted.

    Raises
    ------
    TypeError: an estimator that is not in the table above.
    NotFittedError: the estimator is not fitted.
    ValueError: an X of other columns, or a y that is not one value, or row of targets, a row.

    The shape is that of predictions by a refit to y, whatever shape was fitted.
    """
    if type(estimator) not in _TRANSLATIONS:
        is_step = isinstance(estimator, str | None)
        name = f"a Pipeline that ends in {estimator!r}" if is_step else type(estimator).__name__
        known = ", ".join(kind.__name__ for kind in _TRANSLATIONS)
        raise TypeError(f"{name} has no translation to a GLM; there is one for {known}")
    validation.check_is_fitted(estimator)
    validation._check_n_features(estimator, X, reset=False)
    if isinstance(y, np.ma.MaskedArray):
        raise ValueError("y is a masked array: leave out its masked rows, here and in X")
    try:
        y = np.asarray(y)
    except ValueError:
        raise ValueError("y holds rows of different lengths: it must be one value a row") from None
    validation.check_consistent_length(X, y)
    if not hasattr(estimator, "classes_"):
        y = real_array("y", y)
    of_targets = type(estimator) in _OF_TARGETS
    if not of_targets or y.ndim != 2:
        y = validation.column_or_1d(y, warn=not of_targets)
    n_targets, fitted = (y.shape[1] if y.ndim == 2 else 1), len(np.atleast_2d(estimator.coef_))
    if of_targets and n_targets != fitted:
        raise ValueError(f"y has {n_targets} targets, and the estimator was fitted to {fitted}")
    drops_axis = n_targets == 1 and type(estimator) is not linear_model.LinearRegression
    return y.ravel() if drops_axis else y


def settings_of(estimator: Any, y: np.ndarray) -> dict:
    """What the model of an estimator is made of besides X and weights.

    Raises ValueError for settings that are no smooth penalised likelihood.
    """
    settings = _TRANSLATIONS[type(estimator)](estimator, y)
    return settings | {"intercept": bool(estimator.fit_intercept)}


@contextmanager
def in_words_of(estimator: Any) -> Iterator[None]:
    """Errors of models have the estimator's own names of the penalty and of classes."""
    try:
        yield
    except ValueError as error:
        names = estimator.get_params()
        some, larger = "alpha > 0" + " to a Ridge" * ("alpha" not in names), "a larger alpha"
        if names.keys() & {"C", "Cs"}:
            some, larger = "a finite C", "a smaller C"
        words = str(error).replace("penalty > 0", some)
        words = words.replace("a larger penalty", larger)
        labels = getattr(estimator, "classes_", ())
        error.args = (re.sub(r"(?<=of class )\d+", lambda k: f"{labels[int(k[0])]}", words),)
        raise


def model_of(settings: dict, X: np.ndarray, sample_weight: np.ndarray | None) -> GLM:
    """The model of `settings_of` an estimator. No other function makes models."""
    settings = {name: value for name, value in settings.items() if name != "level"}
    weights = 1.0 if sample_weight is None else sample_weight
    settings["sample_weight"] = weights * settings.pop("class_weights", 1.0)
    return GLM(X, **settings)


def _logistic(estimator, y):
    kind = getattr(estimator, "penalty", "deprecated")  # by a name, or else by l1_ratio
    share = np.ravel(getattr(estimator, "l1_ratio_", getattr(estimator, "l1_ratio", None)))[0]
    if kind == "l1" or (share and kind not in ("l2", None)):
        raise ValueError("an L1 penalty has no Hessian: use an L2 penalty or none")
    if not getattr(estimator, "refit", True):
        remedy = "are means over its folds, no optimum: use refit=True"
        raise ValueError(f"the coefficients of LogisticRegressionCV(refit=False) {remedy}")
    if estimator.solver == "liblinear" and estimator.fit_intercept:
        remedy = "fit with solver='lbfgs' or 'newton-cholesky'"
        raise ValueError(f"solver='liblinear' penalises the intercept: {remedy}")
    labels = estimator.classes_.tolist()
    if set(labels) != set(y.tolist()):
        raise ValueError(f"y must hold the labels that the estimator was fitted to: {labels}")
    strength = np.ravel(getattr(estimator, "C_", getattr(estimator, "C", np.inf)))[0]
    penalty = 0.0 if kind is None else 1.0 / float(strength)
    settings = {"y": np.searchsorted(estimator.classes_, y), "penalty": penalty}
    if estimator.class_weight == "balanced":
        penalty *= 2.0 if len(labels) == 2 else 1.0
        return settings | {"family": "multinomial", "penalty": penalty, "balanced": True}
    weights = [(estimator.class_weight or {}).get(label, 1.0) for label in labels]
    family = "multinomial" if len(labels) > 2 else "logistic"
    return settings | {"family": family, "class_weights": np.array(weights)[settings["y"]]}


def _least_squares(estimator, y):
    if getattr(estimator, "positive", False):
        name = type(estimator).__name__
        reason = "is not smooth where a coefficient is 0"
        raise ValueError(f"{name}(positive=True) {reason}: use positive=False")
    alpha = np.ravel(getattr(estimator, "alpha_", getattr(estimator, "alpha", 0.0)))
    if alpha.size != 1:
        remedy = "pass one for all targets, or take each target alone"
        raise ValueError(f"Ridge with {alpha.size} values of alpha: {remedy}")
    level = np.median(y[:FIRST], axis=0) if estimator.fit_intercept else 0.0
    return {"y": y - level, "level": level, "family": "gaussian", "penalty": float(alpha[0])}


def _poisson(estimator, y):
    family = "poisson" if (y == np.floor(y)).all() else "poisson rate"
    return {"y": y, "family": family, "site_penalty": float(estimator.alpha)}


_OF_TARGETS = (linear_model.LinearRegression, linear_model.Ridge, linear_model.RidgeCV)
_TRANSLATIONS = {
    linear_model.LogisticRegression: _logistic,
    linear_model.LogisticRegressionCV: _logistic,
    **dict.fromkeys(_OF_TARGETS, _least_squares),
    linear_model.PoissonRegressor: _poisson,
}
