"""Calls on edges, graphs and chains."""

import numpy as np

from acvlib import graph
from acvlib.inference import chain
from acvlib.inference.graph import check_edges

from .. import inputs as odd
from .call import N, add, close, table
from .of_folds import is_folds

HERE = np.arange(N).reshape(3, 4)
RIGHT = np.stack([HERE[:, :-1].ravel(), HERE[:, 1:].ravel()], 1)
DOWN = np.stack([HERE[:-1].ravel(), HERE[1:].ravel()], 1)
GRID = np.concatenate([RIGHT, DOWN])
ON = {"n_sites": N, "edges": GRID}
FEW = "n_sites: one, two, bool, million, billions, beyond"
add("folds.balls", ON | {"radius": 1}, is_folds, less=FEW)
add("folds.regions", ON | {"k": 3, "rng": 5}, is_folds, less=f"k: one, bool; edges: turned; {FEW}")
add("graph.check_edges", ON, only="edges", less="edges: turned")


ADJACENCY = np.zeros((5, 5))
ADJACENCY[[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]] = 1.0
OF_MATRIX = odd.TABLE | odd.kinds("same", bool=lambda a: a > 0, sparse=odd.csr_matrix)
OF_MATRIX |= odd.kinds("refuse", shifted=lambda a: a + 1e6, huge=lambda a: a * 1e200)
OF_MATRIX |= odd.kinds("refuse", one_way=np.triu, constant=np.ones_like)
by_matrix = {"by": lambda graph: check_edges(graph, 5), "less": "graph: zeros, empty, tiny"}
add("graph.check_edges of a matrix", {"graph": ADJACENCY}, **by_matrix, graph=OF_MATRIX)
SMALL = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [3, 4]])
FIVE = {"n_sites": 5, "edges": SMALL, "n_states": 2}
add("graph.eliminate", FIVE, less=f"edges: turned, matrix; {FEW}", n_states=odd.SIZE)


def is_log_partition(edges):
    def law(found, node, edge, **_):
        """By all states, in long doubles."""
        node, edge = np.array(node, np.longdouble), np.array(edge, np.longdouble)
        states = np.indices([node.shape[1]] * len(node)).reshape(len(node), -1)
        total = sum(node[i, own] for i, own in enumerate(states))
        total = total + sum(edge[e, states[a], states[b]] for e, (a, b) in enumerate(edges))
        close(found, float(total.max() + np.log(np.exp(total - total.max()).sum())))

    return law


ELIMINATION = odd.without(odd.OBJECTS, "its class")
ELIMINATION |= odd.kinds("refuse", other=lambda t: graph.eliminate(4, SMALL[:3], 2))
ON_CHAIN = {"node": table(6, 2), "edge": table(5, 2, 2)}
ON_SMALL = ON_CHAIN | {"node": table(5, 2), "elimination": graph.eliminate(5, SMALL, 2)}
CUBE = "edge: pandas, sparse"  # of three axes
PATH = np.stack([np.arange(5), np.arange(1, 6)], 1)
LAWS = {"graph.log_partition": is_log_partition(SMALL)}
LAWS["chain.log_partition"] = is_log_partition(PATH)
of_graph = graph.GraphPosterior
SUMS = {
    "graph.log_partition": graph.log_partition,
    "graph.GraphPosterior": lambda **a: of_graph(**a).marginals(),
    "graph.GraphPosterior.marginals_at": lambda sites, **a: of_graph(**a).marginals_at(sites),
    "chain.log_partition": chain.log_partition,
    "chain.marginals": chain.marginals,
}
for name, function in SUMS.items():
    plain = ON_SMALL if name.startswith("graph") else ON_CHAIN
    if name.endswith("marginals_at"):
        plain = plain | {"sites": np.array([1, 3])}
    law = LAWS.get(name)
    add(name, plain, law, by=function, less=CUBE, elimination=ELIMINATION, sites=odd.SITES)
