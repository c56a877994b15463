"""TreeCV of stochastic gradient descent beside the jackknife of its optimum: one regression."""

import time

import numpy as np
import pandas as pd
from numba import njit

import acvlib as acv
from acvlib.models import GLM
from acvlib.treecv import CompiledLearner

from .ladders import timed
from .phase import regression

STEP = 0.5
AVERAGED = 4.0  # weight (AVERAGED + 1) / (t + AVERAGED) of the newest iterate in the average


def logistic_sgd(n_features: int, epochs: int) -> CompiledLearner:
    """Averaged stochastic gradient descent of a logistic regression, its loss that of the average.

    Each call of update passes `epochs` times over its rows. Labels are 0 or 1; the step is
    STEP / sqrt(t + 1). State: params, their average, rows seen. Source: Shamir and Zhang (2013).
    """
    return CompiledLearner(
        name=f"logistic_sgd({n_features}, epochs={epochs})",
        n_features=n_features,
        initial=np.zeros(2 * n_features + 1),
        constants=np.array([STEP, float(epochs), AVERAGED]),
        update_kernel=_update,
        loss_kernel=_loss,
        reads_y=True,
        labels=(0, 1),
    )


@njit(nogil=True)
def _update(states, at, constants, X, y, rows, start, stop):
    d = X.shape[1]
    state = states[at]
    for _ in range(int(constants[1])):
        for i in range(start, stop):
            row = rows[i]
            eta = 0.0
            for j in range(d):
                eta += state[j] * X[row, j]
            slope = 1.0 / (1.0 + np.exp(-eta)) - y[row]
            rate = constants[0] / np.sqrt(state[2 * d] + 1.0)
            state[2 * d] += 1.0
            newest = min(1.0, (constants[2] + 1.0) / (state[2 * d] + constants[2]))
            for j in range(d):
                state[j] -= rate * slope * X[row, j]
                state[d + j] += newest * (state[j] - state[d + j])


@njit(nogil=True)
def _loss(states, at, constants, X, y, start, stop, out):
    d = X.shape[1]
    for i in range(start, stop):
        eta = 0.0
        for j in range(d):
            eta += states[at, d + j] * X[i, j]
        margin = eta if y[i] == 0.0 else -eta
        out[i] = np.log1p(np.exp(-abs(margin))) + max(margin, 0.0)


def study(
    sizes: list[int], epochs: list[int], dim: int, n_draws: int, rng: np.random.Generator
) -> pd.DataFrame:
    """One row a draw, n, scheme and way: error in standard errors, processor seconds with fits."""
    rows = []
    _one(sizes[0], epochs[:1], dim, np.random.default_rng(0))  # compiles
    for n in sizes:
        for each in rng.spawn(n_draws):
            rows += _one(n, epochs, dim, each)
    return pd.DataFrame(rows)


def _one(n, epochs, dim, rng):
    model = regression(n, dim, rng)
    bare = GLM(model.X, model.y)  # as the descent: without a ridge
    rows = acv.Examples(np.column_stack([np.ones(n), model.X]), model.y)
    found = []
    for k in (10, n):
        folds = acv.folds.k_fold(n, k, rng)
        calls = {"jackknife": lambda f=folds: acv.infinitesimal_jackknife(acv.fit(bare), f)}
        for many in epochs:
            learner = logistic_sgd(dim, many)
            way = f"TreeCV, {many} epoch{'s' * (many > 1)}"
            calls[way] = lambda it=learner, f=folds: acv.treecv(it, rows, f)
        exact = acv.exact(acv.fit(bare), folds)
        losses = {"training loss": (exact.fitted_losses.mean(), 0.0)}
        for way, call in calls.items():
            result, seconds = timed(call, time.process_time)
            losses[way] = result.loss, seconds
        for way, (loss, seconds) in losses.items():
            row = {"n": n, "folds": "10" if k == 10 else "n", "way": way, "seconds": seconds}
            found.append(row | {"error_se": abs(loss - exact.loss) / exact.se})
    return found


def largest(table: pd.DataFrame, folds: str) -> pd.DataFrame:
    """Of the largest data sets, a row a draw: errors of the jackknife, of TreeCV at its best number
    of epochs and of the training loss; seconds of the jackknife over those of TreeCV's one epoch.
    """
    own = table[(table.n == table.n.max()) & (table.folds == folds)]
    by = {way: rows.reset_index(drop=True) for way, rows in own.groupby("way")}
    errors = pd.DataFrame({way: rows.error_se for way, rows in by.items()})
    best = errors.filter(like="TreeCV").median().idxmin()
    found = {"error": errors["jackknife"], "tree": errors[best], "none": errors["training loss"]}
    found["price"] = by["jackknife"].seconds / by["TreeCV, 1 epoch"].seconds
    return pd.DataFrame(found)
