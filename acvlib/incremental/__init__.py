"""R_k-CV = 1/k sum_i R_i, R_i the mean loss on chunk Z_i of a model that learnt all the others.

Source: Joulani, Gyorgy and Szepesvari (2015), Algorithm 1.
"""

import time
import warnings
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..checks import check_kind, generator
from ..scores import Interrupted
from .chunks import FIXED, partition
from .cluster import tree_on_cluster
from .protocol import CompiledLearner, Examples, IncrementalLearner
from .recursion import Job, standard, tree
from .result import FoldsFailed, LearnerCV


def treecv(
    learner: IncrementalLearner | CompiledLearner,
    data: Examples,
    folds: int | Sequence[np.ndarray],
    *,
    shuffle: bool = True,
    order: str = "fixed",
    rng: np.random.Generator | None = None,
    client: Any = None,
) -> LearnerCV:
    """Cross-validate an incremental learner in about log2 k passes over the data.

    A binary tree over the chunks trains a model on one half of a node's chunks, in one call, and
    goes on into the other half: each model has then learnt every chunk but its own, in the tree's
    order. joblib runs the branches as its `parallel_config` says, to the same bits wherever.

    Parameters
    ----------
    folds : k, the number of chunks (of n // k rows, the first n % k of one more; k = n leaves one
        out), or the rows of each fold, a partition.
    shuffle : with k, put a copy of the rows into a random order first, by `rng` or seed 0, since
        rows sorted by label are learnt and tested badly. Folds of rows are taken as they stand.
    order : "fixed" as the rows then stand, or "randomized" along each edge, which needs `rng`.
    client : of a Dask cluster, whose workers hold the chunks while models travel (extra `dask`).

    Raises
    ------
    FoldsFailed : the learner failed; it names the folds, and its `result` has the others
    Interrupted : Ctrl-C; its `result` has the finished folds, and nan for the others

    Warns of `LabelRuns` where rows that are not shuffled have like labels next to each other.
    """
    run = tree if client is None else partial(tree_on_cluster, client=client)
    return _cross_validate("treecv", run, learner, data, folds, shuffle, order, rng)


def kfold(
    learner: IncrementalLearner | CompiledLearner,
    data: Examples,
    folds: int | Sequence[np.ndarray],
    *,
    shuffle: bool = True,
    order: str = "fixed",
    rng: np.random.Generator | None = None,
) -> LearnerCV:
    """Cross-validate by k models, each trained from nothing; all else as in `treecv`."""
    return _cross_validate("kfold", standard, learner, data, folds, shuffle, order, rng)


class LabelRuns(UserWarning):
    """Rows with like labels stand next to each other, and are learnt in that order."""


def _cross_validate(method, run, learner, data, folds, shuffle, order, rng):
    started = time.perf_counter()
    check_kind("learner", learner, IncrementalLearner)
    check_kind("data", data, Examples)
    shuffle = shuffle and isinstance(folds, int | np.integer)
    rng = None if rng is None else generator(rng)
    seed = _seed(order, rng, shuffle)
    rows, bounds = partition(folds, len(data))
    if shuffle:
        rows = (rng or np.random.default_rng(0)).permutation(rows)
    else:
        _warn_of_runs(data.y, rows)
    if hasattr(learner, "check"):
        learner.check(data.X, data.y)
    if (np.diff(rows) != 1).any():
        data = data.take(rows)  # so that what is learnt or tested together is a slice
    job = Job(learner, data, bounds, seed)
    outcomes = []
    counts = Counter(updates=0, copies=0)
    interrupt = None
    try:
        run(job, outcomes, counts)
    except KeyboardInterrupt as error:
        interrupt = error
    outcomes.sort()
    losses = np.full(len(rows), np.nan)
    for outcome in outcomes:
        losses[rows[job.span(outcome.first, outcome.last)]] = outcome.losses
    fold_of = np.empty(len(rows), np.int64)
    fold_of[rows] = np.repeat(np.arange(job.k), np.diff(bounds))
    failed = [outcome for outcome in outcomes if outcome.error]
    result = LearnerCV(
        method=method,
        learner=repr(learner),
        order=order,
        pointwise=losses,
        fold_of=fold_of,
        seconds=time.perf_counter() - started,
        evaluations=counts,
        shuffled=shuffle,
        failures=tuple(outcome.sentence() for outcome in failed),
    )
    if interrupt:
        raise Interrupted(_finished(job, outcomes), result) from interrupt
    if failed:
        raise FoldsFailed(result) from failed[0].error
    return result


def _finished(job, outcomes):
    """What Ctrl-C leaves, in words."""
    n_done = sum(outcome.last - outcome.first + 1 for outcome in outcomes if not outcome.error)
    kept = "`result` of this exception (sys.last_value in a console) has their losses"
    return f"{n_done} of {job.k} folds are finished: {kept}. For the others, start again"


def _seed(order, rng, shuffle):
    """The seed of random orders along the edges, or FIXED."""
    if order == "fixed" and (rng is None or shuffle):
        return FIXED
    if order == "randomized" and rng is not None:
        return int(rng.integers(2**62))
    raise ValueError(
        f'order {order!r}, rng {rng}: "randomized" needs a Generator as rng; "fixed" takes one '
        "only to shuffle rows, which is not done with shuffle=False or folds of rows"
    )


def _warn_of_runs(y, rows):
    """Warn where labels (n,) change from row to row much less than in random order.

    Mean squared successive difference over the variance: 2 in random order, give or take
    2 / sqrt(n), and 0 where like stands beside like. Source: von Neumann (1941).
    """
    if y is None or len(rows) < 20:
        return
    labels = y[rows]
    spread = labels.var()
    ratio = np.mean(np.diff(labels) ** 2) / spread if spread > 0 else 2.0
    if ratio < 1.0 - 3.0 / np.sqrt(len(rows)):
        warnings.warn(
            "like labels stand next to each other, so that folds differ and learners forget: from "
            f"row to row they change by {ratio:.2g} variances (mean square; 2 in random order). "
            "Pass a number of folds and shuffle=True, or shuffle the rows",
            LabelRuns,
            stacklevel=4,
        )
