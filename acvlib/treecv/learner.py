"""Learning row by row: the rows, and what a learner is that `treecv` can cross-validate."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..checks import in_order_of, index_of, one_line, real_array, require
from ..folds.sites import as_set
from ..parallel import pieces

LOOKED_AT = 2**21  # numbers at once, 16 MB, so that a mapped file need not be in memory
MOST = 2**27  # numbers of a state: as much as fits into memory

Targets = np.ndarray | None  # one value a row, or None where there is nothing to predict


@dataclass(frozen=True, eq=False, repr=False)
class Examples:
    """n rows to learn from: X (n, d), and y (n,), or None where there is nothing to predict.

    Read-only float64; X without a copy where it is that and contiguous: a memory map stays one.
    Raises ValueError on other shapes, on NaN or infinity, and on rows and targets that are named,
    by an index, and not alike.
    """

    X: np.ndarray
    y: Targets = None

    def __post_init__(self):
        index = index_of(self.X, self.y)
        y = in_order_of(index, "y", self.y)
        X = self.X
        if type(X) not in (np.ndarray, np.memmap) or X.dtype != float:
            X = real_array("X", X, finite=False)
        if X.ndim != 2:
            raise ValueError(f"X has shape {X.shape}: it must be (rows, features)")
        X = np.ascontiguousarray(X).view(np.ndarray)
        for part in pieces(len(X), max(1, LOOKED_AT // max(1, X.shape[1]))):
            finite = np.isfinite(X[part]).all(axis=1)
            if not finite.all():
                raise ValueError(f"X is not finite in row {part.start + np.argmin(finite)}")
        if y is not None:
            y = real_array("y", y)
            if y.shape != X.shape[:1]:
                raise ValueError(f"y has shape {y.shape}, not ({len(X)},): one value a row of X")
            y.flags.writeable = False
        X.flags.writeable = False
        self.__dict__.update(X=X, y=y, index=index)

    def take(self, rows: np.ndarray) -> "Examples":
        """Return the rows, with their names, in the order given."""
        rows = as_set(rows, len(self))
        taken = Examples(self.X[rows], None if self.y is None else self.y[rows])
        names = index_of(self)
        taken.__dict__["index"] = None if names is None else names[rows]
        return taken

    def __len__(self):
        return len(self.X)

    def __repr__(self):
        return f"Examples({len(self):,} rows, {self.X.shape[1]} features)"


def column(X: np.ndarray, y: Targets) -> np.ndarray:
    """The targets as a kernel takes them: zeros where there are none."""
    return np.zeros(len(X)) if y is None else y


def _check_targets(y, labels):
    """Raise ValueError unless there are targets and, where labels are given, they are of these."""
    if y is None:
        raise ValueError("the learner needs targets y")
    if labels is not None and not (known := np.isin(y, labels)).all():
        row = np.argmin(known)
        raise ValueError(f"label {y[row]:g} of row {row} is not one of {labels}")


@runtime_checkable
class IncrementalLearner(Protocol):
    """L(f, Z) of Joulani et al. (2015), Section 2, and the loss of Table 1, as three functions.

    A learner may also offer `check(X, y)`, which raises ValueError on rows it cannot learn from,
    and `copy(state)` (else `copy.deepcopy`).
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

    Kernels check nothing and do not raise: the methods look at shapes before. reads_y: whether
    kernels read y; labels: all that it may hold then, None for any numbers.
    """

    name: str
    n_features: int
    initial: np.ndarray
    constants: np.ndarray
    update_kernel: Callable
    loss_kernel: Callable
    reads_y: bool = False
    labels: tuple | None = None

    def check(self, X: np.ndarray, y: Targets) -> None:
        if X.shape[1] != self.n_features:
            raise ValueError(f"X has {X.shape[1]} features, and the learner {self.n_features}")
        if self.reads_y:
            _check_targets(y, self.labels)

    def init(self) -> np.ndarray:
        return self.initial.copy()

    def update(self, state: np.ndarray, X: np.ndarray, y: Targets) -> np.ndarray:
        model = self._model(state, X, y)
        self.update_kernel(*model, np.arange(len(X)), 0, len(X))
        return state

    def loss(self, state: np.ndarray, X: np.ndarray, y: Targets) -> np.ndarray:
        model = self._model(state, X, y)
        losses = np.empty(len(X))
        self.loss_kernel(*model, 0, len(X), losses)
        return losses

    def _model(self, state, X, y):
        """The first arguments of a kernel, of the right types and sizes."""
        data = Examples(X, y)
        self.check(data.X, data.y)
        if state.shape != self.initial.shape or state.dtype != float:
            raise ValueError(f"state of shape {state.shape}, {state.dtype} is not of {self.name}")
        return state[None], 0, self.constants, data.X, column(data.X, data.y)

    def __repr__(self):
        return self.name


@dataclass(frozen=True)
class PartialFit:
    """Any scikit-learn estimator with `partial_fit`, a call an edge of the tree (extra `sklearn`).

    The estimator stays as it is. The loss is misclassification, of a classifier, which needs all
    labels there can be as `classes`, or else squared error.
    """

    __repr__ = one_line
    estimator: Any
    classes: tuple | None = None

    def __post_init__(self):
        base = require("sklearn.base", extra="sklearn")
        name = type(self.estimator).__name__
        if not hasattr(self.estimator, "partial_fit"):
            raise TypeError(f"{name} has no partial_fit: it cannot learn incrementally")
        classifies = base.is_classifier(self.estimator)
        if classifies and self.classes is None:
            raise ValueError("a classifier needs `classes`, all labels: a chunk may lack some")
        if self.classes is not None and not classifies:
            raise ValueError(f"{name} does not classify: leave `classes` out")
        listed = np.iterable(self.classes) and not isinstance(self.classes, str)
        if classifies and (not listed or any(map(np.ndim, self.classes))):
            raise ValueError(f"classes = {self.classes!r:.60} must be a list of all labels")
        if classifies:
            self.__dict__["classes"] = tuple(self.classes)  # numpy takes a set for one value
        if not classifies and not base.is_regressor(self.estimator):
            raise ValueError(
                f"{name} has no usual loss: give an object with init(), update(state, X, y) and "
                "loss(state, X, y)"
            )

    def check(self, X: np.ndarray, y: Targets) -> None:
        _check_targets(y, self.classes)

    def init(self) -> Any:
        return require("sklearn.base", extra="sklearn").clone(self.estimator)

    def update(self, state: Any, X: np.ndarray, y: Targets) -> Any:
        classes = {} if self.classes is None else {"classes": np.asarray(self.classes)}
        return state.partial_fit(X, y, **classes)

    def loss(self, state: Any, X: np.ndarray, y: Targets) -> np.ndarray:
        predicted = state.predict(X)
        return (predicted - y) ** 2 if self.classes is None else (predicted != y).astype(float)
