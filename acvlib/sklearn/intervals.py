"""Intervals that hold the scores of exact refits, from a certificate."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..beyond.certify import Certificate
from .scoring import OF_CLASSES, OF_NUMBERS, TestRows, names_of
from .translation import Translation


def check_has_interval(translation: Translation, scoring: Any) -> None:
    """Raise ValueError unless there is one linear predictor, and each scorer a mean over rows."""
    if translation.model.family == "multinomial" or translation.model.y.ndim > 1:
        raise ValueError(
            "unreliable='certify': scores of several classes or targets have no interval; "
            "acv.certify(result) has one of the held-out loss"
        )
    scorers = _scorers(translation)
    names = names_of(scoring, translation) or {"test_score": scoring}
    for name in names.values():
        if not (isinstance(name, str) and name in scorers):
            known = ", ".join(scorers)
            raise ValueError(f"scoring = {name!r:.60} has no interval: use one or more of {known}")


def _scorers(translation):
    return OF_CLASSES if translation.model.family.name == "logistic" else OF_NUMBERS


def score_intervals(
    translation: Translation, scoring: Any, certificate: Certificate, tests: Sequence
) -> dict:
    """{"test_score_interval" or "test_<name>_interval": (n_folds, 2)}.

    The score of a row is best where its mean is nearest to y, and worst at an end of its interval.
    """
    model = translation.model
    folds = TestRows(tests)
    known = model.derivatives.concordance(certificate.result.fit)
    where = (certificate.centre, certificate.radius, folds.rows, folds.sizes)
    scores, moves = known.score_range(*where)
    y = model.y[folds.rows]
    ends = [model.family.mean(scores[0] - moves), model.family.mean(scores[0] + moves)]
    found = {}
    for key, name in names_of(scoring, translation).items():
        worst = np.minimum(*(_score(translation, name, y, end) for end in ends))
        best = _score(translation, name, y, np.clip(y, *ends))
        both = [folds.means(each) for each in (worst, best)]
        found[f"{key}_interval"] = np.column_stack(both)
    return found


def _score(translation, name, y, mean):
    """The score of each row, as a float."""
    score = _scorers(translation)[name]
    if score is OF_CLASSES.get(name):
        return score(y.astype(int), np.column_stack([1.0 - mean, mean])).astype(float)
    return score(y, mean)
