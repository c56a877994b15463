"""A cross-validation repeated over random orders: estimates, their spread, and running times."""

import itertools
import time
from typing import NamedTuple

import numpy as np
import pandas as pd

from acvlib.incremental import kfold, treecv
from acvlib.incremental.protocol import Examples
from acvlib.parallel import spread

METHODS = {"treecv": treecv, "standard": kfold}


class Cell(NamedTuple):
    """A method, an order, the number k of folds (0: as many as rows) and that of rows."""

    method: str
    order: str
    k: int
    n: int


def grid(sizes, standard_sizes):
    """The cells of Table 2 and Figure 2: k = 5, 10, 100 by both methods, and TreeCV with k = n.

    Standard cross-validation with k = n is quadratic, and has sizes of its own.
    """
    orders = ("fixed", "randomized")
    ks = (5, 10, 100)
    tree = itertools.product(["treecv"], orders, (*ks, 0), sizes)
    standard = itertools.product(["standard"], orders, ks, sizes)
    quadratic = itertools.product(["standard"], orders, [0], standard_sizes)
    return [Cell(*cell) for cell in (*tree, *standard, *quadratic)]


def repeat(make_learner, data, cells, n_repetitions, rng):
    """A DataFrame with a row for each cell and repetition: loss, seconds, pass_seconds.

    Each repetition puts the data in a random order and runs all cells on its first rows.
    make_learner(n) gives the learner for n rows; pass_seconds is the time it takes to learn them
    once. Repetitions are joblib tasks, each in one thread: their times compare with each other,
    whatever else the machine does.
    """
    streams = enumerate(rng.spawn(n_repetitions))
    tasks = [(make_learner, data, cells, number, stream) for number, stream in streams]
    repetitions = spread(_repetition, tasks, "threads", "repetitions")
    return pd.DataFrame(list(itertools.chain(*repetitions)))


def _repetition(make_learner, data, cells, number, rng):
    shuffled = data.take(rng.permutation(len(data)))
    heads = {n: Examples(shuffled.X[:n], shuffled.y[:n]) for n in {cell.n for cell in cells}}
    passes = {n: _pass_seconds(make_learner(n), head) for n, head in heads.items()}
    rows = []
    for cell in cells:
        times = {"repetition": number, "pass_seconds": passes[cell.n]}
        result = _run(make_learner(cell.n), heads[cell.n], cell, rng)
        rows.append(cell._asdict() | times | result)
    return rows


def _pass_seconds(learner, data):
    started = time.perf_counter()
    learner.update(learner.init(), data.X, data.y)
    return time.perf_counter() - started


def _run(learner, data, cell, rng):
    method = METHODS[cell.method]
    order_rng = None if cell.order == "fixed" else rng
    result = method(learner, data, cell.k or cell.n, shuffle=False, order=cell.order, rng=order_rng)
    return {"loss": result.fold_losses.mean(), "seconds": result.seconds}


def summary(frame):
    """Mean, deviation and median seconds over repetitions at the largest n, by (method, order, k).

    The column `folds` has the number of folds, also where k is 0.
    """
    n = frame["n"].max()
    full = frame[frame["n"] == n].groupby(["method", "order", "k"])
    means = full.agg(mean=("loss", "mean"), sd=("loss", "std"), seconds=("seconds", "median"))
    return means.assign(folds=[k or n for _, _, k in means.index])


def printed(table):
    """A `summary` as the paper prints it, {"treecv.fixed.5": "30.682 ± 1.2127", ...}.

    "n" stands for n folds, which standard cross-validation leaves out. `published` reads them.
    """
    cells = {}
    for (method, order, k), row in table.iterrows():
        if k or method == "treecv":
            cells[f"{method}.{order}.{k or 'n'}"] = f"{row['mean']:.3f} ± {row['sd']:.4f}"
    return cells


def published(papers, n):
    """`summary` of a paper's cells, as in `printed`, for n rows."""
    rows = [[*cell.split("."), *map(float, text.split(" ± "))] for cell, text in papers.items()]
    table = pd.DataFrame(rows, columns=["method", "order", "k", "mean", "sd"])
    table["folds"] = table["k"].replace("n", n).astype(int)
    table["k"] = table["k"].replace("n", 0).astype(int)
    return table.set_index(["method", "order", "k"]).sort_index()


def spread_ratio(table, method, order):
    """Standard deviation at k = 100 over that at k = 5."""
    return float(table.loc[(method, order, 100), "sd"] / table.loc[(method, order, 5), "sd"])


def largest_gap(table):
    """Largest |mean of TreeCV - mean of standard CV|, in standard deviations of either."""
    tree = table.loc["treecv"]
    standard = table.loc["standard"]
    shared = tree.index.intersection(standard.index)
    gap = (tree["mean"] - standard["mean"]).loc[shared].abs()
    deviation = tree["sd"].loc[shared].combine(standard["sd"].loc[shared], max)
    return float((gap / deviation).max())


def costs(frame):
    """Median running times at the largest n, as ratios.

    passes: leave one out in units of log2(2n) passes over the data; randomized: the same in random
    order over fixed; speedup: standard over TreeCV at k = 100; log2k: R2 of a straight line through
    time against log2 k.
    """
    table = summary(frame)
    n = int(frame["n"].max())
    seconds = table["seconds"]
    tree = table.loc["treecv", "fixed"]
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
    """The result of the fastest of n runs of `treecv`, the rows as they stand."""
    runs = [treecv(learner, data, folds, shuffle=False) for _ in range(n_runs)]
    return min(runs, key=lambda result: result.seconds)
