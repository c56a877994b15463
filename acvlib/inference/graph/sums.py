"""Sums over the states of a graph: up the order of elimination, and back down for what they imply.

Up, each bucket multiplies its factors into a table, sums out its site and keeps p(z | scope) in
place of the table. Down, p(scope) of the buckets follows; from both come marginals. Both passes
take real or complex potentials, so that derivatives are imaginary parts.
"""

from typing import Any

import numpy as np
from numba import njit

from .elimination import EliminationOrder

TINY = 1e-200  # below this, a message has lost to underflow
_jit = njit(cache=True, nogil=True, error_model="numpy")


def collect(
    node: np.ndarray, edge: np.ndarray, t: EliminationOrder
) -> tuple[np.floating | np.complexfloating, np.ndarray]:
    """(log Z, the vector of factors, tables p(z | scope) and messages); arguments unchecked.

    Raises ValueError where products of edges underflow.
    """
    node_top = node.real.max(axis=1, keepdims=True)
    edge_top = edge.real.max(axis=(1, 2), keepdims=True)
    factors = np.exp(np.concatenate([np.ravel(node - node_top), np.ravel(edge - edge_top)]))
    numbers = np.empty(t.message[-1], factors.dtype)
    numbers[: len(factors)] = factors
    log_z, least = _collect(t, numbers)
    if not least > TINY:
        apart = "edge potentials are so far apart that their products underflow"
        raise ValueError(f"{apart}: lower them, or the coupling")
    return log_z + node_top.sum() + edge_top.sum(), numbers


def distribute(
    numbers: np.ndarray, t: EliminationOrder, sites: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """(P(z_i = k) (n, K), P(z_a, z_b) (m, K, K)); of some sites, undefined elsewhere."""
    k = t.n_states
    found = np.zeros(len(numbers), numbers.dtype)
    wanted = np.ones(len(t.site), bool) if sites is None else np.isin(t.site, sites)
    _distribute(t, numbers, found, wanted)
    node, edge, _ = np.split(found, [k * len(t.site), k * (len(t.site) + k * t.n_edges)])
    return node.reshape(-1, k), edge.reshape(-1, k, k)


@_jit
def _collect(t, numbers):
    """(log Z of the factors at the head of `numbers`, the least sum); fills in what follows."""
    log_z = np.zeros(1, numbers.dtype)[0]
    least = np.inf
    for b in range(len(t.site)):
        n = t.columns[b]
        _multiply(t, 2 * b, numbers, numbers[t.start[2 * b] : t.start[2 * b + 1]])
        table = numbers[t.start[2 * b + 1] : t.message[b]]
        _multiply(t, 2 * b + 1, numbers, table)
        message = numbers[t.message[b] : t.message[b] + n]
        top = 0.0
        for r in range(n):
            total = table[r]
            for z in range(1, t.n_states):
                total += table[z * n + r]
            least = min(least, total.real)
            if not least > TINY:  # complex numbers would raise
                return log_z, least
            share = 1.0 / total
            for z in range(t.n_states):
                table[z * n + r] *= share
            message[r] = total
            top = max(top, total.real)
        if t.parent[b] < 0:
            log_z += np.log(message[0])
        else:
            log_z += np.log(top)
            for r in range(n):
                message[r] /= top
    return log_z, least


@_jit
def _distribute(t, numbers, found, wanted):
    """Sum p(site, scope) over what each factor does not touch, in the buckets wanted and above."""
    for b in range(len(wanted)):
        if wanted[b] and t.parent[b] >= 0:
            wanted[t.parent[b]] = True
    for b in np.flatnonzero(wanted)[::-1]:
        n = t.columns[b]
        scope = found[t.message[b] : t.message[b] + n]
        joint = numbers[t.start[2 * b + 1] : t.message[b]].copy()
        if t.parent[b] >= 0:
            for z in range(t.n_states):
                for r in range(n):
                    joint[z * n + r] *= scope[r]
        _sum(t, 2 * b + 1, joint, found)
        _sum(t, 2 * b, found[t.start[2 * b] : t.start[2 * b + 1]], found)


@_jit
def _multiply(t, product, numbers, out):
    """out = the product of its factors, entry by entry."""
    first = t.factor[product]
    entries = t.entries[t.begin[first] : t.begin[first + 1]]
    for i in range(len(out)):
        out[i] = numbers[entries[i]]
    for f in range(first + 1, t.factor[product + 1]):
        entries = t.entries[t.begin[f] : t.begin[f + 1]]
        for i in range(len(out)):
            out[i] *= numbers[entries[i]]


@_jit
def _sum(t, product, joint, found):
    """The adjoint of `_multiply`: sum a table over what each factor does not touch."""
    for f in range(t.factor[product], t.factor[product + 1]):
        entries = t.entries[t.begin[f] : t.begin[f + 1]]
        for i in range(len(joint)):
            found[entries[i]] += joint[i]
