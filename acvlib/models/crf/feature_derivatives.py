"""Derivatives of a `FeatureCRF` by sums over label sequences, its Hessian by products alone.

F(theta, w_o) = F(theta, 1) - own(theta, o), as in `derivatives`; own is that of `Paths`.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ...derivatives import Derivatives, at
from ...folds import WHOLE, Folds
from ...protocol import FoldProducts, override
from ...solvers.inverse import Solvable
from ...solvers.operators import HessianOperator
from ...weighting import check, hide_labels
from .paths import Paths
from .preconditioner import Preconditioner


class FeatureDerivatives(Derivatives):
    """With sentences as sites: F is linear in their weights, and own is -log p(z_n | x_n)."""

    matrix_free = True

    def __init__(self, model, preconditioner=None):
        super().__init__(model)
        self._preconditioner = preconditioner

    @override
    def anchored(self, params: np.ndarray) -> "FeatureDerivatives":
        """With the preconditioner of these params, which takes the time of many products."""
        return type(self)(self.model, self.products(params, WHOLE).preconditioners[0])

    @override
    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        check(weights, self.n_sites)
        whole = Paths(self.model.tokens, self.model.unpack(params))
        return self._penalised(params, weights @ whole.values, whole.gradient(weights))

    def _penalised(self, params, value, parts):
        ridge = self.model.ridge * params
        return float(value + 0.5 * ridge @ params), self.model.restrict(parts) + ridge

    @override
    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        if (np.asarray(weights) != 1.0).any():
            raise ValueError("the Hessian of a FeatureCRF is had at weights 1, or of folds")
        return _Convex(self.products(params[None], WHOLE), len(params))

    # folds

    @override
    def fold_gradients(
        self, params: np.ndarray, folds: Folds, values: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """Those of all sentences less the fold's own terms."""
        if params.ndim == 1:
            return self.products(params, folds).evaluate()
        rows = range(len(folds))
        pairs = [self.products(params[i : i + 1], folds[[i]]).evaluate() for i in rows]
        found, gradients = zip(*pairs, strict=True)
        return np.concatenate(found), np.concatenate(gradients)

    @override
    def products(self, params: np.ndarray, folds: Folds) -> FoldProducts:
        return FeatureProducts(self, params, folds)

    @override
    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        parts = self.model.unpack(params)
        return -np.array([self.model.restrict(self._slope(parts, fold)) for fold in folds])

    def _slope(self, parts, fold):
        """d own / dw at weights 1, as parts."""
        own = self._own(parts, fold)
        return own.gradient(np.ones(len(fold)))

    @override
    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray] | np.ndarray:
        losses = []
        parts = self.model.unpack(params) if params.ndim == 1 else None
        for i, fold in enumerate(folds):
            own = parts or self.model.unpack(at(params, i))
            losses.append(self._losses(own, fold))
        return folds.pick(losses)

    @override
    def heldout_gradients(self, params: np.ndarray, folds: Folds) -> np.ndarray | None:
        pairs = zip(params, folds.scored, strict=True)
        slopes = [self._slope(self.model.unpack(own), fold) for own, fold in pairs]
        return np.array([self.model.restrict(parts) for parts in slopes])

    @override
    def prior_gradients(self, params: np.ndarray) -> np.ndarray:
        return self.model.ridge * params

    def _losses(self, parts, fold):
        return self._own(parts, fold).values

    def _own(self, parts, fold):
        """The `Paths` of the fold's own terms."""
        return Paths(self.model.tokens.take(fold), parts)


