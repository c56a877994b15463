"""The Hessian of an HMM at one point as products with vectors: no D x D matrix is formed.

H = complete-data information - Cov(score) over the posterior of the states, + the prior's. Its
complete-data part has one block for each state, the M-step's normal equations: the preconditioner.

Source: Louis (1982).
"""

from functools import cached_property

import numpy as np

from ...inference.active_pairs import active_pairs, covariances
from ...parallel import pieces
from . import simplex
from .blocks import in_a_row
from .emissions.pairs import Pairs, Scores, gradient
from .posterior import HiddenStates

THRESHOLD = 1e-9  # of a posterior that counts; products are off by less than that share
ROUGH = 1e-4  # the same of rough products
AT_ONCE = 128  # directions; more would only need more memory


class Curvature:
    """H at the posterior of the states, prior included.

    rough: fewer pairs and single precision, for solves that are refined.
    """

    def __init__(self, hidden: HiddenStates, rough: bool = False):
        self.hidden = hidden
        self.model = hidden.model
        self.is_held = self.model.held is not None
        self.rough = rough
        starts = hidden.frames.starts
        threshold = ROUGH if rough else THRESHOLD
        self.active = active_pairs(hidden.smoothed, starts, threshold)
        frame = self.active.frame
        state = self.active.state
        self.pairs = Pairs(frame, state, hidden.mass[frame, state])
        observed = hidden.step_weights * hidden.frames.observed
        self.observed = observed[frame, None]
        self.first = np.flatnonzero(np.isin(frame, starts[:-1]))
        self.first_state = state[self.first]

    @cached_property
    def information(self):
        """Minus the second derivatives of the emission's log-densities, states known."""
        return self.hidden.point.information(self.pairs)

    @cached_property
    def scores(self):
        """First derivatives of the log-densities of pairs whose frame has others."""
        return Scores(self.hidden.point, self.pairs, self.active.contested, self.rough)

    def multiply(self, directions, left_out=()):
        """H times each row (B, D); left_out: for each row, sequences without part in Cov(score)."""
        weights = self._weights(len(directions))
        for row, sequences in enumerate(left_out):
            weights[sequences, row] = 0.0
        out = self.complete(directions)
        for batch in pieces(len(directions), AT_ONCE):
            out[batch] -= self._missing(directions[batch], weights[:, batch])
        return out

    def complete(self, directions):
        """The complete-data information and the prior's, times each direction."""
        chain, shared, states = self.model.split(directions)
        by_chain = np.einsum("nij,bnj->bni", self._chain_information, chain)
        out = self._join(by_chain, *self.information.multiply(shared, states))
        out += self._prior * directions
        return out

    def cross(self, left_out):
        """J (w_o - 1) at w = 1 of folds of time steps, (B, D); left_out (B, M): 1 - w_o."""
        n_folds = len(left_out)
        point = self.hidden.point
        frame = self.active.frame
        log_density = point.log_density[frame, self.active.state]
        s = left_out[:, frame].T * log_density[:, None]
        n_states = self.model.n_states
        tau = np.zeros((n_states, n_states, n_folds))
        out = self._moved_score(s, tau, self._weights(n_folds))
        for row, w in enumerate(left_out):
            own = gradient(point, w[:, None] * self.hidden.mass)
            out[row] += self._padded(own)
        return out

    def blocks(self):
        """The complete-data information and the prior's, block by block."""
        shared, states = self.information.blocks()
        n_states, size, _ = states.shape
        n_shared = len(shared)
        prior = self.hidden.emission_prior[1]
        by_state = prior[n_shared:].reshape(n_states, -1)
        repeats = by_state.shape[1] // size
        states = states + by_state[:, None, :size] * np.eye(size)
        parts = [(states, repeats)]
        if not self.is_held:
            shared = shared + np.diag(prior[:n_shared])
            parts = [(self._chain_information, 1), (shared[None], 1), *parts]
        return in_a_row(parts)

    @cached_property
    def _chain_information(self):
        return simplex.information(self.hidden.counts, self.hidden.p)

    @cached_property
    def _prior(self):
        return self._padded(self.hidden.emission_prior[1])

    def _padded(self, emission):
        """Parameters (D,) from those of the emission (E,), 0 where it has none."""
        whole = np.append(np.zeros(self.model.n_chain), emission)
        return whole[-self.model.n_params :]

    def _weights(self, n_directions):
        return np.repeat(self.hidden.sequence_weights[:, None], n_directions, axis=1)

    def _missing(self, directions, weights):
        """Cov(score) times each direction."""
        chain, shared, states = self.model.split(directions)
        tangent = simplex.tangent(chain, self.hidden.p)
        s = self.scores.along(shared, states)
        s *= self.observed
        s[self.first] += tangent[:, 0, self.first_state].T
        tau = tangent[:, 1:].transpose(1, 2, 0)
        return self._moved_score(s, tau, weights)

    def _moved_score(self, s, tau, weights):
        """How the expected score moves, (B, D), where potentials move by s and tau."""
        tau = None if self.is_held else np.ascontiguousarray(tau)
        c, moves = covariances(self.active, s, tau, np.ascontiguousarray(weights))
        counts = np.zeros((c.shape[1], *self.hidden.p.shape))
        if not self.is_held:
            in_state = np.eye(self.model.n_states)[self.first_state]
            counts[:, 0] = c[self.first].T @ in_state
            counts[:, 1:] = moves.transpose(2, 0, 1)
        c *= self.observed
        by_chain = simplex.score(counts, self.hidden.p)
        return self._join(by_chain, *self.scores.adjoint(c))

    def _join(self, chain, shared, states):
        """Rows of parameters, without what is held."""
        n = len(states)
        states = states.reshape(n, -1)
        if self.is_held:
            return states
        return np.concatenate([chain.reshape(n, -1), shared, states], axis=1)
