"""Derivatives of a `FeatureCRF`: its Hessian as products with vectors, and an approximate inverse.

    H = ridge + sum_n Cov(features of sentence n),    P = B + U' U

Once a model is fitted, most tokens are all but certain, and few directions of each sentence are
not: between two sequences of labels that compete, there is one. U has the largest of all. Of the
others, B keeps products of frequent weights, and the squares alone of rare ones, which few
sentences share. Solving then takes tens of products with H in place of hundreds.
"""

from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array, diags_array, eye_array, hstack, kron

from ..derivatives import Derivatives
from ..folds import WHOLE, Folds
from ..inference.active_pairs import ActivePairs, active_pairs, covariances
from ..inference.smoothing import Smoothed
from ..models.crf.derivatives import TaggingDerivatives
from ..models.crf.tokens import Paths, joined, starts_of
from ..parallel import pieces
from ..solvers.inverse import HELD, Solvable
from ..solvers.krylov import HessianOperator

POSSIBLE = 1e-12  # the probability of a tag that counts in products
UNCERTAIN = 1e-3  # P (1 - P) of a tag, from which on it is looked at
SETTLED = 0.1  # sum of these over tags, per token, above which all tokens are uncertain
MOST = 1000  # directions in U
FREQUENT = 500  # weights whose products B has
SMALL = 1e-4  # entries of a direction that are left out


class FeatureDerivatives(TaggingDerivatives):
    """With Hessians as products with vectors."""

    matrix_free = True
    hessians_first = False
    fold_hessians = Derivatives.fold_hessians

    _together = 1
    _whole = TaggingDerivatives._one_by_one
    _preconditioner = None

    def anchored(self, params: np.ndarray) -> "FeatureDerivatives":
        """With the preconditioner of these params, which takes the time of many products."""
        anchored = type(self)(self.model)
        products: Any = self.products(params, WHOLE)
        anchored._preconditioner = products.preconditioners[0]
        return anchored

    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        if (np.asarray(weights) != 1.0).any():
            raise ValueError("the Hessian of a FeatureCRF is had at weights 1, or of folds")
        return _Convex(self.products(params[None], WHOLE), len(params))

    def products(self, params: np.ndarray, folds: Folds) -> Any:
        return FeatureProducts(self, params, folds)


class _Convex(HessianOperator):
    """The Hessian of a strictly convex F."""

    indefinite = False


