"""A linear-chain conditional random field over given emission scores.

    log p(z | x) = start[z_1] + sum_t scores[t, z_t] + sum_t transitions[z_t, z_t+1] + end[z_T]
                   - log Z(x)

Source: Ghosh et al. (2020), Appendices F and G.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...checks import check_kind, real_array
from ...inference.smoothing import best_states
from ...model import checked, own_copy
from .dense import SPREAD, ChainDerivatives, CRFParams, split
from .paths import Paths
from .tagging import Tagging
from .tokens import Tokens, starts_of


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

    _derivatives = ChainDerivatives

    def __post_init__(self):
        emissions = _arrays("scores", self.emissions)
        labels = _arrays("labels", self.labels)
        _check_sentences(emissions, labels)
        object.__setattr__(self, "emissions", tuple(own_copy(scores) for scores in emissions))
        object.__setattr__(self, "labels", tuple(own_copy(tags, np.int64) for tags in labels))
        k = self.n_tags
        start, end, links = np.split(np.arange(2 * k + k**2), [k, 2 * k])
        object.__setattr__(self, "free", np.concatenate([start, links, end]))
        tokens = _tokens(self.emissions, np.concatenate(self.labels))
        object.__setattr__(self, "tokens", tokens)
        self._settle()

    @property
    def n_tags(self) -> int:
        """K."""
        return self.emissions[0].shape[1]

    @checked
    def unpack(self, params: np.ndarray) -> CRFParams:
        """Name the parts of params (D,)."""
        return split(params, self.n_tags)

    def pack(self, parts: CRFParams) -> np.ndarray:
        """The params (D,) with these parts."""
        return np.concatenate([np.ravel(part) for part in parts])

    @checked
    def predict(
        self, params: np.ndarray, emissions: Sequence[np.ndarray] | None = None
    ) -> list[np.ndarray]:
        """The most probable tags (T_n,) of each sentence: the model's own, or other scores."""
        return self._best(self._tokens_of(emissions), params)

    @checked
    def marginals(
        self, params: np.ndarray, emissions: Sequence[np.ndarray] | None = None
    ) -> list[np.ndarray]:
        """P(z_t = k | x) (T_n, K) of each sentence: the model's own, or other scores."""
        return self._marginals(self._tokens_of(emissions), params)

    def _tokens_of(self, emissions):
        """The model's own tokens, or those of other sentences, checked."""
        if emissions is None:
            return self.tokens
        others = _arrays("scores", emissions)
        if not others:
            raise ValueError("no sentences: give the emission scores of one or more")
        for n, scores in enumerate(others):
            _check_scores(n, scores, self.n_tags)
        return _tokens(others, np.zeros(sum(map(len, others)), int))


def _tokens(emissions, tags):
    """`Tokens` of two attributes, to be the first of a sentence and to be the last."""
    starts = starts_of([len(scores) for scores in emissions])
    matrix = np.zeros((len(tags), 2))
    matrix[starts[:-1], 0] = 1.0
    matrix[starts[1:] - 1, 1] = 1.0
    return Tokens(matrix, tags, np.concatenate(emissions), starts)


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
