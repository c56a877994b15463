"""TreeCV on a Dask cluster: every chunk stays on the worker that holds it, and only models travel.

Source: Joulani et al. (2015), Section 4.1: "the model is sent to the processing node, trained and
sent back", which costs O(k log k) messages when each chunk has a node of its own.
"""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import CancelledError
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from ..extras import require
from ..parallel import track
from .chunks import FIXED, edges
from .recursion import Job, Outcome, copied, losses_of

ROUNDS = 5  # after so many rounds that each lost a worker, the fault is not the cluster's


def tree_on_cluster(job: Job, client: Any) -> tuple[list[Outcome], Counter]:
    """Run Algorithm 1, the chunks spread over the client's workers: (outcomes, counts).

    A worker that dies takes its chunks and models with it: the chunks go to the workers that are
    left, and the folds without a result are done again. counts: those of all rounds. Raises
    ValueError for a random order, which would have every row, or every model, cross the network.
    """
    if job.seed != FIXED:
        raise ValueError('"randomized" mixes rows of all workers: with a client, use "fixed"')
    distributed = require("distributed", extra="dask")
    outcomes = []
    counts: Counter = Counter()
    chunks: dict = {}
    wanted = set(range(job.k))
    for _ in range(ROUNDS):
        _place(job, client, chunks)
        holders = [worker for worker, _ in chunks.values()]
        steps = _plan(holders, wanted)
        counts.update(_costs(job, steps))
        tests = _submit(job, client, chunks, steps)
        for future in track(distributed.as_completed(tests), "treecv", len(tests)):
            outcome = _outcome(future, tests[future], distributed.KilledWorker)
            if outcome is not None:
                outcomes.append(outcome)
                wanted.remove(outcome.first)
        if not wanted:
            return outcomes, counts
    raise RuntimeError(f"{len(wanted)} folds lost their worker in each of {ROUNDS} rounds")


def _place(job, client, chunks):
    """Give each chunk without a worker to one that is alive: chunks[i] = (worker, future)."""
    workers = sorted(client.nthreads())
    if not workers:
        raise RuntimeError("the cluster has no workers")
    for number in range(job.k):
        worker, future = chunks.get(number, (None, None))
        if worker in workers and future.status == "finished":
            continue
        worker = workers[number * len(workers) // job.k]
        rows = job.data.select(job.span(number, number))
        [future] = client.scatter([rows], workers=[worker], hash=False)
        chunks[number] = (worker, future)


class _Step(NamedTuple):
    """One task: model `before`, None for a new one, learns the chunks, or is tested on the one."""

    worker: Any
    before: int | None
    chunks: list[int]
    is_test: bool = False


def _plan(holders, wanted):
    """List the steps to the folds wanted; `before` is a number in this list."""
    steps = []

    def visit(before, first, last):
        if first == last:
            steps.append(_Step(holders[first], before, [first], is_test=True))
            return
        for edge in edges(first, last):
            if wanted.isdisjoint(range(edge.first, edge.last + 1)):
                continue
            number = before
            start, stop = edge.feed
            for worker, run in groupby(range(start, stop + 1), lambda chunk: holders[chunk]):
                steps.append(_Step(worker, number, list(run)))
                number = len(steps) - 1
            visit(number, edge.first, edge.last)

    visit(None, 0, len(holders) - 1)
    return steps


def _costs(job, steps):
    """Rows learnt, models copied and models sent."""
    learning = [step for step in steps if not step.is_test]
    sizes = np.diff(job.bounds)
    updates = sum(int(sizes[step.chunks].sum()) for step in learning)
    return {"updates": updates, "copies": len(learning), "models_sent": _count_sent(steps)}


def _count_sent(steps):
    """Models that change workers; one that a worker was sent stays there for other steps."""
    moves = {(step.before, step.worker) for step in steps if step.before is not None}
    return sum(steps[before].worker != worker for before, worker in moves)


def count_messages(holders: Sequence, wanted: set[int] | None = None) -> int:
    """Count the models that workers send each other for the folds wanted, by default all.

    holders[i] holds chunk i. A worker that has been sent a model keeps it for the node's other
    child; a model that is tested where it was trained last is not sent at all.
    """
    folds = set(range(len(holders))) if wanted is None else wanted
    return _count_sent(_plan(holders, folds))


def _submit(job, client, chunks, steps):
    """Give each step to its worker: {future of losses: fold}."""
    initial = job.learner.init()
    futures = []
    tests = {}
    for step in steps:
        task = _test if step.is_test else _learn
        state = initial if step.before is None else futures[step.before]
        rows = [chunks[number][1] for number in step.chunks]
        future = client.submit(task, job.learner, rows, state, workers=[step.worker], pure=False)
        futures.append(future)
        if step.is_test:
            [tests[future]] = step.chunks
    return tests


def _learn(learner, chunks, state):
    state = copied(learner, state)  # both children start from the one in this worker's memory
    for X, y in chunks:
        state = learner.update(state, X, y)
    return state


def _test(learner, chunks, state):
    [(X, y)] = chunks
    return losses_of(learner, state, X, y)


def _outcome(future, fold, lost):
    """The outcome of a fold, None if a worker was lost on the way."""
    if future.status == "error" and not isinstance(future.exception(), lost):
        doing = "learning the other chunks, or testing on it"
        return Outcome(fold, fold, error=future.exception(), doing=doing)
    try:
        return Outcome(fold, fold, future.result())
    except (lost, CancelledError, OSError):
        return None
