"""Scores by scikit-learn's scorers, fold by fold; those that are means over rows, all at once."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import xlogy

from ..extras import require
from ..folds.checks import end_to_end
from .refits import Refits

base = require("sklearn.base", extra="sklearn")
metrics = require("sklearn.metrics", extra="sklearn")
utils = require("sklearn.utils", extra="sklearn")


def _log_likelihood(y, shares):
    return np.log(np.maximum(shares[np.arange(len(y)), y], np.finfo(float).eps))


def _brier(y, shares):
    scale = 0.5 if shares.shape[1] == 2 else 1.0
    return -scale * ((shares - np.eye(shares.shape[1])[y]) ** 2).sum(axis=1)


def _poisson_deviance(y, mean):
    with np.errstate(all="ignore"):
        deviance = 2.0 * (xlogy(y, y / mean) - y + mean)
    return np.where((y >= 0.0) & (mean > 0.0), -deviance, np.nan)


# The score of a row, by its class and the shares of all (n, K), or by y and its mean, where a
# fold's score is their mean; targets have one each.
OF_CLASSES: dict[str, Callable] = {
    "accuracy": lambda y, shares: 1.0 * (shares.argmax(axis=1) == y),
    "neg_log_loss": _log_likelihood,
    "neg_brier_score": _brier,
}
OF_NUMBERS: dict[str, Callable] = {
    "neg_mean_squared_error": lambda y, mean: -((y - mean) ** 2),
    "neg_mean_absolute_error": lambda y, mean: -np.abs(y - mean),
    "neg_mean_poisson_deviance": _poisson_deviance,
}


def named_scorers(refits: Refits, scoring: Any) -> dict:
    """{name: a scorer}, "score" for one alone, once scikit-learn knows them all."""
    metrics.check_scoring(refits.whole, scoring)
    if isinstance(scoring, list | tuple | set):
        return {name: name for name in scoring}
    return scoring if isinstance(scoring, dict) else {"score": scoring}


def fold_scores(refits: Refits, scoring: Any) -> tuple[dict, dict]:
    """({name: (n_folds,)}, {name: {fold: why it has no score}}), as `scoring` asks for them."""
    scores: dict = {}
    undefined: dict = {}
    for name, scorer in named_scorers(refits, scoring).items():
        values = np.full(len(refits.tests), np.nan)
        if score := row_score(refits, scorer):
            rows = score(outcomes(refits), refits.predictions)
            values = fold_means(refits, rows.reshape(len(rows), -1).mean(axis=1))
            values[list(refits.by_theirs)] = np.nan
        rest = np.flatnonzero(np.isnan(values))
        first, kinds = _alike(refits, scorer, rest)
        theirs, reasons = _by_fold(refits, name, scorer, rest[first])
        for key in max(theirs, key=len, default=[name]):
            scores[key] = values.copy()
            scores[key][rest] = np.array([each.get(key, np.nan) for each in theirs])[kinds]
            undefined[key] = reasons
    return scores, undefined


def row_score(refits: Refits, scorer: Any) -> Callable | None:
    """The score of each row, where that of a fold is its mean; None for other scorers."""
    scorer = _own_score(refits.whole) if scorer is None else scorer
    several = refits.outcomes.ndim == 2
    if not isinstance(scorer, str) or (several and scorer.endswith("deviance")):
        return None
    return (OF_CLASSES if base.is_classifier(refits.last) else OF_NUMBERS).get(scorer)


def _own_score(whole):
    """The name of the scorer that an object's own `score` is, or None."""
    if hasattr(whole, "steps"):
        return _own_score(whole.steps[-1][1])
    if hasattr(whole, "best_estimator_"):
        return _own_score(whole.best_estimator_) if whole.scoring is None else whole.scoring
    return "accuracy" if type(whole).score is base.ClassifierMixin.score else None


def outcomes(refits: Refits) -> np.ndarray:
    """y, or the number of its class, of the tests' rows, end to end."""
    y = refits.outcomes[end_to_end(refits.tests).sites]
    return np.searchsorted(refits.last.classes_, y) if base.is_classifier(refits.last) else y


def fold_means(refits: Refits, rows: np.ndarray) -> np.ndarray:
    """The mean over each test's rows."""
    sizes = end_to_end(refits.tests).sizes
    return (np.add.reduceat(rows, np.cumsum(sizes) - sizes).T / sizes).T


def _alike(refits, scorer, folds):
    """(a fold of each kind, the kind of each), where scores are the same within a kind.

    That is so where folds are single rows, and all that counts is their class and what is said.
    """
    kinds = np.arange(len(refits.tests))
    single = max(map(len, refits.tests)) == 1 and base.is_classifier(refits.last)
    method = getattr(metrics.get_scorer(scorer), "_response_method", "")
    if single and isinstance(scorer, str) and method == "predict":
        kinds = outcomes(refits) * len(refits.last.classes_) + refits.predictions.argmax(axis=1)
        for fold in refits.by_theirs:
            kinds[fold] = -1 - fold
    return np.unique(kinds[folds], return_index=True, return_inverse=True)[1:]


def _by_fold(refits, name, scorer, folds):
    """([{name: score} of each of these folds], {fold: why it has none}), by scikit-learn."""
    scorer = metrics.check_scoring(refits.whole, scorer)
    scores = []
    reasons = {}
    heard = {}
    for fold in folds.tolist():
        data = (utils._safe_indexing(each, refits.tests[fold]) for each in (refits.X, refits.y))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                score = scorer(refits.estimator(fold), *data)
            except Exception as error:  # as `cross_validate` does
                score, reasons[fold] = np.nan, error
        scores.append(score if isinstance(score, dict) else {name: score})
        texts = {(str(each.message), each.category): None for each in said}
        if np.isnan(list(scores[-1].values())).any():
            reasons.setdefault(fold, "; ".join(text for text, _ in texts) or "it is nan")
        else:
            heard |= texts
    for text, category in heard:
        warnings.warn(text, category, stacklevel=4)
    return scores, reasons
