"""Algorithm 1 for any learner: the branches of the tree, which joblib runs as tasks."""

import copy
from collections import Counter
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs

from ..parallel import spread, track
from ..parallel.checkpoint import Checkpoint
from .chunks import FIXED, Edge, edges, shuffle
from .protocol import CompiledLearner, Examples
from .scratch import PORTION, forget, map_below, portions

TASKS_PER_WORKER = 2  # so that a worker that is done early finds something to do
COMPILED_TASKS = 16  # so many at least, between which compiled loops can be interrupted
SAVED_TASKS = 64  # and so many where finished ones are saved


class Job(NamedTuple):
    """A learner and its rows, those of chunk i from bounds[i] to bounds[i + 1]; a seed or FIXED.

    done (k,): which folds are finished before the job begins.
    """

    learner: Any
    data: Examples
    bounds: np.ndarray
    seed: int
    done: np.ndarray

    @property
    def k(self):
        return len(self.bounds) - 1

    @property
    def compiled(self):
        return isinstance(self.learner, CompiledLearner)

    def span(self, first, last):
        """Where the rows of chunks first ... last are."""
        return slice(int(self.bounds[first]), int(self.bounds[last + 1]))

    def is_done(self, first, last):
        """Whether folds first ... last are finished."""
        return self.done[first : last + 1].all()

    def is_small(self, first, last):
        """Whether the rows of these folds are in memory, or can be."""
        X = self.data.X
        return map_below(X) is None or X[self.span(first, last)].size <= PORTION

    def fed(self, edge):
        """The rows that an edge learns: a slice or, if one does not do, row numbers."""
        span = self.span(*(edge.feed or edge[:2]))
        if edge.feed and self.seed == FIXED:
            return span
        every = np.arange(len(self.data))
        rows = every[span] if edge.feed else np.delete(every, span)
        if self.seed != FIXED:
            shuffle(rows, len(rows), self.seed, span.start, span.stop)
        return rows


class Outcome(NamedTuple):
    """The losses of the rows of chunks first ... last, or the `error` raised while `doing`."""

    first: int
    last: int
    losses: np.ndarray | float = np.nan
    error: Exception | None = None
    doing: str = ""

    def sentence(self):
        """Say which folds failed, and how."""
        one = self.first == self.last
        folds = f"fold {self.first}" if one else f"folds {self.first} ... {self.last}"
        kind = type(self.error).__name__
        return f"{folds} failed while {self.doing}: {kind}: {self.error}"


class Progress:
    """What is known of the folds of a job: their losses (n,), nan where not finished, by row.

    Counts rows learnt and models copied, saves losses in a checkpoint, if there is one, and keeps
    the branches that are still to be followed.
    """

    def __init__(self, job: Job, losses: np.ndarray, checkpoint: Checkpoint | None = None):
        self.job = job
        self.losses = losses
        self.failed: list[Outcome] = []
        self.counts = Counter(updates=0, copies=0)
        self.checkpoint = checkpoint
        self.branches: list[tuple] = []
        self._lock = Lock()

    def append(self, result: tuple) -> None:
        """Take in what a task returns, as it comes, from any thread: outcomes, kept on Ctrl-C."""
        found, counts = result
        with self._lock:
            self.counts.update(counts)
            for item in found:
                if isinstance(item, Outcome):
                    self.add(item)
                else:
                    self.branches.append(item)

    def add(self, outcome: Outcome) -> None:
        """Take in an outcome."""
        self.losses[self.job.span(outcome.first, outcome.last)] = outcome.losses
        if outcome.error:
            self.failed.append(outcome)
        self.save()

    def save(self, now: bool = False) -> None:
        """Keep what is finished, if there is a checkpoint and it is time."""
        if self.checkpoint:
            self.checkpoint.save(now, losses=self.losses)


