"""Exact sums over the discrete states of any pairwise graph, by variable elimination.

    log Z = log sum_z exp( sum_i node[i, z_i] + sum_e edge[e, z_a, z_b] ),  edge e joins a and b

Time and memory are exponential in the width of the order of elimination (`eliminate`), so the graph
should be small, or planar and of a few hundred sites, or nearly a tree. As on a chain, two
primitives suffice for second derivatives: the gradient of log Z is the marginals, and its Hessian
is symmetric. Potentials must be finite; reverse mode only. Shapes: node (n, K), edge (m, K, K) in
the order of the edges that were eliminated; marginals likewise.
Source: Koller and Friedman (2009), chapters 9 and 10; derivatives after Louis (1982).
"""

import autograd.numpy as anp
import numpy as np
from autograd.extend import defvjp_argnums, primitive

from . import passes
from .checks import check_edges, check_potentials, check_sites, edges_of
from .elimination import EliminationOrder, TooWide, eliminate
from .moments import Moments, SumMoments

__all__ = [
    "EliminationOrder",
    "GraphPosterior",
    "Moments",
    "SumMoments",
    "TooWide",
    "check_edges",
    "edges_of",
    "eliminate",
    "log_partition",
    "marginals",
    "marginals_at",
    "tangent",
]

STEP = 1e-30  # of a complex step: its square is lost, so that the derivative is exact


def _collect(node, edge, elimination, wanted):
    """(log Z, conditional): in products, or in logarithms where those come near to underflow."""
    log_z, conditional, accurate = passes.collect(elimination, node, edge, wanted, False)
    if not accurate:
        log_z, conditional, _ = passes.collect(elimination, node, edge, wanted, True)
    return log_z, conditional


class GraphPosterior:
    """The distribution of all states given potentials, node (n, K) and edge (m, K, K).

    Eliminated once: what is asked of it afterwards needs one more pass, or none.
    """

    def __init__(self, node: np.ndarray, edge: np.ndarray, elimination: EliminationOrder):
        node, edge = check_potentials(node, edge, elimination)
        everywhere = np.ones(len(node), bool)
        self.elimination = elimination
        self.log_partition, self._conditional = _collect(node, edge, elimination, everywhere)
        self._marginals = None

    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        """Return P(z_i = k) (n, K) and P(z_a = j, z_b = k) (m, K, K)."""
        if self._marginals is None:
            self._marginals = _all_marginals(self.elimination, self._conditional)
        return self._marginals

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw all states, independently, `size` times: integers (size, n)."""
        uniform = rng.random((size, len(self.elimination.site)))
        draws = [passes.draw(self.elimination, self._conditional, row) for row in uniform]
        return np.array(draws)


def _all_marginals(elimination, conditional):
    n_edges = len(elimination.edge)
    everywhere = np.ones(len(elimination.site), bool)
    return passes.distribute(elimination, n_edges, conditional, everywhere, everywhere)


def marginals_at(
    node: np.ndarray, edge: np.ndarray, elimination: EliminationOrder, sites: np.ndarray
) -> np.ndarray:
    """Return P(z_i = k) of some sites, (s, K); of a few, at little more than the cost of log Z."""
    node, edge = check_potentials(node, edge, elimination)
    sites = check_sites(sites, len(node))
    wanted = passes.ancestors(elimination, sites)
    _, conditional = _collect(node, edge, elimination, wanted)
    asked = np.isin(elimination.site, sites)
    gamma, _ = passes.distribute(elimination, len(edge), conditional, wanted, asked)
    return gamma[sites]


def tangent(
    node: np.ndarray,
    edge: np.ndarray,
    elimination: EliminationOrder,
    d_node: np.ndarray,
    d_edge: np.ndarray,
) -> tuple[np.ndarray, ...]:
    """Return the derivative of `marginals` along (d_node, d_edge), by a complex step."""
    potentials = check_potentials(node, edge, elimination)
    along = check_potentials(d_node, d_edge, elimination)
    nodes, edges = (a + STEP * 1j * b for a, b in zip(potentials, along, strict=True))
    _, conditional = _collect(nodes, edges, elimination, np.ones(len(node), bool))
    return tuple(part.imag / STEP for part in _all_marginals(elimination, conditional))


@primitive
def log_partition(node: np.ndarray, edge: np.ndarray, elimination: EliminationOrder) -> float:
    """Return log Z of node potentials (n, K) and edge potentials (m, K, K)."""
    node, edge = check_potentials(node, edge, elimination)
    return _collect(node, edge, elimination, np.zeros(len(node), bool))[0]


@primitive
def _flat_marginals(node, edge, elimination):
    return _joined(GraphPosterior(node, edge, elimination).marginals())


@primitive
def _flat_tangent(node, edge, elimination, direction):
    """Has no derivative of its own: asking for a third one raises; no silent zero."""
    return _joined(tangent(node, edge, elimination, *_split(direction, node, edge)))


def _joined(parts):
    return np.concatenate([part.ravel() for part in parts])


def _split(flat, node, edge):
    """A flat vector as (node, edge) arrays."""
    n = int(np.prod(np.shape(node)))
    return anp.reshape(flat[:n], np.shape(node)), anp.reshape(flat[n:], np.shape(edge))


def marginals(
    node: np.ndarray, edge: np.ndarray, elimination: EliminationOrder
) -> tuple[np.ndarray, np.ndarray]:
    """Return P(z_i = k) (n, K) and P(z_a = j, z_b = k) (m, K, K); differentiable once."""
    return _split(_flat_marginals(node, edge, elimination), node, edge)


def _log_partition_vjp(argnums, ans, args, kwargs):
    def pull(g):
        parts = marginals(*args)
        return tuple(g * parts[i] for i in argnums)

    return pull


def _marginals_vjp(argnums, ans, args, kwargs):
    def pull(g):
        parts = _split(_flat_tangent(*args, g), *args[:2])
        return tuple(parts[i] for i in argnums)

    return pull


defvjp_argnums(log_partition, _log_partition_vjp)
defvjp_argnums(_flat_marginals, _marginals_vjp)
