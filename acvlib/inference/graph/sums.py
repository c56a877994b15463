"""Sums over the states of a graph: up the order of elimination, and back down for what they imply.

Up, each bucket sums out its site and keeps p(z | scope), its *conditional*. Down, p(scope) of the
buckets follows; from both come marginals. Derivatives of log Z along a few parameters
are taken on the way up, as means and covariances given a bucket's scope (Louis 1982; law of total
covariance), so that leaving a site out costs only the tables of its ancestors in the order of
elimination. Every pass takes real or complex potentials.
"""

from typing import Any, NamedTuple

import numpy as np

from ...checks import check_kind, real_or_box
from .elimination import EliminationOrder
from .tables import (
    add_product,
    columns,
    expect,
    gather,
    jit,
    places,
    read_potentials,
    scatter,
    sum_out,
    table_in,
    table_of,
    write_marginals,
)

TINY = 1e-200  # below this, a message has lost to underflow


class Sums(NamedTuple):
    """What one pass up leaves: log Z and its derivatives, and what other passes start from."""

    values: np.ndarray  # (rows,): log Z, its first derivatives, its second derivatives
    nodes: np.ndarray  # (rows, n, K)
    edge: np.ndarray
    log_norm: np.ndarray  # (n,), the logarithms of what the messages of buckets were divided by
    rows: np.ndarray  # (rows, columns): messages, and derivatives of their logarithms
    conditional: np.ndarray


def expansion(
    node: np.ndarray,
    edge: np.ndarray,
    slopes: np.ndarray,
    bends: np.ndarray,
    elimination: EliminationOrder,
    near: Sums | None = None,
) -> Sums:
    """Return log Z and its derivatives along D parameters that node potentials depend on.

    node (n, K), edge (m, K, K); slopes (D, n, K): derivatives of node; bends: none, or those of the
    pairs (0, 0), (1, 0), (1, 1), (2, 0), ... of parameters, (D (D + 1) / 2, n, K).
    near: the sums of potentials that differ from these at a few sites, which makes them cheap.
    Raises ValueError where shapes differ from these.
    """
    node, edge = check_potentials(node, edge, elimination)
    n_first = len(slopes)
    n_pairs = n_first * (n_first + 1) // 2 if len(bends) else 0
    for name, part, size in (("slopes", slopes, n_first), ("bends", bends, n_pairs)):
        if part.shape != (size, *node.shape):
            raise ValueError(f"{name} has shape {part.shape}; must be {(size, *node.shape)}")
    nodes = np.concatenate([node[None], slopes, bends])
    if near is None:
        return collect(elimination, nodes, edge, n_first)
    moved = (nodes != near.nodes).any(axis=(0, 2))
    moved[elimination.ends[(edge != near.edge).any(axis=(1, 2))]] = True
    return collect(elimination, nodes, edge, n_first, near=near, moved=moved)


def check_potentials(
    node: Any, edge: Any, elimination: EliminationOrder
) -> tuple[np.ndarray, np.ndarray]:
    """Return node (n, K) and edge (m, K, K) as finite floats, or autograd's boxes of any numbers.

    Raises ValueError where they do not fit the order of elimination, TypeError if that is none.
    """
    check_kind("elimination", elimination, EliminationOrder)
    k = elimination.n_states
    node = real_or_box("node", node)
    edge = real_or_box("edge", edge)
    shapes = (len(elimination.site), k), (len(elimination.ends), k, k)
    for name, part, shape in zip(("node", "edge"), (node, edge), shapes, strict=True):
        if part.shape != shape:
            raise ValueError(f"{name} has shape {part.shape}; this elimination is for {shape}")
    return node, edge


