"""Derivatives of a `LinearChainCRF` by sums over tag sequences; tested against autograd.

F(theta, w_o) = F(theta, 1) - own(theta, o), a sum over the sentences that the fold touches:

    own = sum_n log sum exp(scores of all that agrees with what is known) - score of the labels
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from ...derivatives import Derivatives, at
from ...folds import Folds
from ...folds import weights as fold_weights
from ...inference.smoothing import factors
from ...parallel import in_blas_threads, in_threads
from ...protocol import override
from ...solvers.inverse import DenseFolds, DenseHessian, FoldSolver, Solvable
from ...weighting import hide_labels
from .chains import Chains, OwnChains, portions

TOGETHER = 64  # sites of folds whose own terms one thread takes at a time


class CRFDerivatives(Derivatives):
    """With sentences as sites: F is linear in their weights, and own is -log p(z_n | x_n)."""

    hessians_first = True
    chord_rate = 0.5  # a Hessian costs as much as thirty gradients

    def __init__(self, model):
        super().__init__(model)
        tags = model.tags
        emitted = model.scores[np.arange(len(tags)), tags]
        self._emitted = np.add.reduceat(emitted, model.starts[:-1])
        self._features = label_features(tags, model.starts, model.n_tags)
        self._chains = Chains(factors(model.scores), model.starts)

    # one weighting

    @override
    def value_and_gradient(
        self, params: np.ndarray, weights: np.ndarray
    ) -> tuple[float, np.ndarray]:
        return self._value_and_gradient(params, weights, in_blas_threads)

    def _value_and_gradient(self, params, weights, run):
        value, gradient = self._likelihood(params, weights, run)
        ridge = self.model.ridge * params
        return float(value + 0.5 * ridge @ params), gradient + ridge

    def _likelihood(self, params, weights, run):
        """sum_n weights_n (-log p(z_n | x_n)) and its gradient (D,)."""
        kept = np.flatnonzero(weights)
        if 2 * len(kept) > len(weights):
            log_z, expected = self._chains.many_sums(params, weights, run)
        else:
            log_z, expected = self._chains.take(kept).sums(params, weights[kept])
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
            return self._each_at_its_own(np.atleast_2d(params), folds)
        value, gradient = self.value_and_gradient(params, np.ones(self.n_sites))
        own_values, own_gradients = self._own_sums(params, folds)
        return value - own_values, gradient - own_gradients

    def _each_at_its_own(self, params, folds):
        """The same, a weighting for each fold; threads share folds, or the sentences of one."""
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
        own = self._in_portions(folds, lambda _, own: own.covariances(params))
        return DenseFolds(np.asarray(whole.damped(damping)) - np.concatenate(own))

    @override
    def heldout(self, params: np.ndarray, folds: Folds) -> Sequence[np.ndarray] | np.ndarray:
        parts = self._in_portions(folds, lambda rows, own: self._heldout(at(params, rows), own))
        losses = np.concatenate(parts)
        return folds.pick(np.split(losses, np.cumsum(folds.sizes)[:-1]))

    def _heldout(self, params, own):
        """-log p(z_n | x_n) of folds' sentences, end to end; params (D,) or (n_folds, D)."""
        log_z, _ = own.smooth(params)
        points = params if params.ndim == 1 else np.repeat(params, np.diff(own.bounds), axis=0)
        scores = (self._observed(own) * points).sum(axis=1)
        return log_z - scores - self._emitted[own.sentence]

    def _own_sums(self, params, folds):
        """(own (n_folds,), its gradients (n_folds, D)) at params (D,)."""
        parts = self._in_portions(folds, lambda _, own: self._sums_of(own, params))
        values, gradients = zip(*parts, strict=True)
        return np.concatenate(values), np.concatenate(gradients)

    def _sums_of(self, own, params):
        log_z, expected = own.chains.each(params)
        observed = self._observed(own)
        losses = log_z - observed @ params - self._emitted[own.sentence]
        firsts = own.bounds[:-1]
        return np.add.reduceat(losses, firsts), np.add.reduceat(expected - observed, firsts)

    def _observed(self, own):
        """The features of the labels of each chain, (N, D)."""
        return self._features[own.sentence].toarray()

    def _in_portions(self, folds, function):
        """[function(rows, own chains of folds[rows])] for slices of all folds, on threads."""

        def of_part(rows):
            return function(rows, self._own_chains(folds[rows]))

        return in_blas_threads(of_part, portions(folds.sizes, TOGETHER))

    def _own_chains(self, folds):
        sentence = np.concatenate(list(folds))
        bounds = np.concatenate([[0], np.cumsum(folds.sizes)])
        return OwnChains(self._chains.take(sentence), sentence, bounds)


