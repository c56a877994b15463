"""What an HMM says at given params: of hidden states, of the next frame, of other sequences."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from ...declared import Params, declared
from ...inference import smoothing
from .frames import make_frames, read_sequences
from .posterior import HiddenStates


class Decoded(NamedTuple):
    """states (M,): each sequence's most probable path, end to end; log_p (N,): log p(x, z)."""

    states: np.ndarray
    log_p: np.ndarray


class Predicted(NamedTuple):
    """One step ahead, of frames end to end.

    states (M, K): P(z_t | x_1 ... x_t-1); log_density (M,): log p(x_t | x_1 ... x_t-1), which sums
    to log p(x), 0 where x_t is missing.
    """

    states: np.ndarray
    log_density: np.ndarray


class Predictions:
    """Methods of an `HMM`. Frames are the model's own, end to end, or those of other sequences."""

    @declared
    def sequence_losses(self: Any, params: Params, sequences: Any = None) -> np.ndarray:
        """-log p(x_n; params) of the model's, or of any sequences (T_n, R), one for each."""
        return -self._hidden(params, sequences).smoothed.log_z

    @declared
    def posterior(self: Any, params: Params, sequences: Any = None) -> np.ndarray:
        """P(z_t = k | x; params) of all frames, (M, K)."""
        return self._hidden(params, sequences).smoothed.gamma

    @declared
    def decode(self: Any, params: Params, sequences: Any = None) -> Decoded:
        """The most probable path of states of each sequence, argmax_z p(x, z), by Viterbi."""
        hidden = self._hidden(params, sequences)
        density = hidden.log_density
        starts = hidden.frames.starts
        initial, transition = hidden.log_p[0], hidden.log_p[1:]
        end = np.zeros(self.n_states)
        states = smoothing.best_states(density, starts, initial, transition, end)
        terms = density[np.arange(len(states)), states]
        terms[1:] += transition[states[:-1], states[1:]]
        first = starts[:-1]
        terms[first] = density[first, states[first]] + initial[states[first]]
        return Decoded(states, np.add.reduceat(terms, first))

    @declared
    def predict(self: Any, params: Params, sequences: Any = None) -> Predicted:
        """Predict every frame from the frames before it: its state, and its density."""
        hidden = self._hidden(params, sequences)
        p = hidden.smoothed.filtered
        states = np.empty_like(p)
        states[1:] = p[:-1] @ hidden.p[1:]
        states[hidden.frames.starts[:-1]] = hidden.p[0]
        return Predicted(states, logsumexp(hidden.log_density, b=states, axis=1))

    def _hidden(self, params, sequences):
        """At the model's frames, or at those of other sequences."""
        if sequences is None:
            return HiddenStates(self, params, self.frames, prior=False)
        read = read_sequences(sequences, self.context)
        n_columns = self.sequences[0].shape[1]
        if read[0].shape[1] != n_columns:
            raise ValueError(f"{read[0].shape[1]} channels: the model has {n_columns}")
        frames = make_frames(read, self.emission, self.context)
        return HiddenStates(self, params, frames, prior=False)
