"""H(w_o) of many folds as products with vectors, and preconditioners: see `curvature`."""

from functools import cached_property

import numpy as np

from .blocks import solve_blocks, without
from .curvature import Curvature
from .posterior import states_of_sequences

SHARE = 0.2  # of a block's diagonal: a smaller loss leaves the preconditioner as it is


class SeparateProducts:
    """`FoldProducts` at params of their own, or with time steps left out: a `Curvature` each."""

    def __init__(self, hidden, is_rough=False):
        self.hidden = hidden
        self.is_rough = is_rough

    @cached_property
    def rough(self):
        return None if self.is_rough else SeparateProducts(self.hidden, True)

    @cached_property
    def _curvatures(self):
        return [Curvature(hidden, self.is_rough) for hidden in self.hidden]

    @cached_property
    def _blocks(self):
        return [curvature.blocks() for curvature in self._curvatures]

    def multiply(self, vectors, rows):
        return _by_row(lambda row, own: self._curvatures[row].multiply(own), vectors, rows)

    def precondition(self, vectors, rows):
        """The inverse complete-data information of each fold times its vector."""
        return _by_row(lambda row, own: solve_blocks(self._blocks[row], own), vectors, rows)

    def evaluate(self):
        values = [hidden.value() for hidden in self.hidden]
        gradients = [hidden.gradient() for hidden in self.hidden]
        return np.array(values), np.array(gradients)


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
    """`FoldProducts` of sequences at the same params: one H of all, less each fold's own."""

    def __init__(self, hidden, folds, is_rough=False, share=SHARE):
        self.hidden = hidden
        self.folds = folds
        self.is_rough = is_rough
        self.share = share

    @cached_property
    def rough(self):
        return None if self.is_rough else SharedProducts(self.hidden, self.folds, True, self.share)

    @cached_property
    def _whole(self):
        return Curvature(self.hidden, self.is_rough)

    @cached_property
    def _own(self):
        """The `Curvature` of each fold's sequences alone."""
        own = []
        for fold in self.folds:
            hidden = states_of_sequences(self.hidden.model, self.hidden.params, fold)
            own.append(Curvature(hidden, self.is_rough))
        return own

    @cached_property
    def _blocks(self):
        return self._whole.blocks()

    @cached_property
    def _changed(self):
        """The blocks of each fold that lack what is left out."""
        return [without(self._blocks, own.blocks(), self.share) for own in self._own]

    def multiply(self, vectors, rows):
        out = self._whole.multiply(vectors, [self.folds[row] for row in rows])
        for i, row in enumerate(rows):
            out[i] -= self._own[row].complete(vectors[i : i + 1])[0]
        return out

    def precondition(self, vectors, rows):
        """The same, but for the blocks that a fold changes little."""
        out = solve_blocks(self._blocks, vectors)
        for i, row in enumerate(rows):
            for block in self._changed[row]:
                out[i, block.place] = block.solve(vectors[i : i + 1])[0]
        return out
