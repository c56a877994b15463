"""An HMM at one point and one weighting: F, its gradient, and expected counts."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...inference import smoothing
from ...weighting import check
from . import simplex
from .emissions.pairs import gradient
from .sequences import Frames


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
        if self.step_weights is None:
            self.step_weights = np.ones(len(self.frames.x))
        if self.sequence_weights is None:
            self.sequence_weights = np.ones(self.frames.n_sequences)
        chain, shared, states = self.model.split(self.params)
        log_p = simplex.log_probabilities(chain)
        self.p = np.exp(log_p)
        self.point = self.model.emission.at(shared, states, self.frames)
        log_density = self.step_weights[:, None] * self.point.log_density
        density = smoothing.factors(log_density)
        self.smoothed = smoothing.smooth(density, self.frames.starts, log_p[0], log_p[1:])

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
        """Gradient and diagonal Hessian of minus the emission's log prior, (2, E)."""
        emission = self.model.whole(self.params)[self.model.n_chain :]
        return self.prior * np.array(self.model.emission_prior.derivatives(emission))

    def value(self):
        """F."""
        log_prior = self.model.log_prior(self.params) if self.prior else 0.0
        return -float(self.sequence_weights @ self.smoothed.log_z + log_prior)

    def gradient(self):
        """dF/dparams (D,)."""
        chain = simplex.score(self.counts, self.p)
        emission = self.emission_prior[0] - gradient(self.point, self.mass)
        return np.append(-chain, emission)[-self.model.n_params :]


def hidden_states(model, params, weights):
    """`HiddenStates` of the whole model at site weights (n_sites,)."""
    check(weights, model.n_sites)
    if model.sites == "steps":
        return HiddenStates(model, params, model.frames, step_weights=weights)
    return HiddenStates(model, params, model.frames, sequence_weights=weights)


def states_of_sequences(model, params, numbers):
    """`HiddenStates` of some sequences with weight 1, without the prior: their own share in F."""
    return HiddenStates(model, params, model.frames.take(numbers), prior=False)
