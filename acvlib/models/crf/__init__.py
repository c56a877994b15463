"""A linear-chain conditional random field over given emission scores.

    log p(z | x) = start[z_1] + sum_t scores[t, z_t] + sum_t transitions[z_t, z_t+1] + end[z_T]
                   - log Z(x)

Source: Ghosh et al. (2020), Appendices F and G.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import autograd.numpy as anp
import numpy as np

from ...folds import Folds
from ...inference.smoothing import best_states, factors
from ...protocol import ModelDefaults
from ...weighting import check, hide_labels
from .chains import SPREAD, Chains, CRFParams, split
from .derivatives import CRFDerivatives


@dataclass(frozen=True)
class LinearChainCRF(ModelDefaults):
    """Fit start (K,), transitions (K, K) and end (K,) by ridge-penalised maximum likelihood.

    Parameters
    ----------
    emissions : (T_n, K) scores of each of N sentences, log-potentials that stay as they are.
    labels : (T_n,) tags 0 ... K - 1 of each sentence.
    ridge : F has ridge |params|^2 / 2, so that the optimum is finite where tags never occur.
    scheme : None: a site is a sentence, F = sum_n w_n (-log p(z_n | x_n)) + ridge (LSCV,
        Algorithm 3). `weighting.hide_labels`: a site is a token, all sentences' tokens numbered
        through, whose label counts as known with weight 1 and is summed out with weight 0 (LWCV,
        Eq. 13, Algorithm 4).

    Raises
    ------
    ValueError : empty sentences, labels out of range, scores that are not finite or too far apart.
    """

    emissions: Sequence[np.ndarray] = field(repr=False)
    labels: Sequence[np.ndarray] = field(repr=False)
    ridge: float = 1e-5
    scheme: Callable | None = None

    convex = True

    def __post_init__(self):
        emissions = [_frozen(scores, float) for scores in self.emissions]
        labels = [_frozen(tags) for tags in self.labels]
        _check_sentences(emissions, labels)
        if not (np.isfinite(self.ridge) and self.ridge > 0):
            raise ValueError(
                f"ridge is {self.ridge}: must be > 0, as shifting all transitions changes nothing"
            )
        if self.scheme not in (None, hide_labels):
            raise ValueError(
                "scheme must be None (sites are sentences) or weighting.hide_labels (tokens)"
            )
        object.__setattr__(self, "emissions", emissions)
        object.__setattr__(self, "labels", [_frozen(tags, np.int64) for tags in labels])

    @cached_property
    def starts(self) -> np.ndarray:
        """The number of each sentence's first token, and that of tokens, (N + 1,)."""
        return _starts(self.labels)

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
    def n_sites(self) -> int:
        """The number of sentences, or of tokens."""
        return int(self.starts[-1]) if self.scheme else len(self.labels)

    @cached_property
    def derivatives(self) -> CRFDerivatives:
        """Derivatives by sums over tag sequences."""
        return CRFDerivatives(self)

    def unpack(self, params: np.ndarray) -> CRFParams:
        """Name the parts of params (D,)."""
        return split(params, self.n_tags)

    def pack(self, parts: CRFParams) -> np.ndarray:
        """The params (D,) with these parts."""
        return np.concatenate([np.ravel(part) for part in parts])

    def initial_params(self, rng: np.random.Generator | None = None) -> np.ndarray:
        """Zeros; `rng` is not used, as -log p(z | x) is convex."""
        return np.zeros(self.n_tags**2 + 2 * self.n_tags)

    def objective(self, params: np.ndarray, weights: np.ndarray) -> float:
        """F(params, weights) through autograd, in one pass over places for all sentences."""
        check(weights, self.n_sites)
        ridge = 0.5 * self.ridge * anp.sum(params**2)
        every_path = np.ones((len(self.tags), self.n_tags))
        all_known = np.ones(len(self.tags))
        known = hide_labels(weights if self.scheme else all_known, self.tags, self.n_tags)
        losses = self._log_partitions(params, every_path) - self._log_partitions(params, known)
        if self.scheme:
            return anp.sum(losses) + ridge
        longest_first, _ = self._places
        return anp.sum(weights[longest_first] * losses) + ridge

    def heldout_loss(self, params: np.ndarray, fold: np.ndarray) -> np.ndarray:
        """-log p(z_n | x_n) of each sentence, or -log p(z_t | x, labels outside the fold)."""
        fold = np.atleast_1d(fold)
        if fold.min() < 0 or fold.max() >= self.n_sites:
            raise ValueError(f"sites {fold} are not all among 0 ... {self.n_sites - 1}")
        return self.derivatives.heldout(np.asarray(params), Folds([fold]))[0]

    def predict(
        self, params: np.ndarray, emissions: Sequence[np.ndarray] | None = None
    ) -> list[np.ndarray]:
        """The most probable tags (T_n,) of each sentence: the model's own, or other scores."""
        scores, starts = self._flat(emissions)
        best = best_states(scores, starts, *self.unpack(np.asarray(params)))
        return np.split(best, starts[1:-1])

    def marginals(
        self, params: np.ndarray, emissions: Sequence[np.ndarray] | None = None
    ) -> list[np.ndarray]:
        """P(z_t = k | x) (T_n, K) of each sentence: the model's own, or other scores."""
        scores, starts = self._flat(emissions)
        return np.split(Chains(factors(scores), starts).smooth(params).gamma, starts[1:-1])

    def _flat(self, emissions):
        """(scores (n_tokens, K), starts): the model's own, or those of other sentences, checked."""
        if emissions is None:
            return self.scores, self.starts
        emissions = [np.asarray(scores, float) for scores in emissions]
        for n, scores in enumerate(emissions):
            if scores.ndim != 2 or scores.shape[1] != self.n_tags or not len(scores):
                raise ValueError(
                    f"sentence {n}: scores {scores.shape} must be (T, {self.n_tags}), T at least 1"
                )
            _check_scores(n, scores)
        return np.concatenate(emissions), _starts(emissions)

    @cached_property
    def _places(self):
        """(sentences by falling length, tokens at each place t of those that reach it)."""
        lengths = np.diff(self.starts)
        order = np.argsort(-lengths, kind="stable")
        tokens = [self.starts[order[lengths[order] > t]] + t for t in range(lengths.max())]
        return order, tokens

    def _log_partitions(self, params, factor):
        """log Z of all sentences, by falling length, tags weighted by factor (n_tokens, K)."""
        start, transitions, end = self.unpack(params)
        node = np.exp(self.scores)
        link = anp.exp(transitions)
        stop = anp.exp(end)
        _, tokens = self._places
        reaching = [len(here) for here in tokens] + [0]
        alpha = anp.exp(start)
        log_norm = 0.0
        finished = []
        for t, here in enumerate(tokens):
            reach = anp.dot(alpha, link) if t else alpha
            alpha = reach * node[here] * factor[here]
            norm = anp.sum(alpha, axis=1)
            alpha = alpha / norm[:, None]
            log_norm = log_norm + anp.log(norm)
            on = reaching[t + 1]  # sentences that go on
            finished.append(log_norm[on:] + anp.log(anp.dot(alpha[on:], stop)))
            alpha = alpha[:on]
            log_norm = log_norm[:on]
        return anp.concatenate(finished[::-1])


