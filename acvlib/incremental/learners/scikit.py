"""Any scikit-learn estimator with `partial_fit`, as an incremental learner."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PartialFit:
    """estimator.partial_fit as `update`; the estimator itself stays as it is.

    classes: every label there can be, for a classifier. loss(estimator, X, y) -> (m,); without one it is
    misclassification for classifiers and squared error for regressors. An estimator that shuffles within a
    call, as scikit-learn's SGD does by default, learns in another order when rows arrive in other portions.
    Raises TypeError without `partial_fit`, and ValueError where classes or a loss are missing.
    """

    estimator: object
    classes: tuple | None = None
    row_loss: Callable | None = None

    def __post_init__(self):
        from sklearn.base import (  # half a second that a mere import should not cost
            is_classifier,
            is_regressor,
        )

        if not hasattr(self.estimator, "partial_fit"):
            raise TypeError(
                f"{type(self.estimator).__name__} has no partial_fit: it cannot learn incrementally"
            )
        if is_classifier(self.estimator) and self.classes is None:
            raise ValueError(
                "a classifier needs `classes`, all labels there can be: a chunk may lack some"
            )
        if self.row_loss is None and not (
            is_classifier(self.estimator) or is_regressor(self.estimator)
        ):
            raise ValueError(
                f"{type(self.estimator).__name__} has no usual loss: give row_loss(estimator, X, y)"
            )

    def check(self, X, y):
        if self.classes is not None and not np.isin(y, self.classes).all():
            wrong = ~np.isin(y, self.classes)
            raise ValueError(
                f"label {y[wrong][0]:g} of row {np.argmax(wrong)} is not in classes {self.classes}"
            )

    def init(self):
        from sklearn.base import clone

        return clone(self.estimator)

    def update(self, state, X, y):
        options = {} if self.classes is None else {"classes": np.asarray(self.classes)}
        with _finite():
            return state.partial_fit(X, y, **options)

    def loss(self, state, X, y):
        if self.row_loss is not None:
            return self.row_loss(state, X, y)
        with _finite():
            predicted = state.predict(X)
        return (predicted - y) ** 2 if self.classes is None else (predicted != y).astype(float)


def _finite():
    """`Examples` are finite: to look again at every update would take longer than many updates."""
    from sklearn import config_context

    return config_context(assume_finite=True)
