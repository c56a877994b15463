"""What a fold takes out of a CRF's objective: whole sentences (LSCV), or the knowledge of some labels (LWCV).

Both ways F(theta, w_o) = F(theta, 1) - own(theta, o). For sentences own is their -log p(z_n | x_n). For tokens it is
log sum of the sequences that agree with the labels outside the fold, minus the score of the labels, summed over
the sentences that the fold touches: minus the log-probability of the hidden labels given all others.
"""

import numpy as np

from ...folds import weights as fold_weights
from ...weighting import hide_labels
from .chains import Chains


class Data:
    """Chains of all tag sequences, and the features (N, D) and scores (N,) of the labelled ones."""

    def __init__(self, model):
        self.model, self.chains = model, Chains(model.scores, model.starts)
        self.tags, self.starts = model.tags, model.starts
        self.observed = observed_features(model.tags, model.starts, model.n_tags)
        emitted = model.scores[np.arange(len(model.tags)), model.tags]
        self.emitted = np.add.reduceat(emitted, model.starts[:-1])

    def path_scores(self, params, sentences):
        """The score of the labels of each sentence."""
        return self.observed[sentences] @ params + self.emitted[sentences]


def observed_features(tags, starts, n_tags):
    """First tag, transitions and last tag of each labelled sentence, counted: (N, D)."""
    n = len(starts) - 1
    features, rows = np.zeros((n, 2 * n_tags + n_tags**2)), np.arange(n)
    features[rows, tags[starts[:-1]]] = 1.0
    features[rows, n_tags + n_tags**2 + tags[starts[1:] - 1]] = 1.0
    inside = np.setdiff1d(np.arange(1, len(tags)), starts[1:-1])  # tokens with another before them
    sentence = np.searchsorted(starts, inside, side="right") - 1
    np.add.at(features, (sentence, n_tags + n_tags * tags[inside - 1] + tags[inside]), 1.0)
    return features


class SentenceTerms:
    """Terms of whole sentences: F is linear in their weights."""

    linear = True

    def __init__(self, data):
        self.data = data

    def value_and_gradient(self, params, weights):
        """sum_n weights_n (-log p(z_n | x_n)) and its gradient (D,)."""
        rows = np.flatnonzero(weights)
        log_z, features = self.data.chains.sums(params, weights)
        value = weights[rows] @ (log_z[rows] - self.data.path_scores(params, rows))
        return value, features - weights @ self.data.observed

    def hessian(self, params, weights):
        """Its Hessian (D, D)."""
        return self.data.chains.covariance(params, weights)

    def losses(self, params, sentences):
        """-log p(z_n | x_n) of the sentences."""
        log_z, _ = self.data.chains.each(params, sentences)
        return log_z - self.data.path_scores(params, sentences)

    heldout = losses

    def own(self, params, fold):
        """(own, its gradient (D,))."""
        log_z, features = self.data.chains.each(params, fold)
        value = log_z - self.data.path_scores(params, fold)
        return value.sum(), (features - self.data.observed[fold]).sum(axis=0)

    def own_covariance(self, params, fold):
        """own's Hessian (D, D)."""
        return self.data.chains.covariance(params, fold_members(len(self.data.starts) - 1, fold))

    def slope(self, params, fold):
        """sum over the fold of d2F / dparams dw_n at w = 1, (D,)."""
        return self.own(params, fold)[1]


