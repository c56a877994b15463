"""Branches of the tree, and folds of standard cross-validation, as joblib tasks.

What runs them is joblib's business: nothing in parallel by default; two threads under
`with joblib.parallel_config(n_jobs=2)`; a cluster under `with joblib.parallel_config(backend="dask")`.
"""

from collections import Counter
from functools import partial

from joblib import effective_n_jobs

from ..parallel import spread, track
from .chunks import edges
from .protocol import CompiledLearner
from .recursion import Branch, trainer

TASKS_PER_WORKER = 2  # so that a worker that is done early finds something to do


def tree(job):
    """(outcomes, counts) of Algorithm 1; the outcomes do not depend on how many workers there are."""
    workers = effective_n_jobs(None)
    if workers > 1:
        return _tree_in_parallel(job, workers * TASKS_PER_WORKER)
    root = trainer(job)
    branches = root.descend(job.learner.init(), 0, job.k - 1)
    return list(track(branches, "treecv", root.parts(job.k))), root.counts


def standard(job):
    """(outcomes, counts) of standard cross-validation, a task a fold."""
    return _all(_standard, job, range(job.k), "kfold")


def _all(function, job, pieces, label):
    """function(job, piece) of every piece, outcomes and counts gathered.

    Threads serve compiled learners best, which hold no lock, and processes all others.
    """
    prefer = "threads" if isinstance(job.learner, CompiledLearner) else "processes"
    found, counts = [], Counter()
    for outcomes, count in spread(function, [(job, piece) for piece in pieces], prefer, label):
        found += outcomes
        counts.update(count)
    return found, counts


def _tree_in_parallel(job, n_tasks):
    """Level by level until there are enough branches; then each one to its leaves."""
    found, counts = [Branch(job.learner.init(), edge) for edge in edges(0, job.k - 1)], Counter()
    while 0 < sum(map(_is_open, found)) < n_tasks:
        found, more = _follow_all(job, found, "split")
        counts.update(more)
    found, more = _follow_all(job, found, "descend")
    return found, counts + more


def _is_open(item):
    return isinstance(item, Branch) and item.edge.first < item.edge.last


def _follow_all(job, found, way):
    """Follow the branches among the outcomes found so far."""
    branches = [item for item in found if isinstance(item, Branch)]
    new, counts = _all(partial(_follow, way=way), job, branches, "treecv")
    return [item for item in found if not isinstance(item, Branch)] + new, counts


def _follow(job, branch, way):
    worker = trainer(job)
    # Two branches share the state of the node above them.
    return list(
        worker.follow(worker.copy(branch.state), branch.edge, getattr(worker, way))
    ), worker.counts


def _standard(job, fold):
    worker = trainer(job)
    return [worker.standard(fold)], worker.counts
