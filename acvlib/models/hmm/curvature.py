"""The Hessian of an HMM at one point as products with vectors: no D x D matrix is formed.

H = complete-data information - Cov(score) over the posterior of the states, + the prior's.

Source: Louis (1982).
"""

from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ...inference.active_pairs import active_pairs, covariances
from ...parallel import pieces
from . import simplex
from .emissions.base import StatePairs
from .posterior import HiddenStates

THRESHOLD = 1e-9  # of a posterior that counts: H and J are off by up to 1e-6 of their size
ROUGH = 1e-4  # the same of rough products
AT_ONCE = 128  # directions; more would only need more memory
SUBNORMAL = 1e-30  # single precision below this is multiplied slowly


def hessian(hidden: HiddenStates) -> np.ndarray:
    """H (D, D), prior included."""
    units = np.eye(hidden.model.n_params)
    return CompleteData(hidden).multiply(units) - ScoreCovariance(hidden).multiply(units)


def _state_pairs(hidden, frame, state, chosen):
    """`StatePairs` of each state, of the chosen ones of pairs (frame, state)."""
    found = []
    for k in np.unique(state[chosen]):
        numbers = chosen[state[chosen] == k]
        rows = frame[numbers]
        mass = hidden.mass[rows, k]
        found.append(StatePairs(k, numbers, hidden.frames.rows(rows), mass))
    return found


class CompleteData:
    """H if the states were known, as is expected of them, prior included.

    It has one block for each state, the M-step's normal equations: the preconditioner.
    """

    def __init__(self, hidden: HiddenStates):
        self.hidden = hidden
        self.model = hidden.model

    @cached_property
    def _information(self):
        """Of the emission's log-densities."""
        frame, state = np.nonzero(self.hidden.smoothed.gamma > THRESHOLD)
        pairs = _state_pairs(self.hidden, frame, state, np.arange(len(frame)))
        return self.model.emission.informations(self.hidden.states, pairs)

    @cached_property
    def _chain_information(self):
        """Minus the Hessian of sum_k counts_k log p_k, for each row: (K + 1, K - 1, K - 1)."""
        p = self.hidden.p
        of_prior = self.model.chain_prior.stiffness(p) if self.hidden.prior else 0.0
        return simplex.information(self.hidden.counts.sum(axis=1), p) + of_prior

    def multiply(self, directions):
        """Times each row (B, D)."""
        chain, states = self.model.split(directions)
        by_chain = np.einsum("nij,bnj->bni", self._chain_information, chain)
        out = self.model.join(by_chain, self._information.multiply(states))
        out += (self.hidden.prior_hessian @ directions.T).T
        return out

    @cached_property
    def blocks(self):
        """[(place, matrix (d, d), repeated r times on the diagonal at `place`, (r d) params)]."""
        shared, states = self._information.blocks()
        repeats, _ = self.model.emission.state_shape(self.model.n_channels)
        parts = [(states, repeats)]
        if self.model.held is None:
            parts = [(self._chain_information, 1), (shared[None], 1), *parts]
        blocks = []
        start = 0
        for matrices, repeats in parts:
            for matrix in matrices if matrices.shape[1] else ():
                size = len(matrix)
                first = slice(start, start + size)
                prior = self.hidden.prior_hessian[first, first].toarray()
                blocks.append((slice(start, start + repeats * size), matrix + prior))
                start += repeats * size
        return blocks

    @cached_property
    def _factors(self):
        return [(place, cho_factor(matrix, lower=True)) for place, matrix in self.blocks]

    def precondition(self, vectors):
        """The inverse of all blocks times vectors (B, D)."""
        out = np.empty_like(vectors)
        for place, factor in self._factors:
            out[:, place] = block_solve(factor, vectors[:, place])
        return out


def block_solve(factor, vectors):
    """M^-1 times vectors (B, r d), of a factorised M (d, d) that is repeated r times."""
    rows = vectors.reshape(-1, len(factor[0]))
    return cho_solve(factor, rows.T, check_finite=False).T.reshape(vectors.shape)


