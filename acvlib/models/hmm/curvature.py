"""The Hessian of an HMM at one point as products with vectors: no D x D matrix is formed.

H = complete-data information - Cov(score) over the posterior of the states, + the prior's. Its
complete-data part has one block for each state, the M-step's normal equations: the preconditioner.

Source: Louis (1982).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ...inference.active_pairs import active_pairs, covariances
from ...parallel import pieces
from . import simplex
from .emissions.scores import Scores, by_state, gradient
from .posterior import HiddenStates

THRESHOLD = 1e-9  # of a posterior that counts: H and J are off by up to 1e-6 of their size
ROUGH = 1e-4  # the same of rough products
AT_ONCE = 128  # directions; more would only need more memory


@dataclass(frozen=True)
class Block:
    """A positive definite matrix (d, d), repeated on the diagonal at `place`, (r d) parameters."""

    place: slice
    matrix: np.ndarray

    @cached_property
    def _factor(self):
        return cho_factor(self.matrix, lower=True)

    @cached_property
    def _inverse(self):
        return cho_solve(self._factor, np.eye(len(self.matrix)))

    def solve(self, vectors):
        """matrix^-1 times this block's part of vectors (B, D): (B, r d)."""
        own = vectors[:, self.place]
        rows = own.reshape(-1, len(self.matrix))
        few = len(rows) < len(self.matrix)  # too few to pay for an inverse
        solved = cho_solve(self._factor, rows.T).T if few else rows @ self._inverse
        return solved.reshape(own.shape)

    def less(self, other):
        """The block without another's matrix."""
        return Block(self.place, self.matrix - other.matrix)


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
        self.active = active_pairs(hidden.smoothed, starts, ROUGH if rough else THRESHOLD)
        frame = self.active.frame
        state = self.active.state
        self.groups = by_state(frame, state, hidden.mass[frame, state])
        self.observed = (hidden.step_weights * hidden.frames.observed)[frame, None]
        self.first = np.flatnonzero(np.isin(frame, starts[:-1]))
        self.in_first_state = np.eye(self.model.n_states)[state[self.first]]

    @cached_property
    def information(self):
        """Minus the second derivatives of the emission's log-densities, states known."""
        return self.hidden.point.information(self.groups)

    @cached_property
    def scores(self):
        """First derivatives of the log-densities of pairs whose frame has others."""
        return Scores(self.hidden.point, self.groups, self.active.contested, self.rough)

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
        chain, states = self.model.split(directions)
        by_chain = np.einsum("nij,bnj->bni", self._chain_information, chain)
        out = self.model.join(by_chain, self.information.multiply(states))
        out += (self.hidden.prior_hessian @ directions.T).T
        return out

    def cross(self, left_out):
        """J (w_o - 1) at w = 1 of folds of time steps, (B, D); left_out (B, M): 1 - w_o."""
        frame = self.active.frame
        log_density = self.hidden.point.log_density[frame, self.active.state]
        s = left_out[:, frame].T * (self.hidden.step_weights[frame] * log_density)[:, None]
        tau = np.zeros((*self.hidden.p[1:].shape, len(left_out)))
        chain, states = self._moved_score(s, tau, self._weights(len(left_out)))
        for row, w in enumerate(left_out):
            states[row] += gradient(self.hidden.point, w[:, None] * self.hidden.mass)
        return self.model.join(chain, states)

    @cached_property
    def blocks(self):
        """The complete-data information and the prior's, as `Block`s one after another."""
        shared, states = self.information.blocks()
        repeats, _ = self.model.emission.state_shape(self.model.n_channels)
        parts = [(states, repeats)]
        if not self.is_held:
            parts = [(self._chain_information, 1), (shared[None], 1), *parts]
        blocks = []
        start = 0
        for matrices, repeats in parts:
            for matrix in matrices:
                size = len(matrix)
                first = slice(start, start + size)
                prior = self.hidden.prior_hessian[first, first].toarray()
                place = slice(start, start + repeats * size)
                blocks.append(Block(place, matrix + prior))
                start = place.stop
        return [block for block in blocks if len(block.matrix)]

    def precondition(self, vectors):
        """The inverse of all blocks times vectors (B, D)."""
        out = np.empty_like(vectors)
        for block in self.blocks:
            out[:, block.place] = block.solve(vectors)
        return out

    @cached_property
    def _chain_information(self):
        """Minus the Hessian of sum_k counts_k log p_k, for each row: (K + 1, K - 1, K - 1)."""
        p = self.hidden.p
        of_prior = self.model.chain_prior.stiffness(p) if self.hidden.prior else 0.0
        return simplex.information(self.hidden.counts.sum(axis=1), p) + of_prior

    def _weights(self, n_directions):
        return np.repeat(self.hidden.sequence_weights[:, None], n_directions, axis=1)

    def _missing(self, directions, weights):
        """Cov(score) times each direction."""
        chain, states = self.model.split(directions)
        full = np.pad(chain, ((0, 0), (0, 0), (0, 1)))
        tangent = full - (full * self.hidden.p).sum(axis=-1, keepdims=True)  # of log p
        s = self.scores.along(states)
        s *= self.observed
        s[self.first] += self.in_first_state @ tangent[:, 0].T
        tau = tangent[:, 1:].transpose(1, 2, 0)
        return self.model.join(*self._moved_score(s, tau, weights))

    def _moved_score(self, s, tau, weights):
        """How the expected scores of chain and states move where potentials move by s and tau."""
        tau = None if self.is_held else np.ascontiguousarray(tau)
        c, moves = covariances(self.active, s, tau, np.ascontiguousarray(weights))
        counts = np.zeros((c.shape[1], *self.hidden.p.shape))
        if not self.is_held:
            counts[:, 0] = c[self.first].T @ self.in_first_state
            counts[:, 1:] = moves.transpose(2, 0, 1)
        c *= self.observed
        return simplex.score(counts, self.hidden.p), self.scores.adjoint(c)
