"""What `check_result` finds, beside exact refits, on the models of every chapter."""

import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import softmax
from sklearn.datasets import load_breast_cancer

import acvlib as acv
from acvlib.methods.ladder import METHODS, IndefiniteFold
from acvlib.models import GLM, GaussianHMM, LinearChainCRF, PairwiseLinear, PoissonTraffic

from ..datasets import load_or_simulate
from . import general, genomics, glm_errors, mocap_fits, mrf
from .ladders import some

LIMIT = 0.5  # standard errors of params, standard deviations of losses


class Problem(NamedTuple):
    """A fitted model and the folds that are left out of it."""

    chapter: str
    model: Any
    fit: acv.Fit
    folds: acv.Folds


def problems(rng: np.random.Generator) -> Iterator[Problem]:
    """Yield problems of every chapter, easy and hard, small enough to refit all their folds.

    Data, or where these are given the folds, are drawn from `rng`.
    """
    makers = (_traffic, _regressions, _own_hmm, _field, _tagger, _recordings, _genes, _general)
    for make in makers:
        for chapter, model, fit, folds in make(rng):
            yield Problem(chapter, model, fit or acv.fit(model, rng=rng), folds)


def every_problem(rng: np.random.Generator, every: int = 1) -> pd.DataFrame:
    """The `judged` folds of all `problems`, or of every so many of them."""
    return pd.concat([judged(problem) for problem in islice(problems(rng), 0, None, every)])


def judged(problem: Problem) -> pd.DataFrame:
    """Compare `check_result` with exact refits, one row a fold and method.

    Folds whose refit did not converge are left out: nobody knows how far they are.
    """
    _, model, fit, folds = problem
    exact = acv.exact(fit, folds)
    known = exact.diagnostics["converged"]
    spread = exact.fold_losses.std()
    tables = []
    for method in METHODS.values():
        result = exact if method is acv.exact else _run(method, model, fit, folds)
        check = acv.check_result(result, LIMIT)
        table = pd.DataFrame(
            {
                "method": method.__name__,
                "theta_error": fit.standard_errors_between(result.params, exact.params),
                "loss_error": np.abs(result.fold_losses - exact.fold_losses) / spread,
                "estimate": np.maximum(check.theta_errors, check.loss_errors),
                "unreliable": check.unreliable,
                "gradients": check.gradients / len(folds),
            }
        )
        tables.append(table[known])
    return pd.concat(tables).assign(chapter=problem.chapter)


def _run(method, model, fit, folds):
    """Folds with an indefinite Hessian are what the check is to find: no warning of them."""
    with warnings.catch_warnings(action="ignore", category=IndefiniteFold):
        return method(fit, folds)


