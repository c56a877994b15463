"""R_k-CV = 1/k sum_i R_i, R_i the mean loss on chunk Z_i of a model that learnt all the others.

Source: Joulani, Gyorgy and Szepesvari (2015), Algorithm 1.
"""

import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from os import PathLike
from pickle import PicklingError
from typing import Any, NamedTuple

import joblib
import numpy as np

from ..checks import check_kind, generator
from ..parallel.checkpoint import Checkpoint, check_same, digest
from ..scores import Interrupted
from .chunks import FIXED, partition
from .cluster import on_cluster
from .protocol import CompiledLearner, Examples, IncrementalLearner
from .recursion import Job, Progress, finished, standard, tree
from .result import FoldsFailed, LearnerCV
from .scratch import portions, reordered


def treecv(
    learner: IncrementalLearner | CompiledLearner,
    data: Examples,
    folds: int | Sequence[np.ndarray],
    *,
    shuffle: bool = True,
    order: str = "fixed",
    rng: np.random.Generator | None = None,
    client: Any = None,
    checkpoint: str | PathLike | LearnerCV | None = None,
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
    checkpoint : a file that has the losses of finished folds, written whole every few seconds, from
        which the same call goes on if it is there; or the `result` of an exception below, to go on
        from it. `evaluations` counts what this call did. The learner is known by its pickle.

    Raises
    ------
    FoldsFailed : the learner failed; it names the folds, and its `result` has the others
    Interrupted : Ctrl-C; its `result` has the finished folds, and nan for the others
    ValueError : a checkpoint of other data, folds or learner

    Warns of `LabelRuns` where rows that are not shuffled have like labels next to each other.
    """
    cut = _Cut.of(data, folds, shuffle, order, rng)
    return _cross_validate("treecv", tree, learner, data, cut, client, checkpoint)


def kfold(
    learner: IncrementalLearner | CompiledLearner,
    data: Examples,
    folds: int | Sequence[np.ndarray],
    *,
    shuffle: bool = True,
    order: str = "fixed",
    rng: np.random.Generator | None = None,
    client: Any = None,
    checkpoint: str | PathLike | LearnerCV | None = None,
) -> LearnerCV:
    """Cross-validate by k models, each trained from nothing; all else as in `treecv`."""
    cut = _Cut.of(data, folds, shuffle, order, rng)
    return _cross_validate("kfold", standard, learner, data, cut, client, checkpoint)


HOW_TO_WRAP = (
    ": wrap an estimator that has partial_fit as acv.learners.PartialFit(estimator), a classifier "
    "with classes=(...), all its labels; or give an object with the methods init(), "
    "update(state, X, y) and loss(state, X, y)"
)


class LabelRuns(UserWarning):
    """Rows with like labels stand next to each other, and are learnt in that order."""


class _Cut(NamedTuple):
    """The rows (n,) in the order in which they are learnt, and where they are cut into chunks."""

    rows: np.ndarray
    bounds: np.ndarray
    seed: int
    order: str
    shuffled: bool

    @classmethod
    def of(cls, data, folds, shuffle, order, rng):
        check_kind("data", data, Examples)
        shuffle = shuffle and isinstance(folds, int | np.integer)
        rng = None if rng is None else generator(rng)
        seed = _seed(order, rng, shuffle)
        rows, bounds = partition(folds, len(data))
        if shuffle:
            rows = (rng or np.random.default_rng(0)).permutation(rows)
        else:
            _warn_of_runs(data.y, rows)
        return cls(rows, bounds, seed, order, shuffle)

    def fold_of(self):
        """The fold of each row, in the order of the data."""
        fold_of = np.empty(len(self.rows), np.int64)
        fold_of[self.rows] = np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))
        return fold_of


def _cross_validate(method, run, learner, data, cut, client, checkpoint):
    started = time.perf_counter()
    check_kind("learner", learner, IncrementalLearner, HOW_TO_WRAP)
    if hasattr(learner, "check"):
        learner.check(data.X, data.y)
    work = partial(_work, method, learner, data, cut)
    losses, file = _begun(checkpoint, work, cut.rows)
    if (np.diff(cut.rows) != 1).any():
        X = reordered(data.X, cut.rows, data.memory)  # what is learnt or tested together: a slice
        data = Examples(X, None if data.y is None else data.y[cut.rows], data.memory)
    job = Job(learner, data, cut.bounds, cut.seed, finished(losses, cut.bounds))
    progress = Progress(job, losses, file)
    run = run if client is None else partial(on_cluster, client=client, label=method)
    interrupt = None
    try:
        run(job, progress)
    except KeyboardInterrupt as error:
        interrupt = error
    finally:
        progress.save(now=True)
    failed = sorted(progress.failed)
    pointwise = np.empty(len(losses))
    pointwise[cut.rows] = losses
    result = LearnerCV(
        method=method,
        learner=repr(learner),
        order=cut.order,
        pointwise=pointwise,
        fold_of=cut.fold_of(),
        seconds=time.perf_counter() - started,
        evaluations=progress.counts,
        shuffled=cut.shuffled,
        failures=tuple(outcome.sentence() for outcome in failed),
    )
    if interrupt or failed:
        with suppress(KeyboardInterrupt, ValueError):  # then no call can go on from the result
            result = replace(result, work=work())
    if interrupt:
        raise Interrupted(_advice(finished(losses, cut.bounds)), result) from interrupt
    if failed:
        raise FoldsFailed(result) from failed[0].error
    return result


def _work(method, learner, data, cut):
    """What is computed, by checksums."""
    X = data.X
    targets = () if data.y is None else (data.y,)
    blocks = map(X.__getitem__, portions(*X.shape))
    return {
        "method": method,
        "learner": _checksum(learner),
        "set of rows": digest([X.shape, *blocks, *targets]),
        "order or set of folds": digest([cut.rows, cut.bounds, cut.seed]),
    }


def _checksum(learner):
    """Of all that a learner is; of a compiled one, of its numbers, as kernels differ each time.

    Raises ValueError for one that cannot be pickled.
    """
    if isinstance(learner, CompiledLearner):
        return digest([learner.name, learner.initial, learner.constants])
    try:
        return joblib.hash(learner)
    except (PicklingError, TypeError, AttributeError) as error:
        reason = f"the learner cannot be pickled, by which a checkpoint knows it: {error}"
        raise ValueError(f"{reason}. Define its class in a module") from error


def _begun(checkpoint, work, rows):
    """The losses of the folds that a checkpoint has, nan elsewhere, and where to keep more."""
    if isinstance(checkpoint, LearnerCV):
        if not checkpoint.work:
            raise ValueError("the result lacks no fold, or its work is unknown: nothing to go on")
        check_same(work(), checkpoint.work, "the result")
        return checkpoint.pointwise[rows], None
    losses = np.full(len(rows), np.nan)
    if checkpoint is None:
        return losses, None
    file = Checkpoint(checkpoint, work())
    return file.load().get("losses", losses), file


def _advice(done):
    """What Ctrl-C leaves, in words."""
    kept = "`result` of this exception (sys.last_value in a console) has their losses"
    again = "To go on, call again with checkpoint=error.result, or with the file that you gave"
    return f"{done.sum()} of {len(done)} folds are finished: {kept}. {again}"


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
