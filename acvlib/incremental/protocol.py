"""Learning row by row: the rows, and what a learner is that `treecv` can cross-validate."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np


@dataclass(frozen=True, eq=False, repr=False)
class Examples:
    """n rows to learn from: X (n, d) float64, and y (n,) float64, or None where there is nothing to predict.

    Raises ValueError on other shapes, and on NaN or infinity, with the first row that has one.
    """

    X: np.ndarray
    y: np.ndarray | None = None

    def __post_init__(self):
        object.__setattr__(self, "X", np.ascontiguousarray(self.X, float))
        if self.X.ndim != 2:
            raise ValueError(f"X has shape {self.X.shape}: it must be (rows, features)")
        _check_finite("X", self.X)
        if self.y is not None:
            object.__setattr__(self, "y", np.ascontiguousarray(self.y, float))
            if self.y.shape != (len(self.X),):
                raise ValueError(
                    f"y has shape {self.y.shape}, not ({len(self.X)},): one value a row of X"
                )
            _check_finite("y", self.y)

    def take(self, rows):
        """The rows, in the order given."""
        return Examples(self.X[rows], None if self.y is None else self.y[rows])

    def __len__(self):
        return len(self.X)

    def __repr__(self):
        return f"Examples({len(self):,} rows, {self.X.shape[1]} features)"


def _check_finite(name, values):
    finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"{name} is not finite in {(~finite).sum()} rows, row {np.argmin(finite)} the first"
        )


@runtime_checkable
class IncrementalLearner(Protocol):
    """L(f, Z) of Joulani et al. (2015), Section 2, and the loss of Table 1, as three functions.

    A learner may also offer `check(X, y)`, which raises ValueError on rows it cannot learn from;
    `copy(state)` (else `copy.deepcopy`); or, in place of copies, `save(state, X, y)`, which keeps what an
    update with these rows would change, and `revert(state, saved)`, which returns the state before it.
    """

    def init(self):
        """The state of a model that has seen nothing."""

    def update(self, state, X, y):
        """The state after learning X (m, d) and y (m,) or None as well; may change `state`, but not the rows."""

    def loss(self, state, X, y):
        """The loss of each row, shape (m,)."""


@dataclass(frozen=True, repr=False)
class CompiledLearner:
    """An incremental learner made of two numba kernels, which run without Python and without its lock.

    A state is a vector, `initial` the first one. In both kernels it is row `at` of `states`; the first one
    learns rows[start], ..., rows[stop - 1] in this order, the second writes the loss of row i to out[i]:

        update_kernel(states, at, constants, X, y, rows, start, stop)
        loss_kernel(states, at, constants, X, y, start, stop, out)     for i = start, ..., stop - 1

    `validate(X, y)` raises ValueError on rows the learner cannot take. Kernels do not raise.
    """

    name: str
    initial: np.ndarray
    constants: np.ndarray
    update_kernel: Callable = field(compare=False)
    loss_kernel: Callable = field(compare=False)
    validate: Callable = field(compare=False)

    def check(self, X, y):
        self.validate(X, y)

    def init(self):
        return self.initial.copy()

    def copy(self, state):
        return state.copy()

    def update(self, state, X, y):
        self.learn(state, read_only(X), targets(X, y), np.arange(len(X)))
        return state

    def learn(self, state, X, y, rows):
        """`update` with X[rows] and y[rows], in that order, in place; X is `read_only`, y from `targets`."""
        self.update_kernel(state[None], 0, self.constants, X, y, rows, 0, len(rows))

    def loss(self, state, X, y):
        out = np.empty(len(X))
        self.loss_kernel(
            state[None], 0, self.constants, read_only(X), targets(X, y), 0, len(X), out
        )
        return out

    def __repr__(self):
        return self.name


def read_only(values):
    """A view that cannot be written to; None stays None."""
    if values is None:
        return None
    view = values.view()
    view.flags.writeable = False
    return view


def targets(X, y):
    """y, or zeros (n,) in its place, read-only: kernels take an array in any case."""
    return read_only(np.zeros(len(X)) if y is None else y)
