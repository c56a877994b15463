"""Cross-validation of fitted scikit-learn estimators without refitting them."""

import time
from collections.abc import Callable
from numbers import Real
from typing import Annotated, Any

import numpy as np
from scipy.special import xlogy

from ..checks import WIDEST, NotFinite, real_array, require, shortened, warn
from ..declared import Check, Is, OneOf, Sizes, declared
from .refits import ACTIONS, METHODS, Refits, UnreliableFolds

base = require("sklearn.base", extra="sklearn")
exceptions = require("sklearn.exceptions", extra="sklearn")
metrics = require("sklearn.metrics", extra="sklearn")
utils = require("sklearn.utils", extra="sklearn")

__all__ = ["PooledScores", "UnreliableFolds", "approx_cross_val_predict", "approx_cross_validate"]

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
    "neg_mean_poisson_deviance": lambda y, mean: (
        -2.0 * (xlogy(y, y / np.where((mean > 0.0) & (y.ndim == 1), mean, np.nan)) - y + mean)
    ),
}


class PooledScores(UserWarning):
    """Scores of models that differ are about to be ranked together."""


class ErrorScore(Check):
    """A number, nan too, or "raise"."""

    def __call__(self, name: str, value: Any, sizes: Sizes) -> Any:
        if isinstance(value, str):
            if value != "raise":
                raise ValueError(f"{name} = {value!r:.60}: give a number, nan or 'raise'")
            return value
        return real_array(name, value, 0, finite=False).item()


@declared
def approx_cross_validate(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    cv: Any = None,
    scoring: Any = None,
    params: Annotated[dict, Is()] | None = None,
    method: Annotated[str, OneOf(*METHODS)] = "newton_step",
    unreliable: Annotated[str, OneOf(*ACTIONS)] = "refit",
    error_score: Annotated[float | str, ErrorScore()] = np.nan,
) -> dict:
    """Cross-validate a fitted estimator as `sklearn.model_selection.cross_validate`, for one fit.

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import LeaveOneOut
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = StandardScaler().fit_transform(X)
    >>> model = LogisticRegression().fit(X, y)
    >>> scores = approx_cross_validate(model, X, y, cv=LeaveOneOut(), scoring="accuracy")
    >>> print(f"{scores['test_score'].mean():.3f}")
    0.979

    Parameters
    ----------
    estimator: a fitted LogisticRegression, of any number of classes, balanced or not; a
        LinearRegression or Ridge, of one target or several; a PoissonRegressor; or one that
        LogisticRegressionCV or RidgeCV chose, alone or at the end of a Pipeline or in a search. A
        Pipeline's other steps stay as fitted to all rows. `acvlib.sklearn.estimators` has the
        conventions.
    X: (n, p), dense, sparse or a data frame of pandas or polars. Where p > n and coefficients are
        penalised, the work is that of n columns.
    cv, groups, scoring: as in `cross_validate`; any splitter whose training sets have no repeats,
        or `acvlib.Folds`; scorers see the whole estimator, Pipeline or search, and X as it is here.
    params: {"sample_weight": (n,)}, which weighs fitting, not scoring; the name is as for
        `cross_validate`: "ridge__sample_weight" for the step "ridge" that ends a Pipeline.
    method: "newton_step" costs no more than "infinitesimal_jackknife" here, and errs far less;
        also "no_adjustment", "frozen_newton" or "exact".
    unreliable: "refit" exactly the folds that `check_result` finds too far from their refits, or
        "ignore" them, without a check. The baseline no_adjustment, exact, and newton_step of Ridge
        and LinearRegression, which is exact, are not checked.
    error_score: the score of a fold whose scorer fails or says nan (which scikit-learn leaves nan);
        an UndefinedMetricWarning names such folds, and the others go on. "raise" raises.

    Returns
    -------
    A dict of arrays (n_folds,): fit_time, score_time, test_score (test_<name> for several) and
    unreliable (bool; refitted, if that was asked); and cv_result, the `CVResult`. It is without the
    folds that leave no row of some class, or score rows of weight 0 alone: these are refitted by
    scikit-learn. Its folds and losses are those of the estimator, on all of X as the other steps
    make it; its params and its model are not: they are of columns and y less their levels, or,
    where X is wide or collinear, in another basis.

    test_score.mean() weighs each fold alike, as in scikit-learn. For a score of all left-out rows
    together, give `approx_cross_val_predict` to the metric.

    Raises
    ------
    ValueError: a Pipeline with a step that learns from y, such as SelectKBest: as fitted to all
        rows it has seen what is left out.
    """
    refits = Refits(estimator, X, y, params, groups, cv)
    refits.leave_out(method, unreliable)
    started = time.perf_counter()
    scores = fold_scores(refits, scoring, error_score)
    seconds = {"fit_time": refits.seconds, "score_time": time.perf_counter() - started}
    n_folds = len(refits.tests)
    columns: dict = {name: np.full(n_folds, total / n_folds) for name, total in seconds.items()}
    columns |= {f"test_{name}": values for name, values in scores.items()}
    return columns | {"cv_result": refits.result, "unreliable": refits.unreliable}


