"""Exact sums over the discrete states of any pairwise graph, by variable elimination; twice differentiable.

    log Z = log sum_z exp( sum_i node[i, z_i] + sum_e edge[e, z_a, z_b] ),  edge e joins sites a and b

Time and memory are exponential in the width of the order of elimination (`eliminate`), so the graph should be
small, or planar and of a few hundred sites, or nearly a tree. As on a chain, two primitives suffice for second
derivatives: the gradient of log Z is the marginals, and its Hessian is symmetric. Potentials must be finite;
reverse mode only. Shapes: node (n, K), edge (m, K, K) in the order of the edges that were eliminated; marginals
likewise. Source: Koller and Friedman (2009), chapters 9 and 10; derivatives after Louis (1982).
"""

import autograd.numpy as anp
import numpy as np
from autograd.extend import defvjp_argnums, primitive

from . import collect, distribute, moments
from .elimination import Elimination, TooWide, eliminate

__all__ = [
    "Elimination",
    "Posterior",
    "TooWide",
    "check_edges",
    "edges_of",
    "eliminate",
    "log_partition",
    "marginals",
    "marginals_at",
]


def check_edges(edges, n_sites):
    """The edges as integers (m, 2); ValueError names what is out of range, repeated, or joins a site to itself."""
    pairs = np.asarray(edges)
    if pairs.size == 0:
        return np.zeros((0, 2), np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.issubdtype(pairs.dtype, np.integer):
        kind = f"{pairs.dtype} of shape {pairs.shape}"
        raise ValueError(
            f"edges must be integers (m, 2), two sites a row; got {kind}. For a matrix: graph.edges_of"
        )
    outside = (pairs < 0) | (pairs >= n_sites)
    if outside.any():
        raise ValueError(
            f"edge {_row(pairs, outside.any(axis=1))} leaves the sites 0 ... {n_sites - 1}"
        )
    if (pairs[:, 0] == pairs[:, 1]).any():
        raise ValueError(
            f"edge {_row(pairs, pairs[:, 0] == pairs[:, 1])} joins a site to itself: drop it"
        )
    ends = np.sort(pairs, axis=1)
    _, first = np.unique(ends, axis=0, return_index=True)
    if len(first) < len(pairs):
        again = np.setdiff1d(np.arange(len(pairs)), first)
        raise ValueError(
            f"edge {_row(pairs, again)} is listed more than once: list it once, in either direction"
        )
    return pairs.astype(np.int64)


def _row(pairs, where):
    return f"({', '.join(str(site) for site in pairs[where][0])})"


def edges_of(adjacency):
    """The edges (m, 2), first end below the second, of a symmetric 0/1 matrix (n, n), dense or sparse.

    Raises ValueError for a matrix that is not square, not symmetric, has a diagonal, or entries other than 0 and 1.
    """
    matrix = adjacency.toarray() if hasattr(adjacency, "toarray") else np.asarray(adjacency)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"an adjacency matrix is square; got shape {matrix.shape}")
    strange = matrix[(matrix != 0) & (matrix != 1)]
    if strange.size:
        raise ValueError(f"adjacency entries are 0 or 1; found {strange[0]}")
    if (matrix != matrix.T).any():
        i, j = np.argwhere(matrix != matrix.T)[0]
        entries = f"[{i}, {j}] = {matrix[i, j]} and [{j}, {i}] = {matrix[j, i]}"
        raise ValueError(f"the adjacency matrix is not symmetric: {entries}; neighbours are mutual")
    if matrix.diagonal().any():
        raise ValueError(
            f"site {np.argmax(matrix.diagonal() != 0)} is its own neighbour: clear the diagonal"
        )
    return np.argwhere(np.triu(matrix))


def _collect(node, edge, elimination, wanted):
    """(log Z, conditional of the wanted buckets): in products, or in logarithms where those come near to underflow."""
    node, edge = np.asarray(node, float), np.asarray(edge, float)
    if not (np.isfinite(node).all() and np.isfinite(edge).all()):
        raise ValueError("potentials must be finite: a node or edge potential is nan or infinite")
    log_z, conditional, accurate = collect.collect(elimination, node, edge, wanted)
    if accurate:
        return log_z, conditional
    return collect.collect_logs(elimination, node, edge, wanted)


def _every(elimination, value):
    return np.full(len(elimination.site), value)


