"""H(w_o) of many folds as products with vectors, and the preconditioners of `krylov`: see `curvature`."""

from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from .curvature import Curvature, without

MANY = 8  # vectors from which on inverses of blocks are worth their time


class SharedProducts:
    """Folds of sequences at the same params: one H of all sequences, less that of each fold's own."""

    def __init__(self, posterior, folds, is_rough=False):
        self.posterior, self.folds, self.is_rough = posterior, folds, is_rough

    @cached_property
    def rough(self):
        """The same, cheaper and less accurate; None if these are."""
        return None if self.is_rough else SharedProducts(self.posterior, self.folds, True)

    @cached_property
    def whole(self):
        return Curvature(self.posterior, self.is_rough)

    @cached_property
    def own(self):
        return [[self.whole.of_sequence(n) for n in fold] for fold in self.folds]

    @cached_property
    def parts(self):
        return self.whole.information()

    @cached_property
    def inverses(self):
        return [(places, np.linalg.inv(blocks)) for places, blocks in self.parts]

    @cached_property
    def changed(self):
        """The blocks of each fold that its own sequences change."""
        return [self._changed(curvatures) for curvatures in self.own]

    def _changed(self, curvatures):
        if not curvatures:
            return []
        each = [c.information() for c in curvatures]
        total = [
            (parts[0][0], sum(blocks for _, blocks in parts)) for parts in zip(*each, strict=True)
        ]
        return list(without(self.parts, total))

    def multiply(self, vectors, rows):
        """H(w_o) times the vector of each fold in `rows`, (len(rows), D)."""
        out = self.whole.multiply(vectors, [self.folds[row] for row in rows])
        for i, row in enumerate(rows):
            for curvature in self.own[row]:
                out[i] -= curvature.complete(vectors[i : i + 1])[0]
        return out

    def precondition(self, vectors, rows):
        """The inverse complete-data blocks of each fold times its vector, (len(rows), D)."""
        out = _apply_blocks(self.inverses, vectors)
        for i, row in enumerate(rows):
            for places, inverse in self.changed[row]:
                out[i, places] = vectors[i, places] @ inverse
        return out


class SeparateProducts:
    """Folds at params of their own, or with time steps left out: a `Curvature` each."""

    def __init__(self, posteriors, is_rough=False):
        self.posteriors, self.is_rough = posteriors, is_rough

    @cached_property
    def rough(self):
        """The same, cheaper and less accurate; None if these are."""
        return None if self.is_rough else SeparateProducts(self.posteriors, True)

    @cached_property
    def curvatures(self):
        return [Curvature(posterior, self.is_rough) for posterior in self.posteriors]

    @cached_property
    def factors(self):
        """Of the blocks: for the one vector of a fold they take an eighth of the time of inverses."""
        return [
            [
                (places, [cho_factor(b, lower=True) for b in blocks])
                for places, blocks in c.information()
            ]
            for c in self.curvatures
        ]

    @cached_property
    def inverses(self):
        """Of the blocks: for many vectors at one point."""
        return [
            [(places, np.linalg.inv(blocks)) for places, blocks in c.information()]
            for c in self.curvatures
        ]

    def evaluate(self):
        """(F (n_folds,), dF/dparams (n_folds, D))."""
        return np.array([p.value() for p in self.posteriors]), np.array(
            [p.gradient() for p in self.posteriors]
        )

    def multiply(self, vectors, rows):
        """As in `SharedProducts`."""
        return _by_row(lambda row, part: self.curvatures[row].multiply(part), vectors, rows)

    def precondition(self, vectors, rows):
        """As in `SharedProducts`."""
        return _by_row(self._precondition, vectors, rows)

    def _precondition(self, row, part):
        if len(part) >= MANY:
            return _apply_blocks(self.inverses[row], part)
        return _solve_blocks(self.factors[row], part)


def _by_row(function, vectors, rows):
    """function(row, its vectors) for each distinct row, put back in order."""
    if rows.size and (rows == rows[0]).all():
        return function(rows[0], vectors)
    out = np.empty_like(vectors)
    for row in np.unique(rows):
        own = rows == row
        out[own] = function(row, vectors[own])
    return out


def _apply_blocks(inverses, vectors):
    """Products of (places, inverse blocks) with vectors (B, D); all entries are in some block."""
    return _block_by_block(inverses, vectors, lambda own, blocks: own @ blocks)


def _solve_blocks(factors, vectors):
    """The same of (places, Cholesky factors of the blocks)."""

    def solve(own, blocks):
        return np.array(
            [cho_solve(block, part.T).T for block, part in zip(blocks, own, strict=True)]
        )

    return _block_by_block(factors, vectors, solve)


def _block_by_block(parts, vectors, function):
    """function(a block's vectors (G, n, d), blocks) for each of `parts`, put together."""
    out = np.empty_like(vectors)
    for places, blocks in parts:
        own = _take(vectors, places).swapaxes(0, 1)
        moved = function(own.reshape(len(places), -1, places.shape[2]), blocks).reshape(own.shape)
        if _consecutive(places):
            _take(out, places)[...] = moved.swapaxes(0, 1)
        else:
            out[:, places] = moved.swapaxes(0, 1)
    return out


def _consecutive(places):
    return (np.diff(places.ravel()) == 1).all()


def _take(vectors, places):
    """vectors[:, places]; a view where places are consecutive, as those of most models are."""
    if not _consecutive(places):
        return vectors[:, places]
    return vectors[:, places.flat[0] : places.flat[0] + places.size].reshape(
        len(vectors), *places.shape
    )