def collect(
    t: EliminationOrder,
    nodes: np.ndarray,
    edge: np.ndarray,
    n_first: int = 0,
    keep: bool = False,
    near: Sums | None = None,
    moved: Any = None,
) -> Sums:
    """`Sums` of checked nodes (rows, n, K); `keep`: with all conditionals, for a pass down.

    moved (n,): what differs from `near`. Raises ValueError where products of edges underflow.
    """
    node, factors, shift = _factors(nodes[0], edge)
    roots = t.start[:-1][t.parent < 0]  # their tables' one column
    rows = np.empty((len(nodes), t.start[-1]), nodes.dtype)
    known = near.rows if near else rows
    rows[:, roots] = known[:, roots]
    log_norm = near.log_norm.copy() if near else np.empty(len(t.site))
    moved = moved if near else np.ones(len(t.site), bool)
    size = t.start[-1] if keep else np.diff(t.start).max()
    conditional = np.empty(t.n_states * size, nodes.dtype)
    found = (moved, log_norm, rows, known, conditional, keep)
    if not _collect(t, node, factors, nodes[1:], n_first, *found):
        apart = "edge potentials are so far apart that their products underflow"
        raise ValueError(f"{apart}: lower them, or the coupling")
    values = rows[:, roots].sum(axis=1)
    values[0] = shift + log_norm.sum()
    return Sums(values, nodes, edge, log_norm, rows, conditional)


def _factors(node, edge):
    """(node, edge and a neutral last one, shift): what kernels multiply.

    The largest of each is 1; `shift` makes up for that in log Z.
    """
    neutral = np.zeros_like(edge, shape=(1, *edge.shape[1:]))
    edge = np.concatenate([edge, neutral])
    node_top = node.real.max(axis=1, keepdims=True)
    edge_top = edge.real.max(axis=(1, 2), keepdims=True)
    shift = node_top.sum() + edge_top.sum()
    return np.exp(node - node_top), np.exp(edge - edge_top), shift


@jit
def _collect(t, node, edge, others, n_first, moved, log_norm, new, known, conditional, keep):
    """Sum out anew the buckets of sites that moved and those above; False where that underflows.

    others (rows - 1, n, K): derivatives of node, the first `n_first` of them first ones; new and
    known (rows, columns): the messages and the derivatives of their logarithms.
    """
    n_rows = len(new)
    largest = np.diff(t.start).max()
    buffers = np.empty((n_rows, t.n_states * largest), new.dtype)
    changed = ancestors(t, moved)
    for b in np.flatnonzero(changed):
        here = columns(t, b)
        table = table_of(t, b, conditional) if keep else table_in(t, b, conditional)
        read_potentials(t, b, node, edge, table)
        for d in range(1, n_rows):
            table_in(t, b, buffers[d])[:] = others[d - 1, t.site[b]].reshape((-1, 1))
        for c in t.child[t.child_start[b] : t.child_start[b + 1]]:
            rows = new if changed[c] else known
            index = places(t, c)
            gather(rows[0, columns(t, c)], table, index, False)
            for d in range(1, n_rows):
                gather(rows[d, columns(t, c)], table_in(t, b, buffers[d]), index, True)
        log_norm[b], least = sum_out(table, new[0, here])
        if not least > TINY:
            return False
        for d in range(1, n_first + 1):
            expect(table, table_in(t, b, buffers[d]), new[d, here])
        d = 1
        row = n_first + 1
        while row < n_rows:
            for e in range(1, d + 1):
                values = table_in(t, b, buffers[row])
                first = table_in(t, b, buffers[d])
                second = table_in(t, b, buffers[e])
                add_product(values, first, new[d, here], second, new[e, here])
                expect(table, values, new[row, here])
                row += 1
            d += 1
    return True


@jit
def ancestors(t: EliminationOrder, sites: np.ndarray) -> np.ndarray:
    """Mark the buckets of the sites marked (n,) and all that lie above them."""
    marked = sites[t.site]
    for b in range(len(marked)):
        if marked[b] and t.parent[b] >= 0:
            marked[t.parent[b]] = True
    return marked


@jit
def distribute(
    t: EliminationOrder, conditional: np.ndarray, sites: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(P(z_i = k) (n, k), P(z_a, z_b) (m, k, k)) in the buckets of the sites marked and above.

    Undefined elsewhere.
    """
    k = t.n_states
    gamma = np.empty((len(t.site), k), conditional.dtype)
    xi = np.empty((len(t.ends) + 1, k, k), conditional.dtype)
    separator = np.empty(t.start[-1], conditional.dtype)  # p(scope)
    separator[t.start[:-1][t.parent < 0]] = 1.0
    buffer = np.empty(k * np.diff(t.start).max(), conditional.dtype)
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
                scatter(joint, separator[columns(t, c)], places(t, c))
        write_marginals(t, b, joint, gamma, xi)
    return gamma, xi[:-1]
