"""The params of an HMM; at one point and one weighting F, its gradient, and expected counts."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import autograd.numpy as anp
import numpy as np
from scipy.sparse import block_diag, csr_array
from scipy.special import logsumexp

from ...checks import check_kind
from ...folds import weights as fold_weights
from ...inference import smoothing
from ...inference.prefixes import Chain
from ...inference.tangent import tangent
from ...model import checked
from .sequences import Frames
from .simplex import log_probabilities, log_ratios, score


class HMMParams(NamedTuple):
    """initial (K,), transition (K, K) with rows that sum to 1, emission: its named parameters."""

    initial: np.ndarray
    transition: np.ndarray
    emission: NamedTuple


class Parameters:
    """Methods of an `HMM`: params (D,) and what they are made of."""

    @property
    def n_chain(self: Any) -> int:
        """How many log ratios come first."""
        return self.n_states**2 - 1

    @property
    def n_nuisance(self: Any) -> int:
        """How many parameters come before those of single states."""
        return self.n_chain + self.emission.n_shared

    @property
    def n_params(self: Any) -> int:
        """D."""
        repeats, size = self.emission.state_shape(self.n_channels)
        n_front = self.n_nuisance if self.held is None else 0
        return n_front + self.n_states * repeats * size

    @checked
    def hold(self: Any, params: np.ndarray) -> tuple[Any, np.ndarray]:
        """Hold what is not of single states at params: (the model so held, the params still free).

        As the paper counts: Theta = (B, b), D = K R (p R + 1) in Eq. 17.
        """
        if self.held is not None:
            raise ValueError("something is held already: hold() the whole model's params")
        return replace(self, held=params[: self.n_nuisance]), params[self.n_nuisance :]

    def whole(self: Any, params: np.ndarray) -> np.ndarray:
        """All parameters, with what is held in front; in rows of directions (B, D) that is 0."""
        if self.held is None:
            return params
        front = self.held if params.ndim == 1 else np.zeros((len(params), self.n_nuisance))
        return anp.concatenate([front, params], axis=-1)

    def split(self: Any, params: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log ratios (K + 1, K - 1), and (K, e) of the emission's states, shared ones first.

        Of directions (B, D) both have (B,) in front.
        """
        k = self.n_states
        whole = self.whole(params)
        leading = params.shape[:-1]
        chain = whole[..., : self.n_chain].reshape((*leading, k + 1, k - 1))
        shared = whole[..., None, self.n_chain : self.n_nuisance] * np.ones((k, 1))
        states = whole[..., self.n_nuisance :]
        states = states.reshape((*leading, k, states.shape[-1] // k))
        return chain, anp.concatenate([shared, states], axis=-1)

    def join(self: Any, chain: np.ndarray, states: np.ndarray) -> np.ndarray:
        """Derivatives by params (..., D) from those by what `split` gives."""
        leading = states.shape[:-2]
        n_shared = self.emission.n_shared
        own = states[..., n_shared:].reshape((*leading, -1))
        if self.held is not None:
            return own
        shared = states[..., :n_shared].sum(axis=-2)
        return np.concatenate([chain.reshape((*leading, -1)), shared, own], axis=-1)

    @checked
    def unpack(self: Any, params: np.ndarray) -> HMMParams:
        """Named, constrained parameters."""
        p = anp.exp(self._log_rows(params))
        _, states = self.split(params)
        return HMMParams(p[0], p[1:], self.emission.unpack(states, self.n_channels))

    def pack(self: Any, named: HMMParams) -> np.ndarray:
        """The params (D,) of named ones; what is held is left out."""
        check_kind("named", named, HMMParams)
        rows = np.vstack([named.initial, named.transition])
        if rows.shape[1] != self.n_states or abs(rows.sum(axis=1) - 1.0).max() > 1e-6:
            raise ValueError(f"rows {rows.tolist()} must be {self.n_states} probabilities each")
        return self._packed(rows, self.emission.pack(named.emission))

    def _packed(self, rows, emission):
        packed = np.append(log_ratios(rows), emission)
        size = self.n_nuisance + self.n_states * np.prod(self.emission.state_shape(self.n_channels))
        if packed.shape != (size,) or not np.isfinite(packed).all():
            raise ValueError(f"{size} finite params are needed, of probabilities and sds above 0")
        return packed[-self.n_params :]

    def _log_rows(self, params):
        """Log probabilities (K + 1, K): initial, then transitions."""
        return log_probabilities(self.split(params)[0])


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
        chain, self.states = self.model.split(self.params)
        log_p = log_probabilities(chain)
        self.log_p = log_p
        self.p = np.exp(log_p)
        self.log_density = self.model.emission.log_densities(self.states, self.frames)
        log_density = self.log_density
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
        states = model.emission.gradients(self.states, self.frames, self.mass)
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
    gamma = hidden.smoothed.gamma
    log_density = hidden.log_density[scored]
    log_p = logsumexp(log_density, b=gamma[scored], axis=1)
    field = np.zeros_like(gamma)
    field[scored] = np.exp(log_density - log_p[:, None])
    starts = hidden.frames.starts
    still = np.zeros_like(hidden.smoothed.transition)
    moved, moves = tangent(hidden.smoothed[1:], starts, hidden.sequence_weights, field, still)
    mass = moved * (hidden.step_weights * hidden.frames.observed)[:, None]
    mass += gamma * field
    counts = np.vstack([moved[starts[:-1]].sum(axis=0), moves])
    emission = model.emission
    gained = emission.gradients(hidden.states, hidden.frames, np.maximum(mass, 0.0))
    lost = emission.gradients(hidden.states, hidden.frames, np.maximum(-mass, 0.0))
    return -model.join(score(counts, hidden.p), gained - lost)  # masses are to be above 0


def filter_tables(hidden):
    """The `Chain` whose filter runs through all frames; scores of all params, held ones too."""
    model = hidden.model
    k = model.n_states
    every = np.arange(len(hidden.frames.x))
    scores = [model.emission.scores(state, hidden.frames) for state in hidden.states]
    n_shared = model.emission.n_shared
    n_own = scores[0].shape[1] - n_shared
    shared = model.n_chain + np.tile(np.arange(n_shared), (k, 1))
    own = model.n_nuisance + np.arange(k * n_own).reshape(k, n_own)
    of_chain = np.zeros((k + 1, k, model.n_nuisance + k * n_own))
    for row, p in enumerate(hidden.p):
        columns = slice(row * (k - 1), (row + 1) * (k - 1))
        of_chain[row, :, columns] = np.eye(k)[:, :-1] - p[:-1]
    return Chain(
        row=np.where(hidden.frames.observed, every, -1),
        log_density=hidden.log_density,
        density_score=np.stack(scores, axis=1),
        places=np.hstack([shared, own]),
        log_initial=hidden.log_p[0],
        initial_score=of_chain[0],
        log_transition=hidden.log_p[1:],
        transition_score=of_chain[1:],
    )
