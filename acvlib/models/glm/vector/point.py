"""A model with several linear predictors at one point, and its single sites' Hessians there."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ....parallel import one_blas_thread, pieces
from ....solvers.inverse import FoldSolver, Solvable, absolute_solve, least_share
from ..folds import AroundOnePoint
from ..sums import ROWS, by_rows, row_sums


class Point:
    """Scores (K, n), and what follows from them, at params (D,)."""

    def __init__(self, model: Any, params: np.ndarray):
        self.model = model
        self.params = params.copy()

    @cached_property
    def scores(self) -> np.ndarray:
        """Q eta."""
        with one_blas_thread:
            return self.model.coefficients(self.params) @ self.model.design.T

    @cached_property
    def slope(self) -> np.ndarray:
        """(K, n) the losses' derivatives in the scores, times the sites' weights at w = 1."""
        return self.model.family.residual(self.scores, self.model.y) * self.model.full_weights

    @cached_property
    def curvature(self) -> np.ndarray:
        """(n, q, q) the losses' second derivatives in eta, times the same."""
        curvature = self.model.family.curvature(self.scores)
        return curvature * self.model.full_weights[:, None, None]

    def hessian(self, weights: np.ndarray) -> Any:
        """H at weights (n_sites,)."""
        model = self.model
        relative = model.balance.relative(weights)
        gram = model.family.gram(model.design, self.curvature * relative[:, None, None])
        return model.family.hessian(gram, model.prior)

    @cached_property
    def whole(self) -> Any:
        """H at weights 1."""
        return self.hessian(np.ones(self.model.n_sites))

    @cached_property
    def class_grams(self) -> list[np.ndarray]:
        """What each class adds to H at weights 1."""
        model = self.model
        members = [model.balance.classes == c for c in range(model.balance.n_classes)]
        return [model.family.gram(model.design[m], self.curvature[m]) for m in members]

    def mixed(self, factors: np.ndarray) -> Any:
        """H at weights 1 with the classes weighted by factors (C,)."""
        if len(factors) == 1:
            return self.whole
        gram = sum(factor * gram for factor, gram in zip(factors, self.class_grams, strict=True))
        return self.model.family.hessian(gram, self.model.prior)

    @cached_property
    def leverage(self) -> np.ndarray:
        """(I (x) x_n)' H^-1 (I (x) x_n) of each site."""
        return self.whole.leverages(self.model.design)

    @cached_property
    def spreads(self) -> np.ndarray:
        """How far scores of each site move apart, at most, by a standard error (n,)."""
        return self.model.family.spreads(self.leverage)

    @cached_property
    def reach(self) -> float:
        """The largest of `spreads`."""
        return self.spreads.max()

    def distances(self, moves: np.ndarray) -> np.ndarray:
        """How many standard errors long each of moves (n, D) is."""

        def squares(rows):
            return row_sums(moves[rows] @ self.whole, moves[rows])

        return np.sqrt(by_rows(squares, len(moves)))


class Vectors(NamedTuple):
    """The vectors rest_b + factor_n (x) x_n of single sites n, b = base_of[n]."""

    rest: np.ndarray  # (n_bases, D)
    factor: np.ndarray  # (n, q)