class FeatureProducts:
    """Products: the Hessian of all sentences, less that of each fold's own terms.

    params (D,) for all folds, or a row for each.
    """

    rough: Any = None

    def __init__(self, derivatives: FeatureDerivatives, params: np.ndarray, folds: Folds):
        self.model = derivatives.model
        self.anchor = derivatives._preconditioner
        self.params = np.atleast_2d(params)
        self.point = np.arange(len(folds)) if params.ndim == 2 else np.zeros(len(folds), int)
        self.whole = [derivatives._paths(point, self.model.tokens) for point in self.params]
        self.terms = []  # of each fold: all sentences, and its own ones less
        every = [_Term(paths, self.model.sample_weight) for paths in self.whole]
        for row, point in enumerate(self.point):
            terms = [every[point]]
            if len(folds[row]):
                tokens, weights, *_ = derivatives._touched(folds[[row]])
                terms.append(_Term(derivatives._paths(self.params[point], tokens), -weights))
            self.terms.append(terms)

    def multiply(self, vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
        out = self.model.ridge * vectors
        together: dict = {}  # the vectors of each term
        for i, row in enumerate(rows):
            for term in self.terms[row]:
                together.setdefault(term, []).append(i)
        for term, numbers in together.items():
            for part in pieces(len(numbers), max(1, HELD // term.paths.smoothed.gamma.size)):
                out[numbers[part]] += term.multiply(self.model, vectors[numbers[part]])
        return out

    def precondition(self, vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
        if self.anchor:
            return self.anchor.solve(vectors)
        out = np.empty_like(vectors)
        for point in np.unique(self.point[rows]):
            here = self.point[rows] == point
            out[here] = self.preconditioners[point].solve(vectors[here])
        return out

    @cached_property
    def preconditioners(self) -> list["Preconditioner"]:
        """That of each point."""
        return [Preconditioner(self.model, paths) for paths in self.whole]

    def evaluate(self) -> tuple[np.ndarray, np.ndarray]:
        """(F (n,), dF/dparams (n, D)) of the folds."""
        params = self.params[self.point]
        gradients = self.model.ridge * params
        values = 0.5 * np.einsum("ni,ni->n", params, gradients)
        for row, terms in enumerate(self.terms):
            for term in terms:
                values[row] += term.weights @ term.paths.values
                gradients[row] += term.paths.gradient(term.weights)[self.model.free]
        return values, gradients


class _Term:
    """A sum over sentences: their `Paths`, and the weight (N,) of each."""

    def __init__(self, paths: Paths, weights: np.ndarray) -> None:
        self.paths = paths
        self.weights = weights

    @cached_property
    def pairs(self) -> ActivePairs:
        """What is possible, of tokens and labels."""
        return active_pairs(self.paths.smoothed, self.paths.tokens.starts, POSSIBLE)

    def multiply(self, model: Any, vectors: np.ndarray) -> np.ndarray:
        """sum_n weights_n Cov(features) times each row of vectors (B, D)."""
        tokens = self.paths.tokens
        parts = [model._parts(vector) for vector in vectors]
        tau = np.stack([part.transitions for part in parts], axis=-1)
        field = tokens.matrix @ np.hstack([part.states for part in parts])
        field = field.reshape(len(tokens), len(parts), -1)
        cells = self.pairs.frame, slice(None), self.pairs.state
        weights = np.repeat(self.weights[:, None], len(parts), axis=1)
        moved, moves = covariances(self.pairs, np.ascontiguousarray(field[cells]), tau, weights)
        field[:] = 0.0
        field[cells] = moved
        states = tokens.matrix.T @ field.reshape(len(tokens), -1)
        states = states.reshape(-1, *field.shape[1:])
        products = [joined(states[:, b], moves[..., b]) for b in range(len(parts))]
        return np.array(products)[:, model.free]


class Preconditioner:
    """P^-1 at some `Paths` of all sentences of a model."""

    def __init__(self, model: Any, paths: Paths):
        smoothed = paths.smoothed
        variance = smoothed.gamma * (1.0 - smoothed.gamma)
        uncertain = variance > UNCERTAIN
        unsettled = variance.sum() > SETTLED * len(variance) or smoothed.pairs is not None
        self.directions = None
        s = model.sample_weight[paths.tokens.sentence_of]
        squared = paths.tokens.matrix.power(2).T
        if unsettled or not uncertain.any():
            every = joined(squared @ (s[:, None] * variance), _variances(smoothed, s))
            self.diagonal = model.ridge + every[model.free]
            return
        directions = _directions(model, paths, uncertain)
        self.directions = directions[:MOST]
        others = directions[MOST:]
        certain = squared @ np.where(uncertain, 0.0, s[:, None] * variance)
        certain = joined(certain, np.zeros_like(smoothed.transition))[model.free]
        self.diagonal = model.ridge + others.power(2).sum(axis=0) + certain
        self.frequent = np.sort(np.argsort(self.diagonal)[-FREQUENT:])
        few = others[:, self.frequent].toarray()
        block = few.T @ few
        np.fill_diagonal(block, self.diagonal[self.frequent])
        self.block = cho_factor(block)
        rare = 1.0 / self.diagonal
        rare[self.frequent] = 0.0
        met = ((self.directions @ diags_array(rare)) @ self.directions.T).toarray()
        few = self.directions[:, self.frequent].toarray()
        met += few @ cho_solve(self.block, few.T)
        self.factor = cho_factor(np.eye(len(met)) + met)

    def solve(self, vectors: np.ndarray) -> np.ndarray:
        """P^-1 times each row of vectors."""
        if self.directions is None:
            return vectors / self.diagonal
        first = self._solve_base(vectors)
        met = cho_solve(self.factor, self.directions @ first.T)
        return first - self._solve_base((self.directions.T @ met).T)

    def _solve_base(self, vectors):
        """B^-1 times each row of vectors."""
        out = vectors / self.diagonal
        out[:, self.frequent] = cho_solve(self.block, vectors[:, self.frequent].T).T
        return out


def _variances(smoothed, weights):
    """sum_t weights_t P (1 - P) of each move between labels, (K, K)."""
    moves = np.empty_like(smoothed.transition)
    for j, row in enumerate(smoothed.transition):
        if smoothed.pairs is None:
            pairs = smoothed.filtered[:-1, j, None] * row * smoothed.ahead[1:]
        else:
            pairs = smoothed.pairs[1:, j]
        moves[j] = weights[1:] @ (pairs * (1.0 - pairs))
    return moves


def _directions(model, paths, uncertain):
    """All directions (n, D) of all sentences, sparse, the largest first."""
    tokens = paths.tokens
    k = tokens.n_labels
    rows, tags = np.nonzero(uncertain)
    bounds = np.searchsorted(rows, tokens.starts)
    sizes = []
    cells = []  # of tokens and their tags, after these of two tags
    entries = []
    for n in np.flatnonzero(np.diff(bounds)):
        inside = slice(bounds[n], bounds[n + 1])
        begin, end = tokens.starts[n : n + 2]
        units = k * (rows[inside] - begin) + tags[inside]
        columns = model.sample_weight[n] * _responses(paths.smoothed, begin, end, units)
        values, vectors = np.linalg.eigh(columns[:, units])
        large = values > UNCERTAIN
        sizes.append(values[large])
        for direction in (vectors[:, large] / np.sqrt(values[large])).T @ columns:
            places = np.flatnonzero(abs(direction) > SMALL)
            is_link = places >= k * (end - begin)
            cells.append(places + k * np.where(is_link, len(tokens) - (end - begin), begin))
            entries.append(direction[places])
    ends = starts_of([len(each) for each in cells])
    shape = (len(cells), k * (len(tokens) + k))
    matrix = csr_array((np.concatenate(entries), np.concatenate(cells), ends), shape)
    matrix = matrix[np.argsort(-np.concatenate(sizes))]
    seen = np.unique(matrix.indices // k)
    seen = seen[seen < len(tokens)]
    of_tokens = (k * seen[:, None] + np.arange(k)).ravel()
    states = matrix[:, of_tokens] @ kron(tokens.matrix[seen], eye_array(k), "csr")
    return hstack([states, matrix[:, k * len(tokens) :]], "csr")[:, model.free]


def _responses(smoothed, begin, end, units):
    """How one sentence's posteriors move with the scores of some of its tokens' tags.

    (n_units, T K + K^2): covariances of a tag's presence with all features.
    """
    n = len(units)
    k = len(smoothed.transition)
    parts = [part[begin:end] for part in smoothed[1:4]]
    bounds = np.array([0, end - begin])
    pairs = active_pairs(Smoothed(smoothed.log_z, *parts, smoothed.transition), bounds, 0.0)
    places = k * pairs.frame + pairs.state
    unit = (places[:, None] == units).astype(float)
    responses = np.zeros((n, k * (end - begin) + k * k))
    moved, moves = covariances(pairs, unit, np.zeros((k, k, n)), np.ones((1, n)))
    responses[:, places] = moved.T
    responses[:, k * (end - begin) :] = moves.reshape(k * k, n).T
    return responses
