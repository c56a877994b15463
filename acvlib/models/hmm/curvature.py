"""The Hessian of an HMM at one point as products with vectors: no D x D matrix is formed.

H = complete-data information - Cov(score) over the posterior of the states, + the prior's. Its
complete-data part has one block for each state, the M-step's normal equations: the preconditioner.

Source: Louis (1982).
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ...inference.active_pairs import active_pairs, covariances
from ...parallel import pieces
from . import simplex
from .blocks import Block
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
        self.rough = rough
        starts = hidden.frames.starts
        self.active = active_pairs(hidden.smoothed, starts, ROUGH if rough else THRESHOLD)
        frame, state = self.active.frame, self.active.state
        self.pairs = Pairs(frame, state, hidden.mass[frame, state])
        self.observed = (hidden.step_weights * hidden.frames.observed)[frame, None]
        self.first = np.flatnonzero(np.isin(frame, starts[:-1]))

    @cached_property
    def information(self):
        """Minus the second derivatives of the emission's log-densities, states known."""
        return self.hidden.point.information(self.pairs)

    @cached_property
    def scores(self) -> Scores:
        """First derivatives of the log-densities of pairs whose frame has others."""
        return Scores(self.hidden.point, self.pairs, self.active.contested, self.rough)

    def multiply(self, directions: np.ndarray, left_out: Sequence = ()) -> np.ndarray:
        """H times each row (B, D); left_out: for each row, sequences without part in Cov(score)."""
        weights = self._weights(len(directions))
        for row, sequences in enumerate(left_out):
            weights[sequences, row] = 0.0
        out = self.complete(directions)
        for batch in pieces(len(directions), AT_ONCE):
            out[batch] -= self._missing(directions[batch], weights[:, batch])
        return out

    def complete(self, directions: np.ndarray) -> np.ndarray:
        """The complete-data information and the prior's, times each direction."""
        chain, shared, states = self.model.split_directions(directions)
        p = self.hidden.p
        counts = self.hidden.counts + self.hidden.pseudo
        rows = (counts.sum(axis=1, keepdims=True) * p * simplex.tangent(chain, p))[..., :-1]
        out = self._join(rows, *self.information.multiply(shared, states))
        prior = self._prior[-out.shape[1] :]
        out[:, -len(prior) :] += prior * directions[:, -len(prior) :]
        return out

    def cross(self, left_out: np.ndarray) -> np.ndarray:
        """J (w_o - 1) at w = 1 of folds of time steps, (B, D); left_out (B, M): 1 - w_o."""
        log_density = self.hidden.point.log_density[self.active.frame, self.active.state]
        s = left_out[:, self.active.frame].T * log_density[:, None]
        tau = np.zeros((*self.hidden.p[1:].shape, len(left_out)))
        out = self._moved_score(s, tau, self._weights(len(left_out)))
        for row, w in enumerate(left_out):
            own = gradient(self.hidden.point, w[:, None] * self.hidden.mass)[-out.shape[1] :]
            out[row, -len(own) :] += own
        return out

    def blocks(self) -> list[Block]:
        """The complete-data information and the prior's, block by block."""
        hidden, emission = self.hidden, self.model.emission
        shared, states = self.information.blocks()
        repeats, size = emission.state_shape(self.model.n_channels)
        prior = self._prior
        by_state = prior[emission.n_shared :].reshape(len(states), repeats, size)[:, 0]
        states = states + by_state[:, :, None] * np.eye(size)
        parts = [(states, repeats)]
        if self.model.held is None:
            chain = simplex.information(hidden.counts + hidden.pseudo, hidden.p)
            shared = shared + np.diag(prior[: emission.n_shared])
            parts = [(chain, 1), (shared[None], 1), *parts]
        blocks, start = [], 0
        for matrices, times in parts:
            for matrix in matrices:
                stop = start + times * len(matrix)
                blocks.append(Block(slice(start, stop), matrix))
                start = stop
        return [block for block in blocks if block.matrix.size]

    @property
    def _prior(self):
        """The diagonal Hessian of minus the emission's log prior, (E,)."""
        return self.hidden.emission_prior[1]

    def _weights(self, n_directions):
        return np.repeat(self.hidden.sequence_weights[:, None], n_directions, axis=1)

    def _missing(self, directions, weights):
        """Cov(score) times each direction."""
        chain, shared, states = self.model.split_directions(directions)
        tangent = simplex.tangent(chain, self.hidden.p)
        s = self.scores.along(shared, states)
        s *= self.observed
        s[self.first] += tangent[:, 0, self.active.state[self.first]].T
        return self._moved_score(s, tangent[:, 1:].transpose(1, 2, 0), weights)

    def _moved_score(self, s, tau, weights):
        """How the expected score moves, (B, D), where potentials move by s and tau."""
        held = self.model.held is not None
        tau = None if held else np.ascontiguousarray(tau)
        c, moves = covariances(self.active, s, tau, np.ascontiguousarray(weights))
        counts = np.zeros((c.shape[1], *self.hidden.p.shape))
        if not held:
            counts[:, 1:] = moves.transpose(2, 0, 1)
            in_state = self.active.state[self.first, None] == np.arange(self.model.n_states)
            counts[:, 0] = c[self.first].T @ in_state
        c *= self.observed
        return self._join(simplex.score(counts, self.hidden.p), *self.scores.adjoint(c))

    def _join(self, chain, shared, states):
        """Rows of parameters, without what is held."""
        n = len(states)
        states = states.reshape(n, -1)
        if self.model.held is not None:
            return states
        return np.concatenate([chain.reshape(n, -1), shared, states], axis=1)
