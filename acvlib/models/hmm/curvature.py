"""The Hessian of an HMM at one point as products with vectors, by Louis (1982): no D x D matrix is formed.

H = complete-data information - Cov(score) over the posterior of the states, + the prior's. Its complete-data part
falls into one block for each state, the M-step's normal equations: the preconditioner.
"""

import numpy as np

from ...inference import active_pairs
from ...parallel import pieces
from . import simplex
from .emissions.pairs import Pairs

THRESHOLD, ROUGH = (
    1e-9,
    1e-4,
)  # of a posterior that counts; products are off by less than that share
SHARE = 0.2  # of a block's diagonal: what a preconditioner need not be told of


class Curvature:
    """H at a `Posterior`, prior included; rough: fewer pairs and single precision, for solves that are refined."""

    def __init__(self, posterior, rough=False):
        model, self.rough = posterior.model, rough
        self.model, self.posterior, self.p = model, posterior, posterior.probabilities
        self.pairs = active_pairs.active_pairs(
            posterior.smoothed, posterior.frames.starts, self.p[1], ROUGH if rough else THRESHOLD
        )
        self.weights, self.held = posterior.sequence_weights, model.held is not None
        pseudo = model.concentration - 1.0
        self.counts = None if self.held else [counts + pseudo for counts in posterior.counts]
        self.prior = posterior.prior_derivatives()[1]
        self.linear = posterior.point.linearise(self._emission_pairs(self.pairs, self.weights))

    def _emission_pairs(self, pairs, weights):
        u = (self.posterior.step_weights * self.posterior.frames.observed)[pairs.frame]
        w = np.repeat(weights, np.diff(pairs.first[pairs.starts]))
        sizes = np.diff(pairs.first)
        return Pairs(
            pairs.frame,
            pairs.state,
            u,
            w * u * pairs.gamma,
            self.rough,
            np.repeat(sizes > 1, sizes),
        )

    def multiply(self, directions, folds=None):
        """H times each row, (B, D); folds: of each row, sequences whose share in Cov(score) is left out."""
        weights = self._weights(len(directions), folds)
        batches = pieces(len(directions), self.linear.directions_at_once)
        return np.concatenate(
            [self._multiply(directions[batch], weights[:, batch]) for batch in batches]
        )

    def _weights(self, n, folds=None):
        """Sequence weights for each of n directions, (N, n)."""
        weights = np.repeat(self.weights[:, None], n, axis=1)
        for row, fold in enumerate(folds or ()):
            weights[fold, row] = 0.0
        return weights

    def _multiply(self, directions, weights):
        return self.complete(directions) - self._gather(*self.response(directions, weights))

    def response(self, directions, weights):
        """(d gamma (P, B), d transition counts (B, K, K) or None) along each direction, times weights (N, B)."""
        initial, transition, emission = self._split(directions)
        s = self.linear.scores(emission)
        if self.held:
            return self._covariances(s, None, weights)
        first = simplex.tangent(initial, self.p[0])[:, 0]
        for rows in self._first_pairs():
            s[rows] += first[:, self.pairs.state[rows]].T
        return self._covariances(s, simplex.tangent(transition, self.p[1]), weights)

    def _covariances(self, s, tau, weights):
        tau = None if tau is None else tau.transpose(1, 2, 0).copy()
        c, moves = active_pairs.covariances(self.pairs, s, tau, np.ascontiguousarray(weights))
        return c, moves if moves is None else moves.transpose(2, 0, 1)

    def complete(self, directions):
        """The complete-data information and the prior's, times each direction."""
        initial, transition, emission = self._split(directions)
        out = self.linear.curvature(emission) + self.prior * emission
        if self.held:
            return out[:, self.model.emission.n_shared :]
        moved = zip((initial, transition), self.counts, self.p, strict=True)
        return _join([simplex.curvature(v, counts, p) for v, counts, p in moved], out)

    def _gather(self, c, moves):
        """sum_p c_p d log p over nodes and links: how the expected score moves with the posterior, (B, D)."""
        out = self.linear.adjoint(c)
        if self.held:
            return out[:, self.model.emission.n_shared :]
        return _join(
            [simplex.score(n, p) for n, p in zip((self._first(c), moves), self.p, strict=True)], out
        )

    def cross(self, steps):
        """J times changes of the weights of time steps (B, M), whose params do not move: (B, D)."""
        at, density = self.pairs.frame, self.posterior.point.log_density
        moved = steps[:, at].T
        tau = None if self.held else np.zeros((len(steps), *self.p[1].shape))
        c, moves = self._covariances(
            moved * density[at, self.pairs.state][:, None], tau, self._weights(len(steps))
        )
        own = self.unweighted.adjoint(moved * self.pairs.gamma[:, None])
        if not self.held:
            own = np.concatenate([np.zeros((len(own), self.model.n_states**2 - 1)), own], axis=1)
        return -self._gather(c, moves) - own[:, -self.model.n_params :]

    @property
    def unweighted(self):
        """Derivatives of log-densities themselves, not of potentials: u = 1 wherever a frame is observed."""
        seen = self.posterior.frames.observed[self.pairs.frame].astype(float)
        return self.posterior.point.linearise(Pairs(self.pairs.frame, self.pairs.state, seen, seen))

    def cross_matrix(self):
        """J (D, M) of time steps, from the responses to D directions."""
        directions, at, state = np.eye(self.model.n_params), self.pairs.frame, self.pairs.state
        c, _ = self.response(directions, self._weights(len(directions)))
        score = self.unweighted.scores(self._split(directions)[2])
        by_pair = (
            c * self.posterior.point.log_density[at, state][:, None]
            + score * self.pairs.gamma[:, None]
        )
        return -np.add.reduceat(by_pair, self.pairs.first[:-1], axis=0).T

    def _split(self, directions):
        k, n = self.model.n_states, len(directions)
        if self.held:
            directions = np.concatenate([np.zeros((n, self.model.n_nuisance)), directions], axis=1)
        rows = directions[:, : k**2 - 1].reshape(n, k + 1, k - 1) if k > 1 else np.zeros((n, 2, 0))
        return rows[:, :1], rows[:, 1:], directions[:, k**2 - 1 :]

    def _first_pairs(self):
        starts = self.pairs.starts[:-1]
        return [slice(self.pairs.first[t], self.pairs.first[t + 1]) for t in starts]

    def _first(self, c):
        """Changes of the counts of first states, (B, 1, K)."""
        out = np.zeros((c.shape[1], 1, self.model.n_states))
        for rows in self._first_pairs():
            out[:, 0, self.pairs.state[rows]] += c[rows].T
        return out

    def of_sequence(self, n):
        """The share of sequence n in H."""
        own = object.__new__(Curvature)
        own.__dict__.update(self.__dict__)
        _, own.pairs = self.pairs.of_sequence(n)
        own.weights, own.prior = self.weights[n : n + 1], 0.0
        own.linear = self.posterior.point.linearise(self._emission_pairs(own.pairs, own.weights))
        own.counts = None if self.held else self._own_counts(own.pairs, own.weights)
        return own

    def _own_counts(self, pairs, weights):
        k = self.model.n_states
        first, moves, rows = (
            np.zeros((1, k)),
            np.zeros((k, k)),
            slice(pairs.first[0], pairs.first[1]),
        )
        first[0, pairs.state[rows]] = weights * pairs.gamma[rows]
        np.add.at(moves, tuple(pairs.state[pairs.links].T), weights * pairs.joint)
        return first, moves

    def information(self):
        """[(places (G, r, d), blocks (G, d, d))]: the complete-data information, block by block, r times each."""
        k, model = self.model.n_states, self.model
        shared, blocks = self.linear.information()
        offset = -model.emission.n_shared if self.held else k**2 - 1
        places = model.emission.state_params(k, model.n_channels)
        prior = np.broadcast_to(self.prior, model.emission.n_params(k, model.n_channels))
        _diagonals(blocks)[...] += prior[places[:, 0]]
        parts = [(places + offset, blocks)]
        if self.held:
            return parts
        n = model.emission.n_shared
        first, rows = (simplex.information(c, p) for c, p in zip(self.counts, self.p, strict=True))
        chain = np.arange(k**2 - 1).reshape(k + 1, 1, k - 1)
        common = np.arange(k**2 - 1, k**2 - 1 + n).reshape(1, 1, n)
        parts += [
            (chain[:1], first),
            (chain[1:], rows),
            (common, shared[None] + np.diag(prior[:n])[None]),
        ]
        return [
            part for part in parts if part[0].size
        ]  # a single state has no chain, a Gaussian nothing in common


def _join(rows, emission):
    return np.concatenate([*(part.reshape(len(emission), -1) for part in rows), emission], axis=1)


def without(parts, own):
    """The blocks of `information` that some sequences make up much of, less their share: (places (r, d), inverse)."""
    for (places, blocks), (_, less) in zip(parts, own, strict=True):
        for g in np.flatnonzero((_diagonals(less) > SHARE * _diagonals(blocks)).any(axis=1)):
            yield places[g], np.linalg.inv(blocks[g] - less[g])


def _diagonals(blocks):
    """Those of (G, d, d), a view (G, d)."""
    return np.einsum("gdd->gd", blocks)
