"""Sums over the states of a graph: up the order of elimination, and back down for what they imply.

Up, each bucket sums out its site and keeps p(z | scope), its *conditional*. Down, p(scope) of the
buckets follows; from both come marginals and samples. Every pass takes real or complex potentials.
"""

import numpy as np

from .tables import (
    buffer_size,
    half_buffers,
    jit,
    scatter,
    split_halves,
    sum_bucket,
    table_in,
    table_of,
    write_marginals,
)

TINY = 1e-200  # above this, a message has lost nothing to underflow


@jit
def collect(t, node, edge, wanted, logs):
    """(log Z, conditional of the `wanted` buckets, whether all is accurate).

    In products of numbers scaled to at most 1, accurate if none came near to underflow; or, where
    `logs`, in sums of logarithms: slower, and accurate for finite potentials of any size.
    """
    message = np.empty(t.start[-1], node.dtype)
    conditional = np.empty(t.n_states * t.start[-1], node.dtype)
    buffer = np.empty(buffer_size(t), node.dtype)
    low, high = half_buffers(t, node)
    log_z = 0.0
    for b in range(len(t.site)):
        score = table_of(t, b, conditional) if wanted[b] else table_in(t, b, buffer)
        log_norm, least = sum_bucket(t, b, node, edge, message, score, low, high, logs)
        if not least > TINY:
            return log_z, conditional, False
        log_z += log_norm
    return log_z, conditional, True


@jit
def _joint(t, b, conditional, separator, buffer):
    """p(z, scope) = p(z | scope) p(scope) of bucket b."""
    joint = table_in(t, b, buffer)
    given = table_of(t, b, conditional)
    scope = separator[t.start[b] : t.start[b + 1]].reshape(given.shape[1:])
    for z in range(t.n_states):
        for h in range(t.n_high[b]):
            for i in range(t.n_low[b]):
                joint[z, h, i] = given[z, h, i] * scope[h, i]
    return joint


@jit
def distribute(t, n_edges, conditional, wanted, asked):
    """(P(z_i = k) (n, k), P(z_a, z_b) (m, k, k)) of the buckets `asked`, undefined elsewhere.

    The buckets `wanted` are those and all above them.
    """
    k = t.n_states
    gamma = np.empty((len(t.site), k), conditional.dtype)
    xi = np.empty((n_edges, k, k), conditional.dtype)
    separator = np.ones(t.start[-1], conditional.dtype)
    buffer = np.empty(buffer_size(t), conditional.dtype)
    low, high = half_buffers(t, conditional)
    for b in range(len(t.site) - 1, -1, -1):
        if wanted[b]:
            joint = _joint(t, b, conditional, separator, buffer)
            if asked[b]:
                split_halves(joint, low, high)
                write_marginals(t, b, low, high, gamma, xi)
            for c in t.child[t.child_start[b] : t.child_start[b + 1]]:
                if wanted[c]:
                    scatter(t, c, joint, separator)
    return gamma, xi


@jit
def ancestors(t, sites):
    """Marks the buckets of the sites and all that lie above them, (n,) bool."""
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
    k = t.n_states
    state = np.zeros(len(t.site), np.int64)
    for b in range(len(t.site) - 1, -1, -1):
        row = 0
        digit = 1
        for site in t.scope[t.scope_start[b] : t.scope_start[b + 1]]:
            row += digit * state[site]
            digit *= k
        given = table_of(t, b, conditional).reshape((k, -1))[:, row]
        reached = given[0]
        z = 0
        while reached < uniform[b] and z < k - 1:
            z += 1
            reached += given[z]
        state[t.site[b]] = z
    return state
