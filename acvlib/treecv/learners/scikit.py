"""Any scikit-learn estimator with `partial_fit`, as an incremental learner (extra `sklearn`)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...checks import one_line
from ...extras import require


@dataclass(frozen=True)
class PartialFit:
    """Learn by estimator.partial_fit, a call an edge of the tree; the estimator stays as it is.

    The loss is misclassification, of a classifier, which needs all labels there can be as
    `classes`, or else squared error.
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
        if not classifies and not base.is_regressor(self.estimator):
            raise ValueError(
                f"{name} has no usual loss: give an object with init(), update(state, X, y) and "
                "loss(state, X, y)"
            )

    def check(self, X: np.ndarray, y: np.ndarray | None) -> None:
        if self.classes is None:
            return
        if y is None:
            raise ValueError("a classifier needs labels y")
        unknown = ~np.isin(y, self.classes)
        if unknown.any():
            row = np.argmax(unknown)
            raise ValueError(f"label {y[row]:g} of row {row} is not in classes {self.classes}")

    def init(self) -> Any:
        return require("sklearn.base", extra="sklearn").clone(self.estimator)

    def update(self, state: Any, X: np.ndarray, y: np.ndarray | None) -> Any:
        classes = {} if self.classes is None else {"classes": np.asarray(self.classes)}
        with _finite():
            return state.partial_fit(X, y, **classes)

    def loss(self, state: Any, X: np.ndarray, y: np.ndarray | None) -> np.ndarray:
        with _finite():
            predicted = state.predict(X)
        return (predicted - y) ** 2 if self.classes is None else (predicted != y).astype(float)


def _finite():
    """`Examples` are finite: to look again at every update would take longer than many updates."""
    return require("sklearn", extra="sklearn").config_context(assume_finite=True)
