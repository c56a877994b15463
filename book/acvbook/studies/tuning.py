"""Tuning by the gradient of exact cross-validation, beside grids, random search and one knob."""

import itertools
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import acvlib as acv
from acvlib.models import GLM, HiddenMRF, PoissonHMM
from acvlib.trials import attempt

from .ladders import seconds

WIDTH = 1e3  # times the start, up and down: the box of every search
EACH = 2  # exact cross-validations that a search may take for each value with gradient
METHODS = ("start", "grid", "random", "one", "tune")
STEP = 4e-3  # of alpha, by which converged losses are differenced


class Problem(NamedTuple):
    """A model of alpha, its folds, where fits start, and the loss on data that no fold has."""

    name: str
    model_of: Callable
    start: np.ndarray
    folds: acv.Folds
    params: np.ndarray | None
    test: Callable | None


def forest(data: Any, n: int, rng: np.random.Generator, n_test: int = 20_000) -> Problem:
    """Spruce or not: a ridge for slopes, squares, products, wilderness areas and soils."""
    centre = data.X[:, :10].mean(axis=0)
    scale = data.X[:, :10].std(axis=0)
    i, j = np.triu_indices(10, 1)
    rows = rng.choice(len(data), n + n_test, replace=False)
    chosen = data.take(rows)
    x = (chosen.X[:, :10] - centre) / scale
    X = np.hstack([x, x**2 - 1.0, x[:, i] * x[:, j], chosen.X[:, 10:]])
    y = (chosen.cover == 1).astype(float)
    group = np.repeat(np.arange(5), [10, 10, 45, 4, 40])

    def model_of(alpha):
        return GLM(X[:n], y[:n], "logistic", penalty=alpha[group])

    def test(params):
        eta = X[n:] @ params[1:] + params[0]
        return float(np.mean(np.logaddexp(0.0, eta) - y[n:] * eta))

    folds = acv.Folds(np.array_split(rng.permutation(n), 10))
    return Problem("forest", model_of, np.ones(5), folds, None, test)


