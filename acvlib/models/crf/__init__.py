"""A linear-chain conditional random field over given emission scores.

    log p(z | x) = start[z_1] + sum_t scores[t, z_t] + sum_t transitions[z_t, z_t+1] + end[z_T]
                   - log Z(x)

Source: Ghosh et al. (2020), Appendices F and G.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...checks import (
    Tables,
    check_kind,
    in_columns_of,
    in_order_of,
    index_of,
    indices_of,
    real_array,
    shared_columns,
)
from ...declared import Params, Real, Rng, Sizes, declared
from ...folds import Fold, Folds
from ...inference.smoothing import best_states
from ...model import ModelDefaults
from ...weighting import Weights, hide_labels, site_weights
from .derivatives import SPREAD, TaggingDerivatives
from .tokens import FeatureParams, Paths, Tokens, starts_of


class Tagging(ModelDefaults):
    """A chain CRF whose scores are linear in its params; sites are sentences, or tokens' labels.

    tokens: all `Tokens`, end to end; free (D,): where each of the params stands among all pairs of
    an attribute and a label, followed by those of two labels.
    """

    ridge: Any
    scheme: Callable | None
    sample_weight: Any
    labels: Any
    tokens: Tokens
    free: Any

    convex = True

    def _aligned(self, sentences):
        """(the names of sentences, whoever has some; labels and sample_weight in their order)."""
        index = index_of(sentences, self.labels, self.sample_weight)
        labels = in_order_of(index, "labels", self.labels)
        return index, labels, in_order_of(index, "sample_weight", self.sample_weight)

    def _settle(self, tokens, free):
        """Set tokens and free, and check what comes with them."""
        if self.scheme is not None and self.scheme is not hide_labels:
            raise ValueError(
                "scheme must be None (sites are sentences) or weighting.hide_labels (tokens)"
            )
        # not 0, as shifting all transitions changes nothing
        sizes = Sizes(n_params=(len(free), "the parameters", None))
        self.__dict__.update(
            tokens=tokens,
            free=free,
            index=self.labels.names_of_rows() if self.scheme else self.labels.names,
            ridge=Real("", "n_params", above=0.0)("ridge", self.ridge, sizes),
            sample_weight=site_weights(self.sample_weight, len(tokens.lengths), "sentence"),
        )

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

    @declared
    def initial_params(self, rng: Rng | None = None) -> np.ndarray:
        """Zeros; `rng` is not used, as -log p(z | x) is convex."""
        return np.zeros(self.n_params)

    @declared
    def objective(self, params: Params, weights: Weights) -> float:
        """F(params, weights)."""
        return self.derivatives.value_and_gradient(params, weights)[0]

    @declared
    def heldout_loss(self, params: Params, fold: Fold) -> np.ndarray:
        """-log p(z_n | x_n) of each sentence, or -log p(z_t | x, labels outside the fold)."""
        if not fold.size:
            raise ValueError("the fold is empty: it needs a site")
        folds = Folds([fold])
        folds.omitted.check_observed(self.observed)
        return self.derivatives.heldout(params, folds)[0]

    def _parts(self, params):
        """`FeatureParams` of params (D,)."""
        k = self.tokens.n_labels
        flat = np.zeros((self.tokens.matrix.shape[1] + k) * k)
        flat[self.free] = params
        return FeatureParams(flat[: -k * k].reshape(-1, k), flat[-k * k :].reshape(k, k))

    @declared
    def predict(self, params: Params, sentences: Sequence[Any] | None = None) -> list:
        """The most probable tags (T_n,) of each sentence: the model's own, or others like them."""
        tokens = self._tokens_of(sentences)
        states, transitions = self._parts(real_array("params", params, 1))
        none = np.zeros(tokens.n_labels)
        scores = tokens.matrix @ states + tokens.offset
        best = best_states(scores, tokens.starts, none, transitions, none)
        return np.split(best, tokens.starts[1:-1])

    @declared
    def marginals(self, params: Params, sentences: Sequence[Any] | None = None) -> list[np.ndarray]:
        """P(z_t = k | x) (T_n, K) of each sentence: the model's own, or others like them."""
        tokens = self._tokens_of(sentences)
        return np.split(Paths(tokens, self._parts(params)).smoothed.gamma, tokens.starts[1:-1])

    def _tokens_of(self, sentences):
        return self.tokens if sentences is None else self._encoded(sentences)

    def _encoded(self, sentences: Sequence[Any]) -> Tokens:
        """`Tokens` of other sentences, whose tags are not known."""
        raise NotImplementedError


