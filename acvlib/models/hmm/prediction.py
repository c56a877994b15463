"""What an HMM says at given params: of hidden states, of the next frame, of sequences to come."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from ...checks import check_whole, generator, real_array
from ...inference import smoothing
from ...model import checked
from .posterior import HiddenStates
from .sequences import make_frames, read_sequences


class Decoded(NamedTuple):
    """states (M,): each sequence's most probable path, end to end; log_p (N,): log p(x, z)."""

    states: np.ndarray
    log_p: np.ndarray


class Predicted(NamedTuple):
    """One step ahead, of frames end to end.

    states (M, K): P(z_t | x_1 ... x_t-1); mean (M, R): E[x_t | x_1 ... x_t-1], of categories that
    of their codes, and nan at missing frames of emissions with lags or inputs;
    log_density (M,): log p(x_t | x_1 ... x_t-1), which sums to log p(x), 0 where x_t is missing.
    """

    states: np.ndarray
    mean: np.ndarray
    log_density: np.ndarray


class Sampled(NamedTuple):
    """sequences: arrays (T_n, R) that an HMM takes; states: (T_n,) of each, of frames drawn."""

    sequences: list[np.ndarray]
    states: list[np.ndarray]


class Predictions:
    """Methods of an `HMM`. Frames are the model's own, end to end, or those of other sequences."""

    @checked
    def sequence_losses(self: Any, params: np.ndarray, sequences: Any = None) -> np.ndarray:
        """-log p(x_n; params) of the model's, or of any sequences (T_n, R), one for each."""
        return -self._hidden(params, sequences).smoothed.log_z

    @checked
    def posterior(self: Any, params: np.ndarray, sequences: Any = None) -> np.ndarray:
        """P(z_t = k | x; params) of all frames, (M, K)."""
        return self._hidden(params, sequences).smoothed.gamma

    @checked
    def decode(self: Any, params: np.ndarray, sequences: Any = None) -> Decoded:
        """The most probable path of states of each sequence, argmax_z p(x, z), by Viterbi."""
        frames = self._frames(sequences)
        starts = frames.starts
        density = self.log_densities_of(params, frames)
        initial, transition = self.log_chain(params)
        end = np.zeros(self.n_states)
        states = smoothing.best_states(density, starts, initial, transition, end)
        terms = density[np.arange(len(states)), states]
        terms[1:] += transition[states[:-1], states[1:]]
        first = starts[:-1]
        terms[first] = density[first, states[first]] + initial[states[first]]
        return Decoded(states, np.add.reduceat(terms, first))

    @checked
    def predict(self: Any, params: np.ndarray, sequences: Any = None) -> Predicted:
        """Predict every frame from the frames before it: its state, its mean and its density."""
        hidden = self._hidden(params, sequences)
        frames = hidden.frames
        p = hidden.smoothed.filtered
        states = np.empty_like(p)
        states[1:] = p[:-1] @ hidden.p[1:]
        states[frames.starts[:-1]] = hidden.p[0]
        log_density = logsumexp(hidden.log_density, b=states, axis=1)
        mean = np.zeros((len(states), self.n_channels))
        for k, share in enumerate(states.T):
            mean += share[:, None] * self.emission.mean(hidden.rows, k, frames)
        if frames.design.shape[1] > 1:  # lags or inputs
            mean[~frames.observed] = np.nan
        return Predicted(states, mean, log_density)

    @checked
    def sample(
        self: Any,
        params: np.ndarray,
        lengths: Sequence[int],
        rng: np.random.Generator,
        before: Any = None,
        inputs: Any = None,
    ) -> Sampled:
        """Draw sequences of these lengths, in the units of the data.

        before: (p, R), the frames that an emission of order p looks back at from each first frame
        drawn; they come first in each sequence, not counted in its length.
        inputs: (T_n, q) of each sequence, of an emission that has some; they come last in columns.
        """
        lengths = _lengths(lengths)
        before = _table("before", before, (self.emission.order, self.n_channels))
        inputs = [None] * len(lengths) if inputs is None else list(inputs)
        if len(inputs) != len(lengths):
            raise ValueError(f"{len(inputs)} inputs for {len(lengths)} lengths")
        rng = generator(rng)
        if not np.isfinite(params).all():
            raise ValueError("params must be finite: there is nothing else to draw from")
        p = np.exp(np.vstack(self.log_chain(params)))
        found = Sampled([], [])
        for length, given in zip(lengths, inputs, strict=True):
            u = _table("inputs", given, (length, self.emission.n_inputs))
            path = _draw_path(p, length, rng)
            found.sequences.append(self._draw_frames(params, path, before, u, rng))
            found.states.append(path)
        return found

    def _draw_frames(self, params, path, before, inputs, rng):
        """`before` and a frame for each state of a path: all at once, or one after the other."""
        _, of_states = self.split(params)
        order = len(before)
        x = np.zeros((order + len(path), self.n_channels + inputs.shape[1]))
        x[:order, : self.n_channels] = before
        x[order:, self.n_channels :] = inputs
        step = 1 if order else len(path)
        for t in range(0, len(path), step):
            frames = make_frames([x[t : t + order + step]], self.emission, order)
            own = path[t : t + step]
            for k in np.unique(own):
                rows = np.flatnonzero(own == k)
                drawn = self.emission.draw(of_states, k, frames.rows(rows), rng)
                x[t + order + rows, : self.n_channels] = drawn
        return x

    def _hidden(self, params, sequences):
        return HiddenStates(self, params, self._frames(sequences), prior=False)

    def _frames(self, sequences):
        """The model's `Frames`, or those of other sequences."""
        if sequences is None:
            return self.frames
        found = read_sequences(sequences, self.context)
        n_columns = self.sequences[0].shape[1]
        if found[0].shape[1] != n_columns:
            raise ValueError(f"{found[0].shape[1]} channels: the model has {n_columns}")
        return make_frames(found, self.emission, self.context)


def _lengths(lengths):
    if not np.iterable(lengths):
        raise ValueError(f"lengths {lengths!r:.60}: a list, as [{lengths!r:.60}]")
    return [check_whole("length", n, 1) for n in lengths]


def _table(name, given, shape):
    """The given array, or an empty one for None; ValueError unless it is of this shape."""
    nothing = np.empty(shape if 0 in shape else 0)
    found = nothing if given is None else real_array(name, given)
    if found.shape != shape:
        raise ValueError(f"{name} {found.shape}: the emission looks at some of shape {shape}")
    return found


def _draw_path(p, length, rng):
    """States (length,) drawn from rows (K + 1, K) of initial and transition probabilities."""
    edges = np.cumsum(p, axis=1)
    draws = rng.random(length)
    path = np.empty(length, int)
    row = 0
    for t in range(length):
        path[t] = np.searchsorted(edges[row], draws[t] * edges[row, -1], side="right")
        row = path[t] + 1
    return path