class HiddenLabelDerivatives(FeatureDerivatives):
    """With labels of tokens as sites, known with weight 1 and summed out with weight 0.

    F is that of all sentences, and own is -log p(hidden labels | x, all others).
    """

    @override
    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        check(weights, self.n_sites)
        parts = self.model.unpack(params)
        whole = Paths(self.model.tokens, parts)
        value = whole.values.sum()
        states, moves = whole.gradient(np.ones(len(whole.values)))
        hidden = np.flatnonzero(weights != 1.0)
        if hidden.size:
            own = self._own(parts, hidden, weights[hidden])
            value -= own.values.sum()
            own_states, own_moves = own.gradient(np.ones(len(own.values)))
            states -= own_states
            moves -= own_moves
        return self._penalised(params, value, (states, moves))

    @override
    def heldout_gradients(self, params: np.ndarray, folds: Folds) -> np.ndarray | None:
        """None: a fold's losses share its hidden labels."""
        return None

    def _own(self, parts, fold, weights=0.0):
        """Each sentence that the fold touches, its labels hidden, or known with weights."""
        tokens, known, _ = self._hidden(fold, weights)
        return Paths(tokens, parts, known)

    def _hidden(self, fold, weights=0.0):
        """(the tokens of each sentence touched, factors of their labels, the rows of the fold)."""
        whole = self.model.tokens
        sentences, place = np.unique(self.model.sentence_of[fold], return_inverse=True)
        tokens = whole.take(sentences)
        rows = tokens.starts[place] + fold - whole.starts[sentences[place]]
        label = np.ones(len(tokens.tags))
        label[rows] = weights
        return tokens, hide_labels(label, tokens.tags, len(self.model.classes)), rows

    def _losses(self, parts, fold):
        """-log p(z_t | x, labels outside the fold) of the fold's tokens."""
        tokens, known, rows = self._hidden(fold)
        gamma = Paths(tokens, parts, known).smoothed.gamma
        return -np.log(gamma[rows, tokens.tags[rows]])

    def _slope(self, parts, fold):
        """A label's part is d(-log p) / p, p its probability given all others."""
        whole = self.model.tokens
        sentences = self.model.sentence_of[fold]
        tokens = whole.take(sentences)
        label = np.ones(len(tokens.tags))
        label[tokens.starts[:-1] + fold - whole.starts[sentences]] = 0.0
        alone = Paths(tokens, parts, hide_labels(label, tokens.tags, len(self.model.classes)))
        return alone.gradient(np.exp(alone.values))


class FeatureProducts:
    """`FoldProducts`: the Hessian of all sentences, less that of each fold's own terms.

    params (D,) for all folds, or a row for each.
    """

    rough: FoldProducts | None = None

    def __init__(self, derivatives, params, folds):
        self.model = derivatives.model
        self.anchor = derivatives._preconditioner
        self.params = np.atleast_2d(params)
        self.point = np.arange(len(folds)) if params.ndim == 2 else np.zeros(len(folds), int)
        parts = [self.model.unpack(point) for point in self.params]
        self.whole = [Paths(self.model.tokens, part) for part in parts]
        self.own = [
            derivatives._own(parts[i], fold) if len(fold) else None
            for i, fold in zip(self.point, folds, strict=True)
        ]

    def multiply(self, vectors, rows):
        out = np.empty_like(vectors)
        for i, row in enumerate(rows):
            parts = self.model.unpack(vectors[i])
            out[i] = self._of_both(row, lambda paths, ones, p=parts: paths.multiply(ones, p))
        return out + self.model.ridge * vectors

    def precondition(self, vectors, rows):
        if self.anchor:
            return self.anchor.solve(vectors)
        out = np.empty_like(vectors)
        for point in np.unique(self.point[rows]):
            here = self.point[rows] == point
            out[here] = self.preconditioners[point].solve(vectors[here])
        return out

    @cached_property
    def preconditioners(self):
        """That of each point."""
        found = []
        for paths in self.whole:
            diagonal = self.model.restrict(paths.variances(_ones(paths))) + self.model.ridge
            found.append(Preconditioner(self.model, paths, diagonal))
        return found

    def evaluate(self):
        """(F (n,), dF/dparams (n, D)) of the folds."""
        params = self.params[self.point]
        values = [paths.values.sum() for paths in self.whole]
        own = [paths.values.sum() if paths else 0.0 for paths in self.own]
        pull = self.model.ridge * params
        penalty = 0.5 * np.einsum("ni,ni->n", params, pull)
        sums = [self._of_both(row, Paths.gradient) for row in range(len(params))]
        return np.array(values)[self.point] - own + penalty, np.array(sums) + pull

    def _of_both(self, row, function):
        """function of all sentences less that of the fold's own terms, as a vector (D,)."""
        whole = self.whole[self.point[row]]
        found = self.model.restrict(function(whole, _ones(whole)))
        own = self.own[row]
        return found if own is None else found - self.model.restrict(function(own, _ones(own)))


def _ones(paths):
    return np.ones(len(paths.values))


class _Convex(HessianOperator):
    """The Hessian of a strictly convex F."""

    indefinite = False
