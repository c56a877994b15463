"""Derivatives of smoothed posteriors along many directions at once, over the states that matter.

Of the M K pairs (frame t, state k), most have a posterior of nearly 0. Those above a threshold, the active ones,
are numbered p = 0..P-1 in the order of time; links join active pairs of neighbouring frames. Louis (1982),
centred: with s_p the derivative of the log-density of pair p and tau_jk that of log A_jk along a direction,

    past_k(t)   = s_t(k) + sum_j b_t(j | k) [past_j(t-1) + tau_jk]      b: P(z_t-1 | z_t, x_1..t-1)
    future_j(t) = sum_k f_t(k | j) [tau_jk + s_t+1(k) + future_k(t+1)]  f: P(z_t+1 | z_t, x_t+1..T)
    Cov(S, 1{z_t = k}) = gamma_t(k) [past + future - mean].
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

_jit = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})


@dataclass(frozen=True)
class ActivePairs:
    """The active pairs of smoothed chains.

    frame, state, gamma (P,): of each pair; first (M + 1,): pairs of frame t are first[t]:first[t+1]; starts
    (N + 1,): frames of each sequence; links (L, 2): pairs at t - 1 and t; link_first (M + 1,): links into frame t;
    back, ahead, joint (L,): P(z_t-1 | z_t), P(z_t | z_t-1) and P(z_t-1, z_t), all given the data.
    """

    frame: np.ndarray
    state: np.ndarray
    gamma: np.ndarray
    first: np.ndarray
    starts: np.ndarray
    links: np.ndarray
    link_first: np.ndarray
    back: np.ndarray
    ahead: np.ndarray
    joint: np.ndarray

    def of_sequence(self, n):
        """(slice of its pairs, the `ActivePairs` of sequence n alone, its frames numbered as before)."""
        a, b = self.starts[n], self.starts[n + 1]
        pairs, links = (
            slice(self.first[a], self.first[b]),
            slice(self.link_first[a], self.link_first[b]),
        )
        return pairs, ActivePairs(
            self.frame[pairs],
            self.state[pairs],
            self.gamma[pairs],
            self.first[a : b + 1] - self.first[a],
            np.array([0, b - a]),
            self.links[links] - self.first[a],
            self.link_first[a : b + 1] - self.link_first[a],
            self.back[links],
            self.ahead[links],
            self.joint[links],
        )


def active_pairs(smoothed, starts, transition, threshold):
    """The `ActivePairs` of a `smoothing.Smoothed`: those of posterior above the threshold."""
    gamma = smoothed.gamma
    frame, state = np.nonzero(gamma > threshold)
    first = np.searchsorted(frame, np.arange(len(gamma) + 1))
    is_start = np.zeros(len(gamma), bool)
    is_start[starts[:-1]] = True
    links, link_first, back, ahead, joint = _links(
        first, state, is_start, gamma, smoothed.filtered, transition
    )
    return ActivePairs(
        frame, state, gamma[frame, state], first, starts, links, link_first, back, ahead, joint
    )


@_jit
def _links(first, state, is_start, gamma, filtered, transition):
    n, total = len(is_start), 0
    link_first = np.zeros(n + 1, np.int64)
    for t in range(n):
        if not is_start[t]:
            total += (first[t] - first[t - 1]) * (first[t + 1] - first[t])
        link_first[t + 1] = total
    links = np.empty((total, 2), np.int64)
    back, ahead, joint = np.empty(total), np.empty(total), np.empty(total)
    mass = np.empty(transition.shape[0])
    for t in range(n):
        if is_start[t]:
            continue
        e = link_first[t]
        mass[:] = 0.0
        for q in range(first[t], first[t + 1]):
            k, e0, into = state[q], e, 0.0
            for p in range(first[t - 1], first[t]):
                weight = filtered[t - 1, state[p]] * transition[state[p], k]
                links[e, 0], links[e, 1], back[e] = p, q, weight
                into += weight
                e += 1
            for i in range(e0, e):
                back[i] /= into
                joint[i] = back[i] * gamma[t, k]
                mass[state[links[i, 0]]] += joint[i]
        for i in range(link_first[t], link_first[t + 1]):
            ahead[i] = joint[i] / mass[state[links[i, 0]]]
    return links, link_first, back, ahead, joint


def covariances(pairs, s, tau, weights):
    """(Cov(S, 1{pair}) (P, B), sum_t Cov(S, 1{z_t-1 = j, z_t = k}) (K, K, B)), both times the sequence's weight.

    s (P, B) and tau (K, K, B) are B directions; tau is None where the transitions are held, and so is the second
    array then. weights (N, B): of each sequence, direction by direction.
    """
    if tau is None:
        return _covariances(*_chain(pairs), s, np.zeros((1, 1, s.shape[1])), weights, False)[
            0
        ], None
    return _covariances(*_chain(pairs), s, tau, weights, True)


def _chain(pairs):
    links = pairs.links, pairs.link_first, pairs.back, pairs.ahead, pairs.joint
    return pairs.state, pairs.gamma, pairs.first, pairs.starts, *links


@_jit
def _centre(values, gamma, low, high, mean):
    """Takes the posterior mean from the rows of one frame; `mean` (B,) is room to work in."""
    if high == low + 1:
        values[low] = 0.0
        return
    mean[:] = 0.0
    for p in range(low, high):
        for i in range(len(mean)):
            mean[i] += gamma[p] * values[p, i]
    for p in range(low, high):
        for i in range(len(mean)):
            values[p, i] -= mean[i]


@_jit
def _covariances(
    state, gamma, first, starts, links, link_first, back, ahead, joint, s, tau, weights, free
):
    n_directions = s.shape[1]
    past, future, mean = s.copy(), np.zeros(s.shape), np.empty(n_directions)
    for n in range(len(starts) - 1):
        for t in range(starts[n], starts[n + 1]):
            for e in range(link_first[t], link_first[t + 1]):
                p, q, b = links[e, 0], links[e, 1], back[e]
                for i in range(n_directions):
                    past[q, i] += b * past[p, i]
                if free:
                    for i in range(n_directions):
                        past[q, i] += b * tau[state[p], state[q], i]
            _centre(past, gamma, first[t], first[t + 1], mean)
        for t in range(starts[n + 1] - 1, starts[n], -1):
            for e in range(link_first[t], link_first[t + 1]):
                p, q, f = links[e, 0], links[e, 1], ahead[e]
                for i in range(n_directions):
                    future[p, i] += f * (s[q, i] + future[q, i])
                if free:
                    for i in range(n_directions):
                        future[p, i] += f * tau[state[p], state[q], i]
            _centre(future, gamma, first[t - 1], first[t], mean)
    counts = np.zeros(tau.shape)
    if free:
        _link_covariances(
            state, starts, links, link_first, joint, s, tau, past, future, weights, counts
        )
    for n in range(len(starts) - 1):
        for t in range(starts[n], starts[n + 1]):
            for p in range(first[t], first[t + 1]):
                for i in range(n_directions):
                    past[p, i] += future[p, i]
            _centre(past, gamma, first[t], first[t + 1], mean)
            for p in range(first[t], first[t + 1]):
                for i in range(n_directions):
                    past[p, i] *= weights[n, i] * gamma[p]
    return past, counts


@_jit
def _link_covariances(
    state, starts, links, link_first, joint, s, tau, past, future, weights, counts
):
    for n in range(len(starts) - 1):
        for t in range(starts[n] + 1, starts[n + 1]):
            for i in range(s.shape[1]):
                mean = 0.0
                for e in range(link_first[t], link_first[t + 1]):
                    p, q = links[e, 0], links[e, 1]
                    mean += joint[e] * (
                        past[p, i] + tau[state[p], state[q], i] + s[q, i] + future[q, i]
                    )
                for e in range(link_first[t], link_first[t + 1]):
                    p, q = links[e, 0], links[e, 1]
                    gap = past[p, i] + tau[state[p], state[q], i] + s[q, i] + future[q, i] - mean
                    counts[state[p], state[q], i] += weights[n, i] * joint[e] * gap
