"""R_k-CV = 1/k sum_i R_i, R_i the mean loss on chunk Z_i of a model that learnt all others: `treecv` and `kfold`.

Source: Joulani, Gyorgy and Szepesvari (2015), Algorithm 1.
"""

import time
from collections import Counter
from functools import partial

import numpy as np

from .chunks import partition
from .protocol import Examples, read_only
from .recursion import Job
from .result import FoldsFailed, LearnerCV
from .shuffle import FIXED


def treecv(learner, data, folds, order="fixed", rng=None, client=None):
    """k-fold cross-validation of an incremental learner in about log2 k passes over the data: a `LearnerCV`.

    The models of two folds share all training but that on each other's chunks: a binary tree over the chunks
    trains a model on one half of a node's chunks and goes on into the other half. Each model has then learnt
    every chunk but its own, in an order that the tree dictates.

    learner: an `IncrementalLearner`; one whose model depends on the portions in which rows arrive gets the
    chunks of an edge of the tree in one call. data: `Examples`. folds: k, for contiguous chunks, or one array
    of rows for each fold, a partition; k = n leaves one out. order: "fixed" as the rows stand, or "randomized"
    along each edge, which needs `rng`. client: of a Dask cluster, whose workers then hold the chunks while
    models travel (`acvlib.incremental.cluster`), in fixed order; without one, joblib runs the branches as its
    `parallel_config` says. The result is the same bit by bit in all cases, if the learner learns row by row.

    Raises ValueError for folds or rows that cannot be, FoldsFailed if the learner raises: its message names
    the folds, its `result` has the others. Source: Joulani et al. (2015), Algorithm 1 and Section 4.1.
    """
    if client is None:
        from .branches import tree as run
    else:
        from .cluster import tree_on_cluster

        run = partial(tree_on_cluster, client=client)
    return _run("treecv", run, learner, data, folds, order, rng)


def kfold(learner, data, folds, order="fixed", rng=None):
    """Standard k-fold cross-validation: k models, each trained from nothing; arguments and result as `treecv`."""
    from .branches import standard

    return _run("kfold", standard, learner, data, folds, order, rng)


def _run(method, run, learner, data, folds, order, rng):
    started = time.perf_counter()
    chunks = partition(folds, len(data))
    outcomes, counts = run(_job(learner, data, chunks, order, rng))
    fold_of = np.empty(len(data), np.int64)
    fold_of[chunks.rows] = np.repeat(np.arange(chunks.k), chunks.sizes)
    pointwise, failures = _collect(outcomes, chunks)
    seconds = time.perf_counter() - started
    result = LearnerCV(
        method, repr(learner), order, pointwise, fold_of, seconds, Counter(counts), failures
    )
    if failures:
        raise FoldsFailed(result) from next(outcome.error for outcome in outcomes if outcome.error)
    return result


def _job(learner, data, chunks, order, rng):
    if order not in ("fixed", "randomized") or (order == "randomized") == (rng is None):
        raise ValueError(
            f'order = {order!r}, rng = {rng}: "fixed" takes no rng, "randomized" needs one'
        )
    if hasattr(learner, "check"):
        learner.check(data.X, data.y)
    # Rows of one chunk side by side, so that what is learnt or tested together is a slice.
    ordered = data if (np.diff(chunks.rows) == 1).all() else data.take(chunks.rows)
    return Job(
        learner, read_only(ordered.X), read_only(ordered.y), chunks.bounds, _seed(order, rng)
    )


def _seed(order, rng):
    return FIXED if order == "fixed" else int(rng.integers(2**62))


def _collect(outcomes, chunks):
    """(losses in the order of the data, failures as sentences)."""
    pointwise, failures = np.full(len(chunks.rows), np.nan), []
    for first, last, losses, error, doing in outcomes:
        if error is None:
            pointwise[chunks.span(first, last)] = losses
        else:
            name = f"fold {first}" if first == last else f"folds {first} ... {last}"
            failures.append(f"{name} failed while {doing}: {type(error).__name__}: {error}")
    return pointwise, tuple(failures)
