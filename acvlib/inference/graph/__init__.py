"""Exact sums over the discrete states of any pairwise graph, by variable elimination.

    log Z = log sum_z exp( sum_i node[i, z_i] + sum_e edge[e, z_a, z_b] ),  edge e joins a and b

Time and memory are exponential in the width of the order of elimination (`eliminate`), so the graph
should be small, or planar and of a few hundred sites, or nearly a tree. As on a chain, two
primitives suffice for second derivatives: the gradient of log Z is the marginals, and its Hessian
is symmetric. Potentials must be finite; reverse mode only. Shapes: node (n, K), edge (m, K, K) in
the order of the edges that were eliminated; marginals likewise.
Source: Koller and Friedman (2009), chapters 9 and 10; derivatives after Louis (1982).
"""

import numpy as np

from ...checks import one_line
from ...folds.folds import Sites
from ..chain import differentiable, flat, split
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


def _log_z(potentials, t):
    node, edge = split(potentials, len(t.site), t.n_states)
    return float(collect(t, node[None], edge).values[0])


def _mean(potentials, t):
    node, edge = split(potentials, len(t.site), t.n_states)
    sums = collect(t, node[None], edge, keep=True)
    return flat(*distribute(t, sums.conditional, np.ones(len(node), bool)))


_log_partition, _marginals = differentiable(_log_z, _mean)


def log_partition(node: np.ndarray, edge: np.ndarray, elimination: EliminationOrder) -> float:
    """Return log Z of node potentials (n, K) and edge potentials (m, K, K); differentiable."""
    return _log_partition(flat(*check_potentials(node, edge, elimination)), elimination)


def marginals(
    node: np.ndarray, edge: np.ndarray, elimination: EliminationOrder
) -> tuple[np.ndarray, np.ndarray]:
    """Return P(z_i = k) (n, K) and P(z_a = j, z_b = k) (m, K, K); differentiable once."""
    potentials = flat(*check_potentials(node, edge, elimination))
    return split(_marginals(potentials, elimination), len(elimination.site), elimination.n_states)
