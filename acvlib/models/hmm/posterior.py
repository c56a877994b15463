"""The posterior of an HMM's hidden states at one point and one weighting: F, its gradient, and what
follows of states, of the next frame, of other sequences.
"""

from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from ...checks import warn
from ...declared import Params, declared
from ...folds import WHOLE, Folds
from ...folds import weights as fold_weights
from ...inference import smoothing
from ...parallel import pieces
from ...trials import NoFiniteOptimum
from ...weighting import LookedBackAt, unit_of
from .frames import Frames, make_frames, read_sequences

AT_ONCE = 1000  # folds


class HiddenStates:
    """The posterior of the hidden states at params, of the model's frames or of others.

    step_weights (M,), sequence_weights (N,): of frames and of sequences, 1 by default
    prior: whether F has the model's prior in it

    States that contradict known ones are impossible, whatever a frame weighs: log_density is -inf.
    A sequence that no path of states explains has log p(x) = -inf and no part in F.
    """

    def __init__(
        self,
        model: Any,
        params: np.ndarray,
        frames: Frames,
        step_weights: np.ndarray | None = None,
        sequence_weights: np.ndarray | None = None,
        prior: bool = True,
    ):
        self.model = model
        self.params = params
        self.frames = frames
        self.prior = prior
        starts = frames.starts
        self.step_weights = np.ones(starts[-1]) if step_weights is None else step_weights
        ones = np.ones(len(starts) - 1)
        self.sequence_weights = ones if sequence_weights is None else sequence_weights
        chain, self.rows = model.split(params)
        self.log_p = model.chain_prior.log_p(chain)
        self.p = np.exp(self.log_p)
        self.log_density = model.emission.log_densities(self.rows, frames)
        self.log_density[~frames.observed] = 0.0
        each = self.step_weights[:, None]
        with np.errstate(invalid="ignore"):  # 0 times -inf
            weighted = np.where(each > 0.0, each * self.log_density, 0.0)
        if frames.states is not None:
            ruled_out = frames.ruled_out(model.n_states)
            weighted[ruled_out] = -np.inf
            self.log_density[ruled_out] = -np.inf
        density = smoothing.factors(weighted)
        self.smoothed = smoothing.smooth(density, starts, self.log_p[0], self.log_p[1:])

    @cached_property
    def mass(self) -> np.ndarray:
        """Weighted expected counts of observed frames in states, (M, K)."""
        of_frame = np.repeat(self.sequence_weights, np.diff(self.frames.starts))
        weights = of_frame * self.step_weights * self.frames.observed
        return self.smoothed.gamma * weights[:, None]

    @cached_property
    def counts(self) -> np.ndarray:
        """Weighted expected counts (K + 1, K) of first states, of transitions, and the prior's."""
        starts = self.frames.starts
        first = self.sequence_weights @ self.smoothed.gamma[starts[:-1]]
        moves = smoothing.transition_counts(self.smoothed, starts, self.sequence_weights)
        pseudo = self.model.chain_prior.pseudo_counts if self.prior else 0.0
        return np.vstack([first, moves]) + pseudo

    @cached_property
    def expected(self) -> Any:
        """What the emission's slopes, information and M-step are made of."""
        return self.model.emission.expected(self.rows, self.frames, self.mass)

    @cached_property
    def _minus_log_prior(self):
        """(value, slopes) of the rows; 0 without a prior."""
        return self.model.emission.minus_log_prior(self.rows) if self.prior else (0.0, 0.0)

    def value(self) -> float:
        """F."""
        log_z = self.smoothed.log_z
        explained = log_z > -np.inf
        value = self._minus_log_prior[0] - self.sequence_weights[explained] @ log_z[explained]
        if self.prior:
            value += self.model.chain_prior.minus_log_prior(self.log_p)[0]
        return float(value)

    def gradient(self) -> np.ndarray:
        """dF/dparams (D,)."""
        model = self.model
        slopes = self._minus_log_prior[1] - model.emission.slopes(self.rows, self.expected)
        return model.join(-model.chain_prior.score(self.counts, self.p), slopes)


