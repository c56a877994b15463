"""Calls on edges, graphs and chains."""

import numpy as np

from acvlib import folds, graph, weighting
from acvlib.inference import chain

from .. import inputs as odd
from .call import N, add, dyadic
from .of_folds import K, is_folds


def grid_edges(rng=None):
    """A 3 x 4 grid."""
    here = np.arange(N).reshape(3, 4)
    right = np.stack([here[:, :-1].ravel(), here[:, 1:].ravel()], 1)
    down = np.stack([here[:-1].ravel(), here[1:].ravel()], 1)
    return np.concatenate([right, down])


def on_graph(**more):
    return lambda rng: (
        {"n_sites": N, "edges": grid_edges(), **more}
        | ({"rng": np.random.default_rng(5)} if "rng" in more else {})
    )


SITES_AND_EDGES = {"n_sites": odd.without(odd.COUNT, "one", "two", "bool"), "edges": odd.EDGES}
add("folds.balls", folds.balls, on_graph(radius=1), is_folds, radius=odd.WHOLE_0, **SITES_AND_EDGES)
add(
    "folds.regions",
    folds.regions,
    on_graph(k=3, rng=1),
    is_folds,
    k=odd.without(K, "one", "bool"),
    rng=odd.RNG,
    n_sites=SITES_AND_EDGES["n_sites"],
    edges={k: v for k, v in odd.EDGES.items() if k != "turned"},
)
add(
    "graph.check_edges",
    graph.check_edges,
    on_graph(),
    **{"edges": odd.without(odd.EDGES, "turned")},
)
ADJACENCY = np.zeros((5, 5))
ADJACENCY[[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]] = 1.0
add(
    "graph.edges_of",
    graph.edges_of,
    lambda rng: {"graph": ADJACENCY.copy()},
    graph=odd.without(
        odd.TABLE, "zeros", "empty", "tiny", "int8", "int64", "uint8", "uint64", "bool", "sparse"
    )
    | odd.kinds(
        "refuse",
        constant=np.ones_like,
        shifted=lambda a: a + 1e6,
        huge=lambda a: a * 1e200,
        one_way=np.triu,
    )
    | odd.kinds(
        "same", int8=lambda a: a.astype(np.int8), bool=lambda a: a > 0, sparse=odd.csr_matrix
    ),
)
SMALL_EDGES = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [3, 4]])
ORDER = graph.eliminate(5, SMALL_EDGES, 2)


def small_graph(rng):
    return {"node": dyadic(rng, 5, 2), "edge": dyadic(rng, 5, 2, 2), "elimination": ORDER}


def brute_force(node, edge, pairs):
    """log Z in long doubles, by all states."""
    states = np.array(np.meshgrid(*[range(node.shape[1])] * len(node), indexing="ij"))
    states = states.reshape(len(node), -1)
    node, edge = np.asarray(node, np.longdouble), np.asarray(edge, np.longdouble)
    total = sum(node[i, states[i]] for i in range(len(node)))
    total = total + sum(edge[e, states[a], states[b]] for e, (a, b) in enumerate(pairs))
    top = total.max()
    return float(top + np.log(np.exp(total - top).sum()))


def is_log_partition(pairs):
    def law(found, node, edge, **_):
        node, edge = np.array(node, float), np.array(edge, float)
        close(found, brute_force(node, edge, pairs))

    return law


def close(found, expected, tolerance=1e-8):
    np.testing.assert_allclose(found, expected, tolerance, tolerance * 1e-2)


CUBE = odd.without(odd.TABLE, "pandas", "sparse")  # of three axes
POTENTIALS = {"node": odd.TABLE, "edge": CUBE}
ELIMINATED = odd.without(odd.OBJECTS, "its class") | odd.kinds(
    "refuse", other=lambda t: graph.eliminate(4, SMALL_EDGES[:3], 2)
)
add(
    "graph.eliminate",
    graph.eliminate,
    lambda rng: {"n_sites": 5, "edges": SMALL_EDGES.copy(), "n_states": 2},
    n_sites=odd.without(odd.COUNT, "one", "two", "bool"),
    n_states=odd.SIZE,
    edges={k: v for k, v in odd.EDGES.items() if k not in ("turned", "matrix")},
)
add(
    "graph.log_partition",
    graph.log_partition,
    small_graph,
    is_log_partition(SMALL_EDGES),
    elimination=ELIMINATED,
    **POTENTIALS,
)
add("graph.marginals", graph.marginals, small_graph, elimination=ELIMINATED, **POTENTIALS)
add(
    "graph.GraphPosterior.marginals_at",
    lambda sites, **a: graph.GraphPosterior(**a).marginals_at(sites),
    lambda rng: small_graph(rng) | {"sites": np.array([1, 3])},
    sites=odd.SITES,
)
add(
    "graph.GraphPosterior",
    lambda **a: graph.GraphPosterior(**a).marginals(),
    small_graph,
    elimination=ELIMINATED,
    **POTENTIALS,
)
CHAIN = np.stack([np.arange(5), np.arange(1, 6)], 1)


def small_chain(rng):
    return {"node": dyadic(rng, 6, 2), "edge": dyadic(rng, 5, 2, 2)}


add("chain.log_partition", chain.log_partition, small_chain, is_log_partition(CHAIN), **POTENTIALS)
add("chain.marginals", chain.marginals, small_chain, **POTENTIALS)


def log_rows(rng, n, k):
    rows = rng.integers(1, 9, (n, k)) / 16.0
    return np.log(rows / rows.sum(1, keepdims=True)).astype(np.float16).astype(float)


def hidden(rng):
    return {
        "log_density": -abs(dyadic(rng, 6, 2)),
        "log_initial": log_rows(rng, 1, 2)[0],
        "log_transition": log_rows(rng, 2, 2),
    }


LOGS = {"log_density": odd.TABLE, "log_initial": odd.TABLE, "log_transition": odd.TABLE}
LOGS = {
    name: odd.without(table, "too short", "too long") if name == "log_density" else table
    for name, table in LOGS.items()
}
add(
    "chain.heldout_loss",
    chain.heldout_loss,
    lambda rng: hidden(rng) | {"fold": np.array([1, 4])},
    fold=odd.SITES,
    **LOGS,
)
add(
    "chain.potentials",
    chain.potentials,
    lambda rng: (
        {"scheme": weighting.keep_latents, "weights": rng.integers(0, 9, 6) / 8.0} | hidden(rng)
    ),
    weights=odd.WEIGHTS,
    log_initial=LOGS["log_initial"],
    log_transition=LOGS["log_transition"],
    scheme=odd.without(odd.OBJECTS, "its class"),
)
