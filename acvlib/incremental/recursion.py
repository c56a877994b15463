"""Algorithm 1 for any learner: the branches of the tree, which joblib runs as tasks.

Nothing runs in parallel by default; two threads under `with joblib.parallel_config(n_jobs=2)`; a
cluster under `with joblib.parallel_config(backend="dask")`.
"""

import copy
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs

from ..parallel import spread, track
from .chunks import FIXED, Edge, edges, shuffle
from .protocol import CompiledLearner, Examples

TASKS_PER_WORKER = 2  # so that a worker that is done early finds something to do
COMPILED_TASKS = 16  # so many at least, between which compiled loops can be interrupted


class Job(NamedTuple):
    """A learner and its rows, those of chunk i from bounds[i] to bounds[i + 1].

    seed : of random orders, or `FIXED`.
    """

    learner: Any
    data: Examples
    bounds: np.ndarray
    seed: int

    @property
    def k(self) -> int:
        return len(self.bounds) - 1

    def span(self, first: int, last: int) -> slice:
        """Return where the rows of chunks first ... last are."""
        return slice(int(self.bounds[first]), int(self.bounds[last + 1]))


class Outcome(NamedTuple):
    """The losses of the rows of chunks first ... last, or `error`, raised while `doing`."""

    first: int
    last: int
    losses: np.ndarray | None
    error: Exception | None = None
    doing: str = ""

    def sentence(self) -> str:
        """Say which folds failed, and how."""
        one = self.first == self.last
        name = f"fold {self.first}" if one else f"folds {self.first} ... {self.last}"
        return f"{name} failed while {self.doing}: {type(self.error).__name__}: {self.error}"


class Branch(NamedTuple):
    """An edge still to be followed by `state`, a model of its own."""

    state: Any
    edge: Edge


def _later(state, edge):
    return [Branch(state, edge)]


def copied(learner: Any, state: Any) -> Any:
    """Copy the state, by the learner's own means if it has any."""
    return learner.copy(state) if hasattr(learner, "copy") else copy.deepcopy(state)


class Trainer:
    """Trains the models of a job and tests them; counts rows learnt (updates) and copies."""

    def __init__(self, job: Job):
        self.job = job
        self.data = job.data
        self.learner = job.learner
        self.counts = Counter(updates=0, copies=0)

    def learn(self, state, rows):
        """The state after these rows; `state` itself may change."""
        X, y = self.data.select(rows)
        self.counts["updates"] += len(X)
        return self.learner.update(state, X, y)

    def test(self, state, fold):
        """The `Outcome` of one chunk under the model that has not seen it."""
        span = self.job.span(fold, fold)
        expected = (span.stop - span.start,)
        try:
            losses = np.asarray(self.learner.loss(state, *self.data.select(span)), float)
            if losses.shape != expected:
                raise ValueError(f"loss has shape {losses.shape}, not {expected}: one value a row")
        except Exception as error:
            return Outcome(fold, fold, None, error, f"testing on chunk {fold}")
        return Outcome(fold, fold, losses)

    def below(self, state, first, last, whole=True):
        """The `Outcome`s below a node, if not `whole` its `Branch`es; `state` is used up."""
        if first == last:
            yield self.test(state, first)
        elif whole and hasattr(self.learner, "revert"):
            yield from self.below_reverting(state, first, last)
        else:
            left, right = edges(first, last)
            go_on = self.follow if whole else _later
            self.counts["copies"] += 1
            yield from go_on(copied(self.learner, state), left)
            yield from go_on(state, right)

    def follow(self, state, edge, whole=True):
        """Train the child at the end of an edge, and go on `below` it."""
        try:
            state = self.learn(state, self.ordered(edge))
        except Exception as error:
            yield Outcome(edge.first, edge.last, None, error, f"learning {edge.chunks()}")
        else:
            yield from self.below(state, edge.first, edge.last, whole)

    def below_reverting(self, state, first, last):
        """`below` with one state throughout: what an edge changes is saved, then reverted."""
        for edge in edges(first, last):
            saved = self.learner.save(state, *self.data.select(self.ordered(edge)))
            yield from self.follow(state, edge)
            state = self.learner.revert(state, saved)

    def ordered(self, edge):
        """The rows of an edge's feed: a slice or, if one does not do, row numbers."""
        seed = self.job.seed
        if edge.feed is None:
            span = self.job.span(edge.first, edge.last)
            rows = np.delete(np.arange(len(self.data)), span)
        else:
            span = self.job.span(*edge.feed)
            rows = span if seed == FIXED else np.arange(span.start, span.stop)
        if seed != FIXED:
            shuffle(rows, len(rows), seed, span.start, span.stop)
        return rows