def traffic(data: Any, n_days: int, rng: np.random.Generator, n_states: int = 3) -> Problem:
    """A count an hour, days as sequences: a concentration a state, and the prior of the rates."""
    counts = np.where(data.counts < 0, np.nan, data.counts)
    days = counts[: len(counts) // 288 * 288].reshape(-1, 288)[:, ::12]
    days = days[np.isfinite(days).mean(axis=1) > 0.5]
    first = int(rng.integers(len(days) - n_days + 1))
    own = list(days[first : first + n_days, :, None])
    others = list(np.delete(days, np.s_[first : first + n_days], axis=0)[:, :, None])
    unseen = PoissonHMM(others, n_states, sites="sequences")
    everywhere = np.arange(len(others))

    def model_of(alpha):
        rows = 1.0 + alpha[:-2, None]
        prior = (1.0 + alpha[-2], alpha[-1])
        return PoissonHMM(own, n_states, prior, sites="sequences", concentration=rows)

    def test(params):
        return float(unseen.heldout_loss(params, everywhere).mean())

    start = np.append(np.full(n_states + 1, 0.5), [1.0, 0.05])
    model = model_of(start)
    fits = [acv.fit(model, model.initial_params(each)) for each in rng.spawn(5)]
    best = min(fits, key=lambda fit: fit.objective)
    folds = acv.Folds(np.array_split(rng.permutation(n_days), 7))
    return Problem("traffic", model_of, start, folds, best.params, test)


def crime(data: Any, n_folds: int, rng: np.random.Generator) -> Problem:
    """The coupling of neighbouring tracts."""
    folds = acv.Folds(np.array_split(rng.permutation(len(data.counts)), n_folds))

    def model_of(alpha):
        return HiddenMRF(data.counts, data.edges, alpha[0])

    return Problem("map", model_of, np.array([0.1]), folds, None, None)


def checks(problems: list[Problem], repeats: int) -> pd.DataFrame:
    """Error of each gradient, and its price in fits with exact cross-validations."""
    rows = []
    for problem in problems:
        found = {"hyperparameters": len(problem.start), "folds": len(problem.folds)}
        found["error"] = gradient_error(problem)
        found["price"] = price(problem, repeats)
        rows.append(found)
    return pd.DataFrame(rows, [problem.name for problem in problems])


def gradient_error(problem: Problem) -> float:
    """|gradient by log alpha - differences of fourth order| over its size; all is converged."""
    alpha = problem.start
    found = acv.cv_gradient(problem.model_of, alpha, problem.folds, problem.params, tolerance=1e-9)

    def loss(j, share):
        moved = alpha.copy()
        moved[j] *= 1.0 + share
        model = problem.model_of(moved)
        fit = acv.fit(model, found.fit.params, tolerance=1e-9)
        return acv.exact(fit, problem.folds, tolerance=1e-10).loss

    slopes = []
    for j in range(len(alpha)):
        near, far = (loss(j, s * STEP) - loss(j, -s * STEP) for s in (1, 2))
        slopes.append((8.0 * near - far) / (12.0 * STEP))
    return float(np.linalg.norm(alpha * found.gradient - slopes) / np.linalg.norm(slopes))


def price(problem: Problem, repeats: int) -> float:
    """Processor time of a value with gradient over that of a fit with exact cross-validation.

    Both go on from another alpha, as a search does: the fit from its params, in either.
    """
    before = acv.cv_gradient(problem.model_of, problem.start, problem.folds, problem.params)
    alpha = 1.2 * problem.start

    def value():
        model = problem.model_of(alpha)
        acv.exact(acv.fit(model, before.fit.params), problem.folds)

    def value_and_gradient():
        acv.cv_gradient(problem.model_of, alpha, problem.folds, near=before)

    clock = time.process_time
    ours, theirs = (min(seconds(f, repeats, clock)) for f in (value_and_gradient, value))
    return ours / theirs


class Found(NamedTuple):
    """A search: its alphas (n, A) and cross-validated losses (n,); test losses at them."""

    alphas: np.ndarray
    losses: np.ndarray
    tests: np.ndarray

    @property
    def best(self) -> int:
        return int(np.argmin(self.losses))


def searches(problem, most, rng):
    """Each search of METHODS at the price of `tune`, and the standard error of the loss.

    A value with gradient counts as `EACH` exact cross-validations. grid: all corners of a grid, of
    two values each even where that is up to twice as dear; one: a common factor of all alpha, on a
    grid; random: log-uniform in the box.
    """
    low = problem.start / WIDTH
    high = problem.start * WIDTH
    start = (problem.model_of, problem.start, problem.folds, problem.params)
    tuned = acv.tune(*start, bounds=(low, high), max_evaluations=most)
    n = EACH * len(tuned.losses)
    size = len(problem.start)
    n_levels = max(int(n ** (1.0 / size) + 1e-9), 2 if 2**size <= 2 * n else 1)
    shares = (np.arange(n_levels) + 0.5) / n_levels
    corners = np.array(list(itertools.product(shares, repeat=size)))
    common = np.repeat(np.linspace(0.0, 1.0, n)[:, None], size, axis=1)
    shares_of = {"grid": corners, "one": common, "random": rng.random((n, size))}
    found = {}
    for name, shares in shares_of.items():
        found[name] = _tried(problem, low, high, rng.permutation(shares))
    fits = [attempt(acv.fit, problem.model_of(a), problem.params)[0] for a in tuned.alphas]
    tests = [problem.test(fit.params) if fit else np.inf for fit in fits]
    found["tune"] = Found(tuned.alphas, tuned.losses, np.array(tests))
    found["start"] = Found(*(part[:1] for part in found["tune"]))
    return found, tuned.result.se


def _tried(problem, low, high, shares):
    """`Found` at points of the box, given as shares of its logarithmic sides (n, A).

    Where a model cannot be fitted, as a state is empty, the loss counts as inf, as in tune; it is
    paid for.
    """

    def trial(alpha):
        model = problem.model_of(alpha)
        fit = acv.fit(model, problem.params)
        return acv.exact(fit, problem.folds).loss, problem.test(fit.params)

    alphas = low * (high / low) ** shares
    values = [attempt(trial, alpha)[0] or (np.inf, np.inf) for alpha in alphas]
    return Found(alphas, *np.array(values).T)


def summary(found: dict[str, Found], se: float) -> pd.DataFrame:
    """Of each search: loss and test loss of its choice above tune's, gap, and regret.

    In standard errors of the cross-validated loss. gap: test loss less cross-validated loss of the
    choice; regret: test loss of the choice above the least of all alpha that any search tried.
    """
    least = min(search.tests.min() for search in found.values())
    ours = found["tune"]
    rows = {}
    for name in METHODS:
        search = found[name]
        loss = search.losses[search.best]
        test = search.tests[search.best]
        rows[name] = {
            "evaluations": len(search.losses),
            "loss": (loss - ours.losses[ours.best]) / se,
            "test": (test - ours.tests[ours.best]) / se,
            "gap": (test - loss) / se,
            "regret": (test - least) / se,
        }
    return pd.DataFrame(rows).T


def draws(problems, most, rng):
    """(`summary` of each problem, and what each search found), tune's evaluations up to `most`."""
    tables = []
    everything = []
    for problem, own in zip(problems, rng.spawn(len(problems)), strict=True):
        with warnings.catch_warnings(action="ignore"):
            found, se = searches(problem, most, own)
        tables.append(summary(found, se))
        everything.append((found, se))
    return pd.concat(tables, keys=range(len(tables)), names=["draw", "search"]), everything


def progress(everything: list, n: int) -> dict[str, np.ndarray]:
    """Least loss of `forest` so far above the least of all, (draws, n), at each price."""
    curves = {name: [] for name in ("grid", "one", "random", "tune")}
    for found, se in everything:
        least = min(search.losses.min() for search in found.values())
        for name, rows in curves.items():
            own = np.minimum.accumulate(found[name].losses)
            paid = np.arange(1, n + 1) // (EACH if name == "tune" else 1)
            last = np.minimum(paid, len(own)) - 1
            rows.append(np.where(paid > 0, (own[last] - least) / se, np.nan))
    return {name: np.array(rows) for name, rows in curves.items()}
