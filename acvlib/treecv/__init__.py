"""R_k-CV = 1/k sum_i R_i, R_i the mean loss on chunk Z_i of a model that learnt all the others.

Source: Joulani, Gyorgy and Szepesvari (2015), Algorithm 1.
"""

import time
import warnings
from collections import Counter
from collections.abc import Sequence
from itertools import chain, groupby
from os import PathLike

import joblib
import numpy as np

from ..checks import check_choice, check_kind, generator
from ..folds import Folds
from ..parallel import spread
from .learner import CompiledLearner, Examples, IncrementalLearner
from .orders import FIXED, leaves, partition, tree_nodes
from .result import FoldsFailed, LearnerCV

KEPT = 16  # branches at least that a cache keeps apart


class LabelRuns(UserWarning):
    """Rows with like labels stand next to each other, and are learnt in that order."""


HOW_TO_WRAP = (
    ": wrap an estimator that has partial_fit as acv.learners.PartialFit(estimator), a classifier "
    "with classes=(...), all its labels; or give an object with the methods init(), "
    "update(state, X, y) and loss(state, X, y)"
)


def treecv(
    learner: IncrementalLearner | CompiledLearner,
    data: Examples,
    folds: int | Folds | Sequence[np.ndarray],
    *,
    shuffle: bool = True,
    order: str = "fixed",
    rng: np.random.Generator | int | None = None,
    cache: str | PathLike | None = None,
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
    cache : a folder where `joblib.Memory` keeps finished branches; the same call goes on from
        them. A learner is known by its pickle, a compiled one by name and numbers, not by its code.

    Raises
    ------
    FoldsFailed : the learner failed; it names the folds, and its `result` has the others

    Warns of `LabelRuns` where rows that are not shuffled have like labels next to each other.
    """
    return _cross_validate("treecv", learner, data, folds, shuffle, order, rng, cache)


def kfold(
    learner: IncrementalLearner | CompiledLearner,
    data: Examples,
    folds: int | Folds | Sequence[np.ndarray],
    *,
    shuffle: bool = True,
    order: str = "fixed",
    rng: np.random.Generator | int | None = None,
    cache: str | PathLike | None = None,
) -> LearnerCV:
    """Cross-validate by k models, each trained from nothing; all else as in `treecv`."""
    return _cross_validate("kfold", learner, data, folds, shuffle, order, rng, cache)


def _cross_validate(method, learner, data, folds, shuffle, order, rng, cache):
    started = time.perf_counter()
    check_kind("learner", learner, IncrementalLearner, HOW_TO_WRAP)
    check_kind("data", data, Examples)
    check_kind("cache", cache, str | PathLike | None)
    shuffle = shuffle and isinstance(folds, int | np.integer)
    stream, seed = _randomness(order, rng, shuffle)
    if hasattr(learner, "check"):
        learner.check(data.X, data.y)
    rows, bounds = partition(folds, len(data))
    if shuffle:
        rows = stream.permutation(rows)
    else:
        _warn_of_runs(data.y, rows)
    if (np.diff(rows) != 1).any():
        data = data.take(rows)  # what is learnt or tested together: a slice
    losses, evaluations, failures = _branches(method, learner, data, bounds, seed, cache)
    pointwise = np.empty(len(rows))
    pointwise[rows] = losses
    fold_of = np.empty(len(rows), np.int64)
    fold_of[rows] = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    result = LearnerCV(
        method=method,
        learner=repr(learner),
        order=order,
        pointwise=pointwise,
        fold_of=fold_of,
        seconds=time.perf_counter() - started,
        evaluations=evaluations,
        shuffled=shuffle,
        failures=tuple(_sentences(failures, bounds)),
    )
    if failures:
        raise FoldsFailed(result) from failures[0][1].error
    return result


def _randomness(order, rng, shuffle):
    """The generator of shuffles, and the seed of random orders along the edges, or FIXED."""
    check_choice("order", order, ("fixed", "randomized"))
    randomized = order == "randomized"
    if (rng is None) if randomized else (rng is not None and not shuffle):
        raise ValueError(
            f'order {order!r}, rng {rng}: "randomized" needs a Generator as rng; "fixed" takes one '
            "only to shuffle rows, which is not done with shuffle=False or folds of rows"
        )
    stream = generator(0 if rng is None else rng)
    return stream, int(stream.integers(2**62)) if randomized else FIXED


def _branches(method, learner, data, bounds, seed, cache):
    """The losses of all rows, what was done, and (first row of a fold, what failed) of failures."""
    from .recursion import follow_kept  # numba is slow to import

    compiled = isinstance(learner, CompiledLearner)
    k = len(bounds) - 1
    n_least = max(joblib.effective_n_jobs(None), 1 if cache is None else KEPT)
    nodes = tree_nodes(k, n_least) if method == "treecv" else leaves(k)
    known = (learner.name, learner.initial, learner.constants) if compiled else learner
    key = None if cache is None else joblib.hash((known, data.X, data.y, bounds, seed))
    label = method if len(nodes) == 1 else None
    tasks = [(cache, node, key, learner, data.X, data.y, bounds, seed, label) for node in nodes]
    prefer = "threads" if compiled else "processes"  # compiled learners hold no lock
    losses, learnt, failures = zip(*spread(follow_kept, tasks, prefer, method), strict=True)
    evaluations = Counter(updates=sum(learnt), copies=k - len(nodes))
    return np.concatenate(losses), evaluations, list(chain(*failures))


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
        warnings.warn(
            "like labels stand next to each other, so that folds differ and learners forget: from "
            f"row to row they change by {ratio:.2g} variances (mean square; 2 in random order). "
            "Pass a number of folds and shuffle=True, or shuffle the rows",
            LabelRuns,
            stacklevel=4,
        )
