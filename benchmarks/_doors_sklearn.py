"""Fitted scikit-learn estimators beside their own refits, and what scores and classes cost.

Ratios of the fastest of several runs in turns.
"""

from dataclasses import replace

import numpy as np
from _measure import ratio, report
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, LeaveOneOut, cross_validate

import acvlib as acv
from acvlib.models import GLM
from acvlib.sklearn.refits import Refits

SCORERS = ("accuracy", "neg_log_loss")  # others are taken fold by fold, by scikit-learn


def regression(n, dim, rng):
    """(X, y) of two classes."""
    X = rng.normal(size=(n, dim))
    return X, (X[:, :5].sum(axis=1) + rng.logistic(size=n) > 0).astype(int)


def bag_of_words(n, n_words, rng):
    """(X sparse, of unit rows, y): 60 words a text, a tenth of them from the text's topic."""
    topics = rng.dirichlet(np.full(n_words, 0.02), size=2)
    y = rng.integers(0, 2, n)
    counts = [rng.multinomial(60, 0.1 * topics[topic] + 0.9 * topics.mean(axis=0)) for topic in y]
    X = np.log1p(counts)
    return csr_array(X / np.linalg.norm(X, axis=1, keepdims=True)), y


def classes(n, dim, n_classes, rng):
    """(X, y) of a multinomial logistic regression."""
    X = rng.normal(size=(n, dim))
    scores = 0.5 * X @ rng.normal(size=(dim, n_classes)) + rng.gumbel(size=(n, n_classes))
    return X, scores.argmax(axis=1)


def scoring(rng):
    """Leave-one-out with scores over the same without."""
    X, y = regression(10_000, 20, rng)
    model = LogisticRegression().fit(X, y)

    def without():
        refits = Refits(model, X, y, None, None, LeaveOneOut())
        return refits.leave_out("newton_step", "refit")

    for name in SCORERS:

        def with_scores(name=name):
            return acv.approx_cross_validate(model, X, y, cv=LeaveOneOut(), scoring=name)

        report(f"GLM leave-one-out with {name}, over without", ratio(with_scores, without), 2)


def text(rng):
    """400 x 3,000 bag of words: refits over ours, and refits that are as accurate."""
    sparse, y = bag_of_words(400, 3000, rng)
    accurate = {"tol": 1e-8, "max_iter": 1000}
    for kind, X, settings in (
        ("sparse", sparse, {}),
        ("sparse, tol 1e-8,", sparse, accurate),
        ("dense", sparse.toarray(), {}),
    ):
        model = LogisticRegression(C=10.0, **settings).fit(X, y)
        for cv, least in ((KFold(5, shuffle=True, random_state=0), 1), (LeaveOneOut(), 20)):
            name = f"{kind} bag of words, {type(cv).__name__}: refits over ours"
            repeats = 1 if isinstance(cv, LeaveOneOut) else 9

            def refits(model=model, X=X, cv=cv):
                return cross_validate(model, X, y, cv=cv)

            def ours(model=model, X=X, cv=cv):
                return acv.approx_cross_validate(model, X, y, cv=cv)

            report(name, ratio(refits, ours, repeats), least, at_least=True)


def multinomial(rng):
    """Leave-one-out of 10,000 rows and 10 classes with scores, in fits."""
    for dim in (20, 60):
        X, y = classes(10_000, dim, 10, rng)

        def fit(X=X, y=y):
            return acv.fit(GLM(X, y, "multinomial", penalty=1.0))

        fitted = fit()

        def steps(X=X, y=y, fitted=fitted):
            anew = GLM(X, y, "multinomial", penalty=1.0)
            again = replace(fitted, model=anew)  # nothing that the fit has computed
            return acv.newton_step(again, acv.folds.leave_one_out(len(y))).loss

        name = f"10 classes, {dim} columns: leave-one-out in fits"
        report(name, ratio(steps, fit, 2), 3)


def targets(rng):
    """Several targets: refits over ours."""
    X = rng.normal(size=(1000, 50))
    Y = X @ rng.normal(size=(50, 20)) + rng.normal(size=(1000, 20))
    model = Ridge().fit(X, Y)
    for cv, least in ((KFold(5), 1), (LeaveOneOut(), 20)):

        def refits(cv=cv):
            return cross_validate(model, X, Y, cv=cv, scoring="neg_mean_squared_error")

        def ours(cv=cv):
            return acv.approx_cross_validate(model, X, Y, cv=cv, scoring="neg_mean_squared_error")

        name = f"20 targets, {type(cv).__name__}: refits over ours"
        report(name, ratio(refits, ours, 2), least, at_least=True)


def main():
    rng = np.random.default_rng(0)
    multinomial(rng)
    scoring(rng)
    text(rng)
    targets(rng)
