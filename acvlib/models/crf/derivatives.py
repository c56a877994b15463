"""Derivatives of chain CRFs by sums over label sequences; tested against enumeration.

F(theta, w_o) = F(theta, 1) - own(theta, o), a sum over the sentences n that the fold touches:

    own = sum_n s_n (log sum exp(scores of all that agrees with the known) - score of the labels)

With sentences as sites F is linear in their weights, and own is s_n (-log p(z_n | x_n)). With
labels of tokens as sites, known with weight 1 and summed out with weight 0, F is that of all
sentences, and own is -log p(hidden labels | x, all others).
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...derivatives import Derivatives
from ...folds import Folds
from ...parallel import in_blas_threads
from ...solvers.inverse import DenseFolds, DenseHessian, FoldSolver, Solvable
from ...weighting import check, hide_labels
from .blocks import Blocks
from .tokens import Paths, portions, starts_of

PIECE = 4000  # tokens that one thread takes at a time: their messages stay in its cache
SPREAD = 300.0  # nats between scores of a token, or params of a kind: products of two stay in range


class TaggingDerivatives(Derivatives):
    """Of any `Tagging`, but for Hessians and fast sums, which are those of `LinearChainCRF`."""

    hessians_first = True
    chord_rate = 0.5

    _together = 64  # sites of folds whose own terms one thread takes at a time

    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        pull = self.model.ridge * params
        coefficients, hidden = self._weighted(weights)
        value, gradient = self._whole(params, coefficients)
        if hidden:
            own, gradients = self._own_sums(params, *hidden)
            value -= own[0]
            gradient = gradient - gradients[0]
        return float(value + 0.5 * params @ pull), gradient + pull

    def _weighted(self, weights):
        """(the weight in F of each sentence as a whole, (folds, their weights) that come off)."""
        check(weights, self.n_sites)
        s = self.model.sample_weight
        if not self.model.scheme:
            return s * weights, ()
        omitted = np.flatnonzero(weights != 1.0)
        return s, (Folds([omitted]), weights[omitted]) if omitted.size else ()

    @cached_property
    def _blocks(self):
        return Blocks(self.model.tokens)

    def _whole(self, params, coefficients):
        """sum_n coefficients_n (-log p(z_n | x_n)) and its gradient (D,)."""
        parts = self.model.unpack(params)
        if max(np.ptp(part) for part in parts) > SPREAD:
            return self._one_by_one(params, coefficients)
        return self._blocks.sums(*parts, coefficients)

    def _one_by_one(self, params, coefficients):
        paths = self._paths(params, self.model.tokens)
        return coefficients @ paths.values, paths.gradient(coefficients)[self.model.free]

    def _paths(self, params, tokens):
        return Paths(tokens, self.model._parts(params))

    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        """Indefinite where what is hidden is more uncertain than everything."""
        coefficients, hidden = self._weighted(weights)

        def of_piece(rows: Any):
            sentences = np.arange(rows.start, rows.stop)
            paths = self._paths(params, self.model.tokens.take(sentences))
            return paths.covariances(coefficients[rows], np.array([0, len(sentences)]))[0]

        matrix = sum(in_blas_threads(of_piece, portions(self.model.tokens.lengths, PIECE)))
        matrix += np.diag(np.broadcast_to(self.model.ridge, len(params)))
        return DenseHessian(
            matrix - self._own_covariances(params, *hidden)[0] if hidden else matrix
        )

    # folds

    def _touched(self, folds, known=0.0):
        """The sentences that folds touch, and their weights (N,); omitted labels weigh `known`.

        Then the bounds of the folds: of fold o those are bounds[o] ... bounds[o + 1] - 1; and the
        rows of the omitted sites.
        """
        tokens = self.model.tokens
        omitted = folds.omitted.sites
        if not self.model.scheme:
            s = self.model.sample_weight[omitted]
            return tokens.take(omitted), s, starts_of(folds.sizes), None
        n_sentences = len(tokens.lengths)
        first = n_sentences * np.repeat(np.arange(len(folds)), folds.sizes)
        pairs, place = np.unique(first + tokens.sentence_of[omitted], return_inverse=True)
        fold, sentence = np.divmod(pairs, n_sentences)
        touched = tokens.take(sentence)
        rows = touched.starts[place] + omitted - tokens.starts[sentence[place]]
        label = np.ones(len(touched))
        label[rows] = known
        with np.errstate(divide="ignore"):
            touched.offset += np.log(hide_labels(label, touched.tags, tokens.n_labels))
        bounds = np.searchsorted(fold, np.arange(len(folds) + 1))
        return touched, self.model.sample_weight[sentence], bounds, rows

    def _by_portions(self, function: Callable, folds: Folds) -> np.ndarray:
        """function(rows) of slices of all folds, on threads, put together."""
        return np.concatenate(in_blas_threads(function, portions(folds.sizes, self._together)))

    def _own_sums(self, params, folds, known=0.0):
        """(own (n_folds,), its gradients (n_folds, D)) at params (D,)."""

        def of_portion(rows: Any):
            tokens, s, bounds, _ = self._touched(folds[rows], known)
            paths = self._paths(params, tokens)
            values = np.add.reduceat(s * paths.values, bounds[:-1])
            return np.column_stack([values, paths.gradients(s, bounds)[:, self.model.free]])

        every = self._by_portions(of_portion, folds)
        return every[:, 0], every[:, 1:]

    def _own_covariances(self, params, folds, known=0.0):
        """sum_n s_n Cov(features) over the sentences that each fold touches, (n_folds, D, D)."""
        tokens, s, bounds, _ = self._touched(folds, known)
        return self._paths(params, tokens).covariances(s, bounds)

    def fold_gradients(
        self, params: np.ndarray, folds: Folds, values: bool = True
    ) -> tuple[Any, np.ndarray]:
        """At one point, those of all sentences less the fold's own terms."""
        if params.ndim == 2 or len(folds) == 1:
            return super().fold_gradients(params, folds, values)
        value, gradient = self.value_and_gradient(params, np.ones(self.n_sites))
        own_values, own_gradients = self._own_sums(params, folds)
        return value - own_values, gradient - own_gradients

    def fold_hessians(
        self,
        params: np.ndarray,
        folds: Folds,
        damping: float = 0.0,
        whole: Solvable | None = None,
    ) -> FoldSolver:
        """At one point, H less that of the fold's own terms."""
        if params.ndim == 2 or len(folds) == 1:
            return super().fold_hessians(params, folds, damping, whole)
        whole = self.hessian(params, np.ones(self.n_sites)) if whole is None else whole
        own = self._by_portions(lambda rows: self._own_covariances(params, folds[rows]), folds)
        return DenseFolds(np.asarray(whole.damped(damping)) - own)

    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """Minus the gradient of own; a label's part is d(-log p) / p, p its probability."""
        if not self.model.scheme:
            return -self._own_sums(params, folds)[1]

        def of_portion(rows: Any):
            part = folds[rows]
            tokens, s, _, _ = self._touched(Folds(part.omitted.sites[:, None]))
            paths = self._paths(params, tokens)
            coefficients = s * np.exp(paths.values)
            return paths.gradients(coefficients, starts_of(part.sizes))[:, self.model.free]

        return -self._by_portions(of_portion, folds)

    def cross_matrix(self, params: np.ndarray, weights: np.ndarray) -> np.ndarray:
        if self.model.scheme and (weights != 1.0).any():
            raise ValueError("the J of hidden labels is had at weights 1, where all are known")
        return -self.cross(params, Folds(np.arange(self.n_sites)[:, None])).T

    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray] | np.ndarray:
        """-log p(z_n | x_n), or -log p(z_t | x, labels outside the fold)."""
        if params.ndim == 2:
            return super().heldout(params, folds)

        def of_portion(rows: Any):
            tokens, _, _, sites = self._touched(folds[rows])
            paths = self._paths(params, tokens)
            if sites is None:
                return paths.values
            with np.errstate(divide="ignore"):  # below 1e-308 a probability is 0, its loss infinite
                return -np.log(paths.smoothed.gamma[sites, tokens.tags[sites]])

        losses = self._by_portions(of_portion, folds)
        return folds.pick(np.split(losses, np.cumsum(folds.sizes)[:-1]))

    def prior_gradients(self, params: np.ndarray) -> np.ndarray:
        return self.model.ridge * params
