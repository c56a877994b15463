"""A linear-chain conditional random field over given emission scores.

    log p(z | x) = start[z_1] + sum_t scores[t, z_t] + sum_t transitions[z_t, z_t+1] + end[z_T]
                   - log Z(x)

Source: Ghosh et al. (2020), Appendices F and G.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd.tracer import isbox

from ...checks import check_kind, real_array
from ...folds import Folds
from ...inference.smoothing import best_states, factors
from ...protocol import ModelDefaults, checked, own_copy
from ...weighting import check, hide_labels
from .by_place import log_partition, places
from .chains import SPREAD, Chains, CRFParams, split, starts_of
from .derivatives import CRFDerivatives, TokenDerivatives
from .ridge import checked_ridge


@dataclass(frozen=True, eq=False)
class LinearChainCRF(ModelDefaults):
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
    """

    emissions: Sequence[np.ndarray] = field(repr=False)
    labels: Sequence[np.ndarray] = field(repr=False)
    ridge: Any = 1e-5
    scheme: Callable | None = None

    convex = True

    def __post_init__(self):
        if self.scheme is not None and self.scheme is not hide_labels:
            raise ValueError(
                "scheme must be None (sites are sentences) or weighting.hide_labels (tokens)"
            )
        emissions = _arrays("scores", self.emissions)
        labels = _arrays("labels", self.labels)
        _check_sentences(emissions, labels)
        object.__setattr__(self, "emissions", tuple(own_copy(scores) for scores in emissions))
        object.__setattr__(self, "labels", tuple(own_copy(tags, np.int64) for tags in labels))
        object.__setattr__(self, "ridge", checked_ridge(self.ridge, self.n_params))

    @cached_property
    def starts(self) -> np.ndarray:
        """The number of each sentence's first token, and that of tokens, (N + 1,)."""
        return starts_of([len(tags) for tags in self.labels])

    @cached_property
    def scores(self) -> np.ndarray:
        """All emission scores, (n_tokens, K)."""
        return np.concatenate(self.emissions)

    @cached_property
    def tags(self) -> np.ndarray:
        """All labels, (n_tokens,)."""
        return np.concatenate(self.labels)

    @property
    def n_tags(self) -> int:
        """K."""
        return self.emissions[0].shape[1]

    @property
    def n_params(self) -> int:
        """D."""
        return self.n_tags**2 + 2 * self.n_tags

    @property
    def n_sites(self) -> int:
        """The number of sentences, or of tokens."""
        return int(self.starts[-1]) if self.scheme else len(self.labels)

    @cached_property
    def derivatives(self) -> CRFDerivatives:
        """Derivatives by sums over tag sequences."""
        return TokenDerivatives(self) if self.scheme else CRFDerivatives(self)

    @checked
    def unpack(self, params: np.ndarray) -> CRFParams:
        """Name the parts of params (D,)."""
        return split(params, self.n_tags)

    def pack(self, parts: CRFParams) -> np.ndarray:
        """The params (D,) with these parts."""
        return np.concatenate([np.ravel(part) for part in parts])

    @checked
    def initial_params(self, rng: np.random.Generator | None = None) -> np.ndarray:
        """Zeros; `rng` is not used, as -log p(z | x) is convex."""
        return np.zeros(self.n_params)

    @checked
    def objective(self, params: np.ndarray, weights: np.ndarray) -> float:
        """F(params, weights) through autograd, in one pass over places for all sentences."""
        check(weights, self.n_sites)
        if not isbox(params) and not isbox(weights) and abs(params).max() > SPREAD:
            return self.derivatives.value_and_gradient(params, weights)[0]  # sums of logarithms
        one = np.ones(len(self.tags))
        if self.scheme:
            sentence = one
            label = weights
        else:
            sentence = weights[self.sentence_of]
            label = one
        known = hide_labels(label, self.tags, self.n_tags)
        node = factors(self.scores).scaled  # the scale cancels in F
        own = (self.starts, self._places, sentence)
        parts = split(params, self.n_tags)
        every_path = log_partition(parts, node, *own)
        known_paths = log_partition(parts, node * known, *own)
        return every_path - known_paths + 0.5 * anp.sum(self.ridge * params**2)

    @checked
    def heldout_loss(self, params: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """-log p(z_n | x_n) of each sentence, or -log p(z_t | x, labels outside the fold)."""
        if not fold.size:
            raise ValueError("the fold is empty: it needs a site")
        return self.derivatives.heldout(params, Folds([fold]))[0]

    @checked
    def predict(
        self, params: np.ndarray, emissions: Sequence[np.ndarray] | None = None
    ) -> list[np.ndarray]:
        """The most probable tags (T_n,) of each sentence: the model's own, or other scores."""
        scores, starts = self._flat(emissions)
        best = best_states(scores, starts, *split(real_array("params", params), self.n_tags))
        return np.split(best, starts[1:-1])

    @checked
    def marginals(
        self, params: np.ndarray, emissions: Sequence[np.ndarray] | None = None
    ) -> list[np.ndarray]:
        """P(z_t = k | x) (T_n, K) of each sentence: the model's own, or other scores."""
        scores, starts = self._flat(emissions)
        smoothed = Chains(factors(scores), starts).smooth(params)
        return np.split(smoothed.gamma, starts[1:-1])

    def _flat(self, emissions):
        """(scores (n_tokens, K), starts): the model's own, or those of other sentences, checked."""
        if emissions is None:
            return self.scores, self.starts
        others = _arrays("scores", emissions)
        if not others:
            raise ValueError("no sentences: give the emission scores of one or more")
        for n, scores in enumerate(others):
            _check_scores(n, scores, self.n_tags)
        return np.concatenate(others), starts_of([len(scores) for scores in others])

    @cached_property
    def sentence_of(self) -> np.ndarray:
        """The sentence of each token, (n_tokens,)."""
        return np.repeat(np.arange(len(self.labels)), np.diff(self.starts))

    @cached_property
    def _places(self):
        return places(self.starts)


def _arrays(name, sentences):
    """An array of real numbers for each sentence, of the type given."""
    check_kind(name, sentences, Iterable)
    arrays = []
    for n, values in enumerate(sentences):
        real = real_array(f"sentence {n}: {name}", values, finite=False)
        arrays.append(real if name == "scores" else np.asarray(values))
    return arrays


def _check_sentences(emissions, labels):
    n = len(emissions)
    if n != len(labels) or not n:
        found = f"{n} sentences of emission scores, {len(labels)} of labels"
        raise ValueError(f"{found}: give as many, not 0")
    n_tags = emissions[0].shape[-1] if emissions[0].ndim else 0
    for n, (scores, tags) in enumerate(zip(emissions, labels, strict=True)):
        _check_tags(n, tags, scores.shape[:1], n_tags)
        _check_scores(n, scores, n_tags)


def _check_tags(n, tags, shape, n_tags):
    if not tags.size:
        raise ValueError(f"sentence {n} is empty: leave it out")
    if tags.shape != shape:
        raise ValueError(f"sentence {n}: labels {tags.shape} do not fit scores {shape}")
    least = tags.min()
    most = tags.max()
    if tags.dtype.kind not in "iu" or least < 0 or most >= n_tags:
        found = f"not {least} ... {most}"
        raise ValueError(f"sentence {n}: labels must be integers 0 ... {n_tags - 1}, {found}")


def _check_scores(n, scores, n_tags):
    if scores.ndim != 2 or scores.shape[1] != n_tags or not scores.size:
        raise ValueError(f"sentence {n}: scores {scores.shape} must be (T, {n_tags}), T at least 1")
    if not np.isfinite(scores).all() or np.ptp(scores, axis=1).max() > SPREAD:
        raise ValueError(
            f"sentence {n}: scores must be finite and within {SPREAD:g} nats of each other"
        )