def hidden_states(
    model: Any, params: np.ndarray, weights: np.ndarray, prior: bool = True
) -> HiddenStates:
    """`HiddenStates` of the whole model at site weights (n_sites,), times its sample weights."""
    of = "step_weights" if model.sites == "steps" else "sequence_weights"
    given = {of: weights * model.sample_weight, "prior": prior}
    return HiddenStates(model, params, model.frames, **given)


def states_of_sequences(model: Any, params: np.ndarray, numbers: np.ndarray) -> HiddenStates:
    """`HiddenStates` of some sequences, without the prior: their own share in F."""
    weights = model.sample_weight[numbers]
    frames = model.frames.take(numbers)
    return HiddenStates(model, params, frames, sequence_weights=weights, prior=False)


def heldout_loss(model: Any, params: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """-log p(x_n) of each left-out sequence, or -log p(x_t | frames outside the fold, lags).

    Known states are there in both: log p(x_n, known states), and log p(x_t | ..., known states).
    """
    if model.sites == "sequences":
        return -HiddenStates(model, params, model.frames.take(fold), prior=False).smoothed.log_z
    weights = np.ones(model.n_sites)
    weights[fold] = 0.0
    left = hidden_states(model, params, weights)
    return -logsumexp(left.log_density[fold], b=left.smoothed.gamma[fold], axis=1)


class ImpossibleSequence(UserWarning):
    """Zeros of the model leave a sequence without a path of states."""


def check_explained(model: Any) -> None:
    """Say which sequences no path of states explains: their loss is infinite in any fit.

    Warns `ImpossibleSequence`; raises ValueError where a single time step may be left out, or no
    sequence is left.
    """
    fixed = model.chain_prior.fixed
    if not model.emission.has_zeros and (fixed is None or not (fixed == 0.0).any()):
        return
    hidden = HiddenStates(model, np.zeros(model.n_params), model.weighed_frames, prior=False)
    lost = np.flatnonzero(hidden.smoothed.log_z == -np.inf)
    if not lost.size:
        return
    told = f"no path of states explains sequences {lost.tolist()}, as `fixed` has zeros"
    if model.sites == "steps" or len(lost) == len(model.sequences):
        raise ValueError(f"{told}: give these moves a probability, or let such frames be nan")
    message = f"{told}: they have no part in the fit, and an infinite loss in any fold"
    warn(message, ImpossibleSequence)


def check_known_states(model: Any) -> None:
    """Raise ValueError where zeros of `fixed` leave no path through the known states."""
    fixed, frames = model.chain_prior.fixed, model.frames
    if frames.states is None or fixed is None or (fixed != 0.0).all():
        return
    first, moves = fixed[0] != 0.0, fixed[1:] != 0.0
    only = np.eye(model.n_states, dtype=bool)
    for n, (start, stop) in enumerate(pairwise(frames.starts)):
        reached = first
        for t, state in enumerate(frames.states[start:stop]):
            reached = reached @ moves if t > 0 else reached
            if state >= 0 and not reached[state]:
                what = f"known state {state} of frame {model.context + t} of sequence {n}"
                why = "cannot be reached from those before it, as `fixed` has zeros"
                raise ValueError(f"{what} {why}: give such moves nan in `fixed`, or let it be nan")
            reached = only[state] if state >= 0 else reached


def warn_of_lags(frames: Frames, weights: np.ndarray, order: int) -> None:
    """Warn where a frame (M,) looks back at one of weight 0, which may be junk."""
    start = np.repeat(frames.starts[:-1], np.diff(frames.starts))
    places = np.arange(len(start))
    for lag in range(1, order + 1):
        before = np.where(places - lag >= start, weights[places - lag], 1.0)
        looks = np.flatnonzero((before == 0.0) & (weights > 0.0) & frames.observed)
        if looks.size:
            says = f"frame {looks[0]} looks back at frame {looks[0] - lag}, of sample weight 0"
            warn(f"{says}: let it be nan, if its value is not to be used", LookedBackAt)
            return


class Decoded(NamedTuple):
    """states (M,): each sequence's most probable path, end to end; log_p (N,): log p(x, z)."""

    states: np.ndarray
    log_p: np.ndarray


class Predicted(NamedTuple):
    """One step ahead, of frames end to end.

    states (M, K): P(z_t | x_1 ... x_t-1); log_density (M,): log p(x_t | x_1 ... x_t-1), which sums
    to log p(x), 0 where x_t is missing. Known states count as part of their x_t.
    """

    states: np.ndarray
    log_density: np.ndarray


class Predictions:
    """Methods of an `HMM`. Frames are the model's own, end to end, or those of other sequences.

    Of these no state is known.
    """

    @declared
    def sequence_losses(self: Any, params: Params, sequences: Any = None) -> np.ndarray:
        """-log p(x_n; params), or -log p(x_n, known states), of the model's or any sequences."""
        return -self._hidden(params, sequences).smoothed.log_z

    @declared
    def posterior(self: Any, params: Params, sequences: Any = None) -> np.ndarray:
        """P(z_t = k | x; params) of all frames, (M, K)."""
        return self._possible(params, sequences).smoothed.gamma

    @declared
    def decode(self: Any, params: Params, sequences: Any = None) -> Decoded:
        """The most probable path of states of each sequence, argmax_z p(x, z), by Viterbi."""
        hidden = self._possible(params, sequences)
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

    def check_optimum(self: Any, params: np.ndarray) -> None:
        """Raise `NoFiniteOptimum` where a flat prior lets params (D,) run to infinity."""
        self._check_finite(params, WHOLE[0])

    def check_refits(self: Any, params: np.ndarray, folds: Folds) -> None:
        """Raise `NoFiniteOptimum` for the first fold whose params (n_folds, D) do."""
        if self.held is not None:
            return
        for part in pieces(len(folds), AT_ONCE):
            chain, rows = self.split(params[part])
            extreme = self.chain_prior.extreme(chain) | self.emission.extreme(rows, self.frames)
            for number in part.start + np.flatnonzero(extreme):
                try:
                    self._check_finite(params[number], folds[number])
                except NoFiniteOptimum as error:
                    raise NoFiniteOptimum(f"without {folds.name(number)} {error}") from None

    def _check_finite(self: Any, params, fold):
        if self.held is not None:
            return
        hidden = hidden_states(self, params, fold_weights(self.n_sites, fold))
        unit = unit_of(self) ** 2
        expected = self.emission.expected(hidden.rows, hidden.frames, hidden.mass / unit)
        remedy = "give them in `fixed`, or a concentration"
        self.chain_prior.check_optimum(hidden.counts / unit, remedy)
        self.emission.check_optimum(hidden.rows, expected)

    def _possible(self, params, sequences):
        """`_hidden`; ValueError where no path of states explains a sequence."""
        hidden = self._hidden(params, sequences)
        lost = np.flatnonzero(np.isneginf(hidden.smoothed.log_z))
        if lost.size:
            what = f"sequence {lost[0]} is impossible at these params (log p = -inf)"
            raise ValueError(f"{what}: it has no states; see sequence_losses")
        return hidden

    def _hidden(self, params, sequences):
        """At the model's frames, or at those of other sequences."""
        if sequences is None:
            return HiddenStates(self, params, self.frames, prior=False)
        read = read_sequences(sequences, self.context, self.sequences.columns)
        n_columns = self.sequences[0].shape[1]
        if read[0].shape[1] != n_columns:
            raise ValueError(f"{read[0].shape[1]} channels: the model has {n_columns}")
        frames = make_frames(read, self.emission, self.context)
        return HiddenStates(self, params, frames, prior=False)
