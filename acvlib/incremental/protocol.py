"""Learning row by row: the rows, and what a learner is that `treecv` can cross-validate."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

# Sums may be reordered, which lets dot products use wide registers; always in the same way.
FASTMATH = {"reassoc", "contract", "nsz"}


@dataclass(frozen=True, eq=False, repr=False)
class Examples:
    """n rows to learn from: X (n, d), and y (n,), or None where there is nothing to predict.

    Both are kept as float64 and read-only, not copied where they are float64 and contiguous.
    Raises ValueError on other shapes, and on NaN or infinity, with the first row that has one.
    """

    X: np.ndarray
    y: np.ndarray | None = None

    def __post_init__(self):
        object.__setattr__(self, "X", as_rows(self.X))
        _check_finite("X", self.X)
        if self.y is not None:
            object.__setattr__(self, "y", as_targets(self.y, len(self.X)))
            _check_finite("y", self.y)

    def take(self, rows: np.ndarray) -> "Examples":
        """Return the rows, in the order given."""
        return Examples(self.X[rows], None if self.y is None else self.y[rows])

    def __len__(self):
        return len(self.X)

    def __repr__(self):
        return f"Examples({len(self):,} rows, {self.X.shape[1]} features)"


def _check_finite(name, values):
    finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if not finite.all():
        n_bad = np.count_nonzero(~finite)
        first = np.argmin(finite)
        raise ValueError(f"{name} is not finite in {n_bad} rows, row {first} the first")


@runtime_checkable
class IncrementalLearner(Protocol):
    """L(f, Z) of Joulani et al. (2015), Section 2, and the loss of Table 1, as three functions.

    A learner may also offer `check(X, y)`, which raises ValueError on rows it cannot learn from;
    `copy(state)` (else `copy.deepcopy`); or, in place of copies, `save(state, X, y)`, which keeps
    what an update with these rows would change, and `revert(state, saved)`, which returns the state
    before it.
    """

    def init(self) -> Any:
        """Return the state of a model that has seen nothing."""

    def update(self, state: Any, X: np.ndarray, y: np.ndarray | None) -> Any:
        """Learn X (m, d) and y (m,) or None as well; may change `state`, but not the rows."""

    def loss(self, state: Any, X: np.ndarray, y: np.ndarray | None) -> np.ndarray:
        """Return the loss of each row, shape (m,)."""


@dataclass(frozen=True, eq=False, repr=False)
class CompiledLearner:
    """An incremental learner made of two numba kernels, which run without Python and its lock.

    A state is a vector. In both kernels it is row `at` of `states`; the first one learns
    rows[start], ..., rows[stop - 1] in this order, the second writes the loss of row i to out[i]:

        update_kernel(states, at, constants, X, y, rows, start, stop)
        loss_kernel(states, at, constants, X, y, start, stop, out)   for i = start, ..., stop - 1

    Kernels check nothing and do not raise: the methods look at shapes and row numbers before.

    Parameters
    ----------
    n_features : columns of X.
    initial : the state of a model that has seen nothing; constants : what kernels need to know.
    needs : what y must be, for errors; empty where kernels do not read y.
    validate : validate(X, y) raises ValueError on a table of rows that the learner cannot take.
    """

    name: str
    n_features: int
    initial: np.ndarray
    constants: np.ndarray
    update_kernel: Callable
    loss_kernel: Callable
    needs: str = ""
    validate: Callable | None = None

    def __post_init__(self):
        if self.n_features < 1:
            raise ValueError(f"n_features = {self.n_features}: must be at least 1")
        for name in ("initial", "constants"):
            values = np.array(getattr(self, name), float)
            object.__setattr__(self, name, read_only(values))

    def check(self, X: np.ndarray, y: np.ndarray | None) -> None:
        """Raise ValueError on rows that the learner cannot take."""
        X, y = self._arrays(X, y)
        if self.validate is not None:
            self.validate(X, y)

    def init(self) -> np.ndarray:
        """Return the state of a model that has seen nothing."""
        return self.initial.copy()

    def update(self, state: np.ndarray, X: np.ndarray, y: np.ndarray | None) -> np.ndarray:
        """Learn all rows, in place."""
        return self.learn(state, X, y, np.arange(len(X)))

    def learn(
        self, state: np.ndarray, X: np.ndarray, y: np.ndarray | None, rows: np.ndarray
    ) -> np.ndarray:
        """Learn X[rows] and y[rows], in that order, in place."""
        X, y = self._arrays(X, y)
        rows = _row_numbers(rows, len(X))
        states = self._stack(state)
        self.update_kernel(states, 0, self.constants, X, y, rows, 0, len(rows))
        return state

    def loss(self, state: np.ndarray, X: np.ndarray, y: np.ndarray | None) -> np.ndarray:
        """Return the loss of each row."""
        X, y = self._arrays(X, y)
        out = np.empty(len(X))
        states = self._stack(state)
        self.loss_kernel(states, 0, self.constants, X, y, 0, len(X), out)
        return out

    def _arrays(self, X, y):
        """X and y as kernels take them, y zeros where there is none, of the learner's size."""
        X = as_rows(X)
        if X.shape[1] != self.n_features:
            raise ValueError(f"X has {X.shape[1]} features, and the learner {self.n_features}")
        if y is None and self.needs:
            raise ValueError(f"the learner needs {self.needs}")
        return X, as_targets(np.zeros(len(X)) if y is None else y, len(X))

    def _stack(self, state):
        """The stack of one state that kernels take: a view."""
        if state.shape != self.initial.shape or state.dtype != float:
            raise ValueError(
                f"state has shape {state.shape}, type {state.dtype}: not one of {self.name}"
            )
        return state[None]

    def __repr__(self):
        return self.name


def as_rows(X: np.ndarray) -> np.ndarray:
    """Return X as a read-only table of float64; ValueError unless it is (rows, features)."""
    X = np.ascontiguousarray(X, float)
    if X.ndim != 2:
        raise ValueError(f"X has shape {X.shape}: it must be (rows, features)")
    return read_only(X)


def as_targets(y: np.ndarray, n_rows: int) -> np.ndarray:
    """Return y as a read-only vector of float64; ValueError unless it has one value a row."""
    y = np.ascontiguousarray(y, float)
    if y.shape != (n_rows,):
        raise ValueError(f"y has shape {y.shape}, not ({n_rows},): one value a row of X")
    return read_only(y)


def _row_numbers(rows, n_rows):
    rows = np.ascontiguousarray(rows)
    if rows.ndim != 1 or (rows.size and not np.issubdtype(rows.dtype, np.integer)):
        raise ValueError(f"rows of shape {rows.shape}, type {rows.dtype}: give row numbers (m,)")
    if rows.size and (rows.min() < 0 or rows.max() >= n_rows):
        raise ValueError(f"rows are {rows.min()} ... {rows.max()}: they must be 0 ... {n_rows - 1}")
    return rows.astype(np.int64, copy=False)


def read_only(values: np.ndarray) -> np.ndarray:
    """Return a view that cannot be written to."""
    view = values.view()
    view.flags.writeable = False
    return view
