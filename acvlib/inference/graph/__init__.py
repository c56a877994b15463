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

from ...checks import one_line
from ...folds.folds import Sites
from .edges import check_edges, edges_of, in_one_order
from .elimination import EliminationOrder, TooWide, check_width, eliminate
from .sums import Sums, check_potentials, collect, distribute, expansion

__all__ = [
    "EliminationOrder",
    "GraphPosterior",
    "Sums",
    "TooWide",
    "check_edges",
    "check_width",
    "edges_of",
    "eliminate",
    "expansion",
    "in_one_order",
    "log_partition",
    "marginals",
]

STEP = 1e-30  # of a complex step: its square is lost, so that the derivative is exact


class GraphPosterior:
    """The distribution of all states given potentials, node (n, K) and edge (m, K, K).

    Eliminated once: what is asked of it afterwards needs one more pass.
    """

    __repr__ = one_line

    def __init__(self, node: np.ndarray, edge: np.ndarray, elimination: EliminationOrder):
        node, edge = check_potentials(node, edge, elimination)
        sums = collect(elimination, node[None], edge, keep=True)
        self.elimination = elimination
        self.log_partition = float(sums.values[0])
        self._conditional = sums.conditional

    def marginals(self) -> tuple[np.ndarray, np.ndarray]:
        """Return P(z_i = k) (n, K) and P(z_a = j, z_b = k) (m, K, K)."""
        everywhere = np.ones(len(self.elimination.site), bool)
        return distribute(self.elimination, self._conditional, everywhere)

    def marginals_at(self, sites: np.ndarray) -> np.ndarray:
        """Return P(z_i = k) of some sites, (s, K); those of a few at little more than no cost."""
        n_sites = len(self.elimination.site)
        fold = Sites.of([sites], n_sites).sites
        wanted = np.isin(np.arange(n_sites), fold)
        return distribute(self.elimination, self._conditional, wanted)[0][fold]


def log_partition(node: np.ndarray, edge: np.ndarray, elimination: EliminationOrder) -> float:
    """Return log Z of node potentials (n, K) and edge potentials (m, K, K); differentiable."""
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


def _split(flat, t):
    n = len(t.site) * t.n_states
    node = anp.reshape(flat[:n], (-1, t.n_states))
    return node, anp.reshape(flat[n:], (-1, t.n_states, t.n_states))


@primitive
def _log_partition(flat, t):
    node, edge = _split(flat, t)
    return float(collect(t, node[None], edge).values[0])


@primitive
def _marginals(flat, t):
    node, edge = _split(flat, t)
    sums = collect(t, node[None], edge, keep=True)
    return _flat(*distribute(t, sums.conditional, np.ones(len(node), bool)))


@primitive
def _tangent(flat, t, direction):
    """The derivative of the marginals along a direction, by a complex step.

    It has no derivative of its own: asking for a third one raises; no silent zero.
    """
    size = abs(direction).max() or 1.0
    moved = _marginals(flat + STEP * 1j * (direction / size), t)
    return moved.imag * (size / STEP)


defvjp(_log_partition, lambda ans, flat, t: lambda g: g * _marginals(flat, t), argnums=[0])
defvjp(_marginals, lambda ans, flat, t: lambda g: _tangent(flat, t, g), argnums=[0])
