"""Sums over the states of a graph: up the order of elimination, and back down for what they imply.

Up, each bucket sums out its site and keeps p(z | scope), its *conditional*. Down, p(scope) of the
buckets follows; from both come marginals and samples. Every pass takes real or complex potentials.
"""

from typing import Any

import numpy as np

from ...checks import check_kind, real_or_box
from .elimination import EliminationOrder
from .tables import (
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


def check_potentials(
    node: Any, edge: Any, elimination: EliminationOrder, names: tuple[str, str] = ("node", "edge")
) -> tuple[np.ndarray, np.ndarray]:
    """Return node (n, K) and edge (m, K, K) as finite floats, or autograd's boxes of any numbers.

    Raises ValueError where they do not fit the order of elimination, TypeError if that is none.
    """
    check_kind("elimination", elimination, EliminationOrder)
    k = elimination.n_states
    of_nodes = check_shape(names[0], node, (len(elimination.site), k))
    return of_nodes, check_shape(names[1], edge, (len(elimination.ends), k, k))


def check_shape(name: str, values: Any, shape: tuple) -> np.ndarray:
    """Return real numbers, or a box, of this shape; ValueError for others."""
    values = real_or_box(name, values)
    if values.shape != shape:
        raise ValueError(f"{name} has shape {values.shape}; this elimination is for {shape}")
    return values


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


def collect(t, node, edge, logs=False):
    """(log Z, all conditionals, whether by products, which none but large potentials underflow).

    Where they do, or where `logs`, by sums of logarithms: slower, and accurate for any potentials.
    """
    *scaled, shift = factors(node, edge, logs)
    log_z, conditional, accurate = _collect(t, *scaled, logs)
    if accurate or logs:
        return log_z + shift, conditional, not logs
    return collect(t, node, edge, logs=True)


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
        for z in range(k):
            for r in range(len(scope)):
                joint[z, r] = given[z, r] * scope[r]
        for c in t.child[t.child_start[b] : t.child_start[b + 1]]:
            if wanted[c]:
                locate(t, c, index)
                scatter(joint, separator[columns(t, c)], index)
        write_marginals(t, b, joint, gamma, xi)
    return gamma, xi[:-1]
