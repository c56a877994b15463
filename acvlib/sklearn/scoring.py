"""Scores by scikit-learn's scorers, fold by fold; those that are means over rows, all at once."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..checks import warn
from ..extras import require
from .refits import Refits

base = require("sklearn.base", extra="sklearn")
exceptions = require("sklearn.exceptions", extra="sklearn")
metrics = require("sklearn.metrics", extra="sklearn")
utils = require("sklearn.utils", extra="sklearn")


# The score of a row, by its class and the shares of all (n, K), or by y and its mean, where a
# fold's score is their mean; targets have one each.
OF_CLASSES: dict[str, Callable] = {
    "accuracy": lambda y, shares: 1.0 * (shares.argmax(axis=1) == y),
    "neg_log_loss": lambda y, shares: np.log(
        np.maximum(shares[np.arange(len(y)), y], np.finfo(float).eps)
    ),
}
OF_NUMBERS: dict[str, Callable] = {
    "neg_mean_squared_error": lambda y, mean: -((y - mean) ** 2),
    "neg_mean_absolute_error": lambda y, mean: -np.abs(y - mean),
}


def fold_scores(refits: Refits, scoring: Any) -> dict:
    """{name: (n_folds,)} as `scoring` asks for them; warns of those that are undefined, and nan."""
    metrics.check_scoring(refits.whole, scoring)
    if isinstance(scoring, list | tuple | set):
        scorers = {name: name for name in scoring}
    else:
        scorers = scoring if isinstance(scoring, dict) else {"score": scoring}
    sites, sizes = refits.tests.sites, refits.tests.sizes
    scores: dict = {}
    for name, scorer in scorers.items():
        values = np.full(len(refits.tests), np.nan)
        if score := _row_score(refits, scorer):
            y = refits.outcomes[sites]
            if base.is_classifier(refits.last):
                y = np.searchsorted(refits.last.classes_, y)
            rows = score(y, refits.predictions).reshape(len(y), -1).mean(axis=1)
            values = np.add.reduceat(rows, np.cumsum(sizes) - sizes) / sizes
            values[list(refits.by_theirs)] = np.nan
        theirs, undefined = _by_fold(refits, name, scorer, np.flatnonzero(np.isnan(values)))
        for key in max(theirs.values(), key=len, default=[name]):
            scores[key] = values.copy()
            for fold, found in theirs.items():
                scores[key][fold] = found.get(key, np.nan)
        for fold in list(undefined)[:1]:
            warn(
                f"{name} of {len(undefined)} of {len(values)} folds is undefined, nan; of fold "
                f"{fold}: {undefined[fold]:.300}. A fold needs several rows, of each class: cv=10, "
                "say. Scores of single rows, pooled, rank worse than they predict",
                exceptions.UndefinedMetricWarning,
            )
    return scores


def _row_score(refits, scorer):
    """The score of each row, where that of a fold is its mean; None for other scorers."""
    last = refits.last
    stands = last in (refits.whole, getattr(refits.whole, "steps", [[None]])[-1][-1])
    if scorer is None and stands and type(last).score is base.ClassifierMixin.score:
        scorer = "accuracy"
    known = OF_CLASSES if base.is_classifier(last) else OF_NUMBERS
    return known.get(scorer) if isinstance(scorer, str) else None


def _by_fold(refits, name, scorer, folds):
    """({fold: {name: score}} of these folds, {fold: why it has none}), by scikit-learn."""
    scorer = metrics.check_scoring(refits.whole, scorer)
    scores = {}
    undefined = {}
    for fold in folds.tolist():
        data = (utils._safe_indexing(each, refits.tests[fold]) for each in (refits.X, refits.y))
        try:
            score = scorer(refits.estimator(fold), *data)
        except Exception as error:  # as `cross_validate` does
            score = np.nan
            undefined[fold] = f"{type(error).__name__}: {error}".rstrip(".")
        scores[fold] = score if isinstance(score, dict) else {name: score}
        if np.isnan(list(scores[fold].values())).any():
            undefined.setdefault(fold, "it is nan")
    return scores, undefined
