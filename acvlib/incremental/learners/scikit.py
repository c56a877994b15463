"""Any scikit-learn estimator with `partial_fit`, as an incremental learner (extra `sklearn`)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...extras import require


@dataclass(frozen=True)
class PartialFit:
    """Learn by estimator.partial_fit; the estimator itself stays as it is.

    An estimator that shuffles within a call, as scikit-learn's SGD does by default, learns in
    another order when rows arrive in other portions.

    Parameters
    ----------
    classes : every label there can be, for a classifier.
    row_loss : row_loss(estimator, X, y) -> (m,); without one it is misclassification for
        classifiers and squared error for regressors.

    Raises TypeError without `partial_fit`, ValueError where classes or a loss are missing.
    """

    estimator: Any
    classes: tuple | None = None
    row_loss: Callable | None = None

    def __post_init__(self):
        base = require("sklearn.base", extra="sklearn")
        name = type(self.estimator).__name__
        if not hasattr(self.estimator, "partial_fit"):
            raise TypeError(f"{name} has no partial_fit: it cannot learn incrementally")
        classifies = base.is_classifier(self.estimator)
        if classifies and self.classes is None:
            raise ValueError(
                "a classifier needs `classes`, all labels there can be: a chunk may lack some"
            )
        has_loss = classifies or base.is_regressor(self.estimator)
        if self.row_loss is None and not has_loss:
            raise ValueError(f"{name} has no usual loss: give row_loss(estimator, X, y)")

    def check(self, X: np.ndarray, y: np.ndarray | None) -> None:
        """Raise ValueError on labels that are not among the classes."""
        if self.classes is None:
            return
        if y is None:
            raise ValueError("a classifier needs labels y")
        wrong = ~np.isin(y, self.classes)
        if wrong.any():
            label = f"label {y[wrong][0]:g} of row {np.argmax(wrong)}"
            raise ValueError(f"{label} is not in classes {self.classes}")

    def init(self) -> Any:
        """Return an estimator of the same settings that has seen nothing."""
        return require("sklearn.base", extra="sklearn").clone(self.estimator)

    def update(self, state: Any, X: np.ndarray, y: np.ndarray | None) -> Any:
        """Learn the rows as well, in place."""
        options = {} if self.classes is None else {"classes": np.asarray(self.classes)}
        with _finite():
            return state.partial_fit(X, y, **options)

    def loss(self, state: Any, X: np.ndarray, y: np.ndarray | None) -> np.ndarray:
        """Return the loss of each row."""
        if self.row_loss is not None:
            return self.row_loss(state, X, y)
        with _finite():
            predicted = state.predict(X)
        return (predicted - y) ** 2 if self.classes is None else (predicted != y).astype(float)


def _finite():
    """`Examples` are finite: to look again at every update would take longer than many updates."""
    return require("sklearn", extra="sklearn").config_context(assume_finite=True)
