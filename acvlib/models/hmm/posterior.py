"""An HMM at one point and one weighting: F, its gradient, and expected counts.

Rows of probabilities are given as log ratios to their last entry.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import autograd.numpy as anp
import numpy as np

from ...inference import smoothing
from ...inference.prefixes import Chain
from .emissions.scores import StateScores, gradient
from .sequences import Frames


class HMMParams(NamedTuple):
    """initial (K,), transition (K, K) with rows that sum to 1, emission: its named parameters."""

    initial: np.ndarray
    transition: np.ndarray
    emission: NamedTuple


@dataclass(eq=False)
class HiddenStates:
    """The posterior of the hidden states at params, of the model's frames or of others.

    step_weights (M,), sequence_weights (N,): of frames and of sequences, 1 by default
    prior: whether F has the model's prior in it
    """

    model: Any
    params: np.ndarray
    frames: Frames
    step_weights: np.ndarray | None = None
    sequence_weights: np.ndarray | None = None
    prior: bool = True

    def __post_init__(self):
        starts = self.frames.starts
        if self.step_weights is None:
            self.step_weights = np.ones(starts[-1])
        if self.sequence_weights is None:
            self.sequence_weights = np.ones(len(starts) - 1)
        chain, states = self.model.split(self.params)
        log_p = log_probabilities(chain)
        self.p = np.exp(log_p)
        self.point = self.model.emission.at(states, self.frames)
        log_density = self.step_weights[:, None] * self.point.log_density
        density = smoothing.factors(log_density)
        self.smoothed = smoothing.smooth(density, starts, log_p[0], log_p[1:])

    @cached_property
    def mass(self):
        """Weighted expected counts of observed frames in states, (M, K)."""
        of_frame = np.repeat(self.sequence_weights, np.diff(self.frames.starts))
        weights = of_frame * self.step_weights * self.frames.observed
        return self.smoothed.gamma * weights[:, None]

    @cached_property
    def counts(self):
        """Weighted expected counts (K + 1, K) of first states, of transitions, and the prior's."""
        starts = self.frames.starts
        first = self.sequence_weights @ self.smoothed.gamma[starts[:-1]]
        moves = smoothing.transition_counts(self.smoothed, starts, self.sequence_weights)
        pseudo = self.model.concentration - 1.0 if self.prior else 0.0
        return np.vstack([first, moves]) + pseudo

    @cached_property
    def emission_prior(self):
        """Gradient and diagonal Hessian of minus the emission's log prior, (2, D)."""
        emission = self.model.whole(self.params)[self.model.n_chain :]
        derivatives = self.prior * np.array(self.model.emission_prior.derivatives(emission))
        padded = np.pad(derivatives, ((0, 0), (self.model.n_chain, 0)))
        return padded[:, -self.model.n_params :]

    def value(self):
        """F."""
        log_prior = self.model._log_prior(self.params) if self.prior else 0.0
        return -float(self.sequence_weights @ self.smoothed.log_z + log_prior)

    def gradient(self):
        """dF/dparams (D,)."""
        states = gradient(self.point, self.mass)
        return self.emission_prior[0] - self.model.join(score(self.counts, self.p), states)


def hidden_states(model, params, weights):
    """`HiddenStates` of the whole model at site weights (n_sites,)."""
    if model.sites == "steps":
        return HiddenStates(model, params, model.frames, step_weights=weights)
    return HiddenStates(model, params, model.frames, sequence_weights=weights)


def states_of_sequences(model, params, numbers):
    """`HiddenStates` of some sequences with weight 1, without the prior: their own share in F."""
    return HiddenStates(model, params, model.frames.take(numbers), prior=False)


def filter_tables(hidden):
    """The `Chain` whose filter runs through all frames; scores of all params, held ones too."""
    model = hidden.model
    k = model.n_states
    every = np.arange(len(hidden.frames.x))
    own = [StateScores(hidden.point.layers(j, every)).matrix() for j in range(k)]
    by_row = np.zeros((k + 1, k, k + 1, k - 1))
    rows = np.arange(k + 1)
    by_row[rows, :, rows] = np.eye(k)[:, :-1] - hidden.p[:, None, :-1]
    by_row = by_row.reshape(k + 1, k, -1)
    log_p = np.log(hidden.p)
    return Chain(
        row=np.where(hidden.frames.observed, every, -1),
        log_density=hidden.point.log_density,
        density_score=np.stack(own, axis=1),
        log_initial=log_p[0],
        initial_score=by_row[0],
        log_transition=log_p[1:],
        transition_score=by_row[1:],
        places=(0, model.n_chain, model.n_nuisance, model.n_chain + model.emission_prior.mean.size),
    )


def log_probabilities(log_ratios):
    """Log probabilities (n, K) from (n, K - 1), finite however unlikely; differentiable."""
    zeros = np.zeros((len(log_ratios), 1))
    full = anp.concatenate([log_ratios, zeros], axis=1)
    shifted = full - anp.max(full, axis=1, keepdims=True)
    return shifted - anp.log(anp.sum(anp.exp(shifted), axis=1, keepdims=True))


def log_ratios(weights):
    """Log ratios (n, K - 1) of rows of positive weights (n, K)."""
    logs = np.log(weights)
    return logs[:, :-1] - logs[:, -1:]


def score(counts, p):
    """Gradient (..., n, K - 1) of sum_k counts_k log p_k in the log ratios."""
    total = counts.sum(axis=-1, keepdims=True)
    return (counts - total * p)[..., :-1]
