"""R_k-CV = 1/k sum_i R_i, R_i the mean loss on chunk Z_i of a model that learnt all the others.

Source: Joulani, Gyorgy and Szepesvari (2015), Algorithm 1.
"""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

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
    order: str = "fixed",
    rng: np.random.Generator | None = None,
    client: Any = None,
) -> LearnerCV:
    """Cross-validate an incremental learner in about log2 k passes over the data.

    A binary tree over the chunks trains a model on one half of a node's chunks, in one call, and
    goes on into the other half: each model has then learnt every chunk but its own, in the tree's
    order. joblib runs the branches as its `parallel_config` says, to the same bits wherever.

    folds : k, for contiguous chunks, or the rows of each fold, a partition; k = n leaves one out.
    order : "fixed" as the rows stand, or "randomized" along each edge, which needs `rng`.
    client : of a Dask cluster, whose workers hold the chunks while models travel (extra `dask`).

    Raises FoldsFailed if the learner does; it names the folds, its `result` has the others.
    """
    run = tree if client is None else partial(tree_on_cluster, client=client)
    return _cross_validate("treecv", run, learner, data, folds, order, rng)


def kfold(
    learner: IncrementalLearner | CompiledLearner,
    data: Examples,
    folds: int | Sequence[np.ndarray],
    *,
    order: str = "fixed",
    rng: np.random.Generator | None = None,
) -> LearnerCV:
    """Cross-validate by k models, each trained from nothing; all else as in `treecv`."""
    return _cross_validate("kfold", standard, learner, data, folds, order, rng)


def _cross_validate(method, run, learner, data, folds, order, rng):
    started = time.perf_counter()
    seed = _seed(order, rng)
    rows, bounds = partition(folds, len(data))
    if hasattr(learner, "check"):
        learner.check(data.X, data.y)
    if (np.diff(rows) != 1).any():
        data = data.take(rows)  # so that what is learnt or tested together is a slice
    job = Job(learner, data, bounds, seed)
    outcomes, counts = run(job)
    outcomes.sort()
    losses = np.empty(len(rows))
    for outcome in outcomes:
        losses[rows[job.span(outcome.first, outcome.last)]] = outcome.losses
    fold_of = np.empty(len(rows), np.int64)
    fold_of[rows] = np.repeat(np.arange(job.k), np.diff(bounds))
    failed = [outcome for outcome in outcomes if outcome.error]
    failures = tuple(outcome.sentence() for outcome in failed)
    seconds = time.perf_counter() - started
    result = LearnerCV(method, repr(learner), order, losses, fold_of, seconds, counts, failures)
    if failed:
        raise FoldsFailed(result) from failed[0].error
    return result


def _seed(order, rng):
    if order == "fixed" and rng is None:
        return FIXED
    if order == "randomized" and rng is not None:
        return int(rng.integers(2**62))
    raise ValueError(f'order {order!r}, rng {rng}: "fixed" takes no rng, "randomized" needs one')
