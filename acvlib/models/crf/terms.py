"""What a fold takes out of F: whole sentences (LSCV), or the knowledge of some labels (LWCV).

Both ways F(theta, w_o) = F(theta, 1) - own(theta, o), a sum over sentences that the fold touches:

    own = sum_n log sum exp(scores of all that agrees with what is known) - score of the labels

For sentences nothing is known, and own is -log p(z_n | x_n). For tokens it is minus the
log-probability of the hidden labels given all others.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from ...folds import Folds
from ...inference.smoothing import factors
from ...weighting import hide_labels
from .chains import Chains


class Own(NamedTuple):
    """The own terms of folds: their chains, and of each chain the sentence and the fold.

    rows: the row among the chains' tokens of each omitted site, where sites are tokens.
    """

    chains: Chains
    sentence: np.ndarray
    fold: np.ndarray
    rows: np.ndarray | None = None


class SentenceTerms:
    """Labelled sentences as sites: F is linear in their weights."""

    def __init__(self, scores: np.ndarray, tags: np.ndarray, starts: np.ndarray):
        self.scores = scores
        self.tags = tags
        self.starts = starts
        self.n_tags = scores.shape[1]
        self.chains = Chains(factors(scores), starts)
        self.features = observed_features(tags, starts, self.n_tags)
        self.emitted = np.add.reduceat(scores[np.arange(len(tags)), tags], starts[:-1])

    def value_and_gradient(self, params, weights, threads=True):
        """sum_n weights_n (-log p(z_n | x_n)) and its gradient (D,)."""
        observed = weights @ self.features
        log_z, expected = self._sums(params, weights, threads)
        return log_z - observed @ params - weights @ self.emitted, expected - observed

    def _sums(self, params, weights, threads):
        kept = np.flatnonzero(weights)
        if 2 * len(kept) > len(weights):
            return self.chains.many_sums(params, weights, threads)
        return self.chains.take(kept).sums(params, weights[kept])

    def hessian(self, params, weights):
        """Its Hessian (D, D)."""
        return self.chains.covariance(params, weights)

    def own_chains(self, folds: Folds) -> Own:
        """The own terms of folds."""
        sentence = np.concatenate(list(folds))
        return Own(self.chains.take(sentence), sentence, fold_numbers(folds))

    def own(self, params, folds):
        """(own (n_folds,), its gradient (n_folds, D)), all at params (D,)."""
        own = self.own_chains(folds)
        log_z, expected = own.chains.each(params)
        n_chains = len(own.fold)
        shape = (len(folds), n_chains)
        member = csr_matrix((np.ones(n_chains), (own.fold, np.arange(n_chains))), shape)
        observed = (member @ self.features[own.sentence]).toarray()
        return member @ (log_z - self._path_scores(params, own)), member @ expected - observed

    def own_hessians(self, params, folds):
        """own's Hessians (n_folds, D, D), all at params (D,)."""
        chains, _, fold, _ = self.own_chains(folds)
        return chains.covariances(params, np.ones(len(fold)), fold, len(folds))

    def slopes(self, params, folds):
        """sum over each fold of d2F / dparams dw at w = 1, (n_folds, D)."""
        return self.own(params, folds)[1]

    def heldout(self, params, folds):
        """-log p(z_n | x_n) of the folds' sentences, end to end; params (D,) or (n_folds, D)."""
        own = self.own_chains(folds)
        log_z, _ = own.chains.smooth_each(params, own.fold)
        return log_z - self._path_scores(params, own)

    def _path_scores(self, params, own):
        """The scores of the labels of each chain."""
        observed = self.features[own.sentence]
        if params.ndim == 1:
            return observed @ params + self.emitted[own.sentence]
        scores = np.asarray(observed.multiply(params[own.fold]).sum(axis=1))[:, 0]
        return scores + self.emitted[own.sentence]


