"""What a cross-validation of an incremental learner gives back, and the error that keeps its finished part."""

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class LearnerCV:
    """k-fold cross-validation of an incremental learner.

    pointwise (n,): the loss of each row under the model that has not seen its fold, nan where that failed;
    fold_of (n,): the fold of each row; evaluations: rows learnt by all models together (updates), copies of
    models and, on a cluster, models sent from worker to worker and their bytes; seconds: wall clock;
    failures: one sentence for each branch that failed.
    """

    method: str
    learner: str
    order: str
    pointwise: np.ndarray = field(repr=False)
    fold_of: np.ndarray = field(repr=False)
    seconds: float
    evaluations: Counter
    failures: tuple = ()

    @cached_property
    def fold_losses(self):
        """R_i, the mean loss of each fold, (k,)."""
        return np.bincount(self.fold_of, self.pointwise) / np.bincount(self.fold_of)

    @property
    def loss(self):
        """The mean of the fold losses (Joulani et al. 2015, Section 2)."""
        return float(self.fold_losses.mean())

    @property
    def se(self):
        """Standard error of `loss` over folds."""
        return float(self.fold_losses.std(ddof=1) / np.sqrt(len(self.fold_losses)))

    def to_frame(self):
        """One row a fold: its size and its loss."""
        import pandas as pd

        columns = {"size": np.bincount(self.fold_of), "loss": self.fold_losses}
        return pd.DataFrame(columns).rename_axis("fold")

    def _repr_html_(self):
        head = f"<b>{self.method}</b> of {self.learner}, {self.order} order: loss {self.loss:.6g} ± {self.se:.2g} (se)"
        cost = f"{self.evaluations['updates'] / len(self.pointwise):.2f} updates a row, {self.seconds:.3g} s"
        return f"<p>{head}, {len(self.fold_losses):,} folds, {cost}</p>"


class FoldsFailed(RuntimeError):
    """Some folds have no result because the learner raised; `result` has those of all other folds."""

    def __init__(self, result):
        first, more = result.failures[0], len(result.failures) - 1
        super().__init__(first + (f" (and {more} more branches)" if more else ""))
        self.result = result