class CompiledTrainer(Trainer):
    """A trainer whose learner needs no Python: it walks whole branches in one compiled loop."""

    def learn(self, state, rows):
        """As in `Trainer`, without a copy of the rows."""
        if isinstance(rows, slice):
            rows = np.arange(rows.start, rows.stop)
        self.counts["updates"] += len(rows)
        return self.learner.learn(state, self.data.X, self.data.y, rows)

    def below(self, state, first, last, whole=True):
        """As in `Trainer`, with one `Outcome` for a whole branch."""
        if not whole:
            yield from super().below(state, first, last, whole)
            return
        from .compiled import descend  # slow to import

        span = self.job.span(first, last)
        X, y = self.data.select(span)
        y = np.zeros(len(X)) if y is None else y
        bounds = self.job.bounds[first : last + 2] - span.start
        losses = np.empty(len(X))
        states = np.empty((2 + int(last - first).bit_length(), len(state)))
        states[0] = state
        learner = self.learner
        model = (learner.update_kernel, learner.loss_kernel, learner.constants)
        order = (self.job.seed, span.start)
        work = (states, np.arange(len(X)), losses)
        updates, copies = descend(*model, X, y, bounds, *order, *work)
        self.counts.update(updates=updates, copies=copies)
        yield Outcome(first, last, losses)


def tree(job: Job) -> tuple[list[Outcome], Counter]:
    """Run Algorithm 1: (outcomes, counts), which do not depend on the number of workers.

    Level by level until there are branches for all workers; then each branch to its leaves. A
    learner in Python that runs alone goes depth first, which keeps one model a level.
    """
    n_workers = effective_n_jobs(None)
    n_tasks = n_workers * TASKS_PER_WORKER
    worker = _trainer(job)
    root = (job.learner.init(), 0, job.k - 1)
    if isinstance(worker, CompiledTrainer):
        n_tasks = max(n_tasks, COMPILED_TASKS)
    elif n_workers == 1:
        return list(track(worker.below(*root), "treecv", job.k)), worker.counts
    outcomes = []
    branches = list(worker.below(*root, whole=False))
    counts = worker.counts
    while branches:
        whole = len(branches) >= n_tasks
        tasks = [(job, *branch, whole) for branch in branches]
        found = _spread(tasks, "treecv", counts)
        outcomes += [item for item in found if isinstance(item, Outcome)]
        branches = [item for item in found if isinstance(item, Branch)]
    return outcomes, counts


def standard(job: Job) -> tuple[list[Outcome], Counter]:
    """Run standard cross-validation, a task a fold: (outcomes, counts)."""
    counts: Counter = Counter()
    folds = [Edge(fold, fold) for fold in range(job.k)]
    tasks = [(job, job.learner.init(), fold, True) for fold in folds]
    return _spread(tasks, "kfold", counts), counts


def _spread(tasks, label, counts):
    """What is found by following all branches, which adds to `counts`."""
    job, *_ = tasks[0]
    # Threads serve compiled learners best, which hold no lock, and processes all others.
    prefer = "threads" if isinstance(job.learner, CompiledLearner) else "processes"
    found = []
    for items, more in spread(_follow, tasks, prefer, label):
        found += items
        counts.update(more)
    return found


def _follow(job, state, edge, whole):
    worker = _trainer(job)
    return list(worker.follow(state, edge, whole)), worker.counts


def _trainer(job):
    compiled = isinstance(job.learner, CompiledLearner)
    return CompiledTrainer(job) if compiled else Trainer(job)
