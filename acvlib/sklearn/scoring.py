"""Scores of all folds at once, for scorers that are means over rows; the others fold by fold.

`sklearn.metrics` scores one fold a call, and refuses the log loss of a single row.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import xlogy

from ..certificates import Certificate
from ..extras import require
from ..folds.checks import end_to_end
from ..parallel import pieces
from .translation import Translation

metrics = require("sklearn.metrics", extra="sklearn")

AT_ONCE = 2**14  # rows whose coefficients are in memory together


def _log_likelihood(y, mean):
    tiny = np.finfo(float).eps
    share = np.clip(np.where(y == 1.0, mean, 1.0 - mean), tiny, 1.0)
    return np.log(share)


def _poisson_deviance(y, mean):
    return 2.0 * (xlogy(y, y / mean) - y + mean)


# The score of a row, by the model's y (0 or 1 for classes) and mean; a fold's is their mean.
BY_ROW: dict[str, Callable] = {
    "accuracy": lambda y, mean: (mean > 0.5) == (y == 1.0),
    "neg_log_loss": _log_likelihood,
    "neg_brier_score": lambda y, mean: -((y - mean) ** 2),
    "neg_mean_squared_error": lambda y, mean: -((y - mean) ** 2),
    "neg_mean_absolute_error": lambda y, mean: -np.abs(y - mean),
    "neg_mean_poisson_deviance": lambda y, mean: -_poisson_deviance(y, mean),
    "neg_mean_gamma_deviance": lambda y, mean: -2.0 * (np.log(mean / y) + y / mean - 1.0),
}
OF_CLASSES = ("accuracy", "neg_log_loss", "neg_brier_score")


def fold_scores(
    translation: Translation, scoring: Any, params: np.ndarray, X: Any, y: Any, tests: Sequence
) -> dict:
    """{"test_score" or "test_<name>": (n_folds,)} at params (n_folds, D), on the test rows."""
    is_binary = translation.model.family.name == "logistic"
    names = _names(scoring, is_binary)
    if names is None:
        return _one_by_one(translation, scoring, params, X, y, tests)
    rows, sizes = end_to_end(tests)
    mean = means(translation, params, tests)
    own = translation.model.y[rows]
    starts = np.cumsum(sizes) - sizes
    found = {}
    for key, name in names.items():
        found[key] = np.add.reduceat(BY_ROW[name](own, mean).astype(float), starts) / sizes
    return found


def _names(scoring, is_binary):
    """{key: name in BY_ROW} of all that is asked for; None where one is not there."""
    if scoring is None and is_binary:
        scoring = "accuracy"
    if isinstance(scoring, str):
        asked = {"test_score": scoring}
    elif isinstance(scoring, dict):
        asked = {f"test_{key}": name for key, name in scoring.items()}
    elif isinstance(scoring, list | tuple | set):
        asked = {f"test_{name}": name for name in scoring}
    else:
        return None
    known = all(isinstance(name, str) and name in BY_ROW for name in asked.values())
    fits = known and all((name in OF_CLASSES) == is_binary for name in asked.values())
    return asked if fits else None


def check_by_row(translation: Translation, scoring: Any) -> None:
    """Raise ValueError unless every scorer is a mean over rows, of which intervals are known."""
    if _names(scoring, translation.model.family.name == "logistic") is None:
        known = ", ".join(BY_ROW)
        raise ValueError(f"scoring = {scoring!r:.60} has no interval: use one or more of {known}")


def score_intervals(
    translation: Translation, scoring: Any, certificate: Certificate, tests: Sequence
) -> dict:
    """{"test_score_interval" or "test_<name>_interval": (n_folds, 2)}, of exact refits' scores.

    The score of a row is best where its mean is nearest to y, and worst at an end of its interval.
    """
    model = translation.model
    known = model.derivatives.concordance(certificate.result.fit)
    rows, sizes = end_to_end(tests)
    eta, moves = known.eta_range(certificate.centre, certificate.radius, rows, sizes)
    own = model.y[rows]
    ends = [model.family.mean(eta - moves), model.family.mean(eta + moves)]
    starts = np.cumsum(sizes) - sizes
    found = {}
    for key, name in _names(scoring, model.family.name == "logistic").items():
        score = BY_ROW[name]
        worst = np.minimum(*(score(own, end).astype(float) for end in ends))
        best = score(own, np.clip(own, *ends)).astype(float)
        sums = [np.add.reduceat(each, starts) for each in (worst, best)]
        found[f"{key}_interval"] = np.column_stack(sums) / sizes[:, None]
    return found


def means(translation: Translation, params: np.ndarray, tests: Sequence) -> np.ndarray:
    """E[y | x] of the test rows of all folds, end to end, each at its fold's params."""
    model = translation.model
    rows, sizes = end_to_end(tests)
    folds = np.repeat(np.arange(len(params)), sizes)
    eta = np.empty(len(rows))
    for part in pieces(len(rows), AT_ONCE):
        eta[part] = np.einsum("nd,nd->n", model.design[rows[part]], params[folds[part]])
    return model.family.mean(eta)


def _one_by_one(translation, scoring, params, X, y, tests):
    rows = X.iloc if hasattr(X, "iloc") else X if hasattr(X, "tocsr") else np.asarray(X)
    scorer = metrics.check_scoring(translation.estimator, scoring)
    scores = []
    for point, test in zip(params, tests, strict=True):
        estimator = translation.estimator_at(point)
        scores.append(scorer(estimator, rows[test], y[test]))
    if isinstance(scores[0], dict):
        return {f"test_{name}": np.array([score[name] for score in scores]) for name in scores[0]}
    return {"test_score": np.array(scores)}
