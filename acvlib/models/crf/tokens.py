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
        pairs = fold_numbers(folds) * len(chains) + touched
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
        """With s(k) the score of the sentence with label k at t and all others as they are,

        dF/dw_t = sum of exp(s(k) - s(z_t)) over the other labels k.
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
        k = self.model.n_tags
        labels = np.arange(k)
        left = self._left[tokens][:, None]
        right = np.roll(tags, -1)[tokens][:, None]
        last = np.roll(self._left, -1)[tokens][:, None] < 0
        before = k * (left + 1) + labels
        after = k + np.where(last, k**2 + labels, k * labels + right)
        return before, after


def fold_numbers(folds):
    """The number of the fold of each omitted site."""
    return np.repeat(np.arange(len(folds)), folds.sizes)
