"""Derivatives of smoothed posteriors along many directions at once, over the states that matter.

Of the M K pairs (frame t, state k), most have a posterior of nearly 0. Those above a threshold, the
active ones, are numbered p = 0..P-1 in the order of time; links join active pairs of neighbouring
frames. With s_p the derivative of the log-density of pair p and tau_jk that of log A_jk along a
direction, and S their sum over the path of states,

    past_k(t)   = s_t(k) + sum_j b_t(j | k) [past_j(t-1) + tau_jk]    b: P(z_t-1 | z_t, x_1..t-1)
    future_j(t) = s_t(j) + sum_k f_t(k | j) [future_k(t+1) + tau_jk]  f: P(z_t+1 | z_t, x_t+1..T)
    Cov(S, 1{z_t = k}) = gamma_t(k) [past + future - s - mean],

where any constant may be taken from all past, or all future, of one frame: their mean is.

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

    frame, state, sequence, gamma (P,); first (M + 1,): pairs of frame t are first[t]:first[t + 1]
    source, target, move (L,): pairs at t - 1 and t of each link, and j K + k of their states
    link_first (M + 1,): links into frame t
    back, ahead, joint (L,): P(z_t-1 | z_t), P(z_t | z_t-1), P(z_t-1, z_t), all given the data
    """

    frame: np.ndarray
    state: np.ndarray
    sequence: np.ndarray
    gamma: np.ndarray
    first: np.ndarray
    source: np.ndarray
    target: np.ndarray
    move: np.ndarray
    link_first: np.ndarray
    back: np.ndarray
    ahead: np.ndarray
    joint: np.ndarray


def active_pairs(smoothed: Smoothed, starts: np.ndarray, threshold: float) -> ActivePairs:
    """The pairs whose posterior is above the threshold."""
    frame, state = np.nonzero(smoothed.gamma > threshold)
    first = np.searchsorted(frame, np.arange(starts[-1] + 1))
    n_before = np.diff(first, prepend=0)[:-1]  # active pairs of the frame before
    n_before[starts[:-1]] = 0
    n_links = n_before[frame]  # into each pair, from every pair of the frame before
    target = np.repeat(np.arange(len(frame)), n_links)
    number = np.arange(len(target)) - (np.cumsum(n_links) - n_links)[target]
    source = first[frame[target] - 1] + number
    gamma = smoothed.gamma[frame, state]
    n_states = smoothed.gamma.shape[1]
    move = state[source] * n_states + state[target]
    if smoothed.pairs is None:
        filtered = smoothed.filtered[frame, state]
        weight = filtered[source] * smoothed.transition.ravel()[move]
    else:
        weight = smoothed.pairs[frame[target], state[source], state[target]]
    back = _shares(weight, target)
    joint = back * gamma[target]
    return ActivePairs(
        frame=frame,
        state=state,
        sequence=np.searchsorted(starts, frame, side="right") - 1,
        gamma=gamma,
        first=first,
        source=source,
        target=target,
        move=move,
        link_first=np.searchsorted(frame[target], np.arange(starts[-1] + 1)),
        back=back,
        ahead=_shares(joint, source),
        joint=joint,
    )


def _shares(weights, group):
    """Each weight's share in the sum of its group."""
    total = np.bincount(group, weights)[group]
    return np.divide(weights, total, out=np.zeros(len(weights)), where=total > 0.0)


def covariances(
    pairs: ActivePairs, s: np.ndarray, tau: np.ndarray | None, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Cov(S, 1{pair}) (P, B) and sum_t Cov(S, 1{z_t-1 = j, z_t = k}) (K, K, B), times the weights.

    s (P, B); tau (K, K, B), or None where transitions are held: the second array is then empty;
    weights (N, B) of each sequence, direction by direction
    """
    tau = np.zeros((0, 0, s.shape[1])) if tau is None else tau
    by_move = tau.reshape(-1, s.shape[1])
    chain = pairs.gamma, pairs.first, pairs.link_first, pairs.move, by_move
    past = s.copy()
    _carry(past, pairs.source, pairs.target, pairs.back, *chain, False)
    future = s.copy()
    _carry(future, pairs.target, pairs.source, pairs.ahead, *chain, True)
    counts = np.zeros(by_move.shape)
    if counts.size:
        links = pairs.source, pairs.target, pairs.joint, pairs.link_first, pairs.move, by_move
        _add_link_covariances(counts, past, future, *links, pairs.sequence, weights)
    _pair_covariances(past, future, s, pairs.gamma, pairs.first, pairs.sequence, weights)
    return past, counts.reshape(tau.shape)


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
def _carry(values, source, target, share, gamma, first, link_first, move, tau, is_back):
    """Carries values along the links, forwards or back in time, and centres each frame."""
    mean = np.empty(values.shape[1])
    for step in range(1, len(first)):
        t = len(first) - 1 - step if is_back else step - 1
        for e in range(link_first[t], link_first[t + 1]):
            p = source[e]
            q = target[e]
            weight = share[e]
            for i in range(len(mean)):
                values[q, i] += weight * values[p, i]
            if len(tau) > 0:
                for i in range(len(mean)):
                    values[q, i] += weight * tau[move[e], i]
        reached = max(t - 1, 0) if is_back else t
        _centre(values, gamma, first[reached], first[reached + 1], mean)


@_jit
def _add_link_covariances(
    counts, past, future, source, target, joint, link_first, move, tau, sequence, weights
):
    """Adds Cov(S, 1{link}) to the count of its move."""
    mean = np.empty(past.shape[1])
    gap = np.empty(past.shape[1])
    for t in range(len(link_first) - 1):
        mean[:] = 0.0
        for e in range(link_first[t], link_first[t + 1]):
            p = source[e]
            q = target[e]
            for i in range(len(mean)):
                mean[i] += joint[e] * (past[p, i] + tau[move[e], i] + future[q, i])
        for e in range(link_first[t], link_first[t + 1]):
            p = source[e]
            q = target[e]
            n = sequence[q]
            for i in range(len(mean)):
                gap[i] = past[p, i] + tau[move[e], i] + future[q, i] - mean[i]
                counts[move[e], i] += weights[n, i] * joint[e] * gap[i]


@_jit
def _pair_covariances(past, future, s, gamma, first, sequence, weights):
    """Turns past into Cov(S, 1{pair})."""
    mean = np.empty(past.shape[1])
    for t in range(len(first) - 1):
        low = first[t]
        high = first[t + 1]
        for p in range(low, high):
            for i in range(len(mean)):
                past[p, i] += future[p, i] - s[p, i]
        _centre(past, gamma, low, high, mean)
        for p in range(low, high):
            n = sequence[p]
            for i in range(len(mean)):
                past[p, i] *= weights[n, i] * gamma[p]