class CRFParams(NamedTuple):
    """start (K,), transitions (K, K) from row to column, end (K,): log-potentials."""

    start: np.ndarray
    transitions: np.ndarray
    end: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class LinearChainCRF(Tagging):
    """Fit start (K,), transitions (K, K) and end (K,) by ridge-penalised maximum likelihood.

    Parameters
    ----------
    emissions : (T_n, K) scores of each of N sentences, log-potentials that stay as they are.
    labels : (T_n,) tags 0 ... K - 1 of each sentence.
    ridge : F has sum(ridge params^2) / 2, so that the optimum is finite where tags never occur: one
        number, or one a parameter (D,).
    scheme : None: a site is a sentence, F = sum_n w_n (-log p(z_n | x_n)) + ridge (LSCV,
        Algorithm 3). `weighting.hide_labels`: a site is a token, all sentences' tokens numbered
        through, whose label counts as known with weight 1 and is summed out with weight 0 (LWCV,
        Eq. 13, Algorithm 4).
    sample_weight : s >= 0 of each sentence, (N,) or one number: a sentence counts s times in the
        fit, with all its tokens, not in its held-out loss; one of weight 0 is missing, in no fold.
    """

    emissions: Sequence[np.ndarray] = field(repr=False)
    labels: Sequence[np.ndarray] = field(repr=False)
    ridge: Any = 1e-5
    scheme: Callable | None = None
    sample_weight: Any = field(default=1.0, repr=False)

    def __post_init__(self):
        check_kind("labels", self.labels, Iterable)
        index, labels, weights = self._aligned(self.emissions)
        labels = list(labels)
        emissions = _scores(self.emissions, names=index)
        if len(emissions) != len(labels):
            found = f"{len(emissions)} sentences of emission scores, {len(labels)} of labels"
            raise ValueError(f"{found}: give as many")
        k = emissions[0].shape[1]
        is_tag = Real("t", least=0, most=k - 1, whole=True)
        emissions.indices = indices_of(emissions, labels)
        for n, tags in enumerate(labels):
            sizes = Sizes(t=(len(emissions[n]), "its scores", None))
            name = f"sentence {n}: labels"
            tags = in_order_of(emissions.indices[n], name, tags)
            labels[n] = is_tag(name, tags, sizes)
        labels = Tables(labels).named(None, emissions.indices, index)
        self.__dict__.update(emissions=emissions, labels=labels, sample_weight=weights)
        start, end, links = np.split(np.arange(2 * k + k**2), [k, 2 * k])
        tokens = _tokens(emissions, np.concatenate(labels))
        self._settle(tokens, np.concatenate([start, links, end]))

    @property
    def n_tags(self) -> int:
        """K."""
        return self.emissions[0].shape[1]

    @declared
    def unpack(self, params: Params) -> CRFParams:
        """Name the parts of params (D,)."""
        k = self.n_tags
        start, transitions, end = np.split(params, [k, k + k**2])
        return CRFParams(start, transitions.reshape(k, k), end)

    def pack(self, parts: CRFParams) -> np.ndarray:
        """The params (D,) with these parts."""
        return np.concatenate([np.ravel(part) for part in parts])

    def _encoded(self, sentences):
        others = _scores(sentences, self.n_tags, self.emissions.columns)
        return _tokens(others, np.zeros(sum(map(len, others)), int))


def _tokens(emissions, tags):
    """`Tokens` of two attributes, to be the first of a sentence and to be the last."""
    starts = starts_of([len(scores) for scores in emissions])
    matrix = np.zeros((len(tags), 2))
    matrix[starts[:-1], 0] = 1.0
    matrix[starts[1:] - 1, 1] = 1.0
    return Tokens(matrix, tags, np.concatenate(emissions), starts)


def _scores(emissions, n_tags=None, columns=None, names=None):
    """Scores (T, K) of each sentence, K and columns as given or as of the first one."""
    check_kind("emissions", emissions, Iterable)
    listed = list(emissions)
    columns = columns or shared_columns(emissions, listed)
    arrays = []
    sizes = Sizes() if n_tags is None else Sizes(k=(n_tags, "the model", None))
    for n, values in enumerate(listed):
        sizes.pop("t", None)
        values = in_columns_of(columns, f"sentence {n}", values)
        arrays.append(Real("t k")(f"sentence {n}: scores", values, sizes))
        if np.ptp(arrays[n], axis=1).max() > SPREAD:
            raise ValueError(f"sentence {n}: scores must be within {SPREAD:g} nats of each other")
    if not arrays:
        raise ValueError("no sentences: give the emission scores of one or more")
    indices = indices_of(emissions if isinstance(emissions, Tables) else listed)
    return Tables(arrays).named(columns, indices, names)
