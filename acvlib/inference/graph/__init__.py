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
from autograd.extend import defvjp, primitive

from ...checks import check_whole, generator, one_line
from .edges import by_node, check_edges, check_sites, edges_of, is_named, is_networkx
from .elimination import EliminationOrder, TooWide, check_width, eliminate
from .moments import Moments, SumMoments
from .passes import check_potentials, collect, distribute
from .tables import table_of

__all__ = [
    "EliminationOrder",
    "GraphPosterior",
    "Moments",
    "SumMoments",
    "TooWide",
    "check_edges",
    "check_sites",
    "check_width",
    "edges_of",
    "eliminate",
    "log_partition",
    "marginals",
    "marginals_at",
    "tangent",
]

STEP = 1e-30  # of a complex step: its square is lost, so that the derivative is exact


class GraphPosterior:
    """The distribution of all states given potentials, node (n, K) and edge (m, K, K).

    Eliminated once: what is asked of it afterwards needs one more pass.
    """

    __repr__ = one_line

    def __init__(self, node: np.ndarray, edge: np.ndarray, elimination: EliminationOrder):
        node, edge = check_potentials(node, edge, elimination)
        self.elimination = elimination
        self.log_partition, self._conditional, _ = collect(elimination, node, edge)

    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        """Return P(z_i = k) (n, K) and P(z_a = j, z_b = k) (m, K, K)."""
        everywhere = np.ones(len(self.elimination.site), bool)
        return distribute(self.elimination, self._conditional, everywhere)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw all states, independently, `size` times: integers (size, n)."""
        t = self.elimination
        check_whole("size", size, 0)
        uniform = generator(rng).random((size, len(t.site)))
        state = np.zeros(uniform.shape, int)
        for b in reversed(range(len(t.site))):
            scope = t.scope[t.scope_start[b] : t.scope_start[b + 1]]
            column = state[:, scope] @ t.n_states ** np.arange(len(scope))
            table = table_of(t, b, self._conditional)
            reached = np.cumsum(table[:-1, column], axis=0)
            state[:, t.site[b]] = (reached < uniform[:, b]).sum(axis=0)
        return state


def marginals_at(
    node: np.ndarray, edge: np.ndarray, elimination: EliminationOrder, sites: np.ndarray
) -> np.ndarray:
    """Return P(z_i = k) of some sites, (s, K); of a few, at little more than the cost of log Z."""
    node, edge = check_potentials(node, edge, elimination)
    sites = check_sites(sites, len(node))
    wanted = np.isin(np.arange(len(node)), sites)
    _, conditional, _ = collect(elimination, node, edge)
    gamma, _ = distribute(elimination, conditional, wanted)
    return gamma[sites]


def tangent(
    node: np.ndarray,
    edge: np.ndarray,
    elimination: EliminationOrder,
    d_node: np.ndarray,
    d_edge: np.ndarray,
) -> tuple[np.ndarray, ...]:
    """Return the derivative of `marginals` along (d_node, d_edge), by a complex step."""
    node, edge = check_potentials(node, edge, elimination)
    d_node, d_edge = check_potentials(d_node, d_edge, elimination, ("d_node", "d_edge"))
    size = max(abs(d_node).max(), abs(d_edge).max(initial=0.0)) or 1.0
    node = node + STEP * 1j * (d_node / size)
    edge = edge + STEP * 1j * (d_edge / size)
    _, conditional, _ = collect(elimination, node, edge)
    moved = distribute(elimination, conditional, np.ones(len(node), bool))
    return tuple(part.imag * (size / STEP) for part in moved)


def log_partition(node: np.ndarray, edge: np.ndarray, elimination: EliminationOrder) -> float:
    """Return log Z of node potentials (n, K) and edge potentials (m, K, K)."""
    return _log_partition(_flat(*check_potentials(node, edge, elimination)), elimination)


def marginals(
    node: np.ndarray, edge: np.ndarray, elimination: EliminationOrder
) -> tuple[np.ndarray, np.ndarray]:
    """Return P(z_i = k) (n, K) and P(z_a = j, z_b = k) (m, K, K); differentiable once."""
    flat = _flat(*check_potentials(node, edge, elimination))
    return _split(_marginals(flat, elimination), elimination)


def _flat(node, edge):
    """Both potentials as one vector, so that one argument has derivatives."""
    return anp.concatenate([anp.ravel(node), anp.ravel(edge)])


def _split(flat, elimination):
    n_states = elimination.n_states
    n = len(elimination.site) * n_states
    node = anp.reshape(flat[:n], (-1, n_states))
    return node, anp.reshape(flat[n:], (-1, n_states, n_states))


@primitive
def _log_partition(flat, elimination):
    return GraphPosterior(*_split(flat, elimination), elimination).log_partition


@primitive
def _marginals(flat, elimination):
    posterior = GraphPosterior(*_split(flat, elimination), elimination)
    return _flat(*posterior.marginals())


@primitive
def _tangent(flat, elimination, direction):
    """Has no derivative of its own: asking for a third one raises; no silent zero."""
    along = _split(direction, elimination)
    return _flat(*tangent(*_split(flat, elimination), elimination, *along))


defvjp(_log_partition, lambda ans, flat, t: lambda g: g * _marginals(flat, t), argnums=[0])
defvjp(_marginals, lambda ans, flat, t: lambda g: _tangent(flat, t, g), argnums=[0])