class TokenTerms(SentenceTerms):
    """Labels of tokens as sites, known with weight 1 and summed out with weight 0."""

    def value_and_gradient(self, params, weights, threads=True):
        """-log p(known labels) with all labels, less what hidden ones add; gradient (D,)."""
        everything = np.ones(len(self.chains))
        value, gradient = super().value_and_gradient(params, everything, threads)
        touched = self._touched(weights)
        if not touched.size:
            return value, gradient
        member = np.ones(len(touched))
        log_z, expected = self._known(touched, weights).sums(params, member)
        observed = member @ self.features[touched]
        own = log_z - observed @ params - self.emitted[touched].sum()
        return value - own, gradient - (expected - observed)

    def hessian(self, params, weights):
        """Its Hessian (D, D): indefinite where what is hidden is more uncertain than everything."""
        total = super().hessian(params, np.ones(len(self.chains)))
        touched = self._touched(weights)
        if not touched.size:
            return total
        return total - self._known(touched, weights).covariance(params, np.ones(len(touched)))

    def _touched(self, weights):
        """The sentences in which a label is not known for sure."""
        return np.flatnonzero(np.minimum.reduceat(weights, self.starts[:-1]) < 1.0)

    def _known(self, sentences, weights):
        """Chains of the sentences, with labels known by their weights."""
        tokens = self.chains.tokens(sentences)
        return self.chains.take(
            sentences, hide_labels(weights[tokens], self.tags[tokens], self.n_tags)
        )

    def own_chains(self, folds: Folds) -> Own:
        """The own terms of folds: each sentence that a fold touches, with its labels hidden."""
        tokens = np.concatenate(list(folds))
        sentence_of = np.searchsorted(self.starts, tokens, side="right") - 1
        pairs = fold_numbers(folds) * len(self.chains) + sentence_of
        pairs, chain = np.unique(pairs, return_inverse=True)
        fold, sentence = np.divmod(pairs, len(self.chains))
        ends = np.cumsum(self.chains.lengths[sentence])
        rows = ends[chain] - self.starts[sentence_of + 1] + tokens
        known = np.ones(ends[-1])
        known[rows] = 0.0
        factor = hide_labels(known, self.tags[self.chains.tokens(sentence)], self.n_tags)
        return Own(self.chains.take(sentence, factor), sentence, fold, rows)

    def heldout(self, params, folds):
        """-log p(z_t | x, labels outside the fold) of the folds' tokens, end to end."""
        own = self.own_chains(folds)
        _, gamma = own.chains.smooth_each(params, own.fold)
        return -np.log(gamma[own.rows, self.tags[np.concatenate(list(folds))]])

    def slopes(self, params, folds):
        """sum over each fold of d2F / dparams dw_t at w = 1, (n_folds, D).

        With s(k) the score of the sentence with label k at t and all others as they are, dF/dw_t is
        the sum of exp(s(k) - s(z_t)) over the other labels k.
        """
        tokens = np.concatenate(list(folds))
        rows = np.arange(len(tokens))
        tags = self.tags[tokens]
        before, after = self._features_at(tokens)
        score = params[before] + params[after] + self.scores[tokens]
        ratio = np.exp(score - score[rows, tags][:, None])
        ratio[rows, tags] -= ratio.sum(axis=1)
        slopes = np.zeros((len(folds), len(params)))
        fold = fold_numbers(folds)[:, None]
        np.add.at(slopes, (fold, before), ratio)
        np.add.at(slopes, (fold, after), ratio)
        return slopes

    def _features_at(self, tokens):
        """Numbers of the two features of each label at each token, (n_tokens, K) each."""
        k = self.n_tags
        labels = np.arange(k)
        first = np.isin(tokens, self.starts)[:, None]
        last = np.isin(tokens + 1, self.starts)[:, None]
        left = self.tags[tokens - 1][:, None]
        right = self.tags[(tokens + 1) % len(self.tags)][:, None]
        before = np.where(first, labels, k + k * left + labels)
        after = np.where(last, k + k**2 + labels, k + k * labels + right)
        return before, after


def fold_numbers(folds: Folds) -> np.ndarray:
    """The number of the fold of each omitted site."""
    return np.repeat(np.arange(len(folds)), folds.sizes)


def observed_features(tags: np.ndarray, starts: np.ndarray, n_tags: int) -> csr_matrix:
    """Count first tag, transitions and last tag of each labelled sentence, (N, D)."""
    n_sentences = len(starts) - 1
    sentence = np.repeat(np.arange(n_sentences), np.diff(starts))
    inside = np.setdiff1d(np.arange(1, len(tags)), starts[1:-1])  # tokens with another before them
    first = tags[starts[:-1]]
    links = n_tags + n_tags * tags[inside - 1] + tags[inside]
    last = n_tags + n_tags**2 + tags[starts[1:] - 1]
    columns = np.concatenate([first, links, last])
    rows = np.concatenate([np.arange(n_sentences), sentence[inside], np.arange(n_sentences)])
    shape = (n_sentences, 2 * n_tags + n_tags**2)
    return csr_matrix((np.ones(len(columns)), (rows, columns)), shape=shape)