class TokenTerms:
    """Terms of single labels, known with weight 1 and summed out with weight 0."""

    linear = False

    def __init__(self, data):
        self.data = data

    def value_and_gradient(self, params, weights):
        """sum_n (log Z_n - log of the sum over sequences that agree with the labels as far as known), gradient (D,)."""
        everything = np.ones(len(self.data.starts) - 1)
        log_z, features = self.data.chains.sums(params, everything)
        known, known_features = self._known(params, weights)
        return log_z.sum() - known, features - known_features

    def _known(self, params, weights):
        touched = self._touched(np.flatnonzero(weights < 1.0))
        whole = np.setdiff1d(np.arange(len(self.data.starts) - 1), touched)
        value, features = (
            self.data.path_scores(params, whole).sum(),
            self.data.observed[whole].sum(axis=0),
        )
        if touched.size:
            log_z, partial = self._hidden(touched, weights).each(params, np.arange(len(touched)))
            value, features = value + log_z.sum(), features + partial.sum(axis=0)
        return value, features

    def hessian(self, params, weights):
        """Its Hessian (D, D): indefinite where hidden labels are more uncertain than all labels together."""
        total = self.data.chains.covariance(params, np.ones(len(self.data.starts) - 1))
        hidden = np.flatnonzero(weights < 1.0)
        return total - self._hidden_covariance(params, hidden, weights) if hidden.size else total

    def own(self, params, fold):
        """(own, its gradient (D,))."""
        touched = self._touched(fold)
        log_z, partial = self._hide(fold, touched).each(params, np.arange(len(touched)))
        value = log_z - self.data.path_scores(params, touched)
        return value.sum(), (partial - self.data.observed[touched]).sum(axis=0)

    def own_covariance(self, params, fold):
        """own's Hessian (D, D)."""
        return self._hidden_covariance(params, fold, fold_weights(len(self.data.tags), fold))

    def _hidden_covariance(self, params, hidden, weights):
        touched = self._touched(hidden)
        return self._hidden(touched, weights).covariance(params, np.ones(len(touched)))

    def heldout(self, params, fold):
        """-log p(z_t | x, labels outside the fold) of each token t of the fold."""
        touched = self._touched(fold)
        chains, tokens = self._hide(fold, touched), self._tokens(touched)
        gamma = chains.marginals(params, np.arange(len(touched)))
        return -np.log(gamma[np.searchsorted(tokens, fold), self.data.tags[fold]])

    def slope(self, params, fold):
        """sum over the fold of d2F / dparams dw_t at w = 1, (D,).

        With s(k) the score of the sentence with label k at t and all others as they are, dF/dw_t is the sum of
        exp(s(k) - s(z_t)) over the other labels k.
        """
        total = np.zeros(len(params))
        for t in fold:
            features = self._relabelled(t)
            score = features @ params + self.data.chains.scores[t]
            ratio = np.exp(score - score[self.data.tags[t]])
            total += ratio @ (features - features[self.data.tags[t]])
        return total

    def _relabelled(self, t):
        """The features that depend on the label of token t, for each label, (K, D)."""
        n_tags, starts, tags = self.data.chains.n_tags, self.data.starts, self.data.tags
        features, labels = np.zeros((n_tags, 2 * n_tags + n_tags**2)), np.arange(n_tags)
        first, last = t in starts, t + 1 in starts
        before = labels if first else n_tags + n_tags * tags[t - 1] + labels
        after = n_tags + n_tags**2 + labels if last else n_tags + n_tags * labels + tags[t + 1]
        features[labels, before] += 1.0
        features[labels, after] += 1.0
        return features

    def _touched(self, tokens):
        """The sentences of the tokens, each once."""
        return np.unique(np.searchsorted(self.data.starts, tokens, side="right") - 1)

    def _tokens(self, sentences):
        """The tokens of the sentences, in order."""
        starts = self.data.starts
        return np.concatenate([np.arange(starts[n], starts[n + 1]) for n in sentences])

    def _hide(self, fold, touched):
        return self._hidden(touched, fold_weights(len(self.data.tags), fold))

    def _hidden(self, touched, weights):
        """`Chains` of the touched sentences alone, with labels known by their weights."""
        tokens, lengths = self._tokens(touched), np.diff(self.data.starts)[touched]
        known = hide_labels(weights[tokens], self.data.tags[tokens], self.data.chains.n_tags)
        return Chains(
            self.data.chains.scores[tokens], np.concatenate([[0], np.cumsum(lengths)]), known
        )


def fold_members(n, fold):
    """1 in the fold and 0 elsewhere, (n,)."""
    return 1.0 - fold_weights(n, fold)
