"""Learning row by row: the rows, and what a learner is that `treecv` can cross-validate."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..checks import check_whole, real_array
from ..folds.checks import as_fold
from .scratch import forget, portions

# Sums may be reordered, which lets dot products use wide registers; always in the same way.
FASTMATH = {"reassoc", "contract", "nsz"}

MOST_FEATURES = 2**27  # times the states of a learner: as much as fits into memory

Targets = np.ndarray | None  # one value a row, or None where there is nothing to predict


@dataclass(frozen=True, eq=False, repr=False)
class Examples:
    """n rows to learn from: X (n, d), and y (n,), or None where there is nothing to predict.

    Kept as read-only float64, without a copy where they are float64 and contiguous: a memory map
    stays one. Raises ValueError on other shapes, and on NaN or infinity.

    memory : bytes up to which copies of a mapped X, as shuffling makes one, are held in memory;
        larger ones go to a scratch file in the folder of temporary files (TMPDIR). `treecv` and
        `kfold` read 16 MB at a time: up to about 100 MB are held, as much as the columns of a
        Parquet row group, 50 bytes a row (targets, losses, order), and a model a level of the tree.
    """

    X: np.ndarray
    y: Targets = None
    memory: int = 2**30

    def __post_init__(self):
        X, y = _as_arrays(self.X, self.y)
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "y", y)
        check_whole("memory", self.memory, 0)
        _check_finite("X", X)
        if y is not None:
            _check_finite("y", y[:, None])

    @classmethod
    def of(
        cls,
        source: Any,
        target: Any = None,
        features: Sequence[str] | None = None,
        memory: int = 2**30,
    ) -> "Examples":
        """Read the rows of a file or frame (extra `parquet`, except for .npy).

        Parameters
        ----------
        source : a Parquet file, or a folder of them in the order of their names; a .npy file, which
            is mapped; a pandas or polars frame or an arrow table, whose columns are copied once
        target : the column to predict; or n numbers, or a .npy file of them; None for nothing
        features : names of columns, all but the target if None
        memory : bytes of X that are held in memory; a larger one goes to a scratch file, see
            `Examples`

        Raises
        ------
        ValueError : a column that is no number (text, categories, times), or has missing values
        """
        from .sources import read

        check_whole("memory", memory, 0)
        X, y = read(source, target, features, memory)
        return cls(X, y, memory)

    def take(self, rows: np.ndarray) -> "Examples":
        """Return the rows, in the order given."""
        return Examples(*self.select(_row_numbers(rows, len(self))))

    def select(self, rows: slice | np.ndarray) -> tuple[np.ndarray, Targets]:
        """Return X and y of the rows, read-only: a learner may not write to them."""
        X = _read_only(self.X[rows])
        return X, None if self.y is None else _read_only(self.y[rows])

    def __len__(self):
        return len(self.X)

    def __repr__(self):
        return f"Examples({len(self):,} rows, {self.X.shape[1]} features)"


def _check_finite(name, table):
    bad = []
    for part in portions(*table.shape):
        wrong = ~np.isfinite(table[part]).all(axis=1)
        bad += [part.start + row for row in np.flatnonzero(wrong)]
        forget(table)
    if bad:
        raise ValueError(f"{name} is not finite in {len(bad)} rows, row {bad[0]} the first")


def _as_arrays(X, y):
    """X (n, d) and y (n,) or None as read-only float64."""
    X = _as_floats("X", X)
    if X.ndim != 2:
        raise ValueError(f"X has shape {X.shape}: it must be (rows, features)")
    if y is None:
        return X, None
    y = _as_floats("y", y)
    if y.shape != X.shape[:1]:
        raise ValueError(f"y has shape {y.shape}, not ({len(X)},): one value a row of X")
    return X, y


def _as_floats(name, values):
    """Contiguous float64, without a copy where it is."""
    if type(values) not in (np.ndarray, np.memmap) or values.dtype != float:
        values = real_array(name, values, finite=False)
    return _read_only(np.ascontiguousarray(values).view(np.ndarray))


def _read_only(values):
    view = values.view()
    view.flags.writeable = False
    return view


@runtime_checkable
class IncrementalLearner(Protocol):
    """L(f, Z) of Joulani et al. (2015), Section 2, and the loss of Table 1, as three functions.

    A learner may also offer `check(X, y)`, which raises ValueError on rows it cannot learn from;
    `copy(state)` (else `copy.deepcopy`); or, in place of copies, `save(state, X, y)`, which keeps
    what an update with these rows would change, and `revert(state, saved)`, which undoes it.
    """

    def init(self) -> Any:
        """Return the state of a model that has seen nothing."""

    def update(self, state: Any, X: np.ndarray, y: Targets) -> Any:
        """Learn X (m, d) and y (m,) or None as well; may change `state`, but not the rows."""

    def loss(self, state: Any, X: np.ndarray, y: Targets) -> np.ndarray:
        """Return the loss of each row, shape (m,)."""


@dataclass(frozen=True, eq=False, repr=False)
class CompiledLearner:
    """An incremental learner made of two numba kernels, which run without Python and its lock.

    A state is a vector. In both kernels it is row `at` of `states`; the first one learns
    rows[start], ..., rows[stop - 1] in this order, the second writes the loss of row i to out[i]:

        update_kernel(states, at, constants, X, y, rows, start, stop)
        loss_kernel(states, at, constants, X, y, start, stop, out)   for i = start, ..., stop - 1

    Kernels check nothing and do not raise: the methods look at shapes and row numbers before.

    needs : what y must be, for errors; empty where kernels do not read y.
    validate : validate(X, y) raises ValueError on a data set that the learner cannot take.
    """

    name: str
    n_features: int
    initial: np.ndarray
    constants: np.ndarray
    update_kernel: Callable
    loss_kernel: Callable
    needs: str = ""
    validate: Callable | None = None

    def check(self, X: np.ndarray, y: Targets) -> None:
        self._problem(self.initial, X, y)
        if self.validate:
            self.validate(X, y)

    def init(self) -> np.ndarray:
        return self.initial.copy()

    def update(self, state: np.ndarray, X: np.ndarray, y: Targets) -> np.ndarray:
        Examples(X, y)  # refuses what is not finite
        return self.learn(state, X, y, np.arange(len(X)))

    def learn(self, state: np.ndarray, X: np.ndarray, y: Targets, rows: np.ndarray) -> np.ndarray:
        """Learn X[rows] and y[rows] of `Examples`, which are finite, in that order, in place."""
        problem = self._problem(state, X, y)
        self.update_kernel(*problem, _row_numbers(rows, len(X)), 0, len(rows))
        return state

    def loss(self, state: np.ndarray, X: np.ndarray, y: Targets) -> np.ndarray:
        Examples(X, y)
        return self.test(state, X, y)

    def test(self, state: np.ndarray, X: np.ndarray, y: Targets) -> np.ndarray:
        """Return the loss of each row of `Examples`, which are finite."""
        problem = self._problem(state, X, y)
        losses = np.empty(len(X))
        self.loss_kernel(*problem, 0, len(X), losses)
        return losses

    def _problem(self, state, X, y):
        """The first arguments of a kernel, of the right types and sizes; y zeros where None."""
        if y is None and self.needs:
            raise ValueError(f"the learner needs {self.needs}")
        X, y = _as_arrays(X, np.zeros(len(X)) if y is None else y)
        if X.shape[1] != self.n_features:
            raise ValueError(f"X has {X.shape[1]} features, and the learner {self.n_features}")
        if state.shape != self.initial.shape or state.dtype != float:
            raise ValueError(f"state of shape {state.shape}, {state.dtype} is not of {self.name}")
        return state[None], 0, self.constants, X, y

    def __repr__(self):
        return self.name


def _row_numbers(rows, n_rows):
    """The rows as int64, all of them there."""
    rows = as_fold(rows, "the set of rows")
    if rows.size and (rows.min() < 0 or rows.max() >= n_rows):
        outside = f"rows {rows.min()} ... {rows.max()} of {n_rows}"
        raise ValueError(f"{outside}: they must be 0 ... {n_rows - 1}")
    return rows
