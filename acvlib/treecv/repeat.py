"""A cross-validation repeated over random orders of the data: estimates, their spread, and running times."""

import time
from typing import NamedTuple

from joblib import Parallel, delayed

from acvlib.incremental import Examples
from acvlib.progress import track

from . import kfold, treecv

METHODS = {"treecv": treecv, "standard": kfold}


class Cell(NamedTuple):
    """One cell of a table: a method, an order, the number k of folds (0: as many as rows) and of rows."""

    method: str
    order: str
    k: int
    n: int


def repeat(make_learner, data, cells, n_repetitions, rng):
    """A DataFrame with a row for each cell and repetition: the cell, repetition, loss, seconds, pass_seconds.

    Each repetition puts the data in a random order and runs all cells on its first rows. make_learner(n)
    gives the learner for n rows; pass_seconds is the time it takes to learn them once. Repetitions are joblib
    tasks, each in one thread: their times compare with each other, whatever else the machine does.
    """
    import pandas as pd

    tasks = (
        delayed(_repetition)(make_learner, data, cells, i, child) for i, child in enumerate(rng.spawn(n_repetitions))
    )
    rows = track(Parallel(prefer="threads", return_as="generator")(tasks), "repetitions", n_repetitions)
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
    result = METHODS[cell.method](learner, data, cell.k or cell.n, cell.order, order_rng)
    return {"loss": result.loss, "seconds": result.seconds}


def table(frame, scale=100):
    """Mean and standard deviation of the loss over repetitions, times `scale`; rows k, columns method and order."""
    grouped = frame.assign(loss=scale * frame["loss"]).groupby(["k", "method", "order"])["loss"]
    return grouped.agg(["mean", "std"]).unstack(["method", "order"])