def _frozen(values, dtype=None):
    """A copy that cannot be written to."""
    copy = np.array(values, dtype)
    copy.setflags(write=False)
    return copy


def _starts(sentences):
    return np.concatenate([[0], np.cumsum([len(each) for each in sentences])])


def _check_sentences(emissions, labels):
    if not emissions or len(emissions) != len(labels):
        raise ValueError(
            f"{len(emissions)} sentences of emission scores, {len(labels)} of labels: "
            "give as many, not 0"
        )
    n_tags = emissions[0].shape[-1]
    for n, (scores, tags) in enumerate(zip(emissions, labels, strict=True)):
        if not tags.size:
            raise ValueError(f"sentence {n} is empty: leave it out")
        if tags.ndim != 1 or scores.shape != (len(tags), n_tags):
            raise ValueError(
                f"sentence {n}: scores {scores.shape} and labels {tags.shape} do not fit "
                f"K = {n_tags} tags"
            )
        if not np.issubdtype(tags.dtype, np.integer) or tags.min() < 0 or tags.max() >= n_tags:
            raise ValueError(
                f"sentence {n}: labels must be 0 ... {n_tags - 1}, "
                f"not {tags.min()} ... {tags.max()}"
            )
        _check_scores(n, scores)


def _check_scores(n, scores):
    if not (np.isfinite(scores).all() and np.ptp(scores, axis=1).max() <= SPREAD):
        raise ValueError(
            f"sentence {n}: scores must be finite and within {SPREAD:g} nats of each other"
        )
