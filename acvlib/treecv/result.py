"""What the cross-validation of an incremental learner gives back, whole or in part."""

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..extras import require
from ..scores import HeldOutLosses


@dataclass(frozen=True, eq=False, repr=False)
class LearnerCV(HeldOutLosses):
    """k-fold cross-validation of an incremental learner; its losses are read as in `CVResult`.

    pointwise (n,): loss of each row under the model that has not seen its fold, nan where that
    failed; fold_of (n,): the fold of each row; evaluations: rows learnt (updates) and models
    copied, more updates where more than two workers train the way to their branches for themselves;
    shuffled: whether the rows were shuffled before they were cut into folds; failures: which folds
    failed, and how, in sentences.

    R_k-CV of Joulani et al. (2015), where folds of unequal size count alike, is
    `fold_losses.mean()`; `loss` is the mean over rows.
    """

    method: str
    learner: str
    order: str
    pointwise: np.ndarray = field(repr=False)
    fold_of: np.ndarray = field(repr=False)
    seconds: float
    evaluations: Counter
    shuffled: bool = False
    failures: tuple[str, ...] = ()

    @property
    def n_sites(self) -> int:
        """How many rows there are."""
        return len(self.pointwise)

    @property
    def n_folds(self) -> int:
        """How many folds there are."""
        return int(self.fold_of.max()) + 1

    @property
    def _pairs(self):
        return self.fold_of, np.arange(self.n_sites), self.pointwise

    @cached_property
    def losses(self) -> list[np.ndarray]:
        """The losses of each fold's rows, fold by fold."""
        by_fold = np.argsort(self.fold_of, kind="stable")
        ends = np.cumsum(np.bincount(self.fold_of))
        return np.split(self.pointwise[by_fold], ends[:-1])

    def to_frame(self):
        """Return a DataFrame with a row for each fold: its size and mean loss (extra `tables`)."""
        pandas = require("pandas", extra="tables")
        columns = {"size": np.bincount(self.fold_of), "loss": self.fold_losses}
        return pandas.DataFrame(columns).rename_axis("fold")

    @property
    def _about(self):
        rows = "shuffled, " if self.shuffled else ""
        updates = self.evaluations["updates"] / self.n_sites
        return f", {rows}{updates:.2f} updates a row, of {self.learner}"


class FoldsFailed(RuntimeError):
    """Some folds have no result because the learner raised; `result` has those of all others."""

    def __init__(self, result: LearnerCV):
        first, *more = result.failures
        super().__init__(f"{first} (and {len(more)} more branches)" if more else first)
        self.result = result
