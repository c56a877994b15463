"""Derivatives of smoothed posteriors along many directions at once, over the states that matter.

Of the M K pairs (frame t, state k), most have a posterior of nearly 0. Those above a threshold, the
active ones, are numbered p = 0..P-1 in the order of time; links join active pairs of neighbouring
frames. With s_p the derivative of the log-density of pair p and tau_jk that of log A_jk along a
direction, and S their sum over the path of states,

    past_k(t)   = s_t(k) + sum_j b_t(j | k) [past_j(t-1) + tau_jk]      b: P(z_t-1 | z_t, x_1..t-1)
    future_j(t) = sum_k f_t(k | j) [tau_jk + s_t+1(k) + future_k(t+1)]  f: P(z_t+1 | z_t, x_t+1..T)
    Cov(S, 1{z_t = k}) = gamma_t(k) [past + future - mean].

Source: Louis (1982), centred.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from .smoothing import Smoothed

_jit = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})


@dataclass(frozen=True)
class ActivePairs:
    """The active pairs of smoothed chains.

    frame, state, gamma (P,); first (M + 1,): pairs of frame t are first[t]:first[t + 1]
    starts (N + 1,): frames of each sequence; links (L, 2): pairs at t - 1 and t
    link_first (M + 1,): links into frame t
    back, ahead, joint (L,): P(z_t-1 | z_t), P(z_t | z_t-1), P(z_t-1, z_t), all given the data
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

    @property
    def contested(self) -> np.ndarray:
        """(P,) whether the frame has another active pair: if not, its state is certain."""
        sizes = np.diff(self.first)
        return np.repeat(sizes > 1, sizes)


def active_pairs(smoothed: Smoothed, starts: np.ndarray, threshold: float) -> ActivePairs:
    """The pairs whose posterior is above the threshold."""
    gamma = smoothed.gamma
    frame, state = np.nonzero(gamma > threshold)
    first = np.searchsorted(frame, np.arange(len(gamma) + 1))
    sizes = np.diff(first)
    n_links = np.concatenate([[0], sizes[:-1] * sizes[1:]])
    n_links[starts[:-1]] = 0
    link_first = np.concatenate([[0], np.cumsum(n_links)])
    own = gamma[frame, state]
    links = _links(first, state, own, link_first, smoothed.filtered, smoothed.transition)
    return ActivePairs(frame, state, own, first, starts, links[0], link_first, *links[1:])


@_jit
def _links(first, state, gamma, link_first, filtered, transition):
    total = link_first[-1]
    links = np.empty((total, 2), np.int64)
    back, ahead, joint = np.empty(total), np.empty(total), np.empty(total)
    mass = np.empty(transition.shape[0])
    for t in range(len(link_first) - 1):
        e = link_first[t]
        if link_first[t + 1] == e:
            continue
        mass[:] = 0.0
        for q in range(first[t], first[t + 1]):
            e0, into = e, 0.0
            for p in range(first[t - 1], first[t]):
                weight = filtered[t - 1, state[p]] * transition[state[p], state[q]]
                links[e, 0], links[e, 1], back[e] = p, q, weight
                into += weight
                e += 1
            for i in range(e0, e):
                back[i] /= into
                joint[i] = back[i] * gamma[q]
                mass[state[links[i, 0]]] += joint[i]
        for i in range(link_first[t], link_first[t + 1]):
            ahead[i] = joint[i] / mass[state[links[i, 0]]]
    return links, back, ahead, joint


def covariances(
    pairs: ActivePairs, s: np.ndarray, tau: np.ndarray | None, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cov(S, 1{pair}) (P, B) and sum_t Cov(S, 1{z_t-1 = j, z_t = k}) (K, K, B), times the weights.

    Parameters
    ----------
    s: (P, B) derivatives along B directions.
    tau: (K, K, B), or None where the transitions are held: the second array is then empty.
    weights: (N, B) of each sequence, direction by direction.
    """
    free = tau is not None
    tau = tau if free else np.zeros((0, 0, s.shape[1]))
    links = pairs.links, pairs.link_first
    chain = pairs.state, pairs.gamma, pairs.first, pairs.starts, *links
    past, future = _past_and_future(*chain, pairs.back, pairs.ahead, s, tau, free)
    counts = np.zeros(tau.shape)
    if free:
        both = future + s
        _link_covariances(
            pairs.state, pairs.starts, *links, pairs.joint, tau, past, both, weights, counts
        )
    _pair_covariances(pairs.gamma, pairs.first, pairs.starts, past, future, weights)
    return past, counts


@_jit
def _centre(values, gamma, low, high, mean):
    """Takes the posterior mean from the rows of one frame; `mean` (B,) is a buffer."""
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
def _past_and_future(state, gamma, first, starts, links, link_first, back, ahead, s, tau, free):
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
    return past, future


@_jit
def _link_covariances(state, starts, links, link_first, joint, tau, past, future, weights, counts):
    """Adds Cov(S, 1{link}) to counts; future: that of the later pair, its own s included."""
    gap, mean = np.empty(past.shape[1]), np.empty(past.shape[1])
    for n in range(len(starts) - 1):
        for t in range(starts[n] + 1, starts[n + 1]):
            mean[:] = 0.0
            for e in range(link_first[t], link_first[t + 1]):
                p, q = links[e, 0], links[e, 1]
                for i in range(len(mean)):
                    mean[i] += joint[e] * (past[p, i] + tau[state[p], state[q], i] + future[q, i])
            for e in range(link_first[t], link_first[t + 1]):
                p, q = links[e, 0], links[e, 1]
                for i in range(len(mean)):
                    gap[i] = past[p, i] + tau[state[p], state[q], i] + future[q, i] - mean[i]
                    counts[state[p], state[q], i] += weights[n, i] * joint[e] * gap[i]


@_jit
def _pair_covariances(gamma, first, starts, past, future, weights):
    """Turns past into Cov(S, 1{pair})."""
    mean = np.empty(past.shape[1])
    for n in range(len(starts) - 1):
        for t in range(starts[n], starts[n + 1]):
            for p in range(first[t], first[t + 1]):
                for i in range(len(mean)):
                    past[p, i] += future[p, i]
            _centre(past, gamma, first[t], first[t + 1], mean)
            for p in range(first[t], first[t + 1]):
                for i in range(len(mean)):
                    past[p, i] *= weights[n, i] * gamma[p]
