"""TreeCV on a Dask cluster: every chunk stays on the worker that holds it, and only models travel.

Source: Joulani et al. (2015), Section 4.1: "the model is sent to the processing node, trained and
sent back", which costs O(k log k) messages when each chunk has a node of its own.
"""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import CancelledError
from itertools import groupby
from typing import Any

from ..extras import require
from ..parallel import track
from .chunks import FIXED, edges
from .recursion import Job, Outcome, copied

ROUNDS = 5  # after so many rounds that each lost a worker, the fault is not the cluster's


def tree_on_cluster(job: Job, client: Any) -> tuple[list[Outcome], Counter]:
    """Run Algorithm 1, the chunks spread over the client's workers: (outcomes, counts).

    A worker that dies takes its chunks and models with it: the chunks go to the workers that are
    left, and the folds without a result are done again. counts: those of all rounds, models_sent
    from one worker to another. Raises ValueError for a random order, which would have every row, or
    every model, cross the network.
    """
    if job.seed != FIXED:
        raise ValueError(
            'order = "randomized" mixes rows of all workers: with a client, use "fixed"'
        )
    as_completed = require("distributed", extra="dask").as_completed
    outcomes = {}
    counts = Counter(updates=0, copies=0, models_sent=0)
    chunks = [None] * job.k
    for _ in range(ROUNDS):
        chunks = _place(job, client, chunks)
        one_round = Round(job, client, chunks, wanted=set(range(job.k)) - set(outcomes))
        tests = one_round.submit()
        counts.update(one_round.counts)
        for future in track(as_completed(tests), "treecv", len(tests)):
            outcome = _outcome(future, tests[future])
            if outcome is not None:
                outcomes[outcome.first] = outcome
        if len(outcomes) == job.k:
            return list(outcomes.values()), counts
    n_lost = job.k - len(outcomes)
    raise RuntimeError(f"{n_lost} folds lost their worker in each of {ROUNDS} rounds")


def _place(job, client, chunks):
    """(worker, future of its rows) for each chunk; those whose worker is gone go to another."""
    workers = sorted(client.nthreads())
    if not workers:
        raise RuntimeError("the cluster has no workers")
    placed = []
    for number, chunk in enumerate(chunks):
        if chunk is None or chunk[0] not in workers or chunk[1].status != "finished":
            worker = workers[number * len(workers) // job.k]
            rows = job.select(job.span(number, number))
            [future] = client.scatter([rows], workers=[worker], hash=False)
            chunk = (worker, future)
        placed.append(chunk)
    return placed


def _runs(holders, feed):
    """Chunks feed[0] ... feed[1], split where the holder changes: [(holder, chunks)]."""
    chunks = range(feed[0], feed[1] + 1)
    groups = groupby(chunks, lambda chunk: holders[chunk])
    return [(holder, list(group)) for holder, group in groups]


class Round:
    """One pass over the tree as tasks, each bound to the worker that holds its chunks."""

    def __init__(self, job, client, chunks, wanted):
        self.job = job
        self.client = client
        self.wanted = wanted  # folds to test
        self.holders = [worker for worker, _ in chunks]
        self.rows = [future for _, future in chunks]
        self.counts = Counter()
        self.tests = {}
        self.sent = set()  # (model, worker): a worker keeps a model while it is needed

    def submit(self):
        """{future of losses: fold} for the folds that are wanted."""
        self.visit(self.job.learner.init(), None, 0, self.job.k - 1)
        return self.tests

    def visit(self, state, where, first, last):
        """Test all models below a node, whose model is on the worker `where`."""
        if first == last:
            future = self.task(_test, first, self.rows[first], state, where)
            self.tests[future] = first
            return
        for edge in edges(first, last):
            if not self.wanted.isdisjoint(range(edge.first, edge.last + 1)):
                child, there = self.learn(state, where, edge.feed)
                self.visit(child, there, edge.first, edge.last)

    def learn(self, state, where, feed):
        """(future of the state after these chunks, the worker it is on)."""
        for holder, chunks in _runs(self.holders, feed):
            rows = [self.rows[chunk] for chunk in chunks]
            state = self.task(_learn, chunks[0], rows, state, where)
            where = holder
            self.counts["copies"] += 1
        span = self.job.span(*feed)
        self.counts["updates"] += span.stop - span.start
        return state, where

    def task(self, function, chunk, rows, state, where):
        holder = self.holders[chunk]
        if where not in (None, holder) and (state.key, holder) not in self.sent:
            self.sent.add((state.key, holder))
            self.counts["models_sent"] += 1
        learner = self.job.learner
        return self.client.submit(function, learner, rows, state, workers=[holder], pure=False)


def _learn(learner, chunks, state):
    state = copied(learner, state)  # both children start from the one in this worker's memory
    for X, y in chunks:
        state = learner.update(state, X, y)
    return state


def _test(learner, chunk, state):
    return learner.loss(state, *chunk)


def _outcome(future, fold):
    """The `Outcome` of a fold, or None if a worker was lost on the way."""
    lost = require("distributed", extra="dask").KilledWorker
    if future.status == "finished":
        try:
            return Outcome(fold, fold, future.result())
        except (CancelledError, OSError):
            return None
    error = future.exception() if future.status == "error" else None
    if error is None or isinstance(error, lost):
        return None
    return Outcome(fold, fold, None, error, "learning the other chunks, or testing on it")


def count_messages(holders: Sequence) -> int:
    """Count the models sent between workers by a whole run; holders[i] holds chunk i.

    A worker that has been sent a model keeps it for the node's other child; a model that is tested
    where it was trained last is not sent at all.
    """

    def below(where, first, last):
        if first == last:
            return int(where not in (None, holders[first]))
        total = 0
        starts = set()
        for edge in edges(first, last):
            path = [holder for holder, _ in _runs(holders, edge.feed)]
            starts.add(path[0])
            total += len(path) - 1 + below(path[-1], edge.first, edge.last)
        return total if where is None else total + len(starts - {where})

    return below(None, 0, len(holders) - 1)