def marginals_at(node, edge, elimination, sites):
    """P(z_i = k) of some sites (s, K), for little more than the price of log Z where they are few."""
    wanted = distribute.ancestors(elimination, np.asarray(sites))
    _, conditional = _collect(node, edge, elimination, wanted)
    return distribute.distribute(elimination, len(edge), conditional, wanted)[0][sites]


class Posterior:
    """The distribution of all states given potentials, eliminated once: whatever is asked of it afterwards is cheap.

    log_partition: log Z. `marginals` and `samples` and the second moments need one more pass each.
    """

    def __init__(self, node, edge, elimination):
        self.elimination, self.n_edges = elimination, len(edge)
        self.log_partition, self._conditional = _collect(
            node, edge, elimination, _every(elimination, True)
        )
        self._beliefs = None

    def _distribute(self):
        if self._beliefs is None:
            everywhere = _every(self.elimination, True)
            self._beliefs = distribute.distribute(
                self.elimination, self.n_edges, self._conditional, everywhere
            )
        return self._beliefs

    def marginals(self):
        """(P(z_i = k) (n, K), P(z_a = j, z_b = k) (m, K, K))."""
        return self._distribute()[:2]

    def sample(self, rng, size):
        """Independent draws of all states, integers (size, n)."""
        uniform = rng.random((size, len(self.elimination.site)))
        return np.array(
            [distribute.draw(self.elimination, self._conditional, row) for row in uniform]
        )

    def expect(self, d_node, d_edge):
        """What `tangents` and `covariance` need of D directions S = d_node + d_edge, (D, n, K) and (D, m, K, K).

        They are centred to mean 0, which changes no derivative and avoids cancellation.
        """
        gamma, xi, _ = self._distribute()
        d_node = d_node - np.sum(gamma * d_node, axis=-1, keepdims=True)
        d_edge = d_edge - np.sum(xi * d_edge, axis=(-2, -1), keepdims=True)
        return moments.expect(self.elimination, self._conditional, d_node, d_edge)

    def covariance(self, expected):
        """Cov(S_a, S_b) (D, D) of directions from `expect`: second derivatives of log Z."""
        return moments.covariance(
            self.elimination, self._conditional, self._distribute()[2], *expected
        )

    def tangents(self, expected):
        """The derivatives of `marginals` along each direction from `expect`: a list of pairs (n, K), (m, K, K)."""
        given = self.elimination, self.n_edges, self._conditional, self._distribute()[2]
        return [
            moments.tangent(*given, inner, outer) for inner, outer in zip(*expected, strict=True)
        ]


@primitive
def log_partition(node, edge, elimination):
    """log Z of node potentials (n, K) and edge potentials (m, K, K), a float."""
    return _collect(node, edge, elimination, _every(elimination, False))[0]


@primitive
def _flat_marginals(node, edge, elimination):
    return _joined(Posterior(node, edge, elimination).marginals())


@primitive
def _flat_tangent(node, edge, elimination, direction):
    """Has no derivative of its own: asking for a third one raises, and never gives a silent zero."""
    posterior = Posterior(node, edge, elimination)
    d_node, d_edge = _split(direction, node, edge)
    (moved,) = posterior.tangents(posterior.expect(d_node[None], d_edge[None]))
    return _joined(moved)


def _joined(parts):
    return np.concatenate([part.ravel() for part in parts])


def _split(flat, node, edge):
    """A flat vector as (node, edge) arrays."""
    n = int(np.prod(np.shape(node)))
    return anp.reshape(flat[:n], np.shape(node)), anp.reshape(flat[n:], np.shape(edge))


def marginals(node, edge, elimination):
    """(P(z_i = k) (n, K), P(z_a = j, z_b = k) (m, K, K)); differentiable once."""
    return _split(_flat_marginals(node, edge, elimination), node, edge)


def _select(parts, argnums):
    return tuple(parts[i] for i in argnums)


defvjp_argnums(
    log_partition,
    lambda argnums, ans, args, kwargs: (
        lambda g: _select([g * part for part in marginals(*args)], argnums)
    ),
)
defvjp_argnums(
    _flat_marginals,
    lambda argnums, ans, args, kwargs: (
        lambda g: _select(_split(_flat_tangent(*args, g), *args[:2]), argnums)
    ),
)
