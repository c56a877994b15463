"""Both cross-validations of a `CompiledLearner`: one compiled loop each, nothing allocated on the way.

Kernels arrive as first-class functions of fixed signatures, so that the loops are compiled once for all
learners and kept in numba's cache.
"""

import numpy as np
from numba import njit, types

from .shuffle import FIXED, shuffle

_STATES, _VECTOR, _ROWS, _INT = (
    types.float64[:, ::1],
    types.float64[::1],
    types.int64[::1],
    types.int64,
)
_X, _Y = (
    types.Array(types.float64, 2, "C", readonly=True),
    types.Array(types.float64, 1, "C", readonly=True),
)
_KERNEL = (_STATES, _INT, _VECTOR, _X, _Y)
_UPDATE = types.FunctionType(types.void(*_KERNEL, _ROWS, _INT, _INT))
_LOSS = types.FunctionType(types.void(*_KERNEL, _INT, _INT, _VECTOR))
_RUN = types.void(
    _UPDATE, _LOSS, _VECTOR, _X, _Y, _ROWS, _INT, _INT, _INT, _STATES, _ROWS, _VECTOR, _ROWS
)

UPDATES, COPIES = 0, 1  # entries of `counts`


@njit(nogil=True, inline="always")
def _copy(states, source, target):
    for i in range(states.shape[1]):
        states[target, i] = states[source, i]


@njit(nogil=True, inline="always")
def _ordered(rows, start, stop, seed):
    """Where in `rows` to find rows start ... stop - 1: as they stand, or put in random order at its begin.

    Inlined, because counting references to the arrays of a call costs more than learning a row.
    """
    if seed == FIXED:
        return start, stop
    for i in range(start, stop):
        rows[i - start] = i
    shuffle(rows, stop - start, seed, start, stop)
    return 0, stop - start


@njit(_RUN, cache=True, nogil=True)
def descend(update, loss, constants, X, y, bounds, first, last, seed, states, rows, out, counts):
    """Algorithm 1 (Joulani et al. 2015) below the node that leaves out chunks first ... last, with model states[0].

    states (depth + 1, size): the stack of models, one a level. A second child needs its parent's model no
    longer and learns in its place, so that each node copies once. rows (n,): 0, 1, ..., n - 1; overwritten by
    random orders. out (n,): the loss of each row.
    """
    firsts, lasts = np.empty(len(states), np.int64), np.empty(len(states), np.int64)
    depth = 0
    while True:
        while first < last:
            firsts[depth], lasts[depth] = first, last
            middle = (first + last) // 2
            _copy(states, depth, depth + 1)
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


@njit(_RUN, cache=True, nogil=True)
def standard(update, loss, constants, X, y, bounds, first, last, seed, states, rows, out, counts):
    """Standard cross-validation of chunks first ... last: each model learns all others from states[0].

    states (2, size); the rest as in `descend`.
    """
    n_rows = len(X)
    for fold in range(first, last + 1):
        start, stop = bounds[fold], bounds[fold + 1]
        n_others = n_rows - (stop - start)
        for i in range(n_others):
            rows[i] = i if i < start else i + stop - start
        if seed != FIXED:
            shuffle(rows, n_others, seed, start, stop)
        _copy(states, 0, 1)
        update(states, 1, constants, X, y, rows, 0, n_others)
        counts[UPDATES] += n_others
        loss(states, 1, constants, X, y, start, stop, out)
