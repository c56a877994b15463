"""TreeCV, and k trainings, on a Dask cluster: every chunk stays on one worker, only models travel.

Source: Joulani et al. (2015), Section 4.1.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from ..extras import require
from ..parallel import from_cluster
from .chunks import FIXED, Edge, edges
from .recursion import Job, Outcome, Progress, copied, losses_of

ROUNDS = 5  # after so many rounds that each lost a worker, the fault is not the cluster's


def on_cluster(job: Job, progress: Progress, client: Any, label: str) -> None:
    """Run Algorithm 1, or "kfold", the chunks spread over the client's workers.

    A worker that dies takes its chunks and models with it: folds without a result are done again by
    the workers that are left, and counted again. Raises ValueError for a random order, which would
    have every row, or every model, cross the network.
    """
    if job.seed != FIXED:
        raise ValueError('"randomized" mixes rows of all workers: with a client, use "fixed"')
    lost = require("distributed", extra="dask").KilledWorker
    wanted = set(np.flatnonzero(~job.done).tolist())
    for _ in range(ROUNDS):
        if not wanted:
            return
        tests = _submit(job, client, wanted, progress.counts, label)

        def take(future, tests=tests):
            for outcome in _outcomes(future, tests[future], lost):
                progress.add(outcome)
                wanted.discard(outcome.first)

        from_cluster(client, list(tests), label, take)
    if wanted:
        raise RuntimeError(f"{len(wanted)} folds lost their worker in each of {ROUNDS} rounds")


def _submit(job, client, wanted, counts, label):
    """Give all steps to the workers, and count them: {future of losses: fold}."""
    holders = _holders(client, job.k)
    steps = _plan(holders, wanted, label)
    chunks = []
    for fold, worker in enumerate(holders):
        rows = job.data.select(job.span(fold, fold))
        chunks += client.scatter([rows], workers=[worker], hash=False)
    models = [job.learner.init()]
    tests = {}
    for step in steps:
        rows = [chunks[fold] for fold in step.chunks]
        task = (step.task, job.learner, rows, models[step.model])
        models.append(client.submit(*task, workers=[step.worker], pure=False))
        if step.task is _test:
            tests[models[-1]] = step.chunks[0]
    learnt = [step.chunks for step in steps if step.task is _learn]
    rows = np.diff(job.bounds)
    updates = sum(int(rows[chunks].sum()) for chunks in learnt)
    counts.update(updates=updates, copies=len(learnt), models_sent=_count_sent(steps))
    return tests


def _holders(client, k):
    """Which worker holds each of k chunks: neighbours are together."""
    workers = sorted(client.nthreads())
    if not workers:
        raise RuntimeError("the cluster has no workers")
    return [workers[chunk * len(workers) // k] for chunk in range(k)]


def _learn(learner, chunks, model):
    state = copied(learner, model)  # both children start from the one in this worker's memory
    for X, y in chunks:
        state = learner.update(state, X, y)
    return state


def _test(learner, chunks, model):
    [(X, y)] = chunks
    return losses_of(learner, model, X, y)


def _outcomes(future, fold, lost):
    """The outcome of a fold, none if a worker was lost on the way."""
    error = future.exception() if future.status == "error" else None
    if error and not isinstance(error, lost):
        doing = "learning the other chunks, or testing on it"
        return [Outcome(fold, fold, error=error, doing=doing)]
    try:
        return [Outcome(fold, fold, future.result())]
    except (lost, CancelledError, OSError):
        return []


class _Step(NamedTuple):
    """What one worker does with chunks and a model: 0 for a new one, n for that of step n."""

    task: Callable
    worker: Any
    model: int
    chunks: list[int]


def _plan(holders, wanted, label="treecv"):
    """The steps to the folds wanted, chunk i on the worker holders[i]; the first step is 1."""
    k = len(holders)
    steps = []
    each = [(0, Edge(fold, fold)) for fold in range(k - 1, -1, -1)]
    waiting = each if label == "kfold" else _below(0, 0, k - 1)
    while waiting:
        model, edge = waiting.pop()
        if wanted.isdisjoint(range(edge.first, edge.last + 1)):
            continue
        for worker, run in groupby(_fed(edge, k), holders.__getitem__):
            steps.append(_Step(_learn, worker, model, list(run)))
            model = len(steps)
        if edge.first == edge.last:
            steps.append(_Step(_test, holders[edge.first], model, [edge.first]))
        else:
            waiting += _below(model, edge.first, edge.last)
    return steps


def _fed(edge, k):
    """The chunks that an edge learns."""
    start, stop = edge.feed or (0, k - 1)
    return [fold for fold in range(start, stop + 1) if edge.feed or fold != edge.first]


def _below(model, first, last):
    """The edges that start from a model, the one to be followed first at the end."""
    left, right = edges(first, last)
    return [(model, right), (model, left)]


def _count_sent(steps):
    """The models that are sent from worker to worker."""
    moves = {(step.model, step.worker) for step in steps if step.model}
    return sum(steps[model - 1].worker != worker for model, worker in moves)


def count_messages(holders: Sequence) -> int:
    """Count the models that workers send each other if holders[i] holds chunk i.

    A worker that has been sent a model keeps it for the node's other child; a model that is tested
    where it was trained last is not sent at all.
    """
    steps = _plan(holders, set(range(len(holders))))
    return int(_count_sent(steps))
