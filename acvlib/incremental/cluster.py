"""TreeCV on a Dask cluster: every chunk stays on the worker that holds it, and only models travel.

Source: Joulani et al. (2015), Section 4.1: "the model is sent to the processing node, trained and
sent back", which costs O(k log k) messages when each chunk has a node of its own.
"""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import CancelledError
from itertools import groupby
from typing import Any, NamedTuple

from ..extras import require
from ..parallel import track
from .chunks import FIXED, edges
from .recursion import Job, Outcome, copied, losses_of

ROUNDS = 5  # after so many rounds that each lost a worker, the fault is not the cluster's


def tree_on_cluster(job: Job, client: Any) -> tuple[list[Outcome], Counter]:
    """Run Algorithm 1, the chunks spread over the client's workers: (outcomes, counts).

    A worker that dies takes its chunks and models with it: folds without a result are done again by
    the workers that are left. counts: those of all rounds. Raises ValueError for a random order,
    which would have every row, or every model, cross the network.
    """
    if job.seed != FIXED:
        raise ValueError('"randomized" mixes rows of all workers: with a client, use "fixed"')
    distributed = require("distributed", extra="dask")
    outcomes: list[Outcome] = []
    counts = Counter(updates=0, copies=0, models_sent=0)
    wanted = set(range(job.k))
    for _ in range(ROUNDS):
        tests = _submit(job, client, wanted, counts)
        for future in track(distributed.as_completed(tests), "treecv", len(tests)):
            outcomes += _outcomes(future, tests[future], distributed.KilledWorker)
        wanted -= {outcome.first for outcome in outcomes}
        if not wanted:
            return outcomes, counts
    raise RuntimeError(f"{len(wanted)} folds lost their worker in each of {ROUNDS} rounds")


def _submit(job, client, wanted, counts):
    """Give all steps to the workers: {future of losses: fold}."""
    workers = sorted(client.nthreads())
    if not workers:
        raise RuntimeError("the cluster has no workers")
    holders = [workers[chunk * len(workers) // job.k] for chunk in range(job.k)]
    chunks = []
    for number, worker in enumerate(holders):
        rows = job.data.select(job.span(number, number))
        chunks += client.scatter([rows], workers=[worker], hash=False)
    steps = _plan(holders, wanted)
    models = [job.learner.init()]
    tests = {}
    for step in steps:
        task = _test if step.is_test else _learn
        arguments = (job.learner, chunks[step.chunks], models[step.model])
        future = client.submit(task, *arguments, workers=[step.worker], pure=False)
        models.append(future)
        if step.is_test:
            tests[future] = step.chunks.start
        else:
            rows = job.span(step.chunks.start, step.chunks.stop - 1)
            counts.update(updates=rows.stop - rows.start, copies=1)
    counts["models_sent"] += _count_sent(steps)
    return tests


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
    if future.status == "error" and not isinstance(future.exception(), lost):
        doing = "learning the other chunks, or testing on it"
        return [Outcome(fold, fold, error=future.exception(), doing=doing)]
    try:
        return [Outcome(fold, fold, future.result())]
    except (lost, CancelledError, OSError):
        return []


class _Step(NamedTuple):
    """A worker's task: `model`, 0 for a new one, n for step n's, learns chunks or is tested."""

    worker: Any
    model: int
    chunks: slice
    is_test: bool = False


def _plan(holders, wanted):
    """The steps to the folds wanted, chunk i on the worker holders[i]; the first step is 1."""
    steps = []

    def visit(model, first, last):
        if first == last:
            chunk = slice(first, first + 1)
            steps.append(_Step(holders[first], model, chunk, is_test=True))
            return
        for edge in edges(first, last):
            if wanted.isdisjoint(range(edge.first, edge.last + 1)):
                continue
            learnt = model
            for run in _runs(holders, edge.feed):
                steps.append(_Step(holders[run.start], learnt, run))
                learnt = len(steps)
            visit(learnt, edge.first, edge.last)

    visit(0, 0, len(holders) - 1)
    return steps


def _runs(holders, feed):
    """Slices of chunks that one worker holds, which make up chunks feed[0] ... feed[1]."""
    start = feed[0]
    for _, run in groupby(holders[start : feed[1] + 1]):
        stop = start + len(list(run))
        yield slice(start, stop)
        start = stop


def _count_sent(steps):
    moves = {(step.model, step.worker) for step in steps if step.model}
    return sum(steps[model - 1].worker != worker for model, worker in moves)


def count_messages(holders: Sequence) -> int:
    """Count the models that workers send each other if holders[i] holds chunk i.

    A worker that has been sent a model keeps it for the node's other child; a model that is tested
    where it was trained last is not sent at all.
    """
    return _count_sent(_plan(holders, set(range(len(holders)))))
