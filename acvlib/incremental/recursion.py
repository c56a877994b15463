"""Algorithm 1 for any learner: what a node of the tree does, and what a finished branch gives back."""

import copy
from collections import Counter
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .chunks import Edge, edges
from .protocol import CompiledLearner, read_only, targets
from .shuffle import FIXED, shuffle

BLOCKS = 16  # a compiled learner's tree is run in about so many parts, between which it can be interrupted


class Job(NamedTuple):
    """A learner and its rows, those of one chunk side by side: chunk i is bounds[i] ... bounds[i + 1] - 1.

    X and y are read-only. seed: of random orders, or `FIXED`.
    """

    learner: object
    X: np.ndarray
    y: np.ndarray | None
    bounds: np.ndarray
    seed: int

    @property
    def k(self):
        return len(self.bounds) - 1


class Outcome(NamedTuple):
    """The losses of the rows of chunks first ... last; or `error`, and what was being done when it was raised."""

    first: int
    last: int
    losses: np.ndarray | None
    error: Exception | None = None
    doing: str = ""


class Branch(NamedTuple):
    """An edge still to be followed, from a node whose model is `state`."""

    state: object
    edge: Edge


def copied(learner, state):
    """A copy of the state, by the learner's own means if it has any."""
    return learner.copy(state) if hasattr(learner, "copy") else copy.deepcopy(state)


class Trainer:
    """Trains the models of a job and tests them; `counts` has the rows learnt (updates) and the copies made."""

    def __init__(self, job):
        self.job, self.learner, self.counts = job, job.learner, Counter(updates=0, copies=0)

    def rows(self, feed):
        """The rows of chunks feed[0] ... feed[1], as a slice or, in random order, as an array."""
        start, stop = (int(bound) for bound in self.job.bounds[[feed[0], feed[1] + 1]])
        if self.job.seed == FIXED:
            return slice(start, stop)
        rows = np.arange(start, stop)
        shuffle(rows, stop - start, self.job.seed, start, stop)
        return rows

    def select(self, rows):
        """These rows of X and y, so that the learner cannot write to them."""
        X, y = self.job.X, self.job.y
        return read_only(X[rows]), None if y is None else read_only(y[rows])

    def copy(self, state):
        self.counts["copies"] += 1
        return copied(self.learner, state)

    def learn(self, state, rows):
        """The state after these rows; `state` itself may change."""
        X, y = self.select(rows)
        self.counts["updates"] += len(X)
        return self.learner.update(state, X, y)

    def test(self, state, fold):
        """The `Outcome` of one chunk under the model that has not seen it."""
        start, stop = self.job.bounds[[fold, fold + 1]]
        try:
            losses = np.asarray(self.learner.loss(state, *self.select(slice(start, stop))), float)
            if losses.shape != (stop - start,):
                raise ValueError(
                    f"loss has shape {losses.shape}, not ({stop - start},): one value a row"
                )
        except Exception as error:
            return Outcome(fold, fold, None, error, f"testing on chunk {fold}")
        return Outcome(fold, fold, losses)

    def descend(self, state, first, last):
        """The `Outcome`s below the node that leaves out chunks first ... last; `state` is used up."""
        if first == last:
            yield self.test(state, first)
        elif hasattr(self.learner, "revert"):
            yield from self.descend_reverting(state, first, last)
        else:
            left, right = edges(first, last)
            yield from self.follow(self.copy(state), left, self.descend)
            yield from self.follow(state, right, self.descend)

    def split(self, state, first, last):
        """As `descend`, but of one level: the `Branch`es below the node, still to be followed."""
        if first == last:
            yield self.test(state, first)
        else:
            yield from (Branch(state, edge) for edge in edges(first, last))

    def parts(self, n_chunks):
        """How many `Outcome`s `descend` gives for so many chunks."""
        return n_chunks

    def follow(self, state, edge, go_on):
        """Train the child at the end of an edge, and go on below it with `descend` or `split`."""
        try:
            state = self.learn(state, self.rows(edge.feed))
        except Exception as error:
            yield Outcome(
                edge.first, edge.last, None, error, "learning chunks {} ... {}".format(*edge.feed)
            )
        else:
            yield from go_on(state, edge.first, edge.last)

    def descend_reverting(self, state, first, last):
        """As `descend`, with one state throughout: what an edge changes is saved, and reverted afterwards."""
        for edge in edges(first, last):
            saved = self.learner.save(state, *self.select(self.rows(edge.feed)))
            yield from self.follow(state, edge, self.descend)
            state = self.learner.revert(state, saved)

    def standard(self, fold):
        """The `Outcome` of one fold of standard cross-validation: learn all other chunks from nothing."""
        rows = self.others(fold)
        try:
            state = self.learn(self.learner.init(), rows)
        except Exception as error:
            return Outcome(fold, fold, None, error, f"learning all chunks but {fold}")
        return self.test(state, fold)

    def others(self, fold):
        """The rows outside one chunk."""
        start, stop = (int(bound) for bound in self.job.bounds[[fold, fold + 1]])
        rows = np.concatenate([np.arange(start), np.arange(stop, len(self.job.X))])
        if self.job.seed != FIXED:
            shuffle(rows, len(rows), self.job.seed, start, stop)
        return rows


class CompiledTrainer(Trainer):
    """A trainer whose learner needs no Python: it walks small enough branches in one compiled loop."""

    def __init__(self, job):
        super().__init__(job)
        self.y = targets(job.X, job.y)

    @cached_property
    def buffer(self):
        """Row numbers and losses, (n,) each; not every trainer comes to the leaves, which need them."""
        return np.arange(len(self.job.X)), np.empty(len(self.job.X))

    def learn(self, state, rows):
        rows = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        self.counts["updates"] += len(rows)
        self.learner.learn(state, self.job.X, self.y, rows)
        return state

    def is_block(self, n_chunks):
        return (n_chunks - 1) * BLOCKS < self.job.k

    def parts(self, n_chunks):
        return (
            1
            if self.is_block(n_chunks)
            else self.parts(n_chunks - n_chunks // 2) + self.parts(n_chunks // 2)
        )

    def descend(self, state, first, last):
        if self.is_block(last - first + 1):
            yield self.run("descend", state, first, last)
        else:
            yield from super().descend(state, first, last)

    def standard(self, fold):
        return self.run("standard", self.learner.init(), fold, fold)

    def run(self, loop, state, first, last):
        """The `Outcome` of chunks first ... last by one of the loops of `compiled`."""
        from . import compiled  # compiles once, which a mere import of acvlib should not wait for

        learner, job, counts = self.learner, self.job, np.zeros(2, np.int64)
        states = np.empty((2 + int(last - first).bit_length(), len(state)))
        states[0] = state
        kernels = learner.update_kernel, learner.loss_kernel
        problem = learner.constants, job.X, self.y, job.bounds, first, last, job.seed
        getattr(compiled, loop)(*kernels, *problem, states, *self.buffer, counts)
        self.counts.update(
            updates=int(counts[compiled.UPDATES]), copies=int(counts[compiled.COPIES])
        )
        return Outcome(first, last, self.buffer[1][job.bounds[first] : job.bounds[last + 1]].copy())


def trainer(job):
    """The `Trainer` for the job's learner."""
    return (CompiledTrainer if isinstance(job.learner, CompiledLearner) else Trainer)(job)
