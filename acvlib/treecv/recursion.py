"""Algorithm 1 of Joulani, Gyorgy and Szepesvari (2015): one function, compiled or not."""

import copy
from typing import Any, NamedTuple

import numpy as np
from numba import float64, int64, njit, types, void

from ..parallel import track
from . import FIXED
from .learner import CompiledLearner

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_27, _30, _31, _32 = map(np.uint64, (27, 30, 31, 32))


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


class Node(NamedTuple):
    """A model that leaves out chunks first ... last, after learning the edges of its path.

    An edge (first, last, inside) is chunks first ... last or, if not inside, all the others, in one
    call.
    """

    path: tuple[tuple[int, int, bool], ...]
    first: int
    last: int


def tree_nodes(k: int, n_least: int) -> list[Node]:
    """All nodes of the first level of the tree that has so many, or all leaves."""
    nodes = [Node((), 0, k - 1)]
    while len(nodes) < min(n_least, k):
        nodes = [child for node in nodes for child in _children(*node)]
    return nodes


def _children(path, first, last):
    if first == last:
        return [Node(path, first, last)]
    middle = (first + last) // 2
    left = Node((*path, (middle + 1, last, True)), first, middle)
    return [left, Node((*path, (first, middle, True)), middle + 1, last)]


def leaves(k: int) -> list[Node]:
    """The models of standard cross-validation, each of which learns all in one call."""
    return [Node(((i, i, False),), i, i) for i in range(k)]


class Failed(NamedTuple):
    """What a model was doing when its learner raised, in the model's place from then on."""

    doing: str
    error: Exception

    def __str__(self):
        return f"{self.doing}: {type(self.error).__name__}: {self.error}"


class _Methods:
    """The steps of `_descend` for a learner in Python, which may raise."""

    def __init__(self, learner, leaves):
        self.learner = learner
        self.copied = getattr(learner, "copy", copy.deepcopy)
        self.leaves = iter(leaves)
        self.failures = []

    def attempt(self, doing: Any, step: Any, state: Any, *rows):
        if isinstance(state, Failed):
            return state
        try:
            return step(state, *rows)
        except Exception as error:
            return Failed(doing, error)

    def update(
        self, states: Any, at: int, _: Any, X: np.ndarray, y: Any, rows: Any, start: int, stop: int
    ):
        part = rows[start:stop]
        if part[-1] - part[0] == len(part) - 1 and (np.diff(part) == 1).all():
            part = slice(part[0], part[-1] + 1)  # a view
        chosen = X[part], None if y is None else y[part]
        states[at] = self.attempt("learning", self.learner.update, states[at], *chosen)

    def fork(self, states: Any, depth: int):
        states[depth + 1] = self.attempt("being copied", self.copied, states[depth])

    def test(
        self, states: Any, at: int, _: Any, X: Any, y: Any, start: int, stop: int, losses: Any
    ):
        chosen = X[start:stop], None if y is None else y[start:stop]
        found = self.attempt("being tested", self.losses, states[at], *chosen)
        if isinstance(found, Failed):
            self.failures.append((start, found))
        else:
            losses[start:stop] = found
        states[at] = None
        next(self.leaves, None)

    def losses(self, state: Any, X: Any, y: Any):
        losses = np.asarray(self.learner.loss(state, X, y), float)
        if losses.shape != (len(X),):
            raise ValueError(f"loss has shape {losses.shape}, not ({len(X)},): one value a row")
        if np.isnan(losses).any():
            raise ValueError(f"loss of row {np.argmax(np.isnan(losses))} is nan")
        return losses


def follow(
    node: Node, learner: Any, X: Any, y: Any, bounds: np.ndarray, seed: int, label: str
) -> tuple[np.ndarray, int, list[tuple[int, Failed]]]:
    """Train a node's model along its path, then test all models below.

    Returns the losses of its rows, nan where a model failed; how many rows were learnt; and
    (first row tested, what failed) of failed models.
    """
    path, first, last = node
    height = 2 + int(last - first).bit_length()
    if isinstance(learner, CompiledLearner):
        run: Any = _compiled
        steps: Any = (learner.update_kernel, learner.loss_kernel, _copy_row, learner.constants)
        states: Any = np.tile(learner.initial, (height, 1))
        failures = []
        y = np.zeros(len(X)) if y is None else y
    else:
        n_leaves = last - first + 1
        methods = _Methods(learner, track(range(n_leaves), label, n_leaves) if label else ())
        run = _descend
        steps = methods.update, methods.test, methods.fork, None
        states = [learner.init(), *[None] * height]
        failures = methods.failures
    update, test, _, constants = steps
    rows = np.arange(len(X))
    losses = np.full(len(X), np.nan)
    learnt = 0
    for start, stop, inside in path:
        span = slice(bounds[start], bounds[stop + 1])
        fed = rows[span].copy() if inside else np.delete(rows, span)
        if seed != FIXED:
            _shuffle(fed, len(fed), seed, span.start, span.stop)
        update(states, 0, constants, X, y, fed, 0, len(fed))
        learnt += len(fed)
    tested = slice(bounds[first], bounds[last + 1])
    if first == last:  # to hand kernels to a kernel takes longer than one test
        test(states, 0, constants, X, y, tested.start, tested.stop, losses)
    else:
        learnt += run(*steps, X, y, bounds, first, last, seed, states, rows, losses)
    return losses[tested], int(learnt), failures