class SingleSites(AroundOnePoint):
    """base_b - curvature_n (x) x_n x_n' for single sites n: downdates of rank q of few inverses."""

    def __init__(
        self,
        point: Point,
        sites: np.ndarray,
        bases: Sequence[Any],
        base_of: np.ndarray,
        curvature: np.ndarray,
    ):
        self.point = point
        self.sites = sites
        self._bases = bases
        self._base_of = base_of
        self._curvature = curvature

    @property
    def indefinite(self) -> np.ndarray:
        """(n,) False: every loss is convex."""
        return np.zeros(len(self.sites), bool)

    @cached_property
    def _leverage(self):
        x = self.point.model.design[self.sites]
        if len(self._bases) == 1:
            return self._bases[0].leverages(x)
        first = self._bases[0].leverages(x[:1])
        out = np.empty((len(x), *first.shape[1:]))
        for number, base in enumerate(self._bases):
            own = self._base_of == number
            out[own] = base.leverages(x[own])
        return out

    def solve(self, vectors: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """H(w_n)^-1 times one vector a fold."""
        rows = np.arange(len(self.sites)) if rows is None else rows
        factor = np.zeros((len(rows), self.point.model.n_outputs))
        return self._solved(vectors, factor, rows)

    def step_from(self, params: np.ndarray, vectors: np.ndarray | Vectors) -> np.ndarray:
        """params - H(w_n)^-1 vectors; `Vectors` take half the time."""
        if not isinstance(vectors, Vectors):
            return super().step_from(params, vectors)
        rows = np.arange(len(self.sites))
        step = self._solved(vectors.rest, vectors.factor, rows)
        return np.subtract(params, step, out=step)

    def newton(
        self, params: np.ndarray, vectors: np.ndarray | Vectors
    ) -> tuple[np.ndarray, np.ndarray]:
        """With the `Vectors` written out."""
        dense = self._written_out(vectors) if isinstance(vectors, Vectors) else vectors
        ends = self.step_from(params, vectors)
        return ends, np.sqrt(np.maximum(row_sums(dense, params - ends), 0.0))

    def _written_out(self, vectors):
        x = self.point.model.design[self.sites]
        own = vectors.factor[:, :, None] * x[:, None, :]
        return vectors.rest[self._base_of] + own.reshape(len(x), -1)

    def lengths(self, moves: np.ndarray) -> np.ndarray:
        """At most those in the bases."""
        out = np.empty(len(moves))
        for number, base in enumerate(self._bases):
            own = np.flatnonzero(self._base_of == number)
            out[own] = np.sqrt(row_sums(moves[own] @ base, moves[own]))
        return out

    def least_shares(self, factor: np.ndarray) -> np.ndarray:
        """The base's share times what a site leaves of the base."""
        kept = self.point.model.family.kept(self._curvature, self._leverage)
        if len(self._bases) == 1:
            return kept
        shares = [least_share(factor, np.asarray(base)) for base in self._bases]
        return kept * np.array(shares)[self._base_of]

    def _solved(self, rest, factor, rows):
        """H(w_n)^-1 (rest + factor_n (x) x_n), rest a row a fold, or a base."""
        out = np.empty((len(rows), rest.shape[1]))
        of_bases = len(rest) != len(rows)
        for number, base in enumerate(self._bases):
            own = np.flatnonzero(self._base_of[rows] == number)
            shared = base.times_inverse(rest[number : number + 1]) if of_bases else None
            for part in pieces(len(own), ROWS):
                few = own[part]
                start = shared if of_bases else base.times_inverse(rest[few])
                out[few] = start + self._correction(base, start, factor[few], rows[few])
        return out

    def _correction(self, base, start, factor, rows):
        """base^-1 (c_n (x) x_n), c = factor + (I - C L)^-1 C (x' start + L factor)."""
        x = self.point.model.design[self.sites[rows]]
        leverage = self._leverage[rows]
        blocks = start.reshape(len(start), -1, x.shape[1])
        along = np.einsum("nqd,nd->nq", np.broadcast_to(blocks, (len(x), *blocks.shape[1:])), x)
        family = self.point.model.family
        along += family.times(leverage, factor)
        length = factor + family.corrected(self._curvature[rows], leverage, along)
        return base.products_solved(length, x)


class OwnHessians(AroundOnePoint):
    """A `Solvable` a fold; all around one point, or, without it, around the folds' own."""

    def __init__(self, hessians: Sequence[Solvable], point: Point | None = None):
        self.point = point
        self._hessians = hessians

    @cached_property
    def indefinite(self) -> np.ndarray:
        """(n,) True where rounding left no curvature, as on the way to infinity."""
        return np.array([hessian.indefinite for hessian in self._hessians])

    def solve(self, vectors: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """H(w_o)^-1 times one vector a fold."""
        rows = np.arange(len(self._hessians)) if rows is None else rows
        pairs = zip(rows, vectors, strict=True)
        return np.array([self._hessians[row].solve(v) for row, v in pairs]).reshape(vectors.shape)

    @property
    def matrices(self) -> np.ndarray:
        """H(w_o) of each fold, (n, D, D)."""
        return np.array([np.asarray(hessian) for hessian in self._hessians])

    def lengths(self, moves: np.ndarray) -> np.ndarray:
        """sqrt(move' H(w_o) move)."""
        pairs = zip(moves, self._hessians, strict=True)
        return np.sqrt(np.array([max((move @ hessian) @ move, 0.0) for move, hessian in pairs]))

    def least_shares(self, factor: np.ndarray) -> np.ndarray:
        """The least eigenvalues of L^-1 H(w_o) L^-T."""
        return np.array([least_share(factor, np.asarray(each)) for each in self._hessians])

    def descend(self, vectors: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """`solve` by |H(w_o)|."""
        rows = np.arange(len(self._hessians)) if rows is None else rows
        out = np.empty_like(vectors)
        for place, row in enumerate(rows):
            hessian = self._hessians[row]
            if self.indefinite[row]:
                out[place] = absolute_solve(np.asarray(hessian), vectors[place])
            else:
                out[place] = hessian.solve(vectors[place])
        return out

    def contraction(
        self, before: np.ndarray, after: np.ndarray, rows: np.ndarray | None = None
    ) -> np.ndarray:
        """As around one point; inf without one."""
        if self.point is None:
            return FoldSolver.contraction(self, before, after, rows)
        return super().contraction(before, after, rows)
