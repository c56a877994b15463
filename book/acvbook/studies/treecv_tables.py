"""A cross-validation repeated over random orders: estimates, their spread, and running times."""

import itertools
from typing import NamedTuple

import joblib
import numpy as np
import pandas as pd

from acvlib.treecv import Examples, kfold, treecv

from .ladders import timed

METHODS = {"treecv": treecv, "standard": kfold}
ORDERS = ("fixed", "randomized")
KS = (5, 10, 100)


class Cell(NamedTuple):
    """A method, an order, the number k of folds (0: as many as rows) and that of rows."""

    method: str
    order: str
    k: int
    n: int


def of_treecv(sizes):
    """The cells of Table 2 and Figure 2 for TreeCV: k = 5, 10, 100 and n, in both orders."""
    return _cells("treecv", (*KS, 0), sizes)


def of_standard(sizes, quadratic_sizes=()):
    """Those of standard cross-validation: k = 5, 10, 100; k = n has sizes of its own."""
    return _cells("standard", KS, sizes) + _cells("standard", [0], quadratic_sizes)


def _cells(method, ks, sizes):
    return [Cell(*cell) for cell in itertools.product([method], ORDERS, ks, sizes)]


def repeat(make_learner, data, parts, rng):
    """A row for each cell and repetition of parts [(cells, repetitions)]: loss and training, x 100
    as in Table 2, seconds and pass_seconds.

    Each repetition puts the data in a random order and runs all cells on its first rows, in one
    thread, so that nothing of ours runs beside what is timed. make_learner(n) gives the learner for
    n rows; pass_seconds is the time it takes to learn them once, training the mean loss on the same
    rows of what was learnt: an estimate without folds.
    """
    rows = []
    with joblib.parallel_config(n_jobs=1):
        for cells, times in parts:
            for number, stream in enumerate(rng.spawn(times)):
                rows += _repetition(make_learner, data, cells, number, stream)
    frame = pd.DataFrame(rows)
    return frame.assign(loss=100 * frame["loss"], training=100 * frame["training"])


def _repetition(make_learner, data, cells, number, rng):
    shuffled = data.take(rng.permutation(len(data))[: max(cell.n for cell in cells)])
    heads = {n: Examples(shuffled.X[:n], shuffled.y[:n]) for n in {cell.n for cell in cells}}
    passes = {}
    for n, head in heads.items():
        learner, state = make_learner(n), make_learner(n).init()
        model = (state[None], 0, learner.constants, head.X, head.y, np.arange(n), 0, n)
        _, seconds = timed(lambda kernel=learner.update_kernel, its=model: kernel(*its))
        training = learner.loss(state, head.X, head.y).mean()
        passes[n] = {"pass_seconds": seconds, "training": training}
    for cell in cells:
        result = _run(make_learner(cell.n), heads[cell.n], cell, rng)
        yield cell._asdict() | {"repetition": number} | passes[cell.n] | result


def _run(learner, data, cell, rng):
    method = METHODS[cell.method]
    result = method(learner, data, cell.k or cell.n, shuffle=False, order=cell.order, rng=rng)
    return {"loss": result.fold_losses.mean(), "seconds": result.seconds}


def summary(frame):
    """At the largest n, by (method, order, k): mean and deviation of the loss over repetitions, and
    median seconds.

    The column `folds` has the number of folds, also where k is 0.
    """
    n = frame["n"].max()
    full = frame[frame["n"] == n].groupby(["method", "order", "k"])
    means = full.agg(
        mean=("loss", "mean"),
        sd=("loss", "std"),
        seconds=("seconds", "median"),
    )
    return means.assign(folds=[k or n for _, _, k in means.index])


def estimates(frame, column="loss"):
    """One row a repetition and one column a cell (method, order, k), at the largest n.

    With "training" the estimate without folds stands in every cell.
    """
    full = frame[frame["n"] == frame["n"].max()]
    wide = full.pivot(index="repetition", columns=["method", "order", "k"], values=column)
    return wide.sort_index(axis=1)


def bootstrapped(statistic, losses, rng, n_resamples=200):
    """What `ledger.record` needs of statistic(table), the table with the mean and sd of each column
    of `estimates`: value, draws, and the spread over resampled repetitions.
    """
    resampled = [
        losses.sample(frac=1.0, replace=True, random_state=rng) for _ in range(n_resamples)
    ]
    with np.errstate(divide="ignore", invalid="ignore"):  # few repetitions may all be the same one
        values = np.array([statistic(moments(sample)) for sample in resampled])
    return {
        "value": statistic(moments(losses)),
        "draws": int(losses.count().min()),
        "spread": np.quantile(values[np.isfinite(values)], [0.1, 0.9]),
    }


def beside_nothing(statistic, losses, nothing, rng):
    """`bootstrapped`, and the same statistic of the estimates `nothing` as the baseline."""
    baseline = statistic(moments(nothing))
    return bootstrapped(statistic, losses, rng) | {"baseline": baseline}


def moments(losses):
    """Mean and sd of each column, and how many repetitions they are of."""
    return pd.DataFrame({"mean": losses.mean(), "sd": losses.std(), "count": losses.count()})


def level_gap(table, published, n_repetitions, n, n_published):
    """Largest |mean - published mean| over the cells, in standard errors of that difference.

    The published means are over n_repetitions; and n rows are a random part of the published
    n_published, which moves the share of errors (x 100) of the whole.
    """
    ours, theirs = table.align(published, join="inner", axis=0)
    share = theirs["mean"] / 100
    missing = 100**2 * share * (1 - share) * (1 / n - 1 / n_published)
    variance = ours["sd"] ** 2 / ours["count"] + theirs["sd"] ** 2 / n_repetitions + missing
    return float(((ours["mean"] - theirs["mean"]).abs() / np.sqrt(variance)).max())


