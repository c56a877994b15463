"""The first pass of `graph`: sums over the states of a graph, site by site along an `Elimination`.

Bucket b has the table p(z_b | scope) of the site that it sums out, `conditional`, as (n_states, n_high, n_low)
where the last two axes number the states of the scope. Everything else is read off these tables: marginals,
samples, and the covariances in `graph_moments`.
"""

import numpy as np
from numba import njit

jit = njit(cache=True, nogil=True, error_model="numpy")

TINY = 1e-200  # far above the smallest float64: an entry larger than this has lost nothing to underflow


@jit
def local(t, b, node, edge, low, high):
    """The potentials of a bucket's site and edges, as a part in low (k, n_low) and one in high digits (k, n_high)."""
    k = t.n_states
    for z in range(k):
        low[z, : t.n_low[b]] = 0.0
        high[z, : t.n_high[b]] = node[t.site[b], z]
    for j in range(t.edge_start[b], t.edge_start[b + 1]):
        e, digit = t.edge[j], t.edge_digit[j]
        part, size = (low, t.n_low[b]) if t.edge_is_low[j] else (high, t.n_high[b])
        for z in range(k):
            for r in range(size):
                other = (r // digit) % k
                part[z, r] += edge[e, other, z] if t.edge_reversed[j] else edge[e, z, other]


@jit
def exponentiate(part, size):
    """exp(part - max) in place; returns the max."""
    top = part[0, 0]
    for z in range(part.shape[0]):
        for r in range(size):
            top = max(top, part[z, r])
    for z in range(part.shape[0]):
        for r in range(size):
            part[z, r] = np.exp(part[z, r] - top)
    return top


@jit
def multiply(score, low, high):
    for z in range(score.shape[0]):
        for h in range(score.shape[1]):
            for i in range(score.shape[2]):
                score[z, h, i] = low[z, i] * high[z, h]


@jit
def add(score, low, high):
    for z in range(score.shape[0]):
        for h in range(score.shape[1]):
            for i in range(score.shape[2]):
                score[z, h, i] = low[z, i] + high[z, h]


@jit
def multiply_message(t, c, message, score):
    """Multiplies a bucket's table by the message of its child c."""
    low, high = t.low_map[t.low_start[c] :], t.high_map[t.high_start[c] :]
    block = (t.start[c + 1] - t.start[c]) // t.n_states
    for z in range(score.shape[0]):
        for h in range(score.shape[1]):
            part = message[t.start[c] + z * block + high[h] :]
            for i in range(score.shape[2]):
                score[z, h, i] *= part[low[i]]


@jit
def add_message(t, c, message, score):
    """Adds the message of its child c to a bucket's table."""
    low, high = t.low_map[t.low_start[c] :], t.high_map[t.high_start[c] :]
    block = (t.start[c + 1] - t.start[c]) // t.n_states
    for z in range(score.shape[0]):
        for h in range(score.shape[1]):
            part = message[t.start[c] + z * block + high[h] :]
            for i in range(score.shape[2]):
                score[z, h, i] += part[low[i]]


@jit
def sum_out(score, message):
    """message = sum_z score, divided by its max; score becomes p(z | scope); returns (max, min) of the sums."""
    k, n = score.shape
    top, bottom = 0.0, np.inf
    for r in range(n):
        total = 0.0
        for z in range(k):
            total += score[z, r]
        share = 1.0 / total
        for z in range(k):
            score[z, r] *= share
        message[r] = total
        top, bottom = max(top, total), min(bottom, total)
    for r in range(n):
        message[r] /= top
    return top, bottom


@jit
def _log_sum_out(score, message):
    """The same for logarithms: message = log sum_z exp(score), and score becomes p(z | scope)."""
    k, n = score.shape
    for r in range(n):
        top = score[0, r]
        for z in range(1, k):
            top = max(top, score[z, r])
        total = 0.0
        for z in range(k):
            score[z, r] = np.exp(score[z, r] - top)
            total += score[z, r]
        for z in range(k):
            score[z, r] /= total
        message[r] = top + np.log(total)


@jit
def scratch(t):
    """Room for the low and the high part of any bucket."""
    return np.empty((t.n_states, t.n_low.max())), np.empty((t.n_states, t.n_high.max()))


@jit
def table(t, b, flat):
    """The part of a flat array (k * entries,) that holds bucket b, as (k, n_high, n_low)."""
    part = flat[t.n_states * t.start[b] : t.n_states * t.start[b + 1]]
    return part.reshape((t.n_states, t.n_high[b], t.n_low[b]))


@jit
def room(t):
    """An array that holds the table of any one bucket."""
    return np.empty(t.n_states * (t.start[1:] - t.start[:-1]).max())


@jit
def workplace(t, b, room):
    """A bucket's table, in room for one."""
    size = t.n_states * t.n_high[b] * t.n_low[b]
    return room[:size].reshape((t.n_states, t.n_high[b], t.n_low[b]))


@jit
def collect(t, node, edge, wanted):
    """(log Z, conditional, whether all is accurate), by products of numbers scaled to at most 1.

    `conditional` is filled in for the buckets that are `wanted`. Accurate: no entry of a message came near to
    underflow, so that each is right to the last digits.
    """
    message, conditional, one = np.empty(t.start[-1]), np.empty(t.n_states * t.start[-1]), room(t)
    low, high = scratch(t)
    total = 0.0
    for b in range(len(t.site)):
        score = table(t, b, conditional) if wanted[b] else workplace(t, b, one)
        local(t, b, node, edge, low, high)
        total += exponentiate(low, t.n_low[b]) + exponentiate(high, t.n_high[b])
        multiply(score, low, high)
        for c in t.child[t.child_start[b] : t.child_start[b + 1]]:
            multiply_message(t, c, message, score)
        top, bottom = sum_out(score.reshape((t.n_states, -1)), message[t.start[b] : t.start[b + 1]])
        if not bottom > TINY:
            return total, conditional, False
        total += np.log(top)
    return total, conditional, True


@jit
def collect_logs(t, node, edge, wanted):
    """As `collect`, by sums of logarithms: slower, and accurate for finite potentials of any size."""
    message, conditional, one = np.empty(t.start[-1]), np.empty(t.n_states * t.start[-1]), room(t)
    low, high = scratch(t)
    total = 0.0
    for b in range(len(t.site)):
        score = table(t, b, conditional) if wanted[b] else workplace(t, b, one)
        local(t, b, node, edge, low, high)
        add(score, low, high)
        for c in t.child[t.child_start[b] : t.child_start[b + 1]]:
            add_message(t, c, message, score)
        out = message[t.start[b] : t.start[b + 1]]
        _log_sum_out(score.reshape((t.n_states, -1)), out)
        if t.parent[b] < 0:
            total += out[0]
    return total, conditional
