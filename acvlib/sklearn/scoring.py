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
        scoring = {name: name for name in scoring}
    scorers = scoring if isinstance(scoring, dict) else {"score": scoring}
    scores: dict = {}
    for name, scorer in scorers.items():
        values = _by_row(refits, scorer)
        undefined = {}
        scores[name] = values
        scorer = metrics.check_scoring(refits.whole, scorer)
        for fold in np.flatnonzero(np.isnan(values)).tolist():
            data = (utils._safe_indexing(each, refits.tests[fold]) for each in (refits.X, refits.y))
            try:
                score = scorer(refits.estimator(fold), *data)
            except Exception as error:  # as `cross_validate` does
                undefined[fold] = f"{type(error).__name__}: {error}".rstrip(".")
                continue
            score = score if isinstance(score, dict) else {name: score}
            if name not in score:
                scores.pop(name, None)
            for key, value in score.items():
                scores.setdefault(key, np.full(len(values), np.nan))[fold] = value
            if np.isnan(list(score.values())).any():
                undefined[fold] = "it is nan"
        for fold in list(undefined)[:1]:
            warn(
                f"{name} of {len(undefined)} of {len(values)} folds is undefined, nan; of fold "
                f"{fold}: {undefined[fold]:.300}. A fold needs several rows, of each class: cv=10, "
                "say. Scores of single rows, pooled, rank worse than they predict",
                exceptions.UndefinedMetricWarning,
            )
    return scores


def _by_row(refits, scorer):
    """The score of each fold, (n_folds,), where it is a mean over rows; nan elsewhere."""
    last = refits.last
    stands = last in (refits.whole, getattr(refits.whole, "steps", [[None]])[-1][-1])
    if scorer is None and stands and type(last).score is base.ClassifierMixin.score:
        scorer = "accuracy"
    values = np.full(len(refits.tests), np.nan)
    known = OF_CLASSES if base.is_classifier(last) else OF_NUMBERS
    if isinstance(scorer, str) and scorer in known:
        sites, sizes = refits.tests.sites, refits.tests.sizes
        y = refits.outcomes[sites]
        y = np.searchsorted(last.classes_, y) if base.is_classifier(last) else y
        rows = known[scorer](y, refits.predictions).reshape(len(y), -1).mean(axis=1)
        values = np.add.reduceat(rows, refits.tests.ends[:-1]) / sizes
        values[list(refits.by_theirs)] = np.nan
    return values
