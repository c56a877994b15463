"""Cross-validation of fitted scikit-learn estimators without refitting them."""

import time

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import LeaveOneOut, check_cv

from .. import folds as fold_schemes
from ..methods.exact import exact
from ..methods.jackknife import infinitesimal_jackknife
from ..methods.newton_step import newton_step
from ..methods.no_adjustment import no_adjustment
from .estimators import as_glm, fit_of, with_params

METHODS = {
    rung.__name__: rung for rung in (no_adjustment, infinitesimal_jackknife, newton_step, exact)
}


def approx_cross_validate(
    estimator, X, y, *, groups=None, cv=None, scoring=None, sample_weight=None, method="newton_step"
):
    """What `sklearn.model_selection.cross_validate` returns, for a fitted estimator, at about the cost of one fit.

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

    estimator: a fitted LogisticRegression, Ridge or PoissonRegressor (`estimators.as_glm` has the conventions and
    what is refused); cv, groups, scoring: as in `cross_validate`, any splitter whose training sets have no
    repeats, scorers that work on predictions, several at once as a list or dict; sample_weight (n,) weighs
    fitting, not scoring; method: "newton_step" (the default: it costs no more than the jackknife here, and errs
    far less), "infinitesimal_jackknife", "no_adjustment" or "exact".

    Returns a dict of arrays (n_folds,): fit_time, score_time, test_score (test_<name> for several), and
    cv_result, the `CVResult` of the folds, each being all that its training set leaves out. Its `pointwise` is
    the log loss of every row, which the scorer neg_log_loss refuses to give for single ones.
    """
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}: one of {', '.join(METHODS)}")
    model = as_glm(estimator, X, y, sample_weight)
    splitter = check_cv(cv, y, classifier=is_classifier(estimator))
    left_out, tests = _splits(splitter, model, X, y, groups)
    result = METHODS[method](model, fit_of(estimator, model), left_out)
    started = time.perf_counter()
    scores = _scores(
        check_scoring(estimator, scoring), estimator, result.params, X, np.asarray(y), tests
    )
    each = np.full(len(tests), 1.0 / len(tests))
    times = {
        "fit_time": each * result.seconds,
        "score_time": each * (time.perf_counter() - started),
    }
    return times | scores | {"cv_result": result}


def _splits(splitter, model, X, y, groups):
    """(what each training set leaves out, the test sets); sites of weight 0 are in no fold."""
    if isinstance(splitter, LeaveOneOut) and model.observed.all():
        table = fold_schemes.leave_one_out(model.n_sites)
        return table, table
    pairs = [
        (_complement(train, test, model.observed), test)
        for train, test in splitter.split(X, y, groups)
    ]
    left_out, tests = zip(*pairs, strict=True)
    return list(left_out), list(tests)


def _complement(train, test, observed):
    kept = np.bincount(train, minlength=len(observed))
    if kept.max() > 1 or kept[test].any():
        raise ValueError(
            "a training set repeats a row or shares one with its test set: that is no cross-validation"
        )
    return np.flatnonzero((kept == 0) & observed)


def _scores(scorer, estimator, params, X, y, tests):
    rows = X.iloc if hasattr(X, "iloc") else np.asarray(X)
    scores = [
        scorer(with_params(estimator, p), rows[test], y[test])
        for p, test in zip(params, tests, strict=True)
    ]
    if isinstance(scores[0], dict):
        return {f"test_{name}": np.array([score[name] for score in scores]) for name in scores[0]}
    return {"test_score": np.array(scores)}
