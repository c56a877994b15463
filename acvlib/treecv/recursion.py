"""Algorithm 1 of Joulani, Gyorgy and Szepesvari (2015): one function, compiled or not."""

import copy
from typing import Any

import numpy as np
from numba import float64, int64, njit, types, void

from ..checks import real_array
from ..parallel import track
from . import FIXED
from .learner import CompiledLearner, column

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_27, _30, _31, _32 = map(np.uint64, (27, 30, 31, 32))

Node = tuple[tuple[tuple[int, int, bool], ...], int, int]


@njit(cache=True, nogil=True)
def _mix(z):
    """The output function of SplitMix64 (Steele, Lea and Flood 2014)."""
    z = (z ^ (z >> _30)) * _MIX1
    z = (z ^ (z >> _27)) * _MIX2
    return z ^ (z >> _31)


@njit(cache=True, nogil=True)
def _shuffle(rows, size, seed, start, stop):
    """Shuffle rows[:size] in place (Fisher and Yates); (seed, start, stop) is the key of the order,
    so that branches may run in any sequence and place.

    A 32-bit draw is scaled to its range (Lemire 2019), with a bias of at most size / 2^32.
    """
    state = _mix(np.uint64(seed) + _GOLDEN * np.uint64(start))
    state = _mix(state + _GOLDEN * np.uint64(stop))
    for i in range(size - 1, 0, -1):
        state += _GOLDEN
        draw = _mix(state) >> _32
        j = np.int64((draw * np.uint64(i + 1)) >> _32)
        rows[i], rows[j] = rows[j], rows[i]


@njit(cache=True, nogil=True, inline="always")
def _ordered(rows, start, stop, seed):
    """Where in `rows` rows start ... stop - 1 are: as they stand, or shuffled at its begin."""
    if seed == FIXED:
        return start, stop
    for i in range(start, stop):
        rows[i - start] = i
    _shuffle(rows, stop - start, seed, start, stop)
    return 0, stop - start


def _descend(update, test, fork, constants, X, y, bounds, first, last, seed, states, rows, losses):
    """Write the losses of all models below a node with model states[0]; count the rows learnt.

    Model states[d] leaves out chunks firsts[d] ... lasts[d]. A copy learns the right half of them
    and goes left; it learns the left half itself and goes right; at a leaf it is tested.
    """
    firsts = np.full(len(states), first)
    lasts = np.full(len(states), last)
    depth = updates = 0
    while depth >= 0:
        first = firsts[depth]
        last = lasts[depth]
        if first == last:
            test(states, depth, constants, X, y, bounds[first], bounds[first + 1], losses)
            depth -= 1
        else:
            middle = (first + last) // 2
            begin = bounds[first]
            half = bounds[middle + 1]
            end = bounds[last + 1]
            fork(states, depth)
            start, stop = _ordered(rows, half, end, seed)
            update(states, depth + 1, constants, X, y, rows, start, stop)
            start, stop = _ordered(rows, begin, half, seed)
            update(states, depth, constants, X, y, rows, start, stop)
            updates += end - begin
            firsts[depth] = middle + 1
            depth += 1
            firsts[depth] = first
            lasts[depth] = middle
    return updates


_X = types.Array(float64, 2, "C", readonly=True)
_Y = types.Array(float64, 1, "C", readonly=True)
_STATES, _VECTOR, _ROWS = float64[:, ::1], float64[::1], int64[::1]
_MODEL = (_STATES, int64, _VECTOR, _X, _Y)
_UPDATE = types.FunctionType(void(*_MODEL, _ROWS, int64, int64))
_TEST = types.FunctionType(void(*_MODEL, int64, int64, _VECTOR))
_FORK = types.FunctionType(void(_STATES, int64))
_NODE = (_VECTOR, _X, _Y, _ROWS, int64, int64, int64)
_SIGNATURE = int64(_UPDATE, _TEST, _FORK, *_NODE, _STATES, _ROWS, _VECTOR)
_compiled = njit(_SIGNATURE, cache=True, nogil=True)(_descend)  # once for all learners


@njit(cache=True, nogil=True)
def _copy_row(states, depth):
    for i in range(states.shape[1]):
        states[depth + 1, i] = states[depth, i]