def spread_factor(table, published):
    """The factor between a standard deviation and the published one, in the worst cell."""
    ours, theirs = table.align(published, join="inner", axis=0)
    return float(np.exp(np.log(ours["sd"] / theirs["sd"]).abs().max()))


def printed(table):
    """A `summary` as the paper prints it, {"treecv.fixed.5": "30.682 ± 1.2127", ...}.

    "n" stands for n folds, which standard cross-validation leaves out. `published` reads them.
    """
    cells = {}
    for (method, order, k), row in table.iterrows():
        if k or method == "treecv":
            cells[f"{method}.{order}.{k or 'n'}"] = f"{row['mean']:.3f} ± {row['sd']:.4f}"
    return cells


def cell_of(values):
    """ "mean ± sd" as in `printed`."""
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.4f}"


def published(papers, n):
    """`summary` of a paper's cells, as in `printed`, for n rows; other claims are passed over."""
    papers = {cell: text for cell, text in papers.items() if "±" in str(text)}
    rows = [[*cell.split("."), *map(float, text.split(" ± "))] for cell, text in papers.items()]
    table = pd.DataFrame(rows, columns=["method", "order", "k", "mean", "sd"])
    table["folds"] = table["k"].replace("n", n).astype(int)
    table["k"] = table["k"].replace("n", 0).astype(int)
    return table.set_index(["method", "order", "k"]).sort_index()


def spread_ratio(table, method, order):
    """Standard deviation at k = 100 over that at k = 5."""
    return float(table.loc[(method, order, 100), "sd"] / table.loc[(method, order, 5), "sd"])


def order_ratio(table):
    """Standard deviation of TreeCV in random order over that in fixed order, median over k."""
    sd = table["sd"]["treecv"]
    return float((sd["randomized"] / sd["fixed"]).median())


def largest_gap(table):
    """Largest |mean of TreeCV - mean of standard CV|, in standard deviations of either."""
    tree = table.loc["treecv"]
    standard = table.loc["standard"]
    shared = tree.index.intersection(standard.index)
    gap = (tree["mean"] - standard["mean"]).loc[shared].abs()
    deviation = tree["sd"].loc[shared].combine(standard["sd"].loc[shared], max)
    return float((gap / deviation).max())


def costs(frame):
    """Running times as ratios, {name: one value a repetition}, at the largest n unless it says so.

    passes: leave one out in units of log2(2n) passes over the data; randomized: the same in random
    order over fixed; standard_randomized: that of standard CV at k = 100; speedup: standard over
    TreeCV at k = 100; log2k: R2 of a straight line through time against log2 k; loocv_fixed,
    loocv_randomized: TreeCV leaving one out of all rows over standard CV doing so for the largest n
    it was run for; standard_passes, standard_log2k: as passes and log2k, of standard CV, the first
    at that n.
    """
    keys = ["method", "order", "k", "n"]
    seconds = frame.pivot(index="repetition", columns=keys, values="seconds").sort_index(axis=1)
    passes = frame.pivot_table(index="repetition", columns="n", values="pass_seconds")
    n, quadratic = int(frame["n"].max()), seconds["standard", "fixed", 0].columns.max()
    tree, standard = seconds["treecv"], seconds["standard"]
    one_out = tree["fixed", 0, n]
    slow = {order: standard[order, 0, quadratic] for order in ("fixed", "randomized")}
    ratios = {
        "passes": one_out / passes[n] / np.log2(2 * n),
        "randomized": tree["randomized", 0, n] / one_out,
        "standard_randomized": standard["randomized", 100, n] / standard["fixed", 100, n],
        "speedup": standard["fixed", 100, n] / tree["fixed", 100, n],
        "log2k": _straightness(tree["fixed"].xs(n, axis=1, level="n"), n),
        "standard_log2k": _straightness(standard["fixed"].xs(n, axis=1, level="n"), n),
        "loocv_fixed": one_out / slow["fixed"],
        "loocv_randomized": tree["randomized", 0, n] / slow["randomized"],
        "standard_passes": slow["fixed"] / passes[quadratic] / np.log2(2 * quadratic),
    }
    return {name: ratio.dropna().to_numpy() for name, ratio in ratios.items()}


def smallest_speedup(frame, rng, n_resamples=200):
    """For `ledger.record`, the least of all cells' medians of standard over TreeCV's time."""
    keys = ["method", "order", "k", "n"]
    seconds = frame.pivot(index="repetition", columns=keys, values="seconds").sort_index(axis=1)
    ratios = (seconds["standard"] / seconds["treecv"]).dropna(axis=1, how="all")
    draws = int(ratios.count().min())
    ratios = np.column_stack([cell.dropna()[:draws] for _, cell in ratios.items()])

    def smallest(rows):
        return np.median(ratios[rows], axis=0).min()

    samples = [smallest(rng.integers(draws, size=draws)) for _ in range(n_resamples)]
    spread = np.quantile(samples, [0.1, 0.9])
    return {"value": smallest(slice(None)), "draws": draws, "spread": spread}


def _straightness(seconds, n):
    """R2 of seconds against log2 k, one a repetition."""
    logs = pd.Series(np.log2([k or n for k in seconds.columns]), seconds.columns)
    return seconds.corrwith(logs, axis=1) ** 2
