"""Algorithm 1 for a `CompiledLearner`: one compiled loop, nothing allocated on the way.

Kernels arrive as first-class functions of fixed signatures, so that the loop is compiled once for
all learners and kept in numba's cache.
"""

from typing import Any

import numpy as np
from numba import njit, types

from .chunks import FIXED, shuffle

_INT = types.int64
_STATES = types.float64[:, ::1]
_LOSSES = types.float64[::1]
_INTS = types.int64[::1]
_VECTOR = types.Array(types.float64, 1, "C", readonly=True)
_TABLE = types.Array(types.float64, 2, "C", readonly=True)
_PROBLEM = (_VECTOR, _TABLE, _VECTOR)  # constants, X, y
_UPDATE = types.FunctionType(types.void(_STATES, _INT, *_PROBLEM, _INTS, _INT, _INT))
_LOSS = types.FunctionType(types.void(_STATES, _INT, *_PROBLEM, _INT, _INT, _LOSSES))
_DESCEND = types.void(
    _UPDATE, _LOSS, *_PROBLEM, _INTS, _INT, _INT, _INT, _STATES, _INTS, _LOSSES, _INTS
)

UPDATES = 0  # entries of `counts`
COPIES = 1


@njit(nogil=True, inline="always")
def _ordered(rows, start, stop, seed):
    """Where in `rows` rows start ... stop - 1 are: as they stand, or shuffled at its begin.

    Inlined, because counting references to the arrays of a call costs more than learning a row.
    """
    if seed == FIXED:
        return start, stop
    for i in range(start, stop):
        rows[i - start] = i
    shuffle(rows, stop - start, seed, start, stop)
    return 0, stop - start


@njit(_DESCEND, cache=True, nogil=True)
def _descend(update, loss, constants, X, y, bounds, first, last, seed, states, rows, out, counts):
    """`descend` from model states[0].

    states (depth + 1, size): the stack of models, one a level. A second child needs its parent's
    model no longer and learns in its place, so that each node copies once. rows (n,): 0, 1, ...,
    n - 1; overwritten by random orders. out (n,): the loss of each row.
    """
    firsts, lasts = np.empty(len(states), np.int64), np.empty(len(states), np.int64)
    depth = 0
    while True:
        while first < last:
            firsts[depth], lasts[depth] = first, last
            middle = (first + last) // 2
            for i in range(states.shape[1]):
                states[depth + 1, i] = states[depth, i]
            depth += 1
            counts[COPIES] += 1
            start, stop = _ordered(rows, bounds[middle + 1], bounds[last + 1], seed)
            update(states, depth, constants, X, y, rows, start, stop)
            counts[UPDATES] += stop - start
            last = middle
        loss(states, depth, constants, X, y, bounds[first], bounds[first + 1], out)
        if depth == 0:
            return
        depth -= 1
        first, last = firsts[depth], lasts[depth]
        middle = (first + last) // 2
        start, stop = _ordered(rows, bounds[first], bounds[middle + 1], seed)
        update(states, depth, constants, X, y, rows, start, stop)
        counts[UPDATES] += stop - start
        first = middle + 1


def descend(job: Any, state: np.ndarray, first: int, last: int) -> tuple[np.ndarray, int, int]:
    """Test all models below the node that leaves out chunks first ... last, whose model is `state`.

    Returns (losses of the rows of these chunks, rows learnt, copies of models made).
    """
    learner = job.learner
    n_rows = len(job.X)
    rows = np.arange(n_rows)
    losses = np.empty(n_rows)
    counts = np.zeros(2, np.int64)
    states = np.empty((2 + int(last - first).bit_length(), len(state)))
    states[0] = state
    y = np.zeros(n_rows) if job.y is None else job.y
    kernels = (learner.update_kernel, learner.loss_kernel)
    problem = (learner.constants, job.X, y, job.bounds, first, last, job.seed)
    _descend(*kernels, *problem, states, rows, losses, counts)
    return losses[job.span(first, last)].copy(), int(counts[UPDATES]), int(counts[COPIES])
