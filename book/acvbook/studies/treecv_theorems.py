"""What the theorems on TreeCV speak of, measured: stability, excess risk, and the cost of a copy.

A population is a table of rows, all alike likely: draws from it are independent, and the risk of a
model is its mean loss over the table.
"""

import weakref
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import joblib
import numpy as np
import pandas as pd
from numba import njit
from scipy.optimize import brentq

from acvlib.treecv import CompiledLearner, Examples, kfold, treecv

from .ladders import seconds
from .ladders import slope as power


class Subject(NamedTuple):
    """A learner, make(n) for n rows; its population; the least risk in its class of models."""

    make: Callable
    population: Examples
    best: float


def gaps(subject, n, k, n_draws, rng):
    """TreeCV - CV, for doing nothing training error - CV, and se of CV: a row a draw of n rows."""
    learner = subject.make(n)
    draws = []
    for stream in rng.spawn(n_draws):
        rows = _drawn(subject, n, stream)
        tree = treecv(learner, rows, k, shuffle=False).fold_losses.mean()
        result = kfold(learner, rows, k, shuffle=False)
        standard = result.fold_losses.mean()
        training = learner.loss(_learnt(learner, rows, [np.arange(n)]), rows.X, rows.y).mean()
        gaps = {"treecv": tree - standard, "nothing": training - standard}
        draws.append(gaps | {"n": n, "se": result.se})
    return pd.DataFrame(draws)


def stability(subject, n, b, n_chunks, n_draws, rng):
    """How much it matters to learn in chunks (Definition 1): a DataFrame with a row a draw.

    A draw is n - b rows to learn and b to test, independent of each other, and a random partition
    of the first into non-empty chunks. difference: loss on the tests of the model that learnt chunk
    by chunk, minus that of the model that learnt all rows as they stand; incremental, batch: excess
    risks of both.
    """
    learner = subject.make(n)
    draws = []
    for stream in rng.spawn(n_draws):
        rows, tests = _drawn(subject, n - b, stream), _drawn(subject, b, stream)
        cuts = np.sort(stream.choice(np.arange(1, n - b), n_chunks - 1, replace=False))
        chunks = np.split(stream.permutation(n - b), cuts)
        models = {
            "incremental": _learnt(learner, rows, [np.sort(chunk) for chunk in chunks]),
            "batch": _learnt(learner, rows, [np.arange(n - b)]),
        }
        on_tests = {name: _mean_loss(learner, model, tests) for name, model in models.items()}
        excess = {
            name: _mean_loss(learner, model, subject.population) - subject.best
            for name, model in models.items()
        }
        difference = on_tests["incremental"] - on_tests["batch"]
        draws.append({"difference": difference, "n": n} | excess)
    return pd.DataFrame(draws)


def _drawn(subject, n, rng):
    return subject.population.take(rng.integers(len(subject.population), size=n))


def _learnt(learner, rows, chunks):
    state = learner.init()
    for chunk in chunks:
        state = learner.update(state, rows.X[chunk], _of(rows.y, chunk))
    return state


def _mean_loss(learner, state, rows):
    return learner.loss(state, rows.X, rows.y).mean()


def bounds(stable):
    """By n, from `stability`: `sure`, the largest |difference| seen (Theorem 1), and `expected`,
    the larger of the two mean excess risks (Theorem 2).
    """
    by_n = stable.groupby("n")
    sure = by_n["difference"].agg(lambda values: values.abs().max())
    return pd.DataFrame(
        {"sure": sure, "expected": by_n[["incremental", "batch"]].mean().max(axis=1)}
    )


def over_sure_bound(drawn, bound, column="treecv"):
    """Largest |gap| over the bound of Theorem 1, one value a draw: the worst over n."""
    ratios = drawn[column].abs() / drawn["n"].map(bound["sure"])
    return ratios.groupby(drawn.groupby("n").cumcount()).max().to_numpy()


def over_expected_bound(drawn, bound, column="treecv"):
    """|Mean gap| over the bound of Theorem 2: the worst over n."""
    return float((drawn.groupby("n")[column].mean().abs() / bound["expected"]).max())


def standard_errors(drawn, column="treecv"):
    """|Mean gap| in its standard errors: the largest over n."""
    by_n = drawn.groupby("n")[column]
    return float((by_n.mean().abs() / by_n.sem()).max())


def slope(drawn, column="treecv"):
    """Slope of the log of the root mean square gap against log n."""
    size = np.sqrt((drawn[column] ** 2).groupby(drawn["n"]).mean())
    return power(size.index, size)


def least_squares_in_ball(data):
    """Smallest mean squared error of weights with |w| <= 1: of ridge regression, its penalty such
    that |w| = 1, unless it is smaller without.
    """
    values, vectors = np.linalg.eigh(data.X.T @ data.X / len(data))
    moments = vectors.T @ (data.X.T @ data.y) / len(data)

    def weights(penalty):
        return moments / (np.maximum(values, 1e-12) + penalty)

    def excess(penalty):
        return np.linalg.norm(weights(penalty)) - 1.0

    penalty = 0.0 if excess(0.0) <= 0 else brentq(excess, 0.0, np.linalg.norm(moments))
    return float(np.mean((data.X @ (vectors @ weights(penalty)) - data.y) ** 2))


def linear_error(data):
    """Share of errors of a logistic regression: a good linear classifier, if not the best."""
    from sklearn.linear_model import LogisticRegression

    fit = LogisticRegression(C=1e3, fit_intercept=False, max_iter=500).fit(data.X, data.y)
    return float((fit.predict(data.X) != data.y).mean())


