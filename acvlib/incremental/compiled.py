"""Algorithm 1 for a `CompiledLearner`: one compiled loop.

Kernels arrive as first-class functions of fixed signatures, so that the loop is compiled once for
all learners and kept in numba's cache.
"""

import numpy as np
from numba import njit, types

from .chunks import FIXED, shuffle

_INT = types.int64
_INTS = types.int64[::1]
_VECTOR = types.float64[::1]
_STACK = types.float64[:, ::1]
_X = types.Array(types.float64, 2, "C", readonly=True)
_Y = types.Array(types.float64, 1, "C", readonly=True)
_UPDATE = types.FunctionType(types.void(_STACK, _INT, _VECTOR, _X, _Y, _INTS, _INT, _INT))
_LOSS = types.FunctionType(types.void(_STACK, _INT, _VECTOR, _X, _Y, _INT, _INT, _VECTOR))
_COUNTS = types.UniTuple(_INT, 2)


@njit(nogil=True, inline="always")
def _ordered(rows, start, stop, seed, offset):
    """Where in `rows` rows start ... stop - 1 are: as they stand, or shuffled at its begin.

    Inlined, because counting references to the arrays of a call costs more than learning a row.
    """
    if seed == FIXED:
        return start, stop
    for i in range(start, stop):
        rows[i - start] = i
    shuffle(rows, stop - start, seed, offset + start, offset + stop)
    return 0, stop - start


@njit(
    _COUNTS(_UPDATE, _LOSS, _VECTOR, _X, _Y, _INTS, _INT, _INT, _STACK, _INTS, _VECTOR),
    cache=True,
    nogil=True,
)
def descend(update, loss, constants, X, y, bounds, seed, offset, states, rows, losses):
    """Test all models below a node with model states[0]; X, y: only rows that the node leaves out.

    states (depth + 1, size): the stack of models, one a level. A second child needs its parent's
    model no longer and learns in its place, so that each node copies once. bounds: of the chunks;
    offset: the number of row 0 in the job, which random orders are keyed by. rows (n,): 0, ...,
    n - 1, overwritten by random orders. losses (n,): the result. (With `states` before `constants`,
    the loop takes 1.4 times as long.)

    Returns (rows learnt, models copied).
    """
    firsts, lasts = np.empty(len(states), np.int64), np.empty(len(states), np.int64)
    first, last = 0, len(bounds) - 2
    depth = updates = copies = 0
    while True:
        while first < last:
            firsts[depth], lasts[depth] = first, last
            middle = (first + last) // 2
            for i in range(states.shape[1]):
                states[depth + 1, i] = states[depth, i]
            depth += 1
            copies += 1
            start, stop = _ordered(rows, bounds[middle + 1], bounds[last + 1], seed, offset)
            update(states, depth, constants, X, y, rows, start, stop)
            updates += stop - start
            last = middle
        loss(states, depth, constants, X, y, bounds[first], bounds[first + 1], losses)
        if depth == 0:
            return updates, copies
        depth -= 1
        first, last = firsts[depth], lasts[depth]
        middle = (first + last) // 2
        start, stop = _ordered(rows, bounds[first], bounds[middle + 1], seed, offset)
        update(states, depth, constants, X, y, rows, start, stop)
        updates += stop - start
        first = middle + 1
