"""What every pass over an `EliminationOrder` does with the table of one bucket, compiled.

The table of bucket b is (n_states, size): rows are the states of its site; a column number's
digits, base n_states, are the states of its scope, lowest digit first. `t` is the order.
"""

from typing import Any

import numpy as np
from numba import njit

jit = njit(cache=True, nogil=True, error_model="numpy")


@jit
def columns(t: Any, b: int) -> slice:
    """Where the columns of bucket b are among those of all buckets."""
    return slice(t.start[b], t.start[b + 1])


@jit
def table_in(t: Any, b: int, buffer: np.ndarray) -> np.ndarray:
    """The table of bucket b at the start of a flat buffer."""
    size = t.start[b + 1] - t.start[b]
    return buffer[: t.n_states * size].reshape((t.n_states, size))


@jit
def table_of(t: Any, b: int, flat: np.ndarray) -> np.ndarray:
    """The table of bucket b in an array of all tables, (n_states * columns,)."""
    return table_in(t, b, flat[t.n_states * t.start[b] :])


@jit
def read_potentials(t: Any, b: int, node: np.ndarray, edge: np.ndarray, table: np.ndarray) -> None:
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
                    grown[r] = known[r] * factor
        size *= t.n_states


@jit
def write_marginals(t: Any, b: int, joint: np.ndarray, node: np.ndarray, edge: np.ndarray) -> None:
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
def places(t: Any, c: int) -> np.ndarray:
    """The column of child c, its site's state apart, for each column of its parent."""
    return t.place[t.place_start[c] : t.place_start[c + 1]]


@jit
def gather(message: np.ndarray, table: np.ndarray, index: np.ndarray, add: bool) -> None:
    """Multiply a table by the message (columns,) of a child at `places`, or add it."""
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
def scatter(table: np.ndarray, out: np.ndarray, index: np.ndarray) -> None:
    """The adjoint of `gather`: sum a table over all but the scope of a child."""
    block = len(out) // len(table)
    out[:] = 0.0
    for z in range(len(table)):
        row = table[z]
        part = out[z * block :]
        for r in range(len(row)):
            part[index[r]] += row[r]


@jit
def sum_out(table: np.ndarray, message: np.ndarray) -> tuple:
    """message = sum_z table, divided by its largest; the table becomes p(z | scope).

    Returns the logarithm of the largest, and the least sum of products.
    """
    top = 0.0
    least = np.inf
    for r in range(len(message)):
        total = table[0, r]
        for z in range(1, len(table)):
            total += table[z, r]
        if total.real == 0.0:  # all underflow: complex numbers would raise
            return -np.inf, 0.0
        share = 1.0 / total
        for z in range(len(table)):
            table[z, r] *= share
        least = min(least, total.real)
        message[r] = total
        top = max(top, total.real)
    message /= top
    return np.log(top), least


@jit
def expect(conditional: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    """out = sum_z p(z | scope) values."""
    out[:] = 0.0
    for z in range(len(values)):
        for r in range(len(out)):
            out[r] += conditional[z, r] * values[z, r]


@jit
def add_product(
    values: np.ndarray, a: np.ndarray, mean_a: np.ndarray, b: np.ndarray, mean_b: np.ndarray
) -> None:
    """Add (a - mean_a) (b - mean_b) to values, the means (columns,) given the scope."""
    for z in range(len(values)):
        for r in range(len(mean_a)):
            values[z, r] += (a[z, r] - mean_a[r]) * (b[z, r] - mean_b[r])
