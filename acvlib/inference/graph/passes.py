"""Sums over the states of a graph: up the order of elimination, and back down for what they imply.

Up, each bucket sums out its site and keeps p(z | scope), its *conditional*. Down, p(scope) of the
buckets follows; from both come marginals and samples. Every pass takes real or complex potentials.
"""

from typing import NamedTuple

import numpy as np

from .tables import (
    children,
    columns,
    gather,
    index_buffer,
    jit,
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

    The largest of each is 1, or 0 where `logs`; `shift` makes up for that in log Z.
    """
    neutral = np.zeros_like(edge, shape=(1, *edge.shape[1:]))
    edge = np.concatenate([edge, neutral])
    node_top = node.real.max(axis=1, keepdims=True)
    edge_top = edge.real.max(axis=(1, 2), keepdims=True)
    shift = node_top.sum() + edge_top.sum()
    node = node - node_top
    edge = edge - edge_top
    return (node, edge, shift) if logs else (np.exp(node), np.exp(edge), shift)


class Upward(NamedTuple):
    """What the way up leaves: log Z, the conditionals of all buckets in one array, their messages.

    log_norm (n,): logarithms of what messages were divided by; logs: whether messages are
    logarithms.
    """

    log_partition: float
    conditional: np.ndarray
    message: np.ndarray
    log_norm: np.ndarray
    logs: bool


def collect(t, node, edge, logs=False):
    """Go up by products, which none but large potentials underflow, or else by logarithms.

    These, or `logs`, are slower, and accurate for any potentials.
    """
    everywhere = np.ones(len(t.site), bool)
    return _up(t, node, edge, logs, everywhere) or _up(t, node, edge, True, everywhere)


def collect_anew(t, node, edge, known, wanted):
    """`Upward` of the buckets wanted, with all above them; None if products underflow.

    known: `Upward` of potentials that differ in these buckets alone.
    """
    return _up(t, node, edge, known.logs, wanted, known)


def _up(t, node, edge, logs, wanted, known=None):
    *scaled, shift = factors(node, edge, logs)
    message = np.empty(t.start[-1], node.dtype)
    conditional = np.empty(t.n_states * t.start[-1], node.dtype)
    log_norm = np.empty(len(wanted)) if known is None else known.log_norm.copy()
    other = message if known is None else known.message
    if not _collect(t, *scaled, logs, wanted, other, message, conditional, log_norm):
        return None
    return Upward(float(log_norm.sum() + shift), conditional, message, log_norm, logs)


@jit
def _collect(t, node, edge, logs, wanted, known, message, conditional, log_norm):
    """Sum out the buckets wanted; messages of others are known. False where one underflows."""
    index = index_buffer(t)
    for b in np.flatnonzero(wanted):
        table = table_of(t, b, conditional)
        read_potentials(t, b, node, edge, table, logs)
        for c in children(t, b):
            source = message if wanted[c] else known
            locate(t, c, index)
            gather(source[columns(t, c)], table, index, logs)
        log_norm[b], least = sum_out(table, message[columns(t, b)], logs)
        if not least > TINY:
            return False
    return True


@jit
def ancestors(t, sites):
    """Mark the buckets of the sites marked (n,) and all that lie above them."""
    marked = sites[t.site]
    for b in range(len(marked)):
        if marked[b] and t.parent[b] >= 0:
            marked[t.parent[b]] = True
    return marked


@jit
def distribute(t, conditional, sites):
    """(P(z_i = k) (n, k), P(z_a, z_b) (m, k, k)) in the buckets of the sites marked and above.

    Undefined elsewhere.
    """
    k = t.n_states
    gamma = np.empty((len(t.site), k), conditional.dtype)
    xi = np.empty((len(t.ends) + 1, k, k), conditional.dtype)
    separator = np.empty(t.start[-1], conditional.dtype)  # p(scope)
    separator[t.start[:-1][t.parent < 0]] = 1.0
    index = index_buffer(t)
    buffer = np.empty(k * len(index), conditional.dtype)
    wanted = ancestors(t, sites)
    for b in np.flatnonzero(wanted)[::-1]:
        joint = table_in(t, b, buffer)
        given = table_of(t, b, conditional)
        scope = separator[columns(t, b)]
        np.multiply(given, scope, joint)
        for c in children(t, b):
            if wanted[c]:
                locate(t, c, index)
                scatter(joint, separator[columns(t, c)], index)
        write_marginals(t, b, joint, gamma, xi)
    return gamma, xi[:-1]
