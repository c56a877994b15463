"""Exact sums over the discrete states of any pairwise graph, by variable elimination.

    log Z = log sum_z exp( sum_i node[i, z_i] + sum_e edge[e, z_a, z_b] ),  edge e joins a and b

Time and memory are exponential in the width of the order of elimination (`eliminate`), so the graph
should be small, or planar and of a few hundred sites, or nearly a tree. As on a chain, two
primitives suffice for second derivatives: the gradient of log Z is the marginals, and its Hessian
is symmetric. Potentials must be finite; reverse mode only. Shapes: node (n, K), edge (m, K, K) in
the order of the edges that were eliminated; marginals likewise.

Up the order, each bucket multiplies its factors into a table, sums out its site and keeps p(z |
scope) in place of the table. Down, p(scope) of the buckets follows; from both come marginals. Both
passes take real or complex potentials, so that derivatives are imaginary parts.

Source: Koller and Friedman (2009), chapters 9 and 10; derivatives after Louis (1982).
"""

from typing import Any

import numpy as np
from numba import njit

from ...checks import check_kind, one_line, real_or_box
from ...folds.edges import check_edges, is_networkx, names_of
from ...folds.sites import Sites
from ..chain import differentiable, flat, split
from .elimination import EliminationOrder, TooWide, check_width, eliminate

__all__ = [
    "EliminationOrder",
    "GraphPosterior",
    "TooWide",
    "check_edges",
    "check_width",
    "collect",
    "distribute",
    "eliminate",
    "is_networkx",
    "log_partition",
    "names_of",
]

TINY = 1e-200  # below this, a message has lost to underflow
_jit = njit(cache=True, nogil=True, error_model="numpy")


class GraphPosterior:
    """The distribution of all states given potentials, node (n, K) and edge (m, K, K).

    Eliminated once: what is asked of it afterwards needs one more pass.
    """

    __repr__ = one_line

    def __init__(self, node: np.ndarray, edge: np.ndarray, elimination: EliminationOrder):
        self.elimination = elimination
        potentials = _checked(node, edge, elimination)
        self.log_partition, self._numbers = collect(*potentials, elimination)

    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        """Return P(z_i = k) (n, K) and P(z_a = j, z_b = k) (m, K, K)."""
        return distribute(self._numbers, self.elimination)

    def marginals_at(self, sites: np.ndarray) -> np.ndarray:
        """Return P(z_i = k) of some sites, (s, K); those of a few at little more than no cost."""
        fold = Sites.of([sites], len(self.elimination.site)).sites
        return distribute(self._numbers, self.elimination, fold)[0][fold]


def _log_z(potentials, t):
    return collect(*split(potentials, len(t.site), t.n_states), t)[0]


def _mean(potentials, t):
    _, numbers = collect(*split(potentials, len(t.site), t.n_states), t)
    return flat(*distribute(numbers, t))


_log_partition, _ = differentiable(_log_z, _mean)


def log_partition(node: np.ndarray, edge: np.ndarray, elimination: EliminationOrder) -> float:
    """Return log Z of node potentials (n, K) and edge potentials (m, K, K); differentiable."""
    return _log_partition(flat(*_checked(node, edge, elimination)), elimination)


def _checked(node: Any, edge: Any, elimination: Any) -> tuple[np.ndarray, np.ndarray]:
    """Both as finite floats, or autograd's boxes; ValueError where they do not fit the order."""
    check_kind("elimination", elimination, EliminationOrder)
    k = elimination.n_states
    node = real_or_box("node", node)
    edge = real_or_box("edge", edge)
    shapes = (len(elimination.site), k), (elimination.n_edges, k, k)
    for name, part, shape in zip(("node", "edge"), (node, edge), shapes, strict=True):
        if part.shape != shape:
            raise ValueError(f"{name} has shape {part.shape}; this elimination is for {shape}")
    return node, edge


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
