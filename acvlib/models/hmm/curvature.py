"""The Hessian of an HMM at one point as products with vectors: no D x D matrix is formed.

H = complete-data information, prior included, - Cov(score) over the posterior of the states.

Source: Louis (1982).
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ...inference.active_pairs import active_pairs, covariances
from ...parallel import pieces
from .emissions.base import Factors, outer_rows, summed
from .posterior import HiddenStates

THRESHOLD = 1e-11  # of a posterior that counts: H and J are off by up to 1e-8 of their size
ROUGH = 1e-3  # the same of rough products
AT_ONCE = 128  # directions; more would only need more memory
LEAST = 1e-9  # curvature of a preconditioner, of its largest


class Curvature:
    """At `HiddenStates`, of the pairs of frame and state whose posterior is above a threshold."""

    def __init__(self, hidden: HiddenStates, threshold: float = THRESHOLD):
        self.hidden = hidden
        self.model = hidden.model
        self.threshold = threshold

    @cached_property
    def rough(self) -> "Curvature | None":
        """The same with fewer pairs, cheaper and less accurate; None of this one."""
        if self.threshold == ROUGH:
            return None
        rough = Curvature(self.hidden, ROUGH)
        rough._information = self._information
        return rough

    def multiply(self, directions: np.ndarray, left_out: Sequence = ()) -> np.ndarray:
        """H times each row (B, D); left_out: for each, sequences without a part in Cov(score)."""
        out = self.complete(directions)
        for batch in pieces(len(directions), AT_ONCE):
            out[batch] -= self._covariance(directions[batch], left_out[batch])
        return out

    # if the states were known

    @cached_property
    def _information(self):
        """Of the chain's rows (K + 1, K, K); of shared parameters (K, s, e); of a state's own."""
        hidden = self.hidden
        chain = self.model.chain_prior.information(hidden.counts, hidden.p)
        emission = self.model.emission
        across, own = emission.information(hidden.rows, hidden.expected)
        if hidden.prior:
            of_prior = emission.prior_information(hidden.rows)
            across, own = across + of_prior[0], own + of_prior[1]
        return chain, across, own

    def complete(self, directions: np.ndarray) -> np.ndarray:
        """The complete-data information, prior included, times each row (B, D)."""
        of_chain, across, of_states = self._information
        chain, rows = self.model.split(directions)
        by_chain = np.einsum("nij,bnj->bni", of_chain, chain)
        n_shared = across.shape[1]
        parts = rows[..., n_shared:].swapaxes(0, 1)  # (K, B, d)
        by_rows = np.empty(rows.shape)
        each = parts.reshape(len(of_states), -1, of_states.shape[-1]) @ of_states
        by_rows[..., n_shared:] = each.reshape(parts.shape).swapaxes(0, 1)
        if n_shared:
            by_rows[..., :n_shared] = np.einsum("bke,kse->bks", rows, across)
            by_shared = np.einsum("bks,ksd->bkd", rows[..., :n_shared], across[..., n_shared:])
            by_rows[..., n_shared:] += by_shared
        return self.model.join(by_chain, by_rows)

    @cached_property
    def blocks(self) -> list[tuple[slice, np.ndarray]]:
        """[(place, matrix (d, d), repeated r times on the diagonal at `place`, (r d) params)].

        One for each row of the chain and each state, the M-step's normal equations.
        """
        of_chain, across, of_states = self._information
        model = self.model
        parts: list[tuple] = []
        if model.held is None:
            parts += [(*pair, 1) for pair in zip(of_chain, model.chain_prior.kept, strict=True)]
            n_shared = across.shape[1]
            parts.append((across[..., :n_shared].sum(axis=0), np.ones(n_shared, bool), 1))
        groups = model.emission.n_groups
        for matrix, kept in zip(of_states, model.kept_in_states, strict=True):
            parts.append((matrix, kept[: len(matrix)], groups))
        blocks = []
        start = 0
        for matrix, kept, times in parts:
            stop = start + times * int(kept.sum())
            if stop > start:
                blocks.append((slice(start, stop), matrix[np.ix_(kept, kept)]))
            start = stop
        return blocks

    @cached_property
    def _factors(self):
        return [(place, factor_of(matrix)) for place, matrix in self.blocks]

    def precondition(self, vectors: np.ndarray) -> np.ndarray:
        """The inverse of all blocks times vectors (B, D)."""
        out = np.empty_like(vectors)
        for place, factor in self._factors:
            out[:, place] = block_solve(factor, vectors[:, place])
        return out

    # what not knowing them takes

    @cached_property
    def _active(self):
        """(active pairs, the weights (P, 1) of their frames, which are of first frames, and which
        state each of these has (n, K)).
        """
        hidden = self.hidden
        starts = hidden.frames.starts
        pairs = active_pairs(hidden.smoothed, starts, self.threshold)
        weights = hidden.step_weights * hidden.frames.observed
        first = np.flatnonzero(np.isin(pairs.frame, starts[:-1]))
        in_state = np.eye(self.model.n_states)[pairs.state[first]]
        return pairs, weights[pairs.frame, None], first, in_state

    def _covariance(self, directions, left_out):
        chain, rows = self.model.split(directions)
        tangent = self.model.chain_prior.moved_log_p(chain, self.hidden.p)
        _, weights, first, in_state = self._active
        s = np.zeros((len(weights), len(directions)))
        for k, numbers, factors in self._scores:
            s[numbers] = along(factors, rows[:, k])
        s *= weights
        s[first] += in_state @ tangent[:, 0].T
        return self._moved_score(s, tangent[:, 1:].transpose(1, 2, 0), left_out)

    def lost(self, left_out: np.ndarray) -> np.ndarray:
        """What dF/dparams gains where frames lose shares (B, M) of their weight: (B, D)."""
        hidden = self.hidden
        pairs, *_ = self._active
        each = hidden.step_weights[:, None] * np.nan_to_num(hidden.log_density, neginf=0.0)
        s = left_out.T[pairs.frame] * each[pairs.frame, pairs.state, None]
        moved = self._moved_score(s, np.zeros((*hidden.p[1:].shape, len(left_out))))
        emission = self.model.emission
        for share, out in zip(left_out, moved, strict=True):
            expected = emission.expected(hidden.rows, hidden.frames, share[:, None] * hidden.mass)
            slopes = emission.slopes(hidden.rows, expected)
            out += self.model.join(np.zeros(hidden.p.shape), slopes)
        return moved

    def _moved_score(self, s, tau, left_out=()):
        """How the expected score moves where potentials of states and moves do by s and tau."""
        pairs, of_frames, first, in_state = self._active
        weights = np.repeat(self.hidden.sequence_weights[:, None], s.shape[1], axis=1)
        for row, sequences in enumerate(left_out):
            weights[sequences, row] = 0.0
        is_held = self.model.held is not None
        tau = None if is_held else np.ascontiguousarray(tau)
        c, moves = covariances(pairs, s, tau, weights)
        counts = np.zeros((c.shape[1], *self.hidden.p.shape))
        if not is_held:
            counts[:, 0] = c[first].T @ in_state
            counts[:, 1:] = moves.transpose(2, 0, 1)
        c *= of_frames
        rows = np.zeros((c.shape[1], *self.hidden.rows.shape))
        for k, numbers, factors in self._scores:
            rows[:, k] = summed(factors, c[numbers])
        return self.model.join(self.model.chain_prior.score(counts, self.hidden.p), rows)

    @cached_property
    def _scores(self):
        """(state, numbers, factors of d log p) of the pairs whose frame has others."""
        pairs, *_ = self._active
        sizes = np.diff(pairs.first)
        contested = np.flatnonzero(np.repeat(sizes > 1, sizes))  # others have a certain state
        state = pairs.state[contested]
        scores = []
        for k in np.unique(state):
            numbers = contested[state == k]
            frames = self.hidden.frames.rows(pairs.frame[numbers])
            factors = self.model.emission.score_factors(self.hidden.rows, k, frames)
            scores.append((k, numbers, factors))
        return scores


def along(factors: Factors, directions: np.ndarray) -> np.ndarray:
    """Scores (n, e), the outer products of factors, times directions (B, e): (n, B)."""
    products = []
    start = 0
    for signal, inputs in factors:
        stop = start + signal.shape[1] * inputs.shape[1]
        part = directions[:, start:stop]
        if len(directions) < inputs.shape[1]:
            moved = inputs @ part.reshape(-1, inputs.shape[1]).T
            moved = moved.reshape(len(signal), len(part), signal.shape[1])
            products.append(np.einsum("nbo,no->nb", moved, signal))
        else:  # many directions: the outer products are formed for all
            products.append(outer_rows(signal, inputs) @ part.T)
        start = stop
    return sum(products)


def factor_of(matrix: np.ndarray) -> tuple:
    """The Cholesky factor of a matrix, or of that with absolute eigenvalues where it has none."""
    try:
        return cho_factor(matrix, lower=True)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
        values = np.maximum(abs(values), max(LEAST * abs(values).max(), np.finfo(float).tiny))
        return cho_factor((vectors * values) @ vectors.T, lower=True)


def block_solve(factor: tuple, vectors: np.ndarray) -> np.ndarray:
    """M^-1 times vectors (B, r d), of a factorised M (d, d) that is repeated r times."""
    rows = vectors.reshape(-1, len(factor[0]))
    return cho_solve(factor, rows.T, check_finite=False).T.reshape(vectors.shape)
