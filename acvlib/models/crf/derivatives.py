"""Derivatives of a `LinearChainCRF` by sums over tag sequences; tested against autograd.

F(theta, w_o) = F(theta, 1) - own(theta, o), a sum over the sentences that the fold touches:

    own = sum_n log sum exp(scores of all that agrees with what is known) - score of the labels
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ...derivatives import Derivatives
from ...folds import Folds
from ...inference.smoothing import factors
from ...parallel import in_blas_threads
from ...protocol import override
from ...solvers.inverse import DenseFolds, DenseHessian, FoldSolver, Solvable
from ...weighting import hide_labels
from .chains import Chains, portions, starts_of

TOGETHER = 64  # sites of folds whose own terms one thread takes at a time


class OwnChains(NamedTuple):
    """The chains in folds' own terms: of fold o those numbered bounds[o] ... bounds[o + 1] - 1.

    sentence (N,): which one each chain is; labels: where sites are tokens, the row among the
    chains' tokens and the tag of each omitted site.
    """

    chains: Chains
    sentence: np.ndarray
    bounds: np.ndarray
    labels: tuple = ()


class CRFDerivatives(Derivatives):
    """With sentences as sites: F is linear in their weights, and own is -log p(z_n | x_n)."""

    hessians_first = True
    chord_rate = 0.5  # a Hessian costs as much as thirty gradients

    def __init__(self, model):
        super().__init__(model)
        tags = model.tags
        emitted = model.scores[np.arange(len(tags)), tags]
        self._emitted = np.add.reduceat(emitted, model.starts[:-1])
        self._features = label_features(model)
        self._chains = Chains(factors(model.scores), model.starts)

    # one weighting

    @override
    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        value, gradient = self._likelihood(params, weights)
        ridge = self.model.ridge * params
        return float(value + 0.5 * ridge @ params), gradient + ridge

    def _likelihood(self, params, weights):
        """sum_n weights_n (-log p(z_n | x_n)) and its gradient (D,)."""
        log_z, expected = self._chains.sums(params, weights)
        observed = weights @ self._features
        score = observed @ params + weights @ self._emitted
        return log_z - score, expected - observed

    @override
    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        ridge = self.model.ridge * np.eye(len(params))
        return DenseHessian(self._curvature(params, weights) + ridge)

    def _curvature(self, params, weights):
        return self._chains.covariance(params, weights)

    # folds

    @override
    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        _, gradients = self._own_sums(params, folds)
        return -gradients

    @override
    def fold_gradients(
        self, params: np.ndarray, folds: Folds, values: bool = True
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """At one point, those of all sentences less the fold's own terms."""
        if params.ndim == 2 or len(folds) == 1:
            return super().fold_gradients(params, folds)
        value, gradient = self.value_and_gradient(params, np.ones(self.n_sites))
        own_values, own_gradients = self._own_sums(params, folds)
        return value - own_values, gradient - own_gradients

    @override
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

        def covariances(own):
            return own.chains.covariances(params, np.ones(len(own.sentence)), own.bounds)

        own = self._by_portions(covariances, folds)
        return DenseFolds(np.asarray(whole.damped(damping)) - np.concatenate(own))

    @override
    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray] | np.ndarray:
        points = np.broadcast_to(params, (len(folds), params.shape[-1]))

        def of_fold(number):
            own = self._own_chains(Folds([folds[number]]))
            return self._heldout(points[number], own)

        return folds.pick(in_blas_threads(of_fold, range(len(folds))))

    def _heldout(self, params, own):
        """-log p(z_n | x_n) of a fold's sentences."""
        losses, _ = self._own_terms(params, own)
        return losses

    def _own_sums(self, params, folds):
        """(own (n_folds,), its gradients (n_folds, D)) at params (D,)."""
        parts = self._by_portions(lambda own: self._summed(params, own), folds)
        values, gradients = zip(*parts, strict=True)
        return np.concatenate(values), np.concatenate(gradients)

    def _summed(self, params, own):
        terms = self._own_terms(params, own)
        return tuple(np.add.reduceat(each, own.bounds[:-1]) for each in terms)

    def _own_terms(self, params, own):
        """(log Z less the score of the labels (N,), its gradient (N, D)) of each chain."""
        log_z, expected = own.chains.each(params)
        observed = self._features[own.sentence].toarray()
        score = observed @ params + self._emitted[own.sentence]
        return log_z - score, expected - observed

    def _by_portions(self, function: Callable, folds: Folds) -> list:
        """[function(own chains of some folds) for portions of the folds], on threads."""

        def of_portion(rows):
            return function(self._own_chains(folds[rows]))

        return in_blas_threads(of_portion, portions(folds.sizes, TOGETHER))

    def _own_chains(self, folds):
        sentence = np.concatenate(list(folds))
        return OwnChains(self._chains.take(sentence), sentence, starts_of(folds.sizes))


