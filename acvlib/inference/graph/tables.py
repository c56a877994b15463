"""What every pass over an `EliminationOrder` does with a bucket's table, compiled.

The table of bucket b is (n_states, n_high, n_low): the state of its site, then the states of its
scope. `t` is the order; `add` chooses sums (of logarithms, or of means) over products.
"""

import numpy as np
from numba import njit

jit = njit(cache=True, nogil=True, error_model="numpy")


@jit
def table_of(t, b, flat):
    """The part of a flat array (n_states * entries,) that holds bucket b."""
    part = flat[t.n_states * t.start[b] : t.n_states * t.start[b + 1]]
    return part.reshape((t.n_states, t.n_high[b], t.n_low[b]))


@jit
def buffer_size(t):
    """The number of entries of the largest bucket's table."""
    return t.n_states * (t.start[1:] - t.start[:-1]).max()


@jit
def table_in(t, b, buffer):
    """Bucket b's table, in a buffer that holds any one."""
    size = t.n_states * t.n_high[b] * t.n_low[b]
    return buffer[:size].reshape((t.n_states, t.n_high[b], t.n_low[b]))


@jit
def half_buffers(t, like):
    """Buffers for the low and the high part of any bucket, of the type of `like`."""
    low = np.empty((t.n_states, t.n_low.max()), like.dtype)
    high = np.empty((t.n_states, t.n_high.max()), like.dtype)
    return low, high


@jit
def read_potentials(t, b, node, edge, low, high):
    """The potentials of a bucket: low (k, n_low) of its low digits and high (k, n_high)."""
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
def write_marginals(t, b, low, high, node, edge):
    """The adjoint of `read_potentials`: sums of a table's halves over single states and pairs."""
    k = t.n_states
    for z in range(k):
        node[t.site[b], z] = high[z, : t.n_high[b]].sum()
    for j in range(t.edge_start[b], t.edge_start[b + 1]):
        e, digit = t.edge[j], t.edge_digit[j]
        part, size = (low, t.n_low[b]) if t.edge_is_low[j] else (high, t.n_high[b])
        edge[e] = 0.0
        for z in range(k):
            for r in range(size):
                other = (r // digit) % k
                if t.edge_reversed[j]:
                    edge[e, other, z] += part[z, r]
                else:
                    edge[e, z, other] += part[z, r]


@jit
def exponentiate(part, size):
    """exp(part - max) in place; returns the max."""
    top = part[0, 0].real
    for z in range(part.shape[0]):
        for r in range(size):
            top = max(top, part[z, r].real)
    for z in range(part.shape[0]):
        for r in range(size):
            part[z, r] = np.exp(part[z, r] - top)
    return top


@jit
def join_halves(table, low, high, add):
    for z in range(table.shape[0]):
        for h in range(table.shape[1]):
            if add:
                for i in range(table.shape[2]):
                    table[z, h, i] = low[z, i] + high[z, h]
            else:
                for i in range(table.shape[2]):
                    table[z, h, i] = low[z, i] * high[z, h]


@jit
def split_halves(table, low, high):
    """Sums over the high digits into low (k, n_low), and over the low ones into high."""
    for z in range(table.shape[0]):
        low[z, : table.shape[2]] = 0.0
        for h in range(table.shape[1]):
            total = table[z, h, 0]
            low[z, 0] += total
            for i in range(1, table.shape[2]):
                low[z, i] += table[z, h, i]
                total += table[z, h, i]
            high[z, h] = total


@jit
def gather(t, c, message, table, add):
    """Multiplies a bucket's table by the message of its child c, or adds it."""
    low, high = t.low_map[t.low_start[c] :], t.high_map[t.high_start[c] :]
    block = (t.start[c + 1] - t.start[c]) // t.n_states
    for z in range(table.shape[0]):
        for h in range(table.shape[1]):
            part = message[t.start[c] + z * block + high[h] :]
            if add:
                for i in range(table.shape[2]):
                    table[z, h, i] += part[low[i]]
            else:
                for i in range(table.shape[2]):
                    table[z, h, i] *= part[low[i]]


@jit
def scatter(t, c, table, out):
    """The adjoint of `gather`: sums a bucket's table over all but the scope of its child c."""
    low, high = t.low_map[t.low_start[c] :], t.high_map[t.high_start[c] :]
    block = (t.start[c + 1] - t.start[c]) // t.n_states
    out[t.start[c] : t.start[c + 1]] = 0.0
    for z in range(table.shape[0]):
        for h in range(table.shape[1]):
            part = out[t.start[c] + z * block + high[h] :]
            for i in range(table.shape[2]):
                part[low[i]] += table[z, h, i]


@jit
def sum_out(score, message):
    """message = sum_z score, divided by its max; score becomes p(z | scope).

    Returns the logarithm of the max, and the least sum before the division.
    """
    k, n = score.shape
    top, least = 0.0, np.inf
    for r in range(n):
        total = score[0, r]
        for z in range(1, k):
            total += score[z, r]
        share = 1.0 / total
        for z in range(k):
            score[z, r] *= share
        message[r] = total
        top, least = max(top, total.real), min(least, total.real)
    for r in range(n):
        message[r] /= top
    return np.log(top), least


@jit
def sum_out_logs(score, message):
    """The same for logarithms: message = log sum_z exp(score) less its max, which is returned."""
    k, n = score.shape
    tops = np.empty(n)
    for r in range(n):
        top = score[0, r].real
        for z in range(1, k):
            top = max(top, score[z, r].real)
        for z in range(k):
            score[z, r] = np.exp(score[z, r] - top)
        tops[r] = top
    log_top, _ = sum_out(score, message)
    for r in range(n):
        message[r] = tops[r] + log_top + np.log(message[r])
    top = message.real.max()
    for r in range(n):
        message[r] -= top
    return top


@jit
def sum_bucket(t, b, node, edge, message, score, low, high, logs):
    """Sums out bucket b's site: fills in its message, and score with p(z | scope).

    Returns the logarithm of what the message was divided by, and the least sum before that.
    """
    read_potentials(t, b, node, edge, low, high)
    shift = 0.0
    if not logs:
        shift = exponentiate(low, t.n_low[b]) + exponentiate(high, t.n_high[b])
    join_halves(score, low, high, logs)
    for c in t.child[t.child_start[b] : t.child_start[b + 1]]:
        gather(t, c, message, score, logs)
    columns = score.reshape((t.n_states, -1))
    here = message[t.start[b] : t.start[b + 1]]
    if logs:
        return sum_out_logs(columns, here), 1.0
    log_top, least = sum_out(columns, here)
    return shift + log_top, least
