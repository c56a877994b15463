"""What the conditional random fields of labelled sentences share: sites, weights and objective."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...checks import real_array
from ...declared import Real, Sizes
from ...folds import Folds
from ...inference.smoothing import best_states
from ...model import ModelDefaults, checked
from ...weighting import hide_labels, site_weights
from .derivatives import TaggingDerivatives
from .tokens import FeatureParams, Paths, Tokens


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

    def _settle(self, tokens, free):
        """Set tokens and free, and check what comes with them."""
        object.__setattr__(self, "tokens", tokens)
        object.__setattr__(self, "free", free)
        if self.scheme is not None and self.scheme is not hide_labels:
            raise ValueError(
                "scheme must be None (sites are sentences) or weighting.hide_labels (tokens)"
            )
        # not 0, as shifting all transitions changes nothing
        sizes = Sizes(n_params=(self.n_params, "the parameters", None))
        ridge = Real("", "n_params", above=0.0)("ridge", self.ridge, sizes)
        object.__setattr__(self, "ridge", ridge)
        weights = site_weights(self.sample_weight, len(tokens.lengths), "sentence")
        object.__setattr__(self, "sample_weight", weights)

    @property
    def convex(self) -> bool:
        """A sum over what hidden labels may be is not."""
        return self.scheme is None

    @property
    def sites(self) -> str:
        """What is left out: "sentences", or "tokens" under a scheme."""
        return "tokens" if self.scheme else "sentences"

    @property
    def n_params(self) -> int:
        """D."""
        return len(self.free)

    @property
    def n_sites(self) -> int:
        """The number of sentences, or of tokens."""
        return len(self.tokens) if self.scheme else len(self.tokens.lengths)

    @cached_property
    def observed(self) -> np.ndarray:
        """(n_sites,) False where the sentence has sample weight 0."""
        seen = self.sample_weight > 0.0
        return seen[self.tokens.sentence_of] if self.scheme else seen

    @cached_property
    def derivatives(self) -> TaggingDerivatives:
        """Derivatives by sums over sequences of labels."""
        return TaggingDerivatives(self)

    @checked
    def initial_params(self, rng: np.random.Generator | None = None) -> np.ndarray:
        """Zeros; `rng` is not used, as -log p(z | x) is convex."""
        return np.zeros(self.n_params)

    @checked
    def objective(self, params: np.ndarray, weights: np.ndarray) -> float:
        """F(params, weights)."""
        return self.derivatives.value_and_gradient(params, weights)[0]

    @checked
    def heldout_loss(self, params: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """-log p(z_n | x_n) of each sentence, or -log p(z_t | x, labels outside the fold)."""
        if not fold.size:
            raise ValueError("the fold is empty: it needs a site")
        return self.derivatives.heldout(params, Folds([fold]))[0]

    def _parts(self, params):
        """`FeatureParams` of params (D,)."""
        k = self.tokens.n_labels
        flat = np.zeros((self.tokens.matrix.shape[1] + k) * k)
        flat[self.free] = params
        return FeatureParams(flat[: -k * k].reshape(-1, k), flat[-k * k :].reshape(k, k))

    @checked
    def predict(self, params: np.ndarray, sentences: Sequence[Any] | None = None) -> list:
        """The most probable tags (T_n,) of each sentence: the model's own, or others like them."""
        tokens = self._tokens_of(sentences)
        states, transitions = self._parts(real_array("params", params, 1))
        none = np.zeros(tokens.n_labels)
        scores = tokens.matrix @ states + tokens.offset
        best = best_states(scores, tokens.starts, none, transitions, none)
        return np.split(best, tokens.starts[1:-1])

    @checked
    def marginals(
        self, params: np.ndarray, sentences: Sequence[Any] | None = None
    ) -> list[np.ndarray]:
        """P(z_t = k | x) (T_n, K) of each sentence: the model's own, or others like them."""
        tokens = self._tokens_of(sentences)
        return np.split(Paths(tokens, self._parts(params)).smoothed.gamma, tokens.starts[1:-1])

    def _tokens_of(self, sentences):
        return self.tokens if sentences is None else self._encoded(sentences)

    def _encoded(self, sentences: Sequence[Any]) -> Tokens:
        """`Tokens` of other sentences, whose tags are not known."""
        raise NotImplementedError
