"""A cross-validation repeated over random orders of the data: estimates, their spread, and running times."""

import time
from typing import NamedTuple

import numpy as np

from acvlib.incremental import kfold, treecv
from acvlib.incremental.protocol import Examples
from acvlib.parallel import spread

METHODS = {"treecv": treecv, "standard": kfold}


class Cell(NamedTuple):
    """One cell of a table: a method, an order, the number k of folds (0: as many as rows) and of rows."""

    method: str
    order: str
    k: int
    n: int


def grid(sizes, standard_sizes):
    """The cells of Table 2 and Figure 2: k = 5, 10, 100 by both methods and TreeCV with k = n, for all `sizes`.

    Standard cross-validation with k = n is quadratic, and has sizes of its own.
    """
    orders, ks = ("fixed", "randomized"), (5, 10, 100)
    tree = [Cell("treecv", order, k, n) for order in orders for k in (*ks, 0) for n in sizes]
    standard = [Cell("standard", order, k, n) for order in orders for k in ks for n in sizes]
    return (
        tree
        + standard
        + [Cell("standard", order, 0, n) for order in orders for n in standard_sizes]
    )


def repeat(make_learner, data, cells, n_repetitions, rng):
    """A DataFrame with a row for each cell and repetition: the cell, repetition, loss, seconds, pass_seconds.

    Each repetition puts the data in a random order and runs all cells on its first rows. make_learner(n)
    gives the learner for n rows; pass_seconds is the time it takes to learn them once. Repetitions are joblib
    tasks, each in one thread: their times compare with each other, whatever else the machine does.
    """
    import pandas as pd

    tasks = [
        (make_learner, data, cells, i, child) for i, child in enumerate(rng.spawn(n_repetitions))
    ]
    rows = spread(_repetition, tasks, "threads", "repetitions")
    return pd.DataFrame([row for part in rows for row in part])


def _repetition(make_learner, data, cells, number, rng):
    shuffled = data.take(rng.permutation(len(data)))
    heads = {n: Examples(shuffled.X[:n], shuffled.y[:n]) for n in {cell.n for cell in cells}}
    passes = {n: _pass_seconds(make_learner(n), head) for n, head in heads.items()}
    return [
        cell._asdict()
        | {"repetition": number, "pass_seconds": passes[cell.n]}
        | _run(make_learner(cell.n), heads[cell.n], cell, rng)
        for cell in cells
    ]


def _pass_seconds(learner, data):
    started = time.perf_counter()
    learner.update(learner.init(), data.X, data.y)
    return time.perf_counter() - started


def _run(learner, data, cell, rng):
    order_rng = None if cell.order == "fixed" else rng
    result = METHODS[cell.method](learner, data, cell.k or cell.n, order=cell.order, rng=order_rng)
    return {"loss": result.loss, "seconds": result.seconds}


def summary(frame):
    """Mean, standard deviation and median seconds over repetitions for the largest n, by (method, order, k).

    The column `folds` has the number of folds, also where k is 0.
    """
    n = frame["n"].max()
    full = frame[frame["n"] == n].groupby(["method", "order", "k"])
    means = full.agg(mean=("loss", "mean"), sd=("loss", "std"), seconds=("seconds", "median"))
    return means.assign(folds=[k or n for _, _, k in means.index])


def printed(table):
    """A `summary` as the paper prints it, {"treecv.fixed.5": "30.682 ± 1.2127", ...}; standard with n folds left out.

    "n" stands for n folds. `published` reads such cells.
    """
    rows = {key: row for key, row in table.iterrows() if key[2] or key[0] == "treecv"}
    return {
        f"{a}.{b}.{k or 'n'}": f"{row['mean']:.3f} ± {row['sd']:.4f}"
        for (a, b, k), row in rows.items()
    }


def published(papers, n):
    """`summary` of a paper's cells, as in `printed`, for n rows."""
    import pandas as pd

    rows = [[*cell.split("."), *map(float, text.split(" ± "))] for cell, text in papers.items()]
    table = pd.DataFrame(rows, columns=["method", "order", "k", "mean", "sd"])
    table["folds"] = table["k"].replace("n", n).astype(int)
    return (
        table.assign(k=table["k"].replace("n", 0).astype(int))
        .set_index(["method", "order", "k"])
        .sort_index()
    )


def spread_ratio(table, method, order):
    """Standard deviation at k = 100 over that at k = 5."""
    return float(table.loc[(method, order, 100), "sd"] / table.loc[(method, order, 5), "sd"])


def largest_gap(table):
    """Largest |mean of TreeCV - mean of standard CV| over k and order, in standard deviations of either."""
    tree, standard = table.loc["treecv"], table.loc["standard"]
    shared = tree.index.intersection(standard.index)
    gap = (tree["mean"] - standard["mean"]).loc[shared].abs()
    deviation = tree["sd"].loc[shared].combine(standard["sd"].loc[shared], max)
    return float((gap / deviation).max())


def costs(frame):
    """Median running times at the largest n, as ratios.

    passes: leave one out in units of log2(2n) passes over the data; randomized: the same in random order over
    fixed; speedup: standard over TreeCV at k = 100; log2k: R2 of a straight line through time against log2 k.
    """
    table, n = summary(frame), int(frame["n"].max())
    seconds, tree = table["seconds"], table.loc["treecv", "fixed"]
    one_pass = frame.loc[frame["n"] == n, "pass_seconds"].median()
    leave_one_out = seconds["treecv", "fixed", 0]
    ratios = {
        "passes": leave_one_out / one_pass / np.log2(2 * n),
        "randomized": seconds["treecv", "randomized", 0] / leave_one_out,
        "speedup": seconds["standard", "fixed", 100] / seconds["treecv", "fixed", 100],
        "log2k": np.corrcoef(np.log2(tree["folds"]), tree["seconds"])[0, 1] ** 2,
    }
    return {name: float(ratio) for name, ratio in ratios.items()}


def timed(learner, data, folds, n_runs):
    """The result of the fastest of n runs of `treecv` in fixed order."""
    return min(
        (treecv(learner, data, k) for k in [folds] * n_runs), key=lambda result: result.seconds
    )
