"""An HMM at one point and one weighting: F, its gradient, and the expected counts that both are made of."""

from functools import cached_property

import numpy as np

from ...inference import smoothing
from . import simplex


class Posterior:
    """Smoothed posteriors of a model at params and site weights; frames: the model's own unless others are given."""

    def __init__(self, model, params, weights, frames=None):
        self.model, self.params, self.frames = model, params, frames or model.frames
        self.split, self.log_chain = model.split(params), model.log_chain(params)
        steps = model.sites == "steps" and frames is None
        n_frames, n_sequences = len(self.frames.x), len(self.frames.starts) - 1
        self.step_weights = weights if steps else np.ones(n_frames)
        self.sequence_weights = np.ones(n_sequences) if steps else weights
        self.point = model.emission.at(self.split[2], self.frames, model.n_states)
        density = self.point.log_density * self.step_weights[:, None]
        self.smoothed = smoothing.smooth(
            smoothing.factors(density), self.frames.starts, *self.log_chain
        )

    @cached_property
    def probabilities(self):
        """(initial (1, K), transition (K, K))."""
        return np.exp(self.log_chain[0])[None], np.exp(self.log_chain[1])

    @cached_property
    def mass(self):
        """(M, K) weighted expected counts of observed frames in states."""
        of_frame = np.repeat(self.sequence_weights, np.diff(self.frames.starts))
        return self.smoothed.gamma * (of_frame * self.step_weights * self.frames.observed)[:, None]

    @cached_property
    def counts(self):
        """Weighted expected counts of (first states (1, K), transitions (K, K))."""
        smoothed, starts = self.smoothed, self.frames.starts
        first = self.sequence_weights @ smoothed.gamma[starts[:-1]]
        moves = smoothing.transition_counts(smoothed, starts, self.sequence_weights)
        return first[None], moves

    def value(self):
        """F."""
        return -float(self.sequence_weights @ self.smoothed.log_z) - float(
            self.model.log_prior(self.params)
        )

    def gradient(self):
        """dF/dparams (D,)."""
        pseudo = [np.full(p.shape, self.model.concentration - 1.0) for p in self.probabilities]
        return self._join(pseudo, -self.prior_derivatives()[0], -1.0) - self.score()

    def score(self):
        """d sum_n w_n log p(x_n) / dparams (D,), without the prior."""
        return self._join(self.counts, self.point.gradient(self.mass), 1.0)

    def _join(self, counts, emission, sign):
        """sign times the gradient of sum_k counts_k log p_k, beside that of the emission."""
        if self.model.held is not None:
            return sign * emission[self.model.emission.n_shared :]
        rows = [
            simplex.score(n, p).ravel() for n, p in zip(counts, self.probabilities, strict=True)
        ]
        return sign * np.concatenate([*rows, emission])

    def prior_derivatives(self):
        """Gradient and diagonal Hessian of minus the emission's log prior."""
        return self.model.emission.prior_derivatives(
            self.split[2], self.model.n_states, self.model.n_channels
        )