def tree_nodes(k: int, n_least: int) -> list[Node]:
    """All nodes of the first level of the tree that has so many, or all leaves.

    A node (path, first, last) is a model that leaves out chunks first ... last once it has learnt
    the edges of its path. An edge (first, last, inside) is chunks first ... last or, if not inside,
    all the others, in one call.
    """
    nodes: list[Node] = [((), 0, k - 1)]
    while len(nodes) < min(n_least, k):
        level, nodes = nodes, []
        for path, first, last in level:
            middle = (first + last) // 2
            if first < last:
                nodes.append(((*path, (middle + 1, last, True)), first, middle))
                nodes.append(((*path, (first, middle, True)), middle + 1, last))
            else:
                nodes.append((path, first, last))
    return nodes


def leaves(k: int) -> list[Node]:
    """The models of standard cross-validation, each of which learns all in one call."""
    return [(((i, i, False),), i, i) for i in range(k)]


def _steps(learner, fixed, failures, done):
    """The steps of `_descend` for a learner in Python: an error takes its model's place."""
    copied = getattr(learner, "copy", copy.deepcopy)

    def attempt(step: Any, state: Any, *rows: Any):
        if isinstance(state, Exception):
            return state
        try:
            return step(state, *rows)
        except Exception as error:
            return error

    def learnt(state: Any, X: Any, y: Any):
        after = learner.update(state, X, y)
        if after is None:  # what a learner keeps in itself is not copied along the tree
            raise TypeError("update returned None: return the state")
        return after

    def update(states: Any, at: int, _: Any, X: Any, y: Any, rows: Any, start: int, stop: int):
        part = rows[start:stop]
        if fixed and part[-1] - part[0] == len(part) - 1:
            part = slice(part[0], part[-1] + 1)  # a view, which reads no more of a file than it has
        states[at] = attempt(learnt, states[at], X[part], None if y is None else y[part])

    def fork(states: Any, depth: int):
        states[depth + 1] = attempt(copied, states[depth])

    def lost(state: Any, X: Any, y: Any):
        losses = real_array("loss", learner.loss(state, X, y), finite=False)
        if losses.shape != (len(X),):
            raise ValueError(f"loss has shape {losses.shape}, not ({len(X)},): one value a row")
        if np.isnan(losses).any():
            raise ValueError(f"loss of row {np.argmax(np.isnan(losses))} is nan")
        return losses

    def test(
        states: Any, at: int, _: Any, X: Any, y: Any, start: int, stop: int, losses: np.ndarray
    ):
        part = slice(start, stop)
        found = attempt(lost, states[at], X[part], None if y is None else y[part])
        if isinstance(found, Exception):
            failures[start] = found
        else:
            losses[part] = found
        states[at] = None
        next(done, None)

    return update, test, fork


def follow(
    node: Node, learner: Any, X: Any, y: Any, bounds: np.ndarray, seed: int, label: str
) -> tuple[np.ndarray, int, dict[int, Exception]]:
    """Train a node's model along its path, then test all models below.

    Returns the losses of its rows, nan where a model failed; how many rows were learnt; and the
    errors of failed models, by the first row that each was to be tested on.
    """
    path, first, last = node
    height = 2 + int(last - first).bit_length()
    failures: dict[int, Exception] = {}
    run: Any = _descend
    if isinstance(learner, CompiledLearner):
        run = _compiled
        steps: Any = (learner.update_kernel, learner.loss_kernel, _copy_row)
        constants = learner.constants
        states: Any = np.tile(learner.initial, (height, 1))
        y = column(X, y)
    else:
        n_leaves = last - first + 1
        done = iter(track(range(n_leaves), label, n_leaves) if label else ())
        steps = _steps(learner, seed == FIXED, failures, done)
        constants = None
        states = [learner.init(), *[None] * height]
        steps[2](states, 0)  # learns by a copy: the learner may keep what it gave
        states[0] = states[1]
    rows = np.arange(len(X))
    losses = np.full(len(X), np.nan)
    learnt = 0
    for start, stop, inside in path:
        span = slice(bounds[start], bounds[stop + 1])
        fed = rows[span].copy() if inside else np.delete(rows, span)
        if seed != FIXED:
            _shuffle(fed, len(fed), seed, span.start, span.stop)
        steps[0](states, 0, constants, X, y, fed, 0, len(fed))
        learnt += len(fed)
    tested = slice(bounds[first], bounds[last + 1])
    if first == last:  # to hand kernels to a kernel takes longer than one test
        steps[1](states, 0, constants, X, y, tested.start, tested.stop, losses)
    else:
        learnt += run(*steps, constants, X, y, bounds, first, last, seed, states, rows, losses)
    return losses[tested], int(learnt), failures
