"""What every pass over an `EliminationOrder` does with the table of one bucket, compiled.

The table of bucket b is (n_states, size): rows are the states of its site; a column number's
digits, base n_states, are the states of its scope, lowest digit first. Tables hold products, or
logarithms of them where `logs`. `t` is the order, `index` a buffer from `index_buffer`.
"""

import numpy as np
from numba import njit

jit = njit(cache=True, nogil=True, error_model="numpy")


@jit
def index_buffer(t):
    """Room for `locate`: one entry for each column of the largest table."""
    largest = (t.start[1:] - t.start[:-1]).max()
    return np.empty(largest, np.uint32)  # unsigned: numba need not look for negative numbers


@jit
def columns(t, b):
    """Where the columns of bucket b are among those of all buckets."""
    return slice(t.start[b], t.start[b + 1])


@jit
def table_in(t, b, buffer):
    """The table of bucket b at the start of a flat buffer."""
    size = t.start[b + 1] - t.start[b]
    return buffer[: t.n_states * size].reshape((t.n_states, size))


@jit
def table_of(t, b, flat):
    """The table of bucket b in an array of all tables, (n_states * columns,)."""
    return table_in(t, b, flat[t.n_states * t.start[b] :])


@jit
def read_potentials(t, b, node, edge, table, logs):
    """Fill a table with the product of bucket b's factors, one digit of its scope after the other.

    A digit without an edge has edge -1, the last one, which is neutral (`sums.factors`).
    """
    table[:, 0] = node[t.site[b]]
    size = 1
    for j in range(t.scope_start[b], t.scope_start[b + 1]):
        e = t.edge[j]
        pair = edge[e].T if t.is_reversed[e] else edge[e]
        for z in range(t.n_states):
            known = table[z, :size]
            for digit in range(t.n_states - 1, -1, -1):
                factor = pair[z, digit]
                grown = table[z, digit * size : (digit + 1) * size]
                for r in range(size):
                    grown[r] = known[r] + factor if logs else known[r] * factor
        size *= t.n_states


@jit
def write_marginals(t, b, joint, node, edge):
    """Sum a table over single states and pairs: `read_potentials` backwards; uses it up."""
    size = joint.shape[1]
    for j in range(t.scope_start[b + 1] - 1, t.scope_start[b] - 1, -1):
        size //= t.n_states
        e = t.edge[j]
        pair = edge[e].T if t.is_reversed[e] else edge[e]
        for z in range(t.n_states):
            kept = joint[z, :size]
            for digit in range(t.n_states):
                part = joint[z, digit * size : (digit + 1) * size]
                if e >= 0:
                    pair[z, digit] = part.sum()
                if digit:
                    kept += part
    node[t.site[b]] = joint[:, 0]


@jit
def locate(t, c, index):
    """index = the column of child c, its site's state apart, for each column of its parent."""
    index[0] = 0
    size = 1
    for j in range(t.stride_start[c], t.stride_start[c + 1]):
        for digit in range(1, t.n_states):
            step = np.uint32(digit * t.stride[j])
            grown = index[digit * size : (digit + 1) * size]
            for r in range(size):
                grown[r] = index[r] + step
        size *= t.n_states


@jit
def gather(message, table, index, add):
    """Multiply a table by the message (columns,) of a child that `locate` found, or add it."""
    block = len(message) // len(table)
    for z in range(len(table)):
        row = table[z]
        part = message[z * block :]
        for r in range(len(row)):
            if add:
                row[r] += part[index[r]]
            else:
                row[r] *= part[index[r]]


@jit
def scatter(table, out, index):
    """The adjoint of `gather`: sum a table over all but the scope of a child."""
    block = len(out) // len(table)
    out[:] = 0.0
    for z in range(len(table)):
        row = table[z]
        part = out[z * block :]
        for r in range(len(row)):
            part[index[r]] += row[r]


@jit
def sum_out(table, message, logs):
    """message = sum_z table, divided by its largest; the table becomes p(z | scope).

    Returns the logarithm of the largest, and the least sum of products.
    """
    top = -np.inf
    least = np.inf
    for r in range(len(message)):
        shift = 0.0
        if logs:
            shift = table[0, r].real
            for z in range(1, len(table)):
                shift = max(shift, table[z, r].real)
            for z in range(len(table)):
                table[z, r] = np.exp(table[z, r] - shift)
        total = table[0, r]
        for z in range(1, len(table)):
            total += table[z, r]
        if total.real == 0.0:  # all underflow: complex numbers would raise
            return -np.inf, 0.0
        share = 1.0 / total
        for z in range(len(table)):
            table[z, r] *= share
        least = min(least, total.real)
        message[r] = np.log(total) + shift if logs else total
        top = max(top, message[r].real)
    if logs:
        message -= top
        return top, least
    message /= top
    return np.log(top), least


@jit
def expect(conditional, values, out):
    """out = sum_z p(z | scope) values."""
    out[:] = 0.0
    for z in range(len(values)):
        for r in range(len(out)):
            out[r] += conditional[z, r] * values[z, r]


@jit
def add_product(values, a, mean_a, b, mean_b):
    """Add (a - mean_a) (b - mean_b) to values, the means (columns,) given the scope."""
    for z in range(len(values)):
        for r in range(len(mean_a)):
            values[z, r] += (a[z, r] - mean_a[r]) * (b[z, r] - mean_b[r])
