"""Derivatives with the labels of tokens as sites, known with weight 1, summed out with weight 0.

A fold's own terms are minus the log-probability of its labels given all others.
"""

import numpy as np

from ...folds import Folds
from ...protocol import override
from ...weighting import hide_labels
from .chains import OwnChains
from .derivatives import CRFDerivatives


class TokenDerivatives(CRFDerivatives):
    """All sentences, less what the hidden labels add in the sentences that hold them."""

    def _likelihood(self, params, weights, run):
        """-log p(known labels) and its gradient (D,)."""
        value, gradient = super()._likelihood(params, np.ones(len(self._chains)), run)
        own = self._hidden(weights)
        if not len(own.chains):
            return value, gradient
        values, gradients = self._sums_of(own, params)
        return value - values[0], gradient - gradients[0]

    def _curvature(self, params, weights):
        """Indefinite where what is hidden is more uncertain than everything."""
        total = super()._curvature(params, np.ones(len(self._chains)))
        hidden = self._hidden(weights).chains
        if not len(hidden):
            return total
        return total - hidden.covariance(params, np.ones(len(hidden)))

    def _hidden(self, weights):
        """The sentences in which a weighting does not know every label for sure."""
        least = np.minimum.reduceat(weights, self.model.starts[:-1])
        sentence = np.flatnonzero(least < 1.0)
        known = weights[self._chains.tokens(sentence)]
        return OwnChains(self._clamped(sentence, known), sentence, np.array([0, len(sentence)]))

    def _clamped(self, sentence, known):
        """Chains of sentences whose labels are known with weights `known` (n_tokens,)."""
        tags = self.model.tags[self._chains.tokens(sentence)]
        return self._chains.take(sentence, hide_labels(known, tags, self.model.n_tags))

    def _own_chains(self, folds):
        """Each sentence that a fold touches, with its labels hidden."""
        starts = self.model.starts
        tokens = np.concatenate(list(folds))
        touched = np.searchsorted(starts, tokens, side="right") - 1
        pairs = fold_numbers(folds) * len(self._chains) + touched
        pairs, chain = np.unique(pairs, return_inverse=True)
        fold, sentence = np.divmod(pairs, len(self._chains))
        ends = np.cumsum(self._chains.lengths[sentence])
        rows = ends[chain] - starts[touched + 1] + tokens
        known = np.ones(ends[-1])
        known[rows] = 0.0
        bounds = np.searchsorted(fold, np.arange(len(folds) + 1))
        labels = (rows, self.model.tags[tokens])
        return OwnChains(self._clamped(sentence, known), sentence, bounds, labels)

    def _heldout(self, params, own):
        """-log p(z_t | x, labels outside the fold) of the folds' tokens, end to end."""
        _, gamma = own.smooth(params)
        return -np.log(gamma[own.labels])

    @override
    def cross(self, params: np.ndarray, folds: Folds) -> np.ndarray:
        """J (w_o - 1) of each fold, (n_folds, D).

        With s(k) the score of the sentence with label k at t and all others as they are, dF/dw_t is
        the sum of exp(s(k) - s(z_t)) over the other labels k.
        """
        tokens = np.concatenate(list(folds))
        own = (np.arange(len(tokens)), self.model.tags[tokens])
        before, after = self._features_at(tokens)
        score = params[before] + params[after] + self.model.scores[tokens]
        ratio = np.exp(score - score[own][:, None])
        ratio[own] -= ratio.sum(axis=1)
        fold = fold_numbers(folds)[:, None]
        cross = np.zeros((len(folds), len(params)))
        np.subtract.at(cross, (fold, before), ratio)
        np.subtract.at(cross, (fold, after), ratio)
        return cross

    def _features_at(self, tokens):
        """Numbers of the two features of each label at each token, (n_tokens, K) each."""
        tags = self.model.tags
        starts = self.model.starts
        k = self.model.n_tags
        labels = np.arange(k)
        first = np.isin(tokens, starts)[:, None]
        last = np.isin(tokens + 1, starts)[:, None]
        left = tags[tokens - 1][:, None]
        right = tags[(tokens + 1) % len(tags)][:, None]
        before = np.where(first, labels, k + k * left + labels)
        after = np.where(last, k + k**2 + labels, k + k * labels + right)
        return before, after


def fold_numbers(folds):
    """The number of the fold of each omitted site."""
    return np.repeat(np.arange(len(folds)), folds.sizes)