class TokenDerivatives(CRFDerivatives):
    """With labels of tokens as sites, known with weight 1 and summed out with weight 0.

    F is that of all sentences, and own is -log p(hidden labels | x, all others).
    """

    def _likelihood(self, params, weights, run):
        """-log p(known labels) and its gradient (D,)."""
        value, gradient = super()._likelihood(params, np.ones(len(self._chains)), run)
        if weights.min() == 1.0:
            return value, gradient
        values, gradients = self._sums_of(self._hidden(weights), params)
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
        starts = chains.starts
        tokens = np.concatenate(list(folds))
        touched = np.searchsorted(starts, tokens, side="right") - 1
        pairs = np.repeat(np.arange(len(folds)), folds.sizes) * len(chains) + touched
        pairs, chain = np.unique(pairs, return_inverse=True)
        fold, sentence = np.divmod(pairs, len(chains))
        ends = np.cumsum(chains.lengths[sentence])
        rows = ends[chain] - starts[touched + 1] + tokens
        known = np.ones(ends[-1])
        known[rows] = 0.0 if weights is None else weights[tokens]
        tags = self.model.tags[chains.tokens(sentence)]
        clamped = chains.take(sentence, hide_labels(known, tags, chains.n_tags))
        bounds = np.searchsorted(fold, np.arange(len(folds) + 1))
        labels = (rows, self.model.tags[tokens])
        return OwnChains(clamped, sentence, bounds, labels)

    def _heldout(self, params, own):
        """-log p(z_t | x, labels outside the fold) of the folds' tokens, end to end."""
        _, gamma = own.smooth(params)
        return -np.log(gamma[own.labels])

    @override
    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """Each omitted site's part is sum_k exp(s(k) - s(z_t)) d(s(z_t) - s(k))/dparams.

        s(k): the score of the sentence with label k at t and all others as they are.
        """
        tokens = np.concatenate(list(folds))
        own = (np.arange(len(tokens)), self.model.tags[tokens])
        before, after = self._features_at(tokens)
        score = params[before] + params[after] + self.model.scores[tokens]
        ratio = np.exp(score - score[own][:, None])
        ratio[own] -= ratio.sum(axis=1)
        fold = np.repeat(np.arange(len(folds)), folds.sizes)[:, None]
        cross = np.zeros((len(folds), len(params)))
        np.subtract.at(cross, (fold, before), ratio)
        np.subtract.at(cross, (fold, after), ratio)
        return cross

    def _features_at(self, tokens):
        """Numbers of the two features of each label at each token, (n_tokens, K) each."""
        tags = self.model.tags
        k = self.model.n_tags
        labels = np.arange(k)
        first = np.isin(tokens, self.model.starts)[:, None]
        last = np.isin(tokens + 1, self.model.starts)[:, None]
        link_before = k + k * tags[tokens - 1][:, None] + labels
        link_after = k + k * labels + np.take(tags, tokens + 1, mode="wrap")[:, None]
        before = np.where(first, labels, link_before)
        after = np.where(last, k + k**2 + labels, link_after)
        return before, after


def label_features(tags, starts, n_tags):
    """Count first tag, transitions and last tag of each labelled sentence, (N, D), sparse."""
    links = n_tags + n_tags * np.roll(tags, 1) + tags
    links[starts[:-1]] = tags[starts[:-1]]  # no token before it: the first tag
    last = n_tags + n_tags**2 + tags[starts[1:] - 1]
    columns = np.insert(links, starts[1:], last)
    bounds = starts + np.arange(len(starts))
    shape = (len(starts) - 1, 2 * n_tags + n_tags**2)
    counts = csr_array((np.ones(len(columns)), columns, bounds), shape=shape)
    counts.sum_duplicates()
    return counts
