"""Sums over the states of a graph: up the order of elimination, and back down for what they imply.

Up, each bucket sums out its site and keeps p(z | scope), its *conditional*. Down, p(scope) of the
buckets follows; from both come marginals and samples. Every pass takes real or complex potentials.
"""

import numpy as np

from .tables import (
    columns,
    gather,
    index_buffer,
    jit,
    largest,
    locate,
    read_potentials,
    scatter,
    sum_out,
    table_in,
    table_of,
    write_marginals,
)

TINY = 1e-200  # above this, a message has lost nothing to underflow


def factors(node, edge, logs):
    """(node, edge and a neutral last one, shift): what kernels multiply, or add where `logs`.

    Each is at most 1, or 0 where `logs`; `shift` makes up for that in log Z.
    """
    neutral = np.zeros_like(edge, shape=(1, *edge.shape[1:]))
    edge = np.concatenate([edge, neutral])
    node_top = node.real.max(axis=1, keepdims=True)
    edge_top = edge.real.max(axis=(1, 2), keepdims=True)
    node = node - node_top
    edge = edge - edge_top
    shift = node_top.sum() + edge_top.sum()
    return (node, edge, shift) if logs else (np.exp(node), np.exp(edge), shift)


def collect(t, node, edge, logs):
    """(log Z, all conditionals, whether they are accurate).

    In products, accurate if none came near to underflow; or, where `logs`, in sums of logarithms:
    slower, and accurate for finite potentials of any size.
    """
    node, edge, shift = factors(node, edge, logs)
    log_z, conditional, accurate = _collect(t, node, edge, logs)
    return log_z + shift, conditional, accurate


@jit
def _collect(t, node, edge, logs):
    message = np.empty(t.start[-1], node.dtype)
    conditional = np.empty(t.n_states * t.start[-1], node.dtype)
    index = index_buffer(t)
    log_z = 0.0
    for b in range(len(t.site)):
        table = table_of(t, b, conditional)
        read_potentials(t, b, node, edge, table, logs)
        for c in t.child[t.child_start[b] : t.child_start[b + 1]]:
            locate(t, c, index)
            gather(message[columns(t, c)], table, index, logs)
        log_top, least = sum_out(table, message[columns(t, b)], logs)
        if not least > TINY:
            return log_z, conditional, False
        log_z += log_top
    return log_z, conditional, True


@jit
def distribute(t, conditional, wanted):
    """(P(z_i = k) (n, k), P(z_a, z_b) (m, k, k)) of the buckets `wanted`, undefined elsewhere.

    A wanted bucket's parent is wanted too.
    """
    k = t.n_states
    gamma = np.empty((len(t.site), k), conditional.dtype)
    xi = np.empty((len(t.ends), k, k), conditional.dtype)
    separator = np.empty(t.start[-1], conditional.dtype)  # p(scope)
    separator[t.start[:-1][t.parent < 0]] = 1.0
    buffer = np.empty(k * largest(t), conditional.dtype)
    index = index_buffer(t)
    for b in np.flatnonzero(wanted)[::-1]:
        joint = table_in(t, b, buffer)
        given = table_of(t, b, conditional)
        scope = separator[columns(t, b)]
        for z in range(k):
            for r in range(len(scope)):
                joint[z, r] = given[z, r] * scope[r]
        for c in t.child[t.child_start[b] : t.child_start[b + 1]]:
            if wanted[c]:
                locate(t, c, index)
                scatter(joint, separator[columns(t, c)], index)
        write_marginals(t, b, joint, gamma, xi)
    return gamma, xi


@jit
def ancestors(t, sites):
    """Mark the buckets of the sites and all that lie above them, (n,) bool."""
    bucket = np.argsort(t.site)
    marked = np.zeros(len(t.site), np.bool_)
    for site in sites:
        b = bucket[site]
        while b >= 0 and not marked[b]:
            marked[b] = True
            b = t.parent[b]
    return marked


@jit
def draw(t, conditional, uniform):
    """One sample of all states (n,) from n uniform numbers, in the reverse order of elimination."""
    state = np.zeros(len(t.site), np.int64)
    for b in range(len(t.site) - 1, -1, -1):
        column = 0
        digit = 1
        for site in t.scope[t.scope_start[b] : t.scope_start[b + 1]]:
            column += digit * state[site]
            digit *= t.n_states
        table = table_of(t, b, conditional)
        reached = table[0, column]
        z = 0
        while reached < uniform[b] and z < t.n_states - 1:
            z += 1
            reached += table[z, column]
        state[t.site[b]] = z
    return state