class TokenDerivatives(CRFDerivatives):
    """With labels of tokens as sites, known with weight 1 and summed out with weight 0.

    F is that of all sentences, and own is -log p(hidden labels | x, all others).
    """

    def _likelihood(self, params, weights):
        """-log p(known labels) and its gradient (D,)."""
        value, gradient = super()._likelihood(params, np.ones(len(self._chains)))
        if weights.min() == 1.0:
            return value, gradient
        values, gradients = self._summed(params, self._hidden(weights))
        return value - values[0], gradient - gradients[0]

    def _curvature(self, params, weights):
        """Indefinite where what is hidden is more uncertain than everything."""
        total = super()._curvature(params, np.ones(len(self._chains)))
        if weights.min() == 1.0:
            return total
        hidden = self._hidden(weights).chains
        return total - hidden.covariance(params, np.ones(len(hidden)))

    def _hidden(self, weights):
        """The own chains of one weighting."""
        return self._own_chains(Folds([np.flatnonzero(weights < 1.0)]), weights)

    def _own_chains(self, folds, weights=None):
        """Each sentence that a fold touches, its labels hidden, or known with weights."""
        chains = self._chains
        tokens = np.concatenate(list(folds))
        touched = self.model.sentence_of[tokens]
        fold = np.repeat(np.arange(len(folds)), folds.sizes)
        pairs, chain = np.unique(fold * len(chains) + touched, return_inverse=True)
        fold, sentence = np.divmod(pairs, len(chains))
        begins = starts_of(chains.lengths[sentence])
        rows = begins[chain] + tokens - chains.starts[touched]
        tags = self.model.tags[chains.tokens(sentence)]
        known = np.ones(len(tags))
        known[rows] = 0.0 if weights is None else weights[tokens]
        clamped = chains.take(sentence, hide_labels(known, tags, chains.n_tags))
        bounds = np.searchsorted(fold, np.arange(len(folds) + 1))
        return OwnChains(clamped, sentence, bounds, (rows, tags[rows]))

    def _heldout(self, params, own):
        """-log p(z_t | x, labels outside the fold) of a fold's tokens."""
        return -np.log(own.chains.smooth(params).gamma[own.labels])

    @override
    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """An omitted site's part is d(-log p) / p, p the probability of its label."""
        tokens = np.concatenate(list(folds))
        surprises, gradients = self._own_sums(params, Folds(tokens[:, None]))
        parts = np.exp(surprises)[:, None] * gradients
        return -np.add.reduceat(parts, starts_of(folds.sizes)[:-1])


def label_features(model):
    """Count first tag, transitions and last tag of each labelled sentence, (N, D), sparse."""
    tags = model.tags
    k = model.n_tags
    n = len(model.labels)
    every = np.arange(n)
    first = tags[model.starts[:-1]]
    last = tags[model.starts[1:] - 1]
    inside = np.flatnonzero(np.diff(model.sentence_of) == 0)  # tokens that are not the last
    links = k * tags[inside] + tags[inside + 1]
    rows = np.concatenate([every, model.sentence_of[inside], every])
    columns = np.concatenate([first, k + links, k + k**2 + last])
    return csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, 2 * k + k**2))