def quantisation_error(data, n_clusters):
    """Mean squared distance to the nearest of the best centres found in ten starts."""
    from sklearn.cluster import KMeans

    fit = KMeans(n_clusters, n_init=10, random_state=0).fit(data.X)
    return float(fit.inertia_ / len(data))


def classified(state, X, y):
    """1{f(x) != y} of Table 1, f the sign of V.x."""
    return (np.where(X @ state[:-1] > 0, 1.0, -1.0) != y).astype(float)


def squared(state, X, y):
    """(f(x) - y)^2 of Table 1, f of the mean weights."""
    d = X.shape[1]
    return (X @ state[d : 2 * d] / state[2 * d] - y) ** 2


def to_centre(state, X, y, n_clusters):
    """|x - f(x)|^2 of Table 1, f(x) the nearest centre."""
    centres = state[: n_clusters * X.shape[1]].reshape(n_clusters, -1)
    return ((X[:, None] - centres) ** 2).sum(axis=2).min(axis=1)


def count_updates(sizes):
    """How many rows `treecv` learns of chunks of these sizes: T(s, e) of Theorem 3."""
    return int(_depths(len(sizes)) @ np.asarray(sizes))


@cache
def _depths(k):
    """How many inner nodes of the tree are above each of k chunks, (k,)."""
    if k == 1:
        return np.array([0])
    return 1 + np.append(_depths((k + 1) // 2), _depths(k // 2))


def algorithm_1(learner, data, k, loss):
    """TreeCV as the paper prints it, in plain Python: loss(state, X, y) of each row, (n,)."""
    bounds = [0, *np.cumsum([len(chunk) for chunk in np.array_split(np.arange(len(data)), k)])]
    losses = np.empty(len(data))

    def descend(first, last, state):
        held_out = slice(bounds[first], bounds[last + 1])
        if first == last:
            losses[held_out] = loss(state, data.X[held_out], _of(data.y, held_out))
            return
        middle = (first + last) // 2
        left, right = (first, middle), (middle + 1, last)
        for node, other in (left, right), (right, left):
            fed = slice(bounds[other[0]], bounds[other[1] + 1])
            descend(*node, learner.update(state.copy(), data.X[fed], _of(data.y, fed)))

    descend(0, k - 1, learner.init())
    return losses


class Alive:
    """A learner that learns nothing and counts how many of its models are kept at once."""

    def __init__(self):
        self.now = self.most = 0

    def init(self):
        return self.copy(None)

    def copy(self, state):
        model = np.zeros(1)
        weakref.finalize(model, self._gone)
        self.now += 1
        self.most = max(self.most, self.now)
        return model

    def _gone(self):
        self.now -= 1

    def update(self, state, X, y):
        return state

    def loss(self, state, X, y):
        return np.zeros(len(X))


def models_kept(data, k):
    """How many models TreeCV keeps at once, the branches one after another."""
    learner = Alive()
    with joblib.parallel_config(n_jobs=1):
        treecv(learner, data, k, shuffle=False)
    return learner.most


def _of(y, rows):
    return None if y is None else y[rows]


@njit(cache=True, nogil=True)
def _learn_nothing(states, at, constants, X, y, rows, start, stop):
    pass


@njit(cache=True, nogil=True)
def _test_nothing(states, at, constants, X, y, start, stop, out):
    out[start:stop] = 0.0


def idle(learner, n_numbers):
    """A learner of the same rows that learns and tests nothing, with so many numbers to copy."""
    return CompiledLearner(
        name="idle",
        n_features=learner.n_features,
        initial=np.zeros(n_numbers),
        constants=np.zeros(1),
        update_kernel=_learn_nothing,
        loss_kernel=_test_nothing,
    )


class Cost(NamedTuple):
    """One measurement of Theorem 3, in seconds: of TreeCV for each k, of standard cross-validation
    for the ks below 1,000, and of the bound for each k; c, and t_c in seconds.
    """

    treecv: np.ndarray
    standard: np.ndarray
    bound: np.ndarray
    one_pass: float
    c: float
    t_c: float


def cost(learner, data, ks):
    """Measure T(k) and what bounds it.

    t_u: one pass over the rows, over n. t_c, and what a call costs before its recursion begins:
    TreeCV of a learner that learns nothing, for all folds and for few. c: what is added by copying
    models of this learner's size, over t_u. k t_l: one pass of tests.
    """
    n, few = len(data), min(ks)
    rows, losses = np.arange(n), np.empty(n)
    model = (learner.init()[None], 0, learner.constants, data.X, data.y)
    (one_pass,) = seconds(lambda: learner.update_kernel(*model, rows, 0, n))
    (tests,) = seconds(lambda: learner.loss_kernel(*model, 0, n, losses))
    light, heavy = idle(learner, 1), idle(learner, len(learner.initial))
    before = _seconds(treecv, light, data, few)
    t_c = max(_seconds(treecv, light, data, n) - before, 0.0) / (n - few)
    copies = _seconds(treecv, heavy, data, n) - _seconds(treecv, light, data, n)
    c = max(copies, 0.0) / (n - 1) / (one_pass / n)
    k = np.array(ks)
    return Cost(
        np.array([_seconds(treecv, learner, data, folds) for folds in ks]),
        np.array([_seconds(kfold, learner, data, folds) for folds in ks if folds < 1_000]),
        before + (1 + c) * one_pass * np.log2(2 * k) + (k - 1) * t_c + tests,
        one_pass,
        c,
        t_c,
    )


def _seconds(method, learner, data, k):
    return method(learner, data, k, shuffle=False).seconds
