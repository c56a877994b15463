"""An HMM at one point and one weighting: F, its gradient, and expected counts."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import block_diag, csr_array
from scipy.special import logsumexp

from ...folds import weights as fold_weights
from ...inference import smoothing
from ...inference.prefixes import Chain
from ...inference.tangent import tangent
from .emissions.scores import StateScores, gradient
from .sequences import Frames
from .simplex import log_probabilities, score


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
        if self.sequence_weights is None:
            self.sequence_weights = np.ones(len(starts) - 1)
        chain, states = self.model.split(self.params)
        log_p = log_probabilities(chain)
        self.log_p = log_p
        self.p = np.exp(log_p)
        self.point = self.model.emission.at(states, self.frames)
        log_density = self.point.log_density
        if self.step_weights is None:
            self.step_weights = np.ones(starts[-1])
        else:
            log_density = self.step_weights[:, None] * log_density
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
        pseudo = self.model.chain_prior.counts(self.log_p) if self.prior else 0.0
        return np.vstack([first, moves]) + pseudo

    @cached_property
    def prior_hessian(self):
        """Of minus the emission's log prior, sparse (D, D)."""
        model = self.model
        if not self.prior:
            return csr_array((model.n_params, model.n_params))
        own = model.emission_prior.hessian(model.whole(self.params)[model.n_chain :])
        chain = csr_array((model.n_chain, model.n_chain))
        return block_diag([chain, own], "csr")[-model.n_params :, -model.n_params :]

    def value(self):
        """F."""
        log_prior = self.model._log_prior(self.params) if self.prior else 0.0
        return -float(self.sequence_weights @ self.smoothed.log_z + log_prior)

    def gradient(self):
        """dF/dparams (D,)."""
        model = self.model
        states = gradient(self.point, self.mass)
        of_prior = model.emission_prior.gradient(model.whole(self.params)[model.n_chain :])
        padded = np.append(np.zeros(model.n_chain), self.prior * of_prior)[-model.n_params :]
        return padded - model.join(score(self.counts, self.p), states)


def hidden_states(model, params, weights):
    """`HiddenStates` of the whole model at site weights (n_sites,), times its sample weights."""
    weights = weights * model.sample_weight
    if model.sites == "steps":
        return HiddenStates(model, params, model.frames, step_weights=weights)
    return HiddenStates(model, params, model.frames, sequence_weights=weights)


def states_of_sequences(model, params, numbers):
    """`HiddenStates` of some sequences, without the prior: their own share in F."""
    own = model.sample_weight[numbers]
    frames = model.frames.take(numbers)
    return HiddenStates(model, params, frames, sequence_weights=own, prior=False)


def prior_gradient(model, params):
    """That of minus the log prior, (D,)."""
    log_p = model._log_rows(params)
    of_chain = -score(model.chain_prior.counts(log_p), np.exp(log_p))
    of_emission = model.emission_prior.gradient(model.whole(params)[model.n_chain :])
    return np.append(of_chain, of_emission)[-model.n_params :]


def heldout_gradient(model, params, omitted, scored):
    """The gradient (D,) of the sum of the held-out losses of the scored sites of a fold.

    A left-out frame's is that of log sum_k gamma_k p_k: its own density's, with each state's share
    in that sum as mass, and that of gamma, which moves as if the potentials moved by p_k / sum.
    """
    if model.sites == "sequences":
        frames = model.frames.take(scored)
        return HiddenStates(model, params, frames, prior=False).gradient()
    hidden = hidden_states(model, params, fold_weights(model.n_sites, omitted))
    smoothed = hidden.smoothed
    log_density = hidden.point.log_density[scored]
    log_p = logsumexp(log_density, b=smoothed.gamma[scored], axis=1)
    field = np.zeros_like(smoothed.gamma)
    field[scored] = np.exp(log_density - log_p[:, None])
    starts = hidden.frames.starts
    still = np.zeros_like(smoothed.transition)
    moved, moves = tangent(smoothed[1:5], starts, hidden.sequence_weights, field, still)
    mass = moved * (hidden.step_weights * hidden.frames.observed)[:, None]
    mass += smoothed.gamma * field
    counts = np.vstack([moved[starts[:-1]].sum(axis=0), moves])
    gained = gradient(hidden.point, np.maximum(mass, 0.0))
    lost = gradient(hidden.point, np.maximum(-mass, 0.0))  # emissions take masses above 0
    return -model.join(score(counts, hidden.p), gained - lost)


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
    n_own = own[0].shape[1] - model.emission.n_shared
    return Chain(
        row=np.where(hidden.frames.observed, every, -1),
        log_density=hidden.point.log_density,
        density_score=np.stack(own, axis=1),
        log_initial=hidden.log_p[0],
        initial_score=by_row[0],
        log_transition=hidden.log_p[1:],
        transition_score=by_row[1:],
        places=(0, model.n_chain, model.n_nuisance, model.n_nuisance + k * n_own),
    )
