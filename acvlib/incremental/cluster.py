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
    left, and the folds without a result are done again. counts: those of all rounds. Raises
    ValueError for a random order, which would have every row, or every model, cross the network.
    """
    if job.seed != FIXED:
        raise ValueError('"randomized" mixes rows of all workers: with a client, use "fixed"')
    distributed = require("distributed", extra="dask")
    outcomes: dict[int, Outcome] = {}
    counts = Counter(updates=0, copies=0, models_sent=0)
    chunks = [None] * job.k
    for _ in range(ROUNDS):
        chunks = _place(job, client, chunks)
        wanted = set(range(job.k)) - set(outcomes)
        tests = _submit(job, client, chunks, wanted, counts)
        for future in track(distributed.as_completed(tests), "treecv", len(tests)):
            fold = tests[future]
            outcomes |= _outcome(future, fold, distributed.KilledWorker)
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
            rows = job.data.select(job.span(number, number))
            [future] = client.scatter([rows], workers=[worker], hash=False)
            chunk = (worker, future)
        placed.append(chunk)
    return placed


def _submit(job, client, chunks, wanted, counts):
    """{future of losses: fold} of the folds wanted, each task bound to the worker of its chunks."""
    holders = [worker for worker, _ in chunks]
    tests = {}

    def submit(task, chunk, *arguments):
        worker = [holders[chunk]]
        return client.submit(task, job.learner, *arguments, workers=worker, pure=False)

    def visit(state, first, last):
        if first == last:
            test = submit(_test, first, chunks[first][1], state)
            tests[test] = first
        for edge in _edges_to(wanted, first, last):
            child = state
            for run in _runs(holders, edge.feed):
                rows = [chunks[chunk][1] for chunk in run]
                child = submit(_learn, run[0], rows, child)
                counts["copies"] += 1
            fed = job.span(*edge.feed)
            counts["updates"] += fed.stop - fed.start
            visit(child, edge.first, edge.last)

    visit(job.learner.init(), 0, job.k - 1)
    counts["models_sent"] += count_messages(holders, wanted)
    return tests


def _learn(learner, chunks, state):
    state = copied(learner, state)  # both children start from the one in this worker's memory
    for X, y in chunks:
        state = learner.update(state, X, y)
    return state


def _test(learner, chunk, state):
    return learner.loss(state, *chunk)


def _edges_to(wanted, first, last):
    """The edges below a node that lead to a fold that is wanted."""
    below = edges(first, last) if first < last else ()
    return [edge for edge in below if not wanted.isdisjoint(range(edge.first, edge.last + 1))]


def _outcome(future, fold, lost):
    """{fold: outcome}, or {} if a worker was lost on the way."""
    if future.status == "error" and not isinstance(future.exception(), lost):
        doing = "learning the other chunks, or testing on it"
        return {fold: Outcome(fold, fold, None, future.exception(), doing)}
    try:
        return {fold: Outcome(fold, fold, future.result())}
    except (lost, CancelledError, OSError):
        return {}


def _runs(holders, feed):
    """Lists of chunks that one worker holds, which make up chunks feed[0] ... feed[1]."""
    chunks = range(feed[0], feed[1] + 1)
    return [list(run) for _, run in groupby(chunks, lambda chunk: holders[chunk])]


def count_messages(holders: Sequence, wanted: set[int] | None = None) -> int:
    """Count the models that workers send each other for the folds wanted, by default all.

    holders[i] holds chunk i. A worker that has been sent a model keeps it for the node's other
    child; a model that is tested where it was trained last is not sent at all.
    """
    wanted = set(range(len(holders))) if wanted is None else wanted

    def below(where, first, last):
        total = 0
        starts = {holders[first]} if first == last else set()
        for edge in _edges_to(wanted, first, last):
            path = [holders[run[0]] for run in _runs(holders, edge.feed)]
            starts.add(path[0])
            total += len(path) - 1 + below(path[-1], edge.first, edge.last)
        return total if where is None else total + len(starts - {where})

    return below(None, 0, len(holders) - 1)