def summary(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """Recall, precision and gradients a fold of `judged` folds, one row a group."""
    return table.groupby(by, sort=False).apply(_rates, include_groups=False)


def _rates(table):
    far = (table.theta_error > LIMIT) | (table.loss_error > LIMIT)
    marked, found = table.unreliable, np.sum(far & table.unreliable)
    rates = {
        "folds": len(far),
        "far": far.sum(),
        "marked": marked.sum(),
        "recall": found / far.sum() if far.any() else np.nan,
        "precision": found / marked.sum() if marked.any() else np.nan,
        "gradients": table.gradients.mean(),
    }
    return pd.Series(rates, dtype=float)


def overall(table: pd.DataFrame) -> pd.Series:
    """The rates of all approximate results: without the baseline and exact itself.

    share_far: the precision of marking every fold, or folds at random.
    """
    aside = table.method.isin(["no_adjustment", "exact"])
    rates = _rates(table[~aside])
    return pd.concat([rates, pd.Series({"share_far": rates.far / rates.folds})])


def _traffic(rng):
    """Three weeks, so that no block of a tenth holds all counts of a day: the model refuses it."""
    data = load_or_simulate("dodgers", rng).head(6_000)
    model = PoissonTraffic(data.counts, data.day)
    fit = acv.fit(model)
    for kind in (acv.folds.iid, acv.folds.contiguous):
        for percent in (2, 5, 10):
            folds = kind(model.n_sites, percent, 5, rng, observed=model.observed)
            yield "1 traffic", model, fit, folds


def _regressions(rng):
    for family in ("logistic", "poisson", "probit", "gaussian"):
        truth = glm_errors.truth(family, 20, rng)
        x, y = truth.draw(150, rng)
        for penalty in (0.1, 1.0, 10.0):
            model = GLM(x, y, family, penalty=penalty)
            fit = acv.fit(model)
            yield "3 regression", model, fit, acv.folds.leave_one_out(len(y))
            yield "3 regression", model, fit, acv.folds.k_fold(len(y), 10, rng)
    x, y = load_breast_cancer(return_X_y=True)  # nearly separable
    for penalty in (0.01, 0.1, 1.0):
        model = GLM((x - x.mean(0)) / x.std(0), y * 1.0, "logistic", penalty=penalty)
        fit = acv.fit(model)
        yield "3 breast cancer", model, fit, acv.folds.leave_one_out(model.n_sites)
        yield "3 breast cancer", model, fit, acv.folds.k_fold(model.n_sites, 10, rng)


def _own_hmm(rng):
    for separation in (1.0, 2.0, 3.0):
        for n_states in (2, 3):
            state = np.cumsum(rng.random(300) < 0.02) % n_states
            x = separation * state + rng.standard_normal(len(state))
            model = GaussianHMM(x[:, None], n_states)
            fit = acv.fit(model, rng=rng)
            yield "2 hidden states", model, fit, some(acv.folds.leave_one_out(len(x)), 30, rng)
            for percent in (5, 10):
                yield "2 hidden states", model, fit, acv.folds.contiguous(len(x), percent, 5, rng)
            yield "2 hidden states", model, fit, acv.folds.k_fold(len(x), 5)


def _field(rng):
    june = load_or_simulate("philadelphia", rng)
    for beta in (0.1, 0.4, 0.8):
        model = mrf.hidden_field(june, beta)
        yield "5 map", model, None, some(acv.folds.leave_one_out(len(june)), 4, rng)


def _tagger(rng):
    """A chain over the scores of a tagger that knows how often each word had each tag."""
    text = load_or_simulate("wnut17", rng).head(600, 10, 10).train
    text = text.take(np.sort(rng.choice(len(text.words), 100, replace=False)))
    numbers = {tag: number for number, tag in enumerate(sorted(set().union(*text.tags)))}
    counts = {}
    for words, tags in zip(*text, strict=True):
        for word, tag in zip(words, tags, strict=True):
            counts.setdefault(word, np.full(len(numbers), 0.5))[numbers[tag]] += 1.0
    scores = [np.log(softmax(np.log([counts[w] for w in words]), axis=1)) for words in text.words]
    tags = [np.array([numbers[tag] for tag in each]) for each in text.tags]
    for ridge in (1e-3, 1e-2, 1.0):
        model = LinearChainCRF(scores, tags, ridge)
        fit = acv.fit(model)
        yield "6 tags", model, fit, some(acv.folds.leave_one_out(model.n_sites), 30, rng)
        yield "6 tags", model, fit, acv.folds.k_fold(model.n_sites, 10, rng)


def _recordings(rng):
    data = load_or_simulate("mocap", rng).take(range(12))
    train, _ = mocap_fits.split(data, 10, rng)
    fitted = mocap_fits.fit_all(train.sequences, 3, mocap_fits.emissions((0, 1), ()), rng, 1)
    for one in fitted.values():
        yield "7 recordings", one.model, one.fit, acv.folds.leave_one_out(one.model.n_sites)


def _genes(rng):
    data = load_or_simulate("genomics", rng).take(40, 10)
    expression = data.replicates(rng)[data.train]
    for df in (4, 6):
        model = genomics.clustering(expression, data.hours, df, 4)
        fit = acv.fit(model, rng=rng)
        for size in (1, 2):
            yield "8 genes", model, fit, acv.Folds(genomics.left_out(size))


def _general(rng):
    for name, loss in (("cpusmall", None), ("svmguide3", "squared_hinge"), ("w2a_standin", None)):
        data = general.load(name, rng, 400)
        model = general.semi_supervised(data, rng, loss, gamma_p=0.1, gamma_i=0.01)
        folds = acv.folds.k_fold(model.n_sites, 20, rng, model.observed)
        yield "9 few labels", model, None, folds
    rows = general.points_and_response(general.load("svmguide3", rng, 600))
    model = PairwiseLinear(*rows, "contrastive", gamma_i=0.01)
    yield "9 pairs", model, None, acv.folds.k_fold(model.n_sites, 20, rng)
