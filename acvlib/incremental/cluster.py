"""TreeCV on a Dask cluster: every chunk stays on the worker that holds it, and only models travel.

Source: Joulani et al. (2015), Section 4.1: "the model is sent to the processing node, trained and sent back",
which costs O(k log k) messages when each chunk has a node of its own.
"""

from collections import Counter
from concurrent.futures import CancelledError
from itertools import groupby

from distributed import KilledWorker, as_completed

from ..parallel import track
from .chunks import edges
from .recursion import Outcome, copied, trainer
from .shuffle import FIXED

ROUNDS = 5  # after so many rounds that each lost a worker, the fault is not the cluster's


def tree_on_cluster(job, client):
    """(outcomes, counts) of Algorithm 1, the chunks spread over the client's workers.

    A worker that dies takes its chunks and models with it: the chunks go to the workers that are left, and
    the folds without a result are done again. counts: models_sent from one worker to another, in all rounds.
    Raises ValueError for a random order, which would have every row, or every model, cross the network.
    """
    if job.seed != FIXED:
        raise ValueError(
            'order = "randomized" mixes rows of all workers: with a client, use "fixed"'
        )
    outcomes, counts, chunks = {}, Counter(updates=0, copies=0, models_sent=0), [None] * job.k
    for _ in range(ROUNDS):
        chunks = place(job, client, chunks)
        tests = Submission(job, client, chunks, counts).tests(set(range(job.k)) - set(outcomes))
        for future in track(as_completed(tests), "treecv", len(tests)):
            outcomes |= collect(future, tests[future], counts)
        if len(outcomes) == job.k:
            return [outcomes[fold] for fold in range(job.k)], counts
    raise RuntimeError(
        f"{job.k - len(outcomes)} folds lost their worker in each of {ROUNDS} rounds"
    )


def place(job, client, chunks):
    """(worker, future of its rows) for each chunk; those whose worker is gone are sent to another."""
    workers, k = sorted(client.nthreads()), job.k
    if not workers:
        raise RuntimeError("the cluster has no workers")
    return [
        chunk
        if is_held(chunk, workers)
        else send(job, client, number, workers[number * len(workers) // k])
        for number, chunk in enumerate(chunks)
    ]


def is_held(chunk, workers):
    return chunk is not None and chunk[0] in workers and chunk[1].status == "finished"


def send(job, client, number, worker):
    rows = trainer(job).select(slice(*job.bounds[[number, number + 1]]))
    [future] = client.scatter([rows], workers=[worker], hash=False)
    return worker, future


def runs(holders, feed):
    """Chunks feed[0] ... feed[1], split where the holder changes: [(holder, chunks)]."""
    chunks = range(feed[0], feed[1] + 1)
    return [
        (holder, list(group)) for holder, group in groupby(chunks, lambda chunk: holders[chunk])
    ]


def count_messages(holders):
    """Models sent from worker to worker by a whole run, holders[i] the worker that holds chunk i.

    A worker that has been sent a model keeps it for the node's other child; a model that is tested where it
    was trained last is not sent at all.
    """
    total, nodes = 0, [(None, 0, len(holders) - 1)]
    while nodes:
        where, first, last = nodes.pop()
        children = edges(first, last) if first < last else ()
        paths = [[holder for holder, _ in runs(holders, child.feed)] for child in children]
        targets = {path[0] for path in paths} or {holders[first]}
        total += len(targets - {where}) * (where is not None) + sum(len(path) - 1 for path in paths)
        nodes += [
            (path[-1], child.first, child.last) for path, child in zip(paths, children, strict=True)
        ]
    return total


class Submission:
    """One round: submits the tree as tasks, each bound to the worker that holds its chunks."""

    def __init__(self, job, client, chunks, counts):
        self.job, self.client, self.counts = job, client, counts
        self.holders, self.rows = zip(*chunks, strict=True)
        self.sent = (
            set()
        )  # (model, worker): a worker that has been sent a model keeps it while it is needed

    def tests(self, folds):
        """{future of (losses, rows learnt): fold} for these folds."""
        self.wanted, self.found = folds, {}
        self.visit(self.job.learner.init(), None, 0, self.job.k - 1)
        return self.found

    def visit(self, state, where, first, last):
        if first == last:
            future = self.submit(_test, first, self.rows[first], state, where)
            self.found[future] = first
            return
        for edge in edges(first, last):
            if self.wanted & set(range(edge.first, edge.last + 1)):
                self.visit(*self.learn(state, where, edge.feed), edge.first, edge.last)

    def learn(self, state, where, feed):
        """(future of the state after these chunks, the worker it is on)."""
        for holder, chunks in runs(self.holders, feed):
            state = self.submit(
                _learn, chunks[0], [self.rows[chunk] for chunk in chunks], state, where
            )
            where = holder
            self.counts["copies"] += 1
            self.counts["updates"] += sum(
                int(self.job.bounds[i + 1] - self.job.bounds[i]) for i in chunks
            )
        return state, where

    def submit(self, task, chunk, rows, state, where):
        holder = self.holders[chunk]
        if where not in (None, holder) and (state.key, holder) not in self.sent:
            self.sent.add((state.key, holder))
            self.counts["models_sent"] += 1
        return self.client.submit(task, self.job.learner, rows, state, workers=[holder], pure=False)


def collect(future, fold, counts):
    """{fold: outcome}, or {} if a worker was lost on the way."""
    error = None
    if future.status == "finished":
        try:
            return {fold: Outcome(fold, fold, future.result())}
        except (CancelledError, OSError):
            return {}
    if future.status == "error":
        error = future.exception()
    if error is None or isinstance(error, KilledWorker):
        return {}
    return {fold: Outcome(fold, fold, None, error, "learning the other chunks, or testing on it")}


def _learn(learner, chunks, state):
    state = copied(
        learner, state
    )  # both children of a node start from the one in this worker's memory
    for X, y in chunks:
        state = learner.update(state, X, y)
    return state


def _test(learner, chunk, state):
    return learner.loss(state, *chunk)
