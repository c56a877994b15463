"""Algorithm 1 for a `CompiledLearner`: one compiled loop.

Kernels are first-class functions of fixed signatures: the loop is compiled once for all learners.
"""

import numpy as np
from numba import float64, int64, njit, types, void

from .chunks import FIXED, shuffle

_INTS = int64[::1]
_VECTOR = float64[::1]
_STACK = float64[:, ::1]
_X = types.Array(float64, 2, "C", readonly=True)
_Y = types.Array(float64, 1, "C", readonly=True)
_MODEL = (_STACK, int64, _VECTOR, _X, _Y)
_UPDATE = types.FunctionType(void(*_MODEL, _INTS, int64, int64))
_LOSS = types.FunctionType(void(*_MODEL, int64, int64, _VECTOR))
_DATA = (_VECTOR, _X, _Y, _INTS, int64, int64)


def losses_below(job, state, first, last):
    """Test all models below a node: (losses, rows learnt)."""
    learner = job.learner
    span = job.span(first, last)
    X, y = job.data.select(span)
    y = np.zeros(len(X)) if y is None else y
    bounds = job.bounds[first : last + 2] - span.start
    data = (X, y, bounds, job.seed, span.start)
    height = 2 + int(last - first).bit_length()
    states = np.tile(state, (height, 1))
    rows = np.arange(len(X))
    losses = np.empty(len(X))
    kernels = (learner.update_kernel, learner.loss_kernel, learner.constants)
    updates = _descend(*kernels, *data, states, rows, losses)
    return losses, updates


@njit(nogil=True, inline="always")
def _ordered(rows, start, stop, seed, offset):
    """Where in `rows` rows start ... stop - 1 are: as they stand, or shuffled at its begin."""
    if seed == FIXED:
        return start, stop
    for i in range(start, stop):
        rows[i - start] = i
    shuffle(rows, stop - start, seed, offset + start, offset + stop)
    return 0, stop - start


# Counting references to arrays costs more than learning a row. Hence `_ordered` is inlined, what
# is allocated comes from outside, and there is no `continue`. `states` must come after `constants`.
@njit(int64(_UPDATE, _LOSS, *_DATA, _STACK, _INTS, _VECTOR), cache=True, nogil=True)
def _descend(update, loss, constants, X, y, bounds, seed, offset, states, rows, losses):
    """Write the losses of all models below a node with model states[0]; count the rows learnt.

    Model states[d] leaves out chunks firsts[d] ... lasts[d]; its second child learns in its place.
    Row 0 is row `offset` of the job, by which random orders are keyed.
    """
    firsts = np.zeros(len(states), np.int64)
    lasts = np.full(len(states), len(bounds) - 2)
    depth = updates = 0
    while depth >= 0:
        first = firsts[depth]
        last = lasts[depth]
        if first == last:
            loss(states, depth, constants, X, y, bounds[first], bounds[first + 1], losses)
            depth -= 1
        else:
            middle = (first + last) // 2
            for i in range(states.shape[1]):
                states[depth + 1, i] = states[depth, i]
            begin = bounds[first]
            half = bounds[middle + 1]
            end = bounds[last + 1]
            start, stop = _ordered(rows, half, end, seed, offset)
            update(states, depth + 1, constants, X, y, rows, start, stop)
            start, stop = _ordered(rows, begin, half, seed, offset)
            update(states, depth, constants, X, y, rows, start, stop)
            updates += end - begin
            firsts[depth] = middle + 1
            depth += 1
            firsts[depth] = first
            lasts[depth] = middle
    return updates
