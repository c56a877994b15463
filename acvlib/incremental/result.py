"""What the cross-validation of an incremental learner gives back, whole or in part."""

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..extras import require


@dataclass(frozen=True, eq=False)
class LearnerCV:
    """k-fold cross-validation of an incremental learner.

    losses (n,) : of each row, under the model that has not seen its fold; nan where that failed.
    fold_of (n,) : the fold of each row.
    evaluations : rows learnt (updates), models copied and, on a cluster, models_sent by workers.
    failures : one sentence for each branch that failed.
    """

    method: str
    learner: str
    order: str
    losses: np.ndarray = field(repr=False)
    fold_of: np.ndarray = field(repr=False)
    seconds: float
    evaluations: Counter
    failures: tuple[str, ...] = ()

    @cached_property
    def fold_losses(self) -> np.ndarray:
        """R_i, the mean (not the sum) of the losses of each fold's rows, (k,)."""
        sizes = np.bincount(self.fold_of)
        return np.bincount(self.fold_of, self.losses) / sizes

    @property
    def loss(self) -> float:
        """1/k sum_i R_i: folds of unequal size count alike (Joulani et al. 2015, Section 2)."""
        return float(self.fold_losses.mean())

    @property
    def se(self) -> float:
        """Standard error of `loss` over folds."""
        deviation = self.fold_losses.std(ddof=1)
        return float(deviation / np.sqrt(len(self.fold_losses)))

    def to_frame(self):
        """Return a DataFrame with a row for each fold: its size and R_i (extra `tables`)."""
        pandas = require("pandas", extra="tables")
        columns = {"size": np.bincount(self.fold_of), "loss": self.fold_losses}
        return pandas.DataFrame(columns).rename_axis("fold")

    def _repr_html_(self):
        k = len(self.fold_losses)
        head = f"<b>{self.method}</b> of {self.learner}, {self.order} order"
        loss = f"loss {self.loss:.6g} ± {self.se:.2g} (se), {k:,} folds"
        updates = self.evaluations["updates"] / len(self.losses)
        return f"<p>{head}: {loss}, {updates:.2f} updates a row, {self.seconds:.3g} s</p>"


class FoldsFailed(RuntimeError):
    """Some folds have no result because the learner raised; `result` has those of all others."""

    def __init__(self, result: LearnerCV):
        first, *more = result.failures
        super().__init__(f"{first} (and {len(more)} more branches)" if more else first)
        self.result = result