def finished(losses: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Which folds have the losses of all their rows, (k,)."""
    return ~np.logical_or.reduceat(np.isnan(losses), bounds[:-1])


def copied(learner, state):
    """Copy the state, by the learner's own means if it has any."""
    return learner.copy(state) if hasattr(learner, "copy") else copy.deepcopy(state)


def losses_of(learner, state, X, y):
    """The loss of each row; ValueError if they are not one value a row."""
    compute = learner.test if isinstance(learner, CompiledLearner) else learner.loss
    losses = np.asarray(compute(state, X, y), float)
    if losses.shape != (len(X),):
        raise ValueError(f"loss has shape {losses.shape}, not ({len(X)},): one value a row")
    return losses


class Trainer:
    """Trains and tests models, and uses up their states; counts rows learnt and copies made."""

    def __init__(self, job, counts):
        self.job = job
        self.learner = job.learner
        self.counts = counts
        self.n_read = 0  # mapped rows, of which pages may be held

    def learn(self, state, rows):
        """The state after these rows, a portion at a time."""
        data = self.job.data
        start, stop = (rows.start, rows.stop) if isinstance(rows, slice) else (0, len(rows))
        for part in portions(stop, data.X.shape[1], start):
            own = part if isinstance(rows, slice) else rows[part]
            if self.job.compiled:  # finds them without a copy
                state = self.learner.learn(state, data.X, data.y, np.r_[own])
            else:
                state = self.learner.update(state, *data.select(own))
            self.read(part.stop - part.start)
        self.counts["updates"] += stop - start
        return state

    def read(self, n_rows):
        """Let go of mapped rows once a portion of them was read."""
        self.n_read += n_rows
        X = self.job.data.X
        if self.n_read * X.shape[1] >= PORTION:
            forget(X)
            self.n_read = 0

    def copy(self, state):
        """The first child's model; the second one learns in the place of its parent's."""
        self.counts["copies"] += 1
        return copied(self.learner, state)

    def test(self, state, fold):
        """The `Outcome` of one chunk under the model that has not seen it."""
        X, y = self.job.data.select(self.job.span(fold, fold))
        try:
            losses = losses_of(self.learner, state, X, y)
        except Exception as error:
            return Outcome(fold, fold, error=error, doing=f"testing on chunk {fold}")
        self.read(len(losses))
        return Outcome(fold, fold, losses)

    def follow(self, state, edge, go_on):
        """Train the child at the end of an edge, and `go_on` from there, by `split` or `below`."""
        if self.job.is_done(*edge[:2]):
            return []
        try:
            state = self.learn(state, self.job.fed(edge))
        except Exception as error:
            chunks = "chunks {} ... {}".format(*edge.feed) if edge.feed else "all other chunks"
            return [Outcome(*edge[:2], error=error, doing=f"learning {chunks}")]
        return go_on(state, *edge[:2])

    def split(self, state, first, last):
        """The branches below a node, a state and an edge each, or the `Outcome` of a leaf."""
        if first == last:
            return [self.test(state, first)]
        left, right = edges(first, last)
        return [(self.copy(state), left), (state, right)]

    def below(self, state, first, last):
        """The `Outcome`s of all folds below a node."""
        if first == last:
            yield self.test(state, first)
        elif self.job.compiled and self.job.is_small(first, last):
            yield self.below_compiled(state, first, last)
        elif hasattr(self.learner, "revert") and self.job.is_small(first, last):
            yield from self.below_reverting(state, first, last)
        else:
            left, right = edges(first, last)
            yield from self.follow(self.copy(state), left, self.below)
            yield from self.follow(state, right, self.below)

    def below_compiled(self, state, first, last):
        """All of them as one."""
        from .compiled import losses_below  # slow to import

        losses, updates = losses_below(self.job, state, first, last)
        self.counts.update(updates=updates, copies=last - first)
        self.read(len(losses))
        return Outcome(first, last, losses)

    def below_reverting(self, state, first, last):
        """`below` with one state throughout: what an edge changes is saved, then reverted."""
        for edge in edges(first, last):
            if self.job.is_done(*edge[:2]):
                continue
            X, y = self.job.data.select(self.job.fed(edge))
            saved = self.learner.save(state, X, y)
            yield from self.follow(state, edge, self.below)
            state = self.learner.revert(state, saved)


def tree(job, progress):
    """Run Algorithm 1; its counts do not depend on the number of workers.

    A learner in Python that runs alone goes depth first, which keeps one model a level.
    """
    if job.done.all():
        return
    trainer = Trainer(job, progress.counts)
    root = (job.learner.init(), 0, job.k - 1)
    n_workers = effective_n_jobs(None)
    if n_workers == 1 and not job.compiled:
        for outcome in track(trainer.below(*root), "treecv", job.k):
            progress.add(outcome)
        return
    at_least = COMPILED_TASKS if job.compiled else 0
    if progress.checkpoint:
        at_least = SAVED_TASKS
    n_tasks = max(n_workers * TASKS_PER_WORKER, at_least)
    _follow_all(job, trainer.split(*root), n_tasks, "treecv", progress)


def standard(job, progress):
    """Run standard cross-validation, a task a fold."""
    wanted = np.flatnonzero(~job.done).tolist()
    branches = [(job.learner.init(), Edge(fold, fold)) for fold in wanted]
    _follow_all(job, branches, 0, "kfold", progress)


def _follow_all(job, branches, n_tasks, label, progress):
    """Follow the branches by one level until there are n_tasks of them, then to their leaves."""
    # Threads serve compiled learners best, which hold no lock, and processes all others.
    prefer = "threads" if job.compiled else "processes"
    while branches:
        whole = len(branches) >= n_tasks
        tasks = [(job, *branch, whole) for branch in branches]
        progress.branches = []
        spread(_follow, tasks, prefer, label, progress)
        branches = progress.branches


def _follow(job, state, edge, whole):
    trainer = Trainer(job, Counter())
    go_on = trainer.below if whole else trainer.split
    return list(trainer.follow(state, edge, go_on)), trainer.counts