class ScoreCovariance:
    """Cov(score) over the posterior of the states, and what its recursions give of J.

    rough: fewer pairs and single precision, for solves that are refined.
    """

    def __init__(self, hidden: HiddenStates, rough: bool = False):
        self.hidden = hidden
        self.model = hidden.model
        self.rough = rough
        starts = hidden.frames.starts
        self.active = active_pairs(hidden.smoothed, starts, ROUGH if rough else THRESHOLD)
        frame = self.active.frame
        self.observed = (hidden.step_weights * hidden.frames.observed)[frame, None]
        self.first = np.flatnonzero(np.isin(frame, starts[:-1]))
        self.in_first_state = np.eye(self.model.n_states)[self.active.state[self.first]]

    def multiply(self, directions, left_out=()):
        """Times each row (B, D); left_out: for each row, sequences that have no part in it."""
        weights = self._weights(len(directions))
        for row, sequences in enumerate(left_out):
            weights[sequences, row] = 0.0
        out = np.empty_like(directions)
        for batch in pieces(len(directions), AT_ONCE):
            out[batch] = self._multiply(directions[batch], weights[:, batch])
        return out

    def _multiply(self, directions, weights):
        chain, states = self.model.split(directions)
        full = np.pad(chain, ((0, 0), (0, 0), (0, 1)))
        tangent = full - (full * self.hidden.p).sum(axis=-1, keepdims=True)  # of log p
        s = np.zeros((len(self.observed), len(directions)))
        for k, numbers, scores in self._scores():
            s[numbers] = scores @ self._as_precise(states[:, k].T)
        s *= self.observed
        s[self.first] += self.in_first_state @ tangent[:, 0].T
        tau = tangent[:, 1:].transpose(1, 2, 0)
        return self.model.join(*self._moved_score(s, tau, weights))

    def cross(self, left_out):
        """J (w_o - 1) at w = 1 of folds of time steps, (B, D); left_out (B, M): 1 - w_o."""
        hidden = self.hidden
        frame = self.active.frame
        log_density = hidden.log_density[frame, self.active.state]
        s = left_out[:, frame].T * (hidden.step_weights[frame] * log_density)[:, None]
        tau = np.zeros((*hidden.p[1:].shape, len(left_out)))
        chain, states = self._moved_score(s, tau, self._weights(len(left_out)))
        for row, w in enumerate(left_out):
            mass = w[:, None] * hidden.mass
            states[row] += self.model.emission.gradients(hidden.states, hidden.frames, mass)
        return self.model.join(chain, states)

    def _weights(self, n_directions):
        return np.repeat(self.hidden.sequence_weights[:, None], n_directions, axis=1)

    def _moved_score(self, s, tau, weights):
        """How the expected scores of chain and states move where potentials move by s and tau."""
        is_held = self.model.held is not None
        tau = None if is_held else np.ascontiguousarray(tau)
        c, moves = covariances(self.active, s, tau, np.ascontiguousarray(weights))
        counts = np.zeros((c.shape[1], *self.hidden.p.shape))
        if not is_held:
            counts[:, 0] = c[self.first].T @ self.in_first_state
            counts[:, 1:] = moves.transpose(2, 0, 1)
        c *= self.observed
        states = np.zeros((c.shape[1], *self.hidden.states.shape))
        for k, numbers, scores in self._scores():
            states[:, k] = self._as_precise(c[numbers].T) @ scores
        return simplex.score(counts, self.hidden.p), states

    def _scores(self):
        """(state, numbers, d log p (n, e)) of pairs whose frame has others; kept if rough."""
        return self._kept_scores if self.rough else self._made_scores()

    @cached_property
    def _kept_scores(self):
        return list(self._made_scores())

    def _made_scores(self):
        contested = np.flatnonzero(self.active.contested)
        pairs = _state_pairs(self.hidden, self.active.frame, self.active.state, contested)
        for k, numbers, frames, _ in pairs:
            scores = self.model.emission.scores(self.hidden.states[k], frames)
            yield k, numbers, self._as_precise(scores)

    def _as_precise(self, x):
        """In the precision of products: single, if rough."""
        if not self.rough:
            return x
        single = x.astype(np.float32)
        single[np.abs(single) < SUBNORMAL] = 0.0
        return single
