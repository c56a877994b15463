"""Exact sums over the discrete states of any pairwise graph, by variable elimination.

    log Z = log sum_z exp( sum_i node[i, z_i] + sum_e edge[e, z_a, z_b] ),  edge e joins a and b

Time and memory are exponential in the width of the order of elimination (`eliminate`), so the graph
should be small, or planar and of a few hundred sites, or nearly a tree. As on a chain, two
primitives suffice for second derivatives: the gradient of log Z is the marginals, and its Hessian
is symmetric. Potentials must be finite; reverse mode only. Shapes: node (n, K), edge (m, K, K) in
the order of the edges that were eliminated; marginals likewise.
Source: Koller and Friedman (2009), chapters 9 and 10; derivatives after Louis (1982).
"""

from typing import Any

import numpy as np

from ...checks import check_kind, one_line, real_or_box
from ...folds.sites import Sites
from ..chain import differentiable, flat, split
from .edges import check_edges, is_networkx, names_of
from .elimination import EliminationOrder, TooWide, check_width, eliminate
from .sums import collect, distribute

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
