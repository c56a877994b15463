"""R_k-CV = 1/k sum_i R_i, R_i the mean loss on chunk Z_i of a model that learnt all the others.

Source: Joulani, Gyorgy and Szepesvari (2015), Algorithm 1.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import joblib
import numpy as np

from ..checks import check_whole, index_of, require
from ..declared import Flag, Is, OneOf, Rng, declared
from ..folds import Folds
from ..parallel import spread
from ..scores import HeldOutLosses
from .learner import CompiledLearner, Examples, IncrementalLearner

FIXED = -1  # in place of a seed, which is never negative: learn the rows as they stand
HOW_TO_WRAP = (
    ": wrap an estimator that has partial_fit as acv.learners.PartialFit(estimator), a classifier "
    "with classes=(...), all its labels; or give an object with the methods init(), "
    "update(state, X, y) and loss(state, X, y)"
)

Learner = Annotated[IncrementalLearner, Is(HOW_TO_WRAP)]
Rows = Annotated[Examples, Is(": give acv.Examples(X, y)")]
Order = Annotated[str, OneOf("fixed", "randomized")]


@dataclass(frozen=True, eq=False, repr=False)
class LearnerCV(HeldOutLosses):
    """k-fold cross-validation of an incremental learner; its losses are read as in `CVResult`.

    pointwise (n,): loss of each row under the model that has not seen its fold, nan where that
    failed; fold_of (n,): the fold of each row; evaluations: rows learnt (updates) and models
    copied, more updates where more than two workers train the way to their branches for themselves;
    shuffled: whether the rows were shuffled before they were cut into folds; failures: which folds
    failed, and how, a sentence each; labels (n_folds,): the user's names of folds, or None.

    R_k-CV of Joulani et al. (2015), where folds of unequal size count alike, is
    `fold_losses.mean()`; `loss` is the mean over rows.
    """

    method: str
    learner: str
    order: str
    pointwise: np.ndarray = field(repr=False)
    fold_of: np.ndarray = field(repr=False)
    seconds: float
    evaluations: dict[str, int]
    shuffled: bool = False
    failures: tuple[str, ...] = ()
    labels: Any = field(default=None, repr=False)

    @property
    def n_sites(self) -> int:
        """How many rows there are."""
        return len(self.pointwise)

    @property
    def n_folds(self) -> int:
        """How many folds there are."""
        return int(self.fold_of.max()) + 1

    @property
    def _pairs(self):
        return self.fold_of, np.arange(self.n_sites), self.pointwise

    def to_frame(self) -> Any:
        """Return a DataFrame with a row for each fold: its size and mean loss (extra `tables`)."""
        pandas = require("pandas", extra="tables")
        columns = {"size": np.bincount(self.fold_of), "loss": self.fold_losses}
        return pandas.DataFrame(columns, self.labels).rename_axis("fold")

    @property
    def _about(self):
        rows = "shuffled, " if self.shuffled else ""
        updates = self.evaluations["updates"] / self.n_sites
        return f", {rows}{updates:.2f} updates a row, of {self.learner}"


class FoldsFailed(RuntimeError):
    """Some folds have no result because the learner raised; `result` has those of all others."""

    def __init__(self, result: LearnerCV):
        first, *more = result.failures
        super().__init__(f"{first} (and {len(more)} more folds)" if more else first)
        self.result = result

    def __reduce__(self):
        return FoldsFailed, (self.result,)  # the words are made anew


@declared
def treecv(
    learner: Learner,
    data: Rows,
    folds: int | Folds | Sequence[np.ndarray],
    *,
    shuffle: Flag = True,
    order: Order = "fixed",
    rng: Rng = 0,
) -> LearnerCV:
    """Cross-validate an incremental learner in about log2 k passes over the data.

    A binary tree over the chunks trains a model on one half of a node's chunks, in one call, and
    goes on into the other half: each model has then learnt every chunk but its own, in the tree's
    order. joblib runs the branches as its `parallel_config` says, to the same bits wherever.

    Parameters
    ----------
    folds : k, the number of chunks (of n // k rows, the first n % k of one more; k = n leaves one
        out), or the rows of each fold, a partition.
    shuffle : with k, put a copy of the rows into a random order first, since rows sorted by label
        are learnt and tested badly. Folds of rows are taken as they stand.
    order : "fixed" as the rows then stand, or "randomized" along each edge.
    rng : draws both of these orders.

    Raises
    ------
    FoldsFailed : the learner failed; it names the folds, and its `result` has the others
    """
    return _cross_validate("treecv", learner, data, folds, shuffle, order, rng)


@declared
def kfold(
    learner: Learner,
    data: Rows,
    folds: int | Folds | Sequence[np.ndarray],
    *,
    shuffle: Flag = True,
    order: Order = "fixed",
    rng: Rng = 0,
) -> LearnerCV:
    """Cross-validate by k models, each trained from nothing; all else as in `treecv`."""
    return _cross_validate("kfold", learner, data, folds, shuffle, order, rng)


def _cross_validate(method, learner, data, folds, shuffle, order, rng):
    from .recursion import follow, leaves, tree_nodes  # numba is slow to import

    started = time.perf_counter()
    stream = np.random.default_rng(rng)
    seed = int(stream.integers(2**62)) if order == "randomized" else FIXED
    if hasattr(learner, "check"):
        learner.check(data.X, data.y)
    named = folds if isinstance(folds, Folds) else None
    if named is not None:
        named.check_index(index_of(data))
    rows, bounds = partition(folds, len(data))
    shuffled = shuffle and isinstance(folds, int | np.integer)
    if shuffled:
        rows = stream.permutation(rows)
    if (np.diff(rows) != 1).any():
        data = data.take(rows)  # what is learnt or tested together: a slice
    k = len(bounds) - 1
    nodes = tree_nodes(k, joblib.effective_n_jobs(None)) if method == "treecv" else leaves(k)
    label = method if len(nodes) == 1 else ""
    tasks = [(node, learner, data.X, data.y, bounds, seed, label) for node in nodes]
    prefer = "threads" if isinstance(learner, CompiledLearner) else "processes"
    losses, learnt, failed = zip(*spread(follow, tasks, prefer, method), strict=True)
    fold_of_place = np.repeat(np.arange(k), np.diff(bounds))
    errors = {fold_of_place[row]: error for part in failed for row, error in part.items()}
    names = {i: named.name(i) if named is not None else f"fold {i}" for i in errors}
    pointwise = np.empty(len(rows))
    pointwise[rows] = np.concatenate(losses)
    fold_of = np.empty(len(rows), np.int64)
    fold_of[rows] = fold_of_place
    result = LearnerCV(
        method=method,
        learner=repr(learner),
        order=order,
        pointwise=pointwise,
        fold_of=fold_of,
        seconds=time.perf_counter() - started,
        evaluations={"updates": sum(learnt), "copies": k - len(nodes)},
        shuffled=shuffled,
        failures=tuple(f"{names[i]} failed: {type(e).__name__}: {e}" for i, e in errors.items()),
        labels=None if named is None else named.labels,
    )
    if errors:
        raise FoldsFailed(result) from next(iter(errors.values()))
    return result


def partition(folds: int | Iterable[np.ndarray], n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n,) and bounds (k + 1,): chunk Z_i is rows[bounds[i]:bounds[i + 1]].

    An integer k cuts the rows as they stand into chunks of n_rows // k, the first n_rows % k of
    which have one row more. Raises ValueError unless 2 <= k <= n_rows, every row is in exactly one
    fold, and each fold scores all that it leaves out.
    """
    if hasattr(folds, "split") and hasattr(folds, "get_n_splits"):
        name = type(folds).__name__
        raise TypeError(f"folds = {name} of scikit-learn: acv.folds.from_splitter({name}(...), X)")
    if not isinstance(folds, Folds) and not hasattr(folds, "__iter__"):
        k = check_whole("k", folds, 2, n_rows, f" folds of {n_rows} rows")
        rows = np.arange(n_rows)
        sizes = n_rows // k + (rows[:k] < n_rows % k)
    else:
        folds = Folds.of(folds, n_rows)
        rows, sizes = folds.omitted.sites, folds.sizes
        uses = np.bincount(rows, minlength=n_rows)
        if (uses != 1).any():
            row = np.argmax(uses != 1)
            raise ValueError(f"row {row} is in {uses[row]} folds: the folds must be a partition")
        if folds.scored is not folds.omitted:
            raise ValueError("some fold scores only part of what it omits: every row is tested")
    return rows, np.append(0, np.cumsum(sizes))
