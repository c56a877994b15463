"""Scores of all folds at once, for scorers that are means over rows; the others fold by fold.

`sklearn.metrics` scores one fold a call, and refuses the log loss of a single row.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import xlogy

from ..extras import require
from ..folds.checks import end_to_end
from .translation import Translation

base = require("sklearn.base", extra="sklearn")
exceptions = require("sklearn.exceptions", extra="sklearn")
linear_model = require("sklearn.linear_model", extra="sklearn")
metrics = require("sklearn.metrics", extra="sklearn")
utils = require("sklearn.utils", extra="sklearn")

_TINY = np.finfo(float).eps
BY_VARIANCE = (linear_model.LinearRegression, linear_model.Ridge, linear_model.RidgeCV)


def _log_likelihood(y, shares):
    own = shares[np.arange(len(y)), y]
    return np.log(np.clip(own, _TINY, 1.0))


def _brier(y, shares):
    miss = shares - np.eye(shares.shape[1])[y]
    scale = 0.5 if shares.shape[1] == 2 else 1.0
    return -scale * (miss**2).sum(axis=1)


def _poisson_deviance(y, mean):
    return 2.0 * (xlogy(y, y / mean) - y + mean)


# The score of a row, by its class and the shares of all (n, K), or by y and its mean; targets have
# one each. A fold's score is the mean.
OF_CLASSES: dict[str, Callable] = {
    "accuracy": lambda y, shares: shares.argmax(axis=1) == y,
    "neg_log_loss": _log_likelihood,
    "neg_brier_score": _brier,
}
OF_NUMBERS: dict[str, Callable] = {
    "neg_mean_squared_error": lambda y, mean: -((y - mean) ** 2),
    "neg_mean_absolute_error": lambda y, mean: -np.abs(y - mean),
    "neg_mean_absolute_percentage_error": (
        lambda y, mean: -np.abs(y - mean) / np.maximum(np.abs(y), _TINY)
    ),
    "neg_mean_poisson_deviance": lambda y, mean: -_poisson_deviance(y, mean),
    "neg_mean_gamma_deviance": lambda y, mean: -2.0 * (np.log(mean / y) + y / mean - 1.0),
}


class TestRows:
    """The test rows of all folds, end to end."""

    def __init__(self, tests: Sequence):
        self.rows, self.sizes = end_to_end(tests)
        self._starts = np.cumsum(self.sizes) - self.sizes

    @property
    def are_single(self):
        return self.sizes.max() == 1

    def means(self, values: np.ndarray) -> np.ndarray:
        sums = np.add.reduceat(values.astype(float), self._starts)
        return (sums.T / self.sizes).T

    def less_means(self, values: np.ndarray) -> np.ndarray:
        return values - np.repeat(self.means(values), self.sizes, axis=0)


def _root_mean_squares(y, mean, folds):
    return -np.sqrt(folds.means((y - mean) ** 2))


def _r2(y, mean, folds):
    if folds.sizes.min() < 2:
        _warn_undefined("r2")
    errors = folds.means((y - mean) ** 2)
    spread = folds.means(folds.less_means(y) ** 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(spread > 0.0, 1.0 - errors / spread, np.where(errors > 0.0, 0.0, 1.0))
    share[folds.sizes < 2] = np.nan
    return share


OF_FOLDS = {"r2": _r2, "neg_root_mean_squared_error": _root_mean_squares}  # each target's


def _warn_undefined(name):
    warnings.warn(
        f"{name} of a fold of one row is undefined, nan: score approx_cross_val_predict's rows",
        exceptions.UndefinedMetricWarning,
        stacklevel=2,
    )


def fold_scores(
    translation: Translation, scoring: Any, params: np.ndarray, X: Any, y: Any, tests: Sequence
) -> dict:
    """{"test_score" or "test_<name>": (n_folds,)} at params (n_folds, D), on the test rows."""
    asked = names_of(scoring, translation)
    if asked is None:
        return _one_by_one(translation, scoring, params, X, y, tests)
    folds = TestRows(tests)
    mean = means(translation, params, tests)
    found = {}
    for key, name in asked.items():
        scores = _at_once(name, translation, mean, y, folds)
        if scores is None:
            scores = _one_by_one(translation, name, params, X, y, tests)["test_score"]
        found[key] = scores
    return found


def names_of(scoring: Any, translation: Translation) -> dict | None:
    """{key: scorer} of all that is asked for; None for a function of everything."""
    if scoring is None:
        if base.is_classifier(translation.estimator):
            scoring = "accuracy"
        elif isinstance(translation.estimator, BY_VARIANCE):
            scoring = "r2"
    if isinstance(scoring, str):
        return {"test_score": scoring}
    if isinstance(scoring, dict):
        return {f"test_{key}": name for key, name in scoring.items()}
    if isinstance(scoring, list | tuple | set):
        return {f"test_{name}": name for name in scoring}
    return None


def _at_once(name, translation, mean, y, folds):
    """The scores of all folds (n_folds,); None where scikit-learn must take each."""
    own = translation.model.y[folds.rows]
    if not isinstance(name, str):
        return None
    if base.is_classifier(translation.estimator):
        if name in OF_CLASSES:
            return folds.means(OF_CLASSES[name](own.astype(int), mean))
        return _of_single_rows(name, translation.estimator.classes_, mean, y, folds)
    if name == "neg_median_absolute_error" and folds.are_single:
        name = "neg_mean_absolute_error"
    if name in OF_NUMBERS:
        scores = folds.means(OF_NUMBERS[name](own, mean))
    elif name in OF_FOLDS:
        scores = OF_FOLDS[name](own, mean, folds)
    else:
        return None
    return scores.reshape(len(scores), -1).mean(axis=1)


def _of_single_rows(name, classes, mean, y, folds):
    """Scores that depend on labels alone, by each pair of labels once."""
    if not folds.are_single:
        return None
    if name.startswith("roc_auc"):
        _warn_undefined(name)
        return np.full(len(folds.rows), np.nan)
    scorer = metrics.get_scorer(name)
    told = np.searchsorted(classes, y[folds.rows])
    pairs = told * len(classes) + mean.argmax(axis=1)
    kinds, places = np.unique(pairs, return_inverse=True)
    scores = []
    for kind in kinds:
        true, said = divmod(int(kind), len(classes))
        try:
            scores.append(scorer(_Says(classes, said), np.zeros((1, 1)), classes[[true]]))
        except AttributeError:  # it asks for more than labels
            return None
    return np.array(scores)[places]


class _Says(base.ClassifierMixin, base.BaseEstimator):  # type: ignore[name-defined]
    """A classifier that has one answer."""

    def __init__(self, classes: np.ndarray, said: int):
        self.classes_ = classes
        self._said = said

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.classes_[[self._said]]


def means(translation: Translation, params: np.ndarray, tests: Sequence) -> np.ndarray:
    """E[y | x], (n,) or (n, targets), or P(class) (n, K), of test rows at their fold's params."""
    rows, sizes = end_to_end(tests)
    mean = translation.model.own_means(params, rows, sizes)
    if base.is_classifier(translation.estimator) and mean.ndim == 1:
        return np.column_stack([1.0 - mean, mean])
    return mean


def _one_by_one(translation, scoring, params, X, y, tests):
    scorer = metrics.check_scoring(translation.estimator, scoring)
    scores = []
    for point, test in zip(params, tests, strict=True):
        estimator = translation.estimator_at(point)
        scores.append(scorer(estimator, utils._safe_indexing(X, test), y[test]))
    if isinstance(scores[0], dict):
        return {f"test_{name}": np.array([score[name] for score in scores]) for name in scores[0]}
    return {"test_score": np.array(scores)}