@declared
def approx_cross_val_predict(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    cv: Any = None,
    params: Annotated[dict, Is()] | None = None,
    output: Annotated[str, OneOf("predict", "predict_proba")] = "predict",
    method: Annotated[str, OneOf(*METHODS)] = "newton_step",
    unreliable: Annotated[str, OneOf(*ACTIONS)] = "refit",
) -> np.ndarray:
    """Predict every row without its fold as `sklearn.model_selection.cross_val_predict`.

    output: "predict", (n,) or (n, targets); or, of a classifier, "predict_proba", (n, K); the rest
    is as for `approx_cross_validate`. A metric of all rows at once, the pooled score, weighs each
    row alike:

    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.metrics import root_mean_squared_error
    >>> X, y = load_diabetes(return_X_y=True)
    >>> predicted = approx_cross_val_predict(Ridge().fit(X, y), X, y, cv=7)
    >>> print(f"{root_mean_squared_error(y, predicted):.2f}")
    58.14

    Each row is predicted by a model of its own. To rank or correlate these predictions (area under
    the curve, r2) is not cross-validation: without a row of a class, a model thinks that class a
    little rarer, and labels that nothing predicts rank below chance, the more so the stronger the
    penalty. Of two classes, rows that are left out one by one warn of it by `PooledScores`; their
    mean log loss and their accuracy are sound. Source: Austin, Pe'er and Korem (2025).

    Raises
    ------
    ValueError: a cv whose test sets are no partition of the rows; probabilities of a regression
    """
    refits = Refits(estimator, X, y, params, groups, cv)
    is_classifier = base.is_classifier(refits.last)
    if output == "predict_proba" and not is_classifier:
        name = type(refits.last).__name__
        raise ValueError(f"{name} has no predict_proba: use output='predict'")
    rows = refits.tests.sites
    if not np.array_equal(np.sort(rows), np.arange(len(refits.outcomes))):
        raise ValueError("the test sets of cv are no partition of the rows: use a KFold, say")
    two_classes = output == "predict_proba" and len(refits.last.classes_) == 2
    if two_classes and refits.tests.sizes.max() == 1:
        advice = "their ranks (area under the curve) are biased, down to 0 for a strong penalty"
        remedy = "score folds of several rows instead, by approx_cross_validate(cv=10)"
        warn(f"each row is predicted by a model of its own: {advice}; {remedy}", PooledScores)
    refits.leave_out(method, unreliable)
    if refits.plain:
        answers = refits.predictions
        if output == "predict" and is_classifier:
            answers = refits.last.classes_[answers.argmax(axis=1)]
        for fold in refits.by_theirs:
            answers[slice(*refits.tests.ends[fold : fold + 2])] = refits.asked(fold, output)
    else:
        answers = np.concatenate([refits.asked(fold, output) for fold in range(len(refits.tests))])
    return answers[np.argsort(rows)]


def fold_scores(refits: Refits, scoring: Any, error_score: Any = np.nan) -> dict:
    """{name: (n_folds,)} as `scoring` asks for them; warns of the undefined, which error_score has.

    Where that is "raise", raises what the scorer raises, or NotFinite of a score that is nan.
    """
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
                if error_score == "raise":
                    error.add_note(f"scoring {name} of fold {fold}")
                    raise
                undefined[fold] = f"{type(error).__name__}: {error}".rstrip(".")
                continue
            score = score if isinstance(score, dict) else {name: score}
            if name not in score:
                scores.pop(name, None)
            for key, value in score.items():
                value = value.item() if getattr(value, "ndim", 1) == 0 else value
                if not isinstance(value, Real):
                    got = f"got {value} ({type(value)}) instead"
                    raise ValueError(f"scoring must return a number, {got}. (scorer={key})")
                scores.setdefault(key, np.full(len(values), np.nan))[fold] = value
            if np.isnan(list(score.values())).any():
                undefined[fold] = "it is nan"
        if undefined:
            _report(refits, f"{name} of {len(undefined)} of {len(values)}", undefined, error_score)
    filler = np.nan if error_score == "raise" else error_score
    return {name: np.where(np.isnan(each), filler, each) for name, each in scores.items()}


def _report(refits, what, undefined, error_score):
    """Warn of, or raise for, folds without a score: {fold: why}."""
    fold, why = next(iter(undefined.items()))
    remedy = (
        "Without its rows a class has none: leave that class out, or use another scoring"
        if fold in refits.by_theirs and base.is_classifier(refits.last)
        else "A fold needs several rows, of each class: cv=10, say. Scores of single rows, "
        "pooled, rank worse than they predict"
    )
    folds = shortened(", ".join(map(str, undefined)), WIDEST)
    message = f"{what} folds is undefined ({folds}); of fold {fold}: {why:.300}. {remedy}"
    if error_score == "raise":
        raise NotFinite(message)
    warn(message, exceptions.UndefinedMetricWarning)


def _by_row(refits, scorer):
    """The score of each fold, (n_folds,), where it is a mean over rows; nan elsewhere."""
    last = refits.last
    stands = all(hasattr(layer, "steps") for layer in refits.layers[:-1])
    if scorer is None and stands and type(last).score is base.ClassifierMixin.score:
        scorer = "accuracy"
    values = np.full(len(refits.tests), np.nan)
    known = OF_CLASSES if base.is_classifier(last) else OF_NUMBERS
    if isinstance(scorer, str) and scorer in known and refits.plain:
        sites, sizes = refits.tests.sites, refits.tests.sizes
        y = refits.outcomes[sites]
        y = np.searchsorted(last.classes_, y) if base.is_classifier(last) else y
        assert known is OF_CLASSES or y.shape == refits.predictions.shape
        rows = known[scorer](y, refits.predictions).reshape(len(y), -1).mean(axis=1)
        values = np.add.reduceat(rows, refits.tests.ends[:-1]) / sizes
        values[list(refits.by_theirs)] = np.nan
    return values
