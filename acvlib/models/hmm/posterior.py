"""An HMM at one point and one weighting: F, its gradient, and expected counts."""

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logsumexp

from ...folds import weights as fold_weights
from ...inference import smoothing
from ...weighting import check
from . import simplex
from .emissions.pairs import gradient
from .sequences import Frames


class HiddenStates:
    """The posterior of the hidden states at params, of the model's frames or of others.

    step_weights (M,), sequence_weights (N,): of frames and of sequences; prior: whether F has the
    model's prior in it.
    """

    def __init__(self, model, params, frames, step_weights, sequence_weights, prior=True):
        self.model = model
        self.params = params
        self.frames = frames
        self.step_weights = step_weights
        self.sequence_weights = sequence_weights
        self.prior = prior
        chain, shared, states = model.split(params)
        self.log_p = simplex.log_probabilities(chain)
        self.p = np.exp(self.log_p)
        self.point = model.emission.at(shared, states, frames)
        density = smoothing.factors(self.point.log_density * step_weights[:, None])
        self.smoothed = smoothing.smooth(density, frames.starts, self.log_p[0], self.log_p[1:])

    @cached_property
    def mass(self) -> np.ndarray:
        """Weighted expected counts of observed frames in states, (M, K)."""
        of_frame = np.repeat(self.sequence_weights, np.diff(self.frames.starts))
        of_frame = of_frame * self.step_weights * self.frames.observed
        return self.smoothed.gamma * of_frame[:, None]

    @cached_property
    def counts(self) -> np.ndarray:
        """Weighted expected counts (K + 1, K) of first states, then of transitions."""
        starts = self.frames.starts
        first = self.sequence_weights @ self.smoothed.gamma[starts[:-1]]
        moves = smoothing.transition_counts(self.smoothed, starts, self.sequence_weights)
        return np.vstack([first, moves])

    @property
    def pseudo(self) -> np.ndarray:
        """Counts (K + 1, K) that the Dirichlet priors are worth."""
        return np.full(self.p.shape, self.model.concentration - 1.0 if self.prior else 0.0)

    @cached_property
    def emission_prior(self) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and diagonal Hessian of minus the emission's log prior, both (E,)."""
        n_chain = self.model.n_states**2 - 1
        found = self.model.emission_prior.derivatives(self.model.whole(self.params)[n_chain:])
        return found if self.prior else (0.0 * found[0], 0.0 * found[1])

    def value(self) -> float:
        """F."""
        log_prior = self.model.log_prior(self.params) if self.prior else 0.0
        return -float(self.sequence_weights @ self.smoothed.log_z + log_prior)

    def gradient(self) -> np.ndarray:
        """dF/dparams (D,)."""
        chain = simplex.score(self.counts + self.pseudo, self.p)
        emission = self.emission_prior[0] - gradient(self.point, self.mass)
        return np.concatenate([-chain.ravel(), emission])[-self.model.n_params :]


def hidden_states(model: Any, params: np.ndarray, weights: np.ndarray) -> HiddenStates:
    """`HiddenStates` of the whole model at site weights (n_sites,)."""
    check(weights, model.n_sites)
    frames = model.frames
    if model.sites == "steps":
        return HiddenStates(model, params, frames, weights, np.ones(len(frames.starts) - 1))
    return HiddenStates(model, params, frames, np.ones(len(frames.x)), weights)


def states_of_frames(model: Any, params: np.ndarray, frames: Frames) -> HiddenStates:
    """`HiddenStates` of some sequences with weight 1, without the prior: their own share in F."""
    ones = np.ones(len(frames.x)), np.ones(len(frames.starts) - 1)
    return HiddenStates(model, params, frames, *ones, prior=False)


def states_of_sequences(model: Any, params: np.ndarray, numbers: Iterable[int]) -> HiddenStates:
    """The same of the model's sequences with these numbers."""
    return states_of_frames(model, params, model.frames.take(numbers))


def heldout_losses(model: Any, params: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """-log p(x_n) of left-out sequences, or -log p(x_t | frames outside the fold, lags)."""
    if model.sites == "sequences":
        return -states_of_sequences(model, params, fold).smoothed.log_z
    left = hidden_states(model, params, fold_weights(model.n_sites, fold))
    return -logsumexp(left.point.log_density[fold], b=left.smoothed.gamma[fold], axis=1)
