"""Which rung is enough, over D / N and k / N of N sites: errors in shares of what CV corrects."""

import time
import warnings

import numpy as np
import pandas as pd
from numba import njit
from scipy.special import expit

import acvlib as acv
from acvlib.methods.ladder import IndefiniteFold
from acvlib.models import GLM, GaussianHMM
from acvlib.treecv import CompiledLearner

from . import ladders
from .ladders import timed

STEPS = (acv.no_adjustment, acv.infinitesimal_jackknife, acv.frozen_newton, acv.newton_step)
RUNGS = {rung.__name__: rung for rung in STEPS}
ENOUGH = 0.05  # of the correction, that a rung may miss
STRENGTH = 1.5  # standard deviation of the linear predictor
MOST = 50  # folds of a cell


def regression(n: int, dim: int, rng: np.random.Generator) -> GLM:
    """A logistic regression of `dim` parameters, one an intercept, of standard normal columns."""
    X = rng.standard_normal((n, dim - 1))
    slopes = np.full(dim - 1, STRENGTH / np.sqrt(dim - 1))
    return GLM(X, (rng.random(n) < expit(X @ slopes)).astype(float), penalty=0.1)


def series(n: int, rng: np.random.Generator) -> GaussianHMM:
    """Two hidden states that stay nine times in ten, three standard deviations apart."""
    states = np.cumsum(rng.random(n) < 0.1) % 2
    return GaussianHMM(3.0 * states + rng.standard_normal(n), 2)


def cell(fit: acv.Fit, size: int, rng: np.random.Generator) -> dict:
    """Shares of the correction that each rung misses in folds of `size` sites; distances."""
    n = fit.model.n_sites
    folds = acv.folds.k_fold(n, round(n / size), rng)
    folds = ladders.some(folds, MOST, rng)
    with warnings.catch_warnings(action="ignore", category=IndefiniteFold):
        found = {name: rung(fit, folds) for name, rung in RUNGS.items()}
    exact = acv.exact(fit, folds)
    correction = exact.loss - found["no_adjustment"].loss
    row = {name: abs(result.loss - exact.loss) / correction for name, result in found.items()}
    newton, jackknife = found["newton_step"].params, found["infinitesimal_jackknife"].params
    row["newton_off"] = np.linalg.norm(exact.params - newton, axis=1).mean()
    row["steps_apart"] = np.linalg.norm(newton - jackknife, axis=1).mean()
    return row


def regressions(n, dims, shares, n_draws, rng):
    """One row a cell, the median of draws; index (dim, size)."""
    draws = [(each, dim) for each in rng.spawn(n_draws) for dim in dims]
    fits = [(acv.fit(regression(n, dim, each), tolerance=1e-9), each) for each, dim in draws]
    return _cells(fits, shares)


def of_series(lengths, shares, n_draws, rng):
    """The same of hidden Markov models of these lengths, steps left out; index (n, dim, size)."""
    tables = {}
    for n in lengths:
        fits = [(acv.fit(series(n, each), rng=each), each) for each in rng.spawn(n_draws)]
        tables[n] = _cells(fits, shares)
    return pd.concat(tables, names=["n"])


def _cells(fits, shares):
    rows = []
    for fit, rng in fits:
        for share in shares:
            size = max(1, round(share * fit.model.n_sites))
            rows.append({"dim": len(fit.params), "size": size, **cell(fit, size, rng)})
    return pd.DataFrame(rows).groupby(["dim", "size"]).median()


def needed(table: pd.DataFrame) -> pd.Series:
    """The cheapest rung of each cell that misses at most ENOUGH of the correction, or exact."""
    good = table[list(RUNGS)] <= ENOUGH
    return good.idxmax(axis=1).where(good.any(axis=1), "exact")


def by_ratios(table: pd.DataFrame) -> pd.Series:
    """`needed` of several n, index (n, dim, size), by parameters a site and the share left out."""
    n, dim, size = (table.index.get_level_values(i).to_numpy() for i in range(3))
    return needed(table).set_axis(pd.MultiIndex.from_arrays([dim / n, size / n]))


def spreads(table: pd.DataFrame, n: int) -> tuple[pd.Series, pd.Series]:
    """Largest over least distance of cells with k, d <= n / 10: over its rate, and by itself.

    The rates are k d / n^2 of the Newton step, (k + d) sqrt(k d) / n^2 of the jackknife.
    """
    dim, size = (table.index.get_level_values(name).to_numpy() for name in ("dim", "size"))
    own = np.maximum(dim, size) <= n // 10
    dim, size = dim[own], size[own]
    distances = table.loc[own, ["newton_off", "steps_apart"]]
    distances.columns = ["newton", "jackknife"]
    rates = np.column_stack([size * dim, (size + dim) * np.sqrt(size * dim)])
    divided = distances / rates
    return divided.max() / divided.min(), distances.max() / distances.min()


def transferred(needed_there: pd.Series, n_there: int, table: pd.DataFrame, n: int) -> float:
    """Share of the cells in which the rung of the nearest cell of another n misses at most 10 %."""
    there = needed_there.reset_index(name="rung")
    shares = np.log(there[["dim", "size"]] / n_there)
    right = []
    for cell_of, row in table.iterrows():
        off = (shares - np.log(np.array(cell_of) / n)) ** 2
        rung = there.rung[off.sum(axis=1).idxmin()]
        right.append(rung == "exact" or row[rung] <= 2.0 * ENOUGH)
    return float(np.mean(right))


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
        calls["frozen step"] = lambda f=folds: acv.frozen_newton(acv.fit(bare), f)
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


def beside(table: pd.DataFrame, folds: str, n: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A row a draw: errors of the jackknife, of TreeCV at its best number of epochs and of a frozen
    step, seconds of the jackknife over those of TreeCV's one epoch; and a baseline for each.
    """
    own = table[(table.n == n) & (table.folds == folds)]
    errors, seconds = (
        own.pivot_table(name, own.groupby("way").cumcount(), "way")
        for name in ("error_se", "seconds")
    )
    best = errors.filter(like="TreeCV").median().idxmin()
    found = errors[["jackknife", best, "frozen step"]].set_axis(["error", "tree", "frozen"], axis=1)
    idle = errors["training loss"]
    nothing = pd.DataFrame({"error": found.tree, "tree": idle, "frozen": idle, "price": np.nan})
    return found.assign(price=seconds.jackknife / seconds["TreeCV, 1 epoch"]), nothing
