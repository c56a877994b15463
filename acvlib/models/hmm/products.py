"""H(w_o) of many folds as products with vectors, and preconditioners: see `curvature`."""

from functools import cached_property

import numpy as np

from ...folds import Folds
from .blocks import solve_blocks, without
from .curvature import Curvature
from .posterior import HiddenStates, states_of_sequences

SHARE = 0.2  # of a block's diagonal: a smaller loss leaves the preconditioner as it is


class SeparateProducts:
    """Folds at params of their own, or with time steps left out: a `Curvature` each."""

    def __init__(self, hidden: list[HiddenStates], is_rough: bool = False):
        self.hidden = hidden
        self.is_rough = is_rough

    @cached_property
    def rough(self) -> "SeparateProducts | None":
        """The same, cheaper and less accurate; None if these are."""
        return None if self.is_rough else SeparateProducts(self.hidden, True)

    @cached_property
    def _curvatures(self):
        return [Curvature(hidden, self.is_rough) for hidden in self.hidden]

    @cached_property
    def _blocks(self):
        return [curvature.blocks() for curvature in self._curvatures]

    def multiply(self, vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """H(w_o) times the vector of each fold in `rows`, (len(rows), D)."""
        return _by_row(lambda row, own: self._curvatures[row].multiply(own), vectors, rows)

    def precondition(self, vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The inverse complete-data information of each fold times its vector, (len(rows), D)."""
        return _by_row(lambda row, own: solve_blocks(self._blocks[row], own), vectors, rows)

    def evaluate(self) -> tuple[np.ndarray, np.ndarray]:
        """(F (n_folds,), dF/dparams (n_folds, D))."""
        values = np.array([hidden.value() for hidden in self.hidden])
        return values, np.array([hidden.gradient() for hidden in self.hidden])


def _by_row(function, vectors, rows):
    """function(row, its vectors) for each distinct row, put back in order."""
    distinct = np.unique(rows)
    if len(distinct) == 1:
        return function(distinct[0], vectors)
    out = np.empty_like(vectors)
    for row in distinct:
        out[rows == row] = function(row, vectors[rows == row])
    return out


class SharedProducts:
    """Folds of sequences at the same params: one H of all, less that of each fold's own."""

    def __init__(self, hidden: HiddenStates, folds: Folds, is_rough=False, share=SHARE):
        self.hidden = hidden
        self.folds = folds
        self.is_rough = is_rough
        self.share = share

    @cached_property
    def rough(self) -> "SharedProducts | None":
        """The same, cheaper and less accurate; None if these are."""
        return None if self.is_rough else SharedProducts(self.hidden, self.folds, True, self.share)

    @cached_property
    def _whole(self):
        return Curvature(self.hidden, self.is_rough)

    @cached_property
    def _own(self):
        """The `Curvature` of each fold's sequences alone."""
        model, params = self.hidden.model, self.hidden.params
        parts = (states_of_sequences(model, params, fold) for fold in self.folds)
        return [Curvature(part, self.is_rough) for part in parts]

    @cached_property
    def _blocks(self):
        return self._whole.blocks()

    @cached_property
    def _changed(self):
        """The blocks of each fold that lack what is left out."""
        return [without(self._blocks, own.blocks(), self.share) for own in self._own]

    def multiply(self, vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """As in `SeparateProducts`."""
        out = self._whole.multiply(vectors, [self.folds[row] for row in rows])
        for i, row in enumerate(rows):
            out[i] -= self._own[row].complete(vectors[i : i + 1])[0]
        return out

    def precondition(self, vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """As in `SeparateProducts`."""
        out = solve_blocks(self._blocks, vectors)
        for i, row in enumerate(rows):
            for block in self._changed[row]:
                out[i, block.place] = block.solve(vectors[i : i + 1])[0]
        return out
