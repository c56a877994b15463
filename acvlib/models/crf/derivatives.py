"""Derivatives of a `LinearChainCRF` by sums over tag sequences; tested against autograd.

F(theta, w_o) = F(theta, 1) - own(theta, o), a sum over the sentences that the fold touches:

    own = sum_n log sum exp(scores of all that agrees with what is known) - score of the labels
"""

from collections.abc import Sequence
from functools import cached_property, partial

import numpy as np
from scipy.sparse import csr_array

from ...concordance import Concordance, NotConcordant
from ...derivatives import Derivatives, at
from ...folds import Folds
from ...folds import weights as fold_weights
from ...inference.smoothing import factors
from ...parallel import in_blas_threads, in_threads
from ...protocol import Fit, override
from ...solvers.inverse import DenseFolds, DenseHessian, FoldSolver, Solvable
from ...weighting import check, hide_labels
from .chains import Chains, OwnChains, portions, starts_of
from .concordance import CRFConcordance

TOGETHER = 64  # sites of folds whose own terms one thread takes at a time


class CRFDerivatives(Derivatives):
    """With sentences as sites: F is linear in their weights, and own is -log p(z_n | x_n)."""

    hessians_first = True
    chord_rate = 0.5  # a Hessian costs as much as thirty gradients

    def __init__(self, model):
        super().__init__(model)

    @cached_property
    def _emitted(self):
        """The score that each sentence's labels are given, (N,)."""
        tags = self.model.tags
        emitted = self.model.scores[np.arange(len(tags)), tags]
        return np.add.reduceat(emitted, self.model.starts[:-1])

    @cached_property
    def _features(self):
        return label_features(self.model)

    @cached_property
    def _chains(self):
        return Chains(factors(self.model.scores), self.model.starts)

    # one weighting

    @override
    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        return self._value_and_gradient(params, weights, in_blas_threads)

    def _value_and_gradient(self, params, weights, run):
        check(weights, self.n_sites)
        value, gradient = self._likelihood(params, weights, run)
        ridge = self.model.ridge * params
        return float(value + 0.5 * ridge @ params), gradient + ridge

    def _likelihood(self, params, weights, run):
        """sum_n weights_n (-log p(z_n | x_n)) and its gradient (D,)."""
        log_z, expected = self._chains.sums(params, weights, run)
        observed = weights @ self._features
        score = observed @ params + weights @ self._emitted
        return log_z - score, expected - observed

    @override
    def hessian(self, params: np.ndarray, weights: np.ndarray) -> Solvable:
        check(weights, self.n_sites)
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
            return self._each_at_its_own(np.atleast_2d(params), folds)
        value, gradient = self.value_and_gradient(params, np.ones(self.n_sites))
        own_values, own_gradients = self._own_sums(params, folds)
        return value - own_values, gradient - own_gradients

    def _each_at_its_own(self, params, folds):
        """A weighting for each fold; threads share the folds, or the sentences of a single one."""
        run = in_blas_threads if len(folds) == 1 else partial(in_threads, n_threads=1)

        def at_fold(pair):
            point, fold = pair
            return self._value_and_gradient(point, fold_weights(self.n_sites, fold), run)

        pairs = in_blas_threads(at_fold, list(zip(params, folds, strict=True)), "gradients")
        values, gradients = zip(*pairs, strict=True)
        return np.array(values), np.array(gradients)

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

        own = self._by_portions(lambda _, own: own.covariances(params), folds)
        return DenseFolds(np.asarray(whole.damped(damping)) - np.concatenate(own))

    @override
    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray] | np.ndarray:
        parts = self._by_portions(lambda rows, own: self._heldout(at(params, rows), own), folds)
        losses = np.concatenate(parts)
        return folds.pick(np.split(losses, np.cumsum(folds.sizes)[:-1]))

    def _heldout(self, params, own):
        """-log p(z_n | x_n) of folds' sentences, end to end; params (D,) or (n_folds, D)."""
        log_z, _ = own.smooth(params)
        points = params if params.ndim == 1 else np.repeat(params, np.diff(own.bounds), axis=0)
        score, _ = self._label_scores(points, own)
        return log_z - score

    @override
    def heldout_gradients(self, params: np.ndarray, folds: Folds) -> np.ndarray | None:
        losses = [self._each_loss(*own) for own in zip(params, folds.scored, strict=True)]
        return np.array([gradients.sum(axis=0) for _, gradients in losses])

    @override
    def prior_gradients(self, params: np.ndarray) -> np.ndarray:
        return self.model.ridge * params

    @override
    def concordance(self, fit: Fit) -> Concordance:
        """By the ranges of features over tag sequences."""
        return CRFConcordance(self, fit)

    def _each_loss(self, params, sentences):
        """(-log p(z_n | x_n) (N,), its gradients (N, D)) of sentences, at params (D,)."""
        log_z, expected = self._chains.take(sentences).each(params)
        observed = self._features[sentences].toarray()
        return log_z - observed @ params - self._emitted[sentences], expected - observed

    def _own_sums(self, params, folds):
        """(own (n_folds,), its gradients (n_folds, D)) at params (D,)."""
        parts = self._by_portions(lambda _, own: self._summed(params, own), folds)
        values, gradients = zip(*parts, strict=True)
        return np.concatenate(values), np.concatenate(gradients)

    def _summed(self, params, own):
        log_z, expected = own.chains.each(params)
        score, observed = self._label_scores(params, own)
        firsts = own.bounds[:-1]
        return np.add.reduceat(log_z - score, firsts), np.add.reduceat(expected - observed, firsts)

    def _label_scores(self, params, own):
        """(score of the labels (N,), their features (N, D)); params (D,) or a row for each."""
        observed = self._features[own.sentence].toarray()
        return (observed * params).sum(axis=1) + self._emitted[own.sentence], observed

    def _by_portions(self, function, folds):
        """[function(rows, own chains of folds[rows])] for slices of all folds, on threads."""

        def of_portion(rows):
            return function(rows, self._own_chains(folds[rows]))

        return in_blas_threads(of_portion, portions(folds.sizes, TOGETHER))

    def _own_chains(self, folds):
        sentence = np.concatenate(list(folds))
        return OwnChains(self._chains.take(sentence), sentence, starts_of(folds.sizes))


class TokenDerivatives(CRFDerivatives):
    """With labels of tokens as sites, known with weight 1 and summed out with weight 0.

    F is that of all sentences, and own is -log p(hidden labels | x, all others).
    """

    @override
    def concordance(self, fit: Fit) -> Concordance:
        """None is known: where labels are hidden F is not convex."""
        raise NotConcordant(
            "LinearChainCRF with scheme=hide_labels: its objective is not convex where labels are "
            "hidden. Use acv.check_result, which estimates, or acv.exact"
        )

    @override
    def heldout_gradients(self, params: np.ndarray, folds: Folds) -> np.ndarray | None:
        """None: a fold's losses share its hidden labels."""
        return None

    def _likelihood(self, params, weights, run):
        """-log p(known labels) and its gradient (D,)."""
        value, gradient = super()._likelihood(params, np.ones(len(self._chains)), run)
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
        """-log p(z_t | x, labels outside the fold) of the folds' tokens, end to end."""
        _, gamma = own.smooth(params)
        return -np.log(gamma[own.labels])

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
