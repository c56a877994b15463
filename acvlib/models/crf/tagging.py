"""What the conditional random fields of labelled sentences share: sites, weights and objective."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd.extend import defvjp, primitive
from autograd.tracer import isbox
from scipy.sparse import csr_array

from ...checks import real_array
from ...folds import Folds
from ...inference.smoothing import best_states
from ...model import ModelDefaults, checked, number_or_array
from ...weighting import check, hide_labels, sample_weights
from .derivatives import TaggingDerivatives
from .paths import FeatureParams, Paths
from .tokens import Tokens, Touched, hidden_labels, whole_sentences


class Tagging(ModelDefaults):
    """A chain CRF whose scores are linear in its params; sites are sentences, or tokens' labels.

    tokens: all `Tokens`, end to end; free (D,): where each of the params stands among all pairs of
    an attribute and a label, followed by those of two labels.
    """

    ridge: Any
    scheme: Callable | None
    sample_weight: Any
    tokens: Tokens
    free: Any
    _derivatives: type[TaggingDerivatives]

    convex = True

    def _settle(self):
        """Check what comes with tokens and params."""
        if self.scheme is not None and self.scheme is not hide_labels:
            raise ValueError(
                "scheme must be None (sites are sentences) or weighting.hide_labels (tokens)"
            )
        # not 0, as shifting all transitions changes nothing
        ridge = number_or_array("ridge", self.ridge, self.n_params, "parameter", above=0.0)
        object.__setattr__(self, "ridge", ridge)
        weights = sample_weights(self.sample_weight, len(self.tokens.lengths), "sentence")
        object.__setattr__(self, "sample_weight", weights)

    @property
    def sites(self) -> str:
        """What is left out: "sentences", or "tokens" under a scheme."""
        return "tokens" if self.scheme else "sentences"

    @property
    def n_params(self) -> int:
        """D."""
        return len(self.free)

    @property
    def n_pairs(self) -> int:
        """Attributes x labels and labels x labels, with a weight or without."""
        k = self.tokens.n_labels
        return (self.tokens.matrix.shape[1] + k) * k

    @property
    def n_sites(self) -> int:
        """The number of sentences, or of tokens."""
        return len(self.tokens) if self.scheme else len(self.tokens.lengths)

    @cached_property
    def sentence_weights(self) -> np.ndarray:
        """The sample weight of each sentence, (N,)."""
        return np.ones(len(self.tokens.lengths)) * self.sample_weight

    @cached_property
    def observed(self) -> np.ndarray:
        """(n_sites,) False where the sentence has sample weight 0."""
        seen = self.sentence_weights > 0.0
        return seen[self.tokens.sentence_of] if self.scheme else seen

    @cached_property
    def derivatives(self) -> TaggingDerivatives:
        """Derivatives by sums over sequences of labels."""
        return self._derivatives(self)

    @checked
    def initial_params(self, rng: np.random.Generator | None = None) -> np.ndarray:
        """Zeros; `rng` is not used, as -log p(z | x) is convex."""
        return np.zeros(self.n_params)

    def _parts(self, params: np.ndarray) -> FeatureParams:
        """Weights of attributes (n_attributes, K) and of transitions (K, K), of params (D,)."""
        flat = np.zeros(self.n_pairs)
        flat[self.free] = params
        return self._split(flat)

    def _split(self, flat):
        k = self.tokens.n_labels
        states = flat[: -k * k].reshape(-1, k)
        return FeatureParams(states, flat[-k * k :].reshape(k, k))

    def _touched(self, folds: Folds, weights: Any = 0.0) -> Touched:
        """The sentences that folds touch; with tokens as sites, their labels known with weights."""
        if self.scheme:
            return hidden_labels(self.tokens, folds, weights)
        return whole_sentences(folds)

    @checked
    def objective(self, params: np.ndarray, weights: np.ndarray) -> float:
        """F(params, weights) through autograd, in one pass over places for all sentences."""
        check(weights, self.n_sites)
        if not isbox(params) and not isbox(weights):
            return self.derivatives.value_and_gradient(params, weights)[0]
        tokens = self.tokens
        known = 1.0
        sentence = self.sentence_weights
        if self.scheme:
            known = hide_labels(weights, tokens.tags, tokens.n_labels)
        else:
            sentence = weights * sentence
            known = np.eye(tokens.n_labels)[tokens.tags]
        states, transitions = self._split(_sparse_product(self._placing, params))
        scale = tokens.offset.max(axis=1, keepdims=True)  # cancels in F
        node = anp.exp(_sparse_product(tokens.matrix, states) + (tokens.offset - scale))
        token = sentence[tokens.sentence_of]
        every_path = _log_partition(transitions, node, tokens, token)
        known_paths = _log_partition(transitions, node * known, tokens, token)
        return every_path - known_paths + 0.5 * anp.sum(self.ridge * params**2)

    @cached_property
    def _placing(self):
        """Params to all pairs, (n_pairs, D), sparse."""
        cells = (self.free, np.arange(self.n_params))
        return csr_array((np.ones(self.n_params), cells), (self.n_pairs, self.n_params))

    def _best(self, tokens, params):
        """The most probable tags of each of these sentences."""
        states, transitions = self._parts(real_array("params", params))
        none = np.zeros(tokens.n_labels)
        scores = tokens.matrix @ states + tokens.offset
        best = best_states(scores, tokens.starts, none, transitions, none)
        return np.split(best, tokens.starts[1:-1])

    def _marginals(self, tokens, params):
        """P(z_t = k | x) (T_n, K) of each of these sentences."""
        paths = Paths(tokens, self._parts(real_array("params", params)))
        return np.split(paths.smoothed.gamma, tokens.starts[1:-1])

    @checked
    def heldout_loss(self, params: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """-log p(z_n | x_n) of each sentence, or -log p(z_t | x, labels outside the fold)."""
        if not fold.size:
            raise ValueError("the fold is empty: it needs a site")
        return self.derivatives.heldout(params, Folds([fold]))[0]


def _log_partition(transitions, node, tokens, weights):
    """sum_t weights_t log(Z_1..t / Z_1..t-1), Z_1..t summed over the labels up to t.

    node (n_tokens, K): factors of the labels.
    """
    link = anp.exp(transitions)
    alpha = 1.0
    total = 0.0
    for t, here in enumerate(tokens.places):
        reach = anp.dot(alpha[: len(here)], link) if t else 1.0
        alpha = reach * node[here]
        norm = anp.sum(alpha, axis=1)
        alpha = alpha / norm[:, None]
        total = total + anp.dot(weights[here], anp.log(norm))
    return total


@primitive
def _sparse_product(matrix, dense):
    """matrix @ dense, a sparse matrix and an array that autograd may follow."""
    return matrix @ dense


defvjp(
    _sparse_product, lambda _, matrix, dense: lambda g: _sparse_product(matrix.T, g), argnums=[1]
)
