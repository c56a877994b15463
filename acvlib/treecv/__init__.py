"""R_k-CV = 1/k sum_i R_i, R_i the mean loss on chunk Z_i of a model that learnt all the others.

Source: Joulani, Gyorgy and Szepesvari (2015), Algorithm 1.
"""

import time
from collections import Counter
from collections.abc import Sequence
from itertools import chain, groupby
from typing import Annotated

import joblib
import numpy as np

from ..checks import warn
from ..declared import Is, OneOf, Rng, declared
from ..folds import Folds
from ..parallel import spread
from .learner import CompiledLearner, Examples, IncrementalLearner
from .orders import FIXED, leaves, partition, tree_nodes
from .result import FoldsFailed, LearnerCV


class LabelRuns(UserWarning):
    """Rows with like labels stand next to each other, and are learnt in that order."""


HOW_TO_WRAP = (
    ": wrap an estimator that has partial_fit as acv.learners.PartialFit(estimator), a classifier "
    "with classes=(...), all its labels; or give an object with the methods init(), "
    "update(state, X, y) and loss(state, X, y)"
)


ALearner = Annotated[IncrementalLearner | CompiledLearner, Is(HOW_TO_WRAP)]
Order = Annotated[str, OneOf("fixed", "randomized")]


@declared
def treecv(
    learner: ALearner,
    data: Annotated[Examples, Is()],
    folds: int | Folds | Sequence[np.ndarray],
    *,
    shuffle: bool = True,
    order: Order = "fixed",
    rng: Rng | None = None,
) -> LearnerCV:
    """Cross-validate an incremental learner in about log2 k passes over the data.

    A binary tree over the chunks trains a model on one half of a node's chunks, in one call, and
    goes on into the other half: each model has then learnt every chunk but its own, in the tree's
    order. joblib runs the branches as its `parallel_config` says, to the same bits wherever;
    `joblib.Memory(folder).cache(acv.treecv)` keeps what is finished.

    Parameters
    ----------
    folds : k, the number of chunks (of n // k rows, the first n % k of one more; k = n leaves one
        out), or the rows of each fold, a partition.
    shuffle : with k, put a copy of the rows into a random order first, by `rng` or seed 0, since
        rows sorted by label are learnt and tested badly. Folds of rows are taken as they stand.
    order : "fixed" as the rows then stand, or "randomized" along each edge, which needs `rng`.

    Raises
    ------
    FoldsFailed : the learner failed; it names the folds, and its `result` has the others

    Warns of `LabelRuns` where rows that are not shuffled have like labels next to each other.
    """
    return _cross_validate("treecv", learner, data, folds, shuffle, order, rng)


@declared
def kfold(
    learner: ALearner,
    data: Annotated[Examples, Is()],
    folds: int | Folds | Sequence[np.ndarray],
    *,
    shuffle: bool = True,
    order: Order = "fixed",
    rng: Rng | None = None,
) -> LearnerCV:
    """Cross-validate by k models, each trained from nothing; all else as in `treecv`."""
    return _cross_validate("kfold", learner, data, folds, shuffle, order, rng)


def _cross_validate(method, learner, data, folds, shuffle, order, rng):
    from .recursion import follow  # numba is slow to import

    started = time.perf_counter()
    shuffle = shuffle and isinstance(folds, int | np.integer)
    randomized = order == "randomized"
    if (rng is None) if randomized else (rng is not None and not shuffle):
        raise ValueError(
            f'order {order!r}, rng {rng}: "randomized" needs a Generator as rng; "fixed" takes one '
            "only to shuffle rows, which is not done with shuffle=False or folds of rows"
        )
    rng = np.random.default_rng(0) if rng is None else rng
    seed = int(rng.integers(2**62)) if randomized else FIXED
    if hasattr(learner, "check"):
        learner.check(data.X, data.y)
    rows, bounds = partition(folds, len(data))
    if shuffle:
        rows = rng.permutation(rows)
    else:
        _warn_of_runs(data.y, rows)
    if (np.diff(rows) != 1).any():
        data = data.take(rows)  # what is learnt or tested together: a slice
    k = len(bounds) - 1
    nodes = tree_nodes(k, joblib.effective_n_jobs(None)) if method == "treecv" else leaves(k)
    label = method if len(nodes) == 1 else None
    tasks = [(node, learner, data.X, data.y, bounds, seed, label) for node in nodes]
    prefer = "threads" if isinstance(learner, CompiledLearner) else "processes"  # it holds no lock
    losses, learnt, failures = zip(*spread(follow, tasks, prefer, method), strict=True)
    failed = list(chain(*failures))
    pointwise = np.empty(len(rows))
    pointwise[rows] = np.concatenate(losses)
    fold_of = np.empty(len(rows), np.int64)
    fold_of[rows] = np.repeat(np.arange(k), np.diff(bounds))
    result = LearnerCV(
        method=method,
        learner=repr(learner),
        order=order,
        pointwise=pointwise,
        fold_of=fold_of,
        seconds=time.perf_counter() - started,
        evaluations=Counter(updates=sum(learnt), copies=k - len(nodes)),
        shuffled=shuffle,
        failures=tuple(_sentences(failed, bounds)),
    )
    if failed:
        raise FoldsFailed(result) from failed[0][1].error
    return result


def _sentences(failures, bounds):
    """Say which folds failed, and how, those that failed alike together."""
    for how, alike in groupby(failures, key=lambda failure: str(failure[1])):
        folds = np.searchsorted(bounds, [row for row, _ in alike], side="right") - 1
        names = f"folds {folds[0]} ... {folds[-1]}" if len(folds) > 1 else f"fold {folds[0]}"
        yield f"{names} failed while {how}"


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
        warn(
            "like labels stand next to each other, so that folds differ and learners forget: from "
            f"row to row they change by {ratio:.2g} variances (mean square; 2 in random order). "
            "Pass a number of folds and shuffle=True, or shuffle the rows",
            LabelRuns,
        )
