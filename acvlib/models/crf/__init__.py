"""A linear-chain conditional random field over given emission scores.

    log p(z | x) = start[z_1] + sum_t scores[t, z_t] + sum_t transitions[z_t, z_t+1] + end[z_T] - log Z(x)

Source: Ghosh et al. (2020), Appendices F and G.
"""

from dataclasses import dataclass, field
from functools import cached_property

import autograd.numpy as np
import numpy as onp

from ...weighting import check, hide_labels
from . import kernels
from .chains import SPREAD, Chains, split
from .derivatives import CRFFast


@dataclass(frozen=True)
class LinearChainCRF:
    """Ridge-penalised maximum likelihood in D = 2 K + K^2 coordinates: start (K,), transitions (K, K), end (K,).

    emissions: (T_n, K) scores of each of N sentences, log-potentials that stay as they are; labels: (T_n,) tags
    0 ... K - 1 of each. ridge: F has ridge |params|^2 / 2, which makes the optimum finite and unique where tags or
    transitions never occur. scheme None: a site is a sentence, F = sum_n w_n (-log p(z_n | x_n)) + ridge (LSCV,
    Algorithm 3). scheme `weighting.hide_labels`: a site is a token, all sentences' tokens numbered through, whose
    label counts as known with weight 1 and is summed out with weight 0 (LWCV, Eq. 13, Algorithm 4). Raises
    ValueError for empty sentences, labels out of range, and scores that are not finite or too far apart.
    """

    emissions: list = field(repr=False)
    labels: list = field(repr=False)
    ridge: float = 1e-5
    scheme: callable = None

    def __post_init__(self):
        emissions = [onp.asarray(scores, float) for scores in self.emissions]
        labels = [onp.asarray(tags) for tags in self.labels]
        _check_sentences(emissions, labels)
        if not (onp.isfinite(self.ridge) and self.ridge > 0):
            raise ValueError(
                f"ridge is {self.ridge}: must be > 0, as shifting all transitions changes no probability"
            )
        if self.scheme not in (None, hide_labels):
            raise ValueError(
                "scheme must be None (sites are sentences) or weighting.hide_labels (sites are tokens)"
            )
        object.__setattr__(self, "emissions", emissions)
        object.__setattr__(self, "labels", [tags.astype(onp.int64) for tags in labels])

    @cached_property
    def starts(self):
        """(N + 1,): the number of each sentence's first token, and that of tokens."""
        return onp.concatenate([[0], onp.cumsum([len(tags) for tags in self.labels])])

    @cached_property
    def scores(self):
        """All emission scores, (n_tokens, K)."""
        return onp.concatenate(self.emissions)

    @cached_property
    def tags(self):
        """All labels, (n_tokens,)."""
        return onp.concatenate(self.labels)

    @property
    def n_tags(self):
        return self.emissions[0].shape[1]

    @property
    def n_sites(self):
        return int(self.starts[-1]) if self.scheme else len(self.labels)

    @cached_property
    def fast(self):
        """The compiled fast paths."""
        return CRFFast(self)

    def unpack(self, params):
        """Named parameters of params (D,)."""
        return split(params, self.n_tags)

    def initial_params(self, rng=None):
        """Zeros; `rng` is not used, as -log p(z | x) is convex."""
        return onp.zeros(self.n_tags**2 + 2 * self.n_tags)

    def objective(self, params, weights):
        """F(params, weights) through autograd, in one pass over places for all sentences."""
        check(weights, self.n_sites)
        everything = onp.ones((len(self.tags), self.n_tags))
        free, ridge = self._log_partitions(params, everything), 0.5 * self.ridge * np.sum(params**2)
        if self.scheme:
            return (
                np.sum(
                    free
                    - self._log_partitions(params, hide_labels(weights, self.tags, self.n_tags))
                )
                + ridge
            )
        known = hide_labels(onp.ones(len(self.tags)), self.tags, self.n_tags)
        in_order = self._places[0]
        return np.sum(weights[in_order] * (free - self._log_partitions(params, known))) + ridge

    def heldout_loss(self, params, fold):
        """-log p(z_n | x_n) of each sentence of the fold, or -log p(z_t | x, labels outside it) of each token."""
        return self.fast.terms.heldout(params, onp.atleast_1d(fold))

    def predict(self, params, emissions=None):
        """The most probable tags (T_n,) of each sentence: of the model's own, or of other emission scores (Viterbi)."""
        scores, starts = self._flat(emissions)
        best = kernels.best_sequences(scores, starts, *self.unpack(onp.asarray(params)))
        return onp.split(best, starts[1:-1])

    def marginals(self, params, emissions=None):
        """P(z_t = k | x) (T_n, K) of each sentence: of the model's own, or of other emission scores."""
        scores, starts = self._flat(emissions)
        if max(onp.ptp(part) for part in self.unpack(params)) > SPREAD:
            raise ValueError(f"params differ by more than {SPREAD:g} nats: raise the ridge")
        gamma = Chains(scores, starts).marginals(params, onp.arange(len(starts) - 1))
        return onp.split(gamma, starts[1:-1])

    def _flat(self, emissions):
        """(scores (n_tokens, K), starts): the model's own, or those of other sentences, checked."""
        if emissions is None:
            return self.scores, self.starts
        scores = [onp.asarray(sentence, float) for sentence in emissions]
        for n, sentence in enumerate(scores):
            if sentence.ndim != 2 or sentence.shape[1] != self.n_tags or not len(sentence):
                raise ValueError(
                    f"sentence {n}: scores {sentence.shape} must be (T, {self.n_tags}), T at least 1"
                )
        return onp.concatenate(scores), onp.concatenate(
            [[0], onp.cumsum([len(sentence) for sentence in scores])]
        )

    @cached_property
    def _places(self):
        """(sentences by falling length, for each place t the tokens there of those that reach it)."""
        lengths = onp.diff(self.starts)
        order = onp.argsort(-lengths, kind="stable")
        tokens = [self.starts[order[lengths[order] > t]] + t for t in range(lengths.max())]
        return order, tokens

    def _log_partitions(self, params, factor):
        """log sum_z of all sentences, by falling length, each tag's potential times factor (n_tokens, K)."""
        start, transitions, end = self.unpack(params)
        node, link, (_, tokens) = onp.exp(self.scores), np.exp(transitions), self._places
        alpha, log_norm, finished = np.exp(start), 0.0, []
        for t, here in enumerate(tokens):
            alpha = (np.dot(alpha, link) if t else alpha) * node[here] * factor[here]
            norm = np.sum(alpha, axis=1)
            alpha, log_norm = alpha / norm[:, None], log_norm + np.log(norm)
            on = len(tokens[t + 1]) if t + 1 < len(tokens) else 0
            finished.append(log_norm[on:] + np.log(np.dot(alpha[on:], np.exp(end))))
            alpha, log_norm = alpha[:on], log_norm[:on]
        return np.concatenate(finished[::-1])


def _check_sentences(emissions, labels):
    if not emissions or len(emissions) != len(labels):
        raise ValueError(
            f"{len(emissions)} sentences of emission scores, {len(labels)} of labels: give as many, not 0"
        )
    n_tags = emissions[0].shape[-1]
    for n, (scores, tags) in enumerate(zip(emissions, labels, strict=True)):
        if not tags.size:
            raise ValueError(f"sentence {n} is empty: leave it out")
        if tags.ndim != 1 or scores.shape != (len(tags), n_tags):
            raise ValueError(
                f"sentence {n}: scores {scores.shape} and labels {tags.shape} do not fit K = {n_tags} tags"
            )
        if not onp.issubdtype(tags.dtype, onp.integer) or tags.min() < 0 or tags.max() >= n_tags:
            raise ValueError(
                f"sentence {n}: labels must be 0 ... {n_tags - 1}, not {tags.min()} ... {tags.max()}"
            )
        if not (onp.isfinite(scores).all() and onp.ptp(scores, axis=1).max() <= SPREAD):
            raise ValueError(
                f"sentence {n}: scores must be finite and within {SPREAD:g} nats of each other at a token"
            )
