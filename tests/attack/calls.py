"""Every public function with a plain call, the family of odd inputs of each argument, and laws.

A law is an oracle: law(result, **arguments) raises AssertionError where an odd result is wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

import acvlib as acv
from acvlib import (
    bootstrap,
    bounds,
    estimators,
    folds,
    graph,
    learners,
    models,
    spatial_folds,
    weighting,
)
from acvlib.folds import Folds
from acvlib.inference import chain, hidden_chain
from acvlib.models.hmm import em as hmm_em
from acvlib.models.hmm.emissions import AutoRegression, Gaussian, NeuralAutoRegression
from acvlib.models.mrf import areas

from . import inputs as odd

N = 12
CALLS: dict[str, "Call"] = {}


@dataclass(frozen=True)
class Call:
    """function(**plain(rng)); families: {argument: {kind: ...}}; law as in the module."""

    function: Callable
    plain: Callable
    families: dict[str, dict]
    law: Callable | None = None
    unbounded: bool = False  # an infinite result may be right: the true number is beyond doubles
    undefined: bool = False  # nan in a result has a meaning that is documented


def add(name, function, plain, law=None, unbounded=False, undefined=False, **families):
    assert name not in CALLS, name
    CALLS[name] = Call(function, plain, families, law, unbounded, undefined)


def dyadic(rng, *shape):
    """Numbers that 16 bits hold exactly."""
    return (
        rng.integers(-32, 33, shape) / 16.0
        + np.arange(shape[0]).reshape(-1, *[1] * (len(shape) - 1)) / 8
    )


# folds

THREE = [np.array([0, 3, 4]), np.array([1, 5, 7]), np.array([2, 6, 9])]


def three_folds(rng=None):
    return [fold.copy() for fold in THREE]


def flags(rng):
    return np.arange(N) % 5 != 1


def with_flags(**more):
    return lambda rng: (
        {"n_sites": N, "observed": flags(rng), **more}
        | ({"rng": np.random.default_rng(5)} if "rng" in more else {})
    )


OBSERVED = {"n_sites": odd.SIZE, "observed": odd.without(odd.FLAGS, "None ")}


def is_folds(found, n_sites=N, **_):
    """Sorted, distinct, in range, scored within omitted, none of them all."""
    for omitted, scored in zip(found.omitted, found.scored, strict=True):
        assert len(omitted)
        assert len(set(omitted.tolist())) == len(omitted)
        assert omitted.min() >= 0
        assert omitted.max() < n_sites
        assert set(scored.tolist()) <= set(omitted.tolist())


K = odd.LIMITED
add("folds.leave_one_out", folds.leave_one_out, with_flags(), is_folds, **OBSERVED)
add(
    "folds.k_fold",
    folds.k_fold,
    with_flags(k=3, rng=1),
    is_folds,
    k=K,
    rng=odd.without(odd.RNG, "None "),
    **OBSERVED,
)
add(
    "folds.blocked",
    folds.blocked,
    with_flags(k=3, buffer=1),
    is_folds,
    k=K,
    buffer=odd.WHOLE_0,
    **OBSERVED,
)
add(
    "folds.leave_future_out",
    folds.leave_future_out,
    with_flags(starts=np.array([5, 8, 10]), horizon=2, gap=1),
    is_folds,
    starts=odd.without(odd.SITES, "repeated", "repeated unsigned", "turned"),
    horizon=odd.without(K, "None "),
    gap=odd.WHOLE_0,
    **OBSERVED,
)
add(
    "folds.iid",
    folds.iid,
    with_flags(percent=25.0, n_folds=3, rng=1),
    is_folds,
    percent=odd.PERCENT,
    n_folds=K,
    rng=odd.RNG,
    **OBSERVED,
)
add(
    "folds.contiguous",
    folds.contiguous,
    with_flags(percent=25.0, n_folds=3, rng=1),
    is_folds,
    percent=odd.PERCENT,
    n_folds=K,
    rng=odd.RNG,
    **OBSERVED,
)
add(
    "folds.by_class",
    folds.by_class,
    lambda rng: {
        "classes": np.arange(N) // 3,
        "per_fold": 2,
        "rng": np.random.default_rng(5),
        "observed": flags(rng),
    },
    classes=odd.without(
        odd.LABELS,
        "strings",
        "masked",
        "fraction",
        "minus two",
        "None inside",
        "too large for int64",
        "object",
        "complex",
        "dates",
        "huge",
        "inf",
        "minus inf",
    ),
    per_fold=K,
    rng=odd.RNG,
    observed=OBSERVED["observed"],
)
add(
    "folds.bootstrap_weights",
    folds.bootstrap_weights,
    lambda rng: {"n_sites": N, "n_resamples": 3, "rng": np.random.default_rng(5)},
    n_sites=odd.SIZE,
    n_resamples=odd.SIZE,
    rng=odd.RNG,
)
add(
    "folds.weights",
    folds.weights,
    lambda rng: {"n_sites": N, "sites": np.array([1, 4])},
    n_sites=odd.SIZE,
    sites=odd.without(odd.SITES, "repeated", "repeated unsigned", "turned"),
)
add(
    "folds.from_splitter",
    folds.from_splitter,
    lambda rng: {"cv": 3, "X": dyadic(rng, N, 2), "observed": flags(rng)},
    is_folds,
    cv=odd.without(odd.COUNT, "one"),
    observed=OBSERVED["observed"],
    X=odd.kinds(
        "refuse",
        None_=odd.constant(None),
        number=odd.constant(3),
        zero_axes=odd.constant(np.array(1.0)),
        empty=lambda a: a[:0],
    )
    | odd.kinds("same", list=lambda a: a.tolist(), pandas=pd.DataFrame),
)
add(
    "Folds",
    Folds,
    lambda rng: {"omitted": three_folds()},
    is_folds,
    omitted=odd.without(odd.FOLDS, "all sites", "no folds", "empty fold", "last beyond"),
)
add(
    "Folds scored",
    Folds,
    lambda rng: {"omitted": three_folds(), "scored": [f[:2] for f in THREE]},
    is_folds,
    scored=odd.without(odd.FOLDS, "all None", "all sites", "table", "empty fold", "object array"),
)
add(
    "Folds.of",
    lambda **a: Folds.of(**a),
    lambda rng: {"folds": three_folds(), "n_sites": N},
    is_folds,
    folds=odd.FOLDS,
    n_sites=odd.without(odd.SIZE, "million", "billions", "beyond"),
)
add(
    "Folds.indicator",
    lambda n_sites: Folds(three_folds()).indicator(n_sites),
    lambda rng: {"n_sites": N},
    n_sites=odd.SIZE,
)

# weighting

add(
    "weighting.check",
    weighting.check,
    lambda rng: {"weights": np.ones(N), "n_sites": N},
    weights=odd.WEIGHTS,
)
PATH = np.stack([np.arange(N - 1), np.arange(1, N)], 1)
for scheme in (weighting.keep_latents, weighting.drop_latents):
    add(
        f"weighting.{scheme.__name__}",
        scheme,
        lambda rng: {"weights": rng.integers(0, 9, N) / 8.0, "edges": PATH.copy()},
    )
add(
    "weighting.hide_labels",
    weighting.hide_labels,
    lambda rng: {"weights": rng.integers(0, 9, N) / 8.0, "labels": np.arange(N) % 3, "n_labels": 3},
)

# edges, graphs, chains


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
add(
    "spatial_folds.distances",
    spatial_folds.distances,
    on_graph(),
    unbounded=True,
    **SITES_AND_EDGES,
)
add(
    "spatial_folds.balls",
    spatial_folds.balls,
    on_graph(radius=1),
    is_folds,
    radius=odd.WHOLE_0,
    **SITES_AND_EDGES,
)
add(
    "spatial_folds.buffered",
    spatial_folds.buffered,
    on_graph(radius=1),
    is_folds,
    radius=odd.WHOLE_0,
    **SITES_AND_EDGES,
)
add(
    "spatial_folds.regions",
    spatial_folds.regions,
    on_graph(k=3, rng=1, buffer=1),
    is_folds,
    k=odd.without(K, "one", "bool"),
    buffer=odd.WHOLE_0,
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
    lambda rng: {"adjacency": ADJACENCY.copy()},
    adjacency=odd.without(
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
    "graph.marginals_at",
    graph.marginals_at,
    lambda rng: small_graph(rng) | {"sites": np.array([1, 3])},
    elimination=ELIMINATED,
    sites=odd.without(odd.SITES, "repeated", "repeated unsigned"),
    **POTENTIALS,
)
add(
    "graph.tangent",
    graph.tangent,
    lambda rng: small_graph(rng) | {"d_node": dyadic(rng, 5, 2), "d_edge": dyadic(rng, 5, 2, 2)},
    elimination=ELIMINATED,
    d_node=odd.TABLE,
    d_edge=CUBE,
    **POTENTIALS,
)
add(
    "graph.GraphPosterior",
    lambda **a: graph.GraphPosterior(**a).marginals(),
    small_graph,
    elimination=ELIMINATED,
    **POTENTIALS,
)
add(
    "graph.GraphPosterior.sample",
    lambda rng, size: graph.GraphPosterior(**small_graph(np.random.default_rng(0))).sample(
        rng, size
    ),
    lambda rng: {"rng": np.random.default_rng(5), "size": 3},
    rng=odd.RNG,
    size=odd.WHOLE_0,
)
CHAIN = np.stack([np.arange(5), np.arange(1, 6)], 1)


def small_chain(rng):
    return {"node": dyadic(rng, 6, 2), "edge": dyadic(rng, 5, 2, 2)}


add("chain.log_partition", chain.log_partition, small_chain, is_log_partition(CHAIN), **POTENTIALS)
add("chain.marginals", chain.marginals, small_chain, **POTENTIALS)
add("chain.smooth", chain.smooth, small_chain, **POTENTIALS)


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
    "hidden_chain.heldout_loss",
    hidden_chain.heldout_loss,
    lambda rng: hidden(rng) | {"fold": np.array([1, 4])},
    fold=odd.SITES,
    **LOGS,
)
add(
    "hidden_chain.potentials",
    hidden_chain.potentials,
    lambda rng: (
        {"scheme": weighting.keep_latents, "weights": rng.integers(0, 9, 6) / 8.0} | hidden(rng)
    ),
    weights=odd.WEIGHTS,
    log_initial=LOGS["log_initial"],
    log_transition=LOGS["log_transition"],
    scheme=odd.without(odd.OBJECTS, "its class"),
)

# models: `probe` is what a model computes


def probe(model):
    """What a model computes at a point: start, F, its gradient, and two held-out losses."""
    start = model.initial_params(np.random.default_rng(0))
    derivatives = acv.derivatives_of(model)
    ones = np.ones(model.n_sites)
    observed = np.ones(model.n_sites, bool) if model.observed is None else model.observed
    sites = np.flatnonzero(observed)[:2]
    value, gradient = derivatives.value_and_gradient(start, ones)
    return start, value, model.objective(start, ones), gradient, model.heldout_loss(start, sites)


def X_and_y(family):
    def plain(rng):
        y = {"logistic": np.arange(N) % 2, "probit": np.arange(N) % 2, "poisson": np.arange(N) % 4}
        return {
            "X": dyadic(rng, N, 2),
            "y": y.get(family, dyadic(rng, N)) * 1.0,
            "family": family,
            "intercept": True,
            "penalty": 0.5,
            "site_penalty": 0.25,
            "offset": dyadic(rng, N) / 4,
            "sample_weight": 1.0 + np.arange(N) % 3,
        }

    return plain


def built(kind):
    return lambda **a: probe(kind(**a))


TRUTH = odd.without(odd.CHOICE, "number", "misspelt", "capital", "bytes") | odd.kinds(
    "equal", number=odd.constant(odd.Pair((1, True)))
)
OF_GLM = {
    "X": odd.TABLE | odd.kinds("refuse", sparse=odd.csr_matrix),
    "family": odd.CHOICE,
    "intercept": TRUTH,
    "penalty": odd.NONNEGATIVE,
    "site_penalty": odd.NONNEGATIVE,
    "offset": odd.without(odd.TABLE, "zero axes"),
    "sample_weight": odd.without(
        odd.TABLE, "zero axes", "bool", "int64", "int8", "uint8", "uint64"
    ),
}
BINARY = odd.without(odd.TABLE, "zero axes") | odd.kinds(
    "refuse",
    huge=lambda a: a * 1e200,
    outlier=lambda a: a * 9 - 4,
    small=lambda a: a / 2,
    shifted=lambda a: a + 1e6,
)
GLM_Y = {
    "logistic": BINARY,
    "probit": BINARY,
    "poisson": odd.LABELS | odd.kinds("refuse", zeros=np.zeros_like),
    "gaussian": odd.TABLE,
}
for name, labels in GLM_Y.items():
    add(
        f"GLM {name}",
        built(models.GLM),
        X_and_y(name),
        unbounded=name == "poisson",
        y=labels,
        **OF_GLM,
    )


def glm(name="logistic"):
    return models.GLM(**X_and_y(name)(np.random.default_rng(1)))


def counts(rng):
    return rng.poisson(5 + 5 * (np.arange(N) % 2)).astype(np.int64) + np.arange(N) % 3


def mrf(scheme=weighting.drop_latents):
    return models.HiddenMRF(counts(np.random.default_rng(1)), grid_edges(), 0.25, scheme=scheme)


add(
    "HiddenMRF",
    built(models.HiddenMRF),
    lambda rng: {"counts": counts(rng), "edges": grid_edges(), "coupling": 0.25, "n_states": 2},
    counts=odd.without(odd.COUNTS, "ones") | odd.kinds("sane", ones=np.ones_like),
    edges=odd.EDGES,
    coupling=odd.NUMBER,
    n_states=odd.LIMITED,
)


def series(rng, n=40):
    state = (np.arange(n) // 8) % 2
    return rng.integers(-16, 17, n) / 16.0 + 3.0 * state


add(
    "GaussianHMM",
    built(models.GaussianHMM),
    lambda rng: {"x": series(rng)[:, None], "n_states": 2},
    x=odd.without(odd.SERIES, "nan", "extra axis", "dict", "list", "tuple", "masked", "ragged")
    | odd.kinds("sane", nan=lambda a: odd._with(a, np.nan))
    | odd.kinds(
        "same",
        masked=lambda a: odd.Pair((odd._masked(a), odd._with(a, np.nan))),
        ragged=odd.constant(
            odd.Pair(([[1.0, 2.0], [3.0]], [np.arange(1.0, 3.0), np.full(1, 3.0)]))
        ),
    )
    | odd.kinds("refuse", list=lambda a: a.tolist(), tuple=lambda a: odd._tuples(a.tolist())),
    n_states=odd.LIMITED,
)
SETTINGS = {"sites": odd.CHOICE, "concentration": odd.POSITIVE}


def masked_sequences(s):
    """Frames that are wholly masked are missing, as wholly nan ones are."""
    rows = np.broadcast_to(np.arange(len(s[0]))[:, None] == 5, s[0].shape)
    missing = np.where(rows, np.nan, s[0])
    return odd.Pair(([*s[1:], np.ma.masked_array(s[0], rows)], [*s[1:], missing]))


add(
    "HMM",
    built(models.HMM),
    lambda rng: {
        "sequences": [series(rng)[:, None], series(rng, 20)[:, None], series(rng, 25)[:, None]],
        "n_states": 2,
        "emission": Gaussian(),
        "sites": "sequences",
        "concentration": 1.5,
        "context": 1,
    },
    n_states=odd.LIMITED,
    context=odd.without(odd.WHOLE_0, "None "),
    emission=odd.without(odd.OBJECTS, "its class"),
    sequences=odd.kinds(
        "refuse",
        None_=odd.constant(None),
        string=odd.constant("abc"),
        none=odd.constant([]),
        number=odd.constant(3),
        dict=lambda s: dict(enumerate(s)),
        an_array=lambda s: s[0],
        flat=lambda s: s[0][:, 0],
        partly_masked=lambda s: [*s, np.ma.masked_array(np.ones((9, 2)), np.eye(9, 2))],
        complex=lambda s: [x + 1j for x in s],
        strings=lambda s: [x.astype(str) for x in s],
        inf=lambda s: [*s, np.full((3, 1), np.inf)],
        empty_one=lambda s: [*s, np.empty((0, 1))],
        channels=lambda s: [*s, np.ones((4, 2))],
        cube=lambda s: [x[..., None] for x in s],
    )
    | odd.kinds(
        "same",
        tuple=tuple,
        float32=lambda s: [x.astype(np.float32) for x in s],
        lists=lambda s: [x.tolist() for x in s],
        pandas=lambda s: [pd.DataFrame(x) for x in s],
        flat_ones=lambda s: [x[:, 0] for x in s],
        masked=masked_sequences,
    )
    | odd.kinds(
        "sane", huge=lambda s: [x * 1e200 for x in s], tiny=lambda s: [x * 1e-300 for x in s]
    ),
    **SETTINGS,
)


def sequences(rng):
    return [np.column_stack([series(rng, n), series(rng, n)[::-1]]) for n in (12, 15, 20)]


SEQUENCES = CALLS["HMM"].families["sequences"]
SEQUENCES = {k: v for k, v in SEQUENCES.items() if k not in ("flat ones", "channels")}
add(
    "AutoRegressiveHMM",
    built(models.AutoRegressiveHMM),
    lambda rng: {"sequences": sequences(rng), "n_states": 2, "order": 1},
    sequences=SEQUENCES,
    n_states=odd.LIMITED,
    order=odd.WHOLE_0,
)
add(
    "NeuralHMM",
    built(models.NeuralHMM),
    lambda rng: {"sequences": sequences(rng), "n_states": 2, "order": 1, "n_hidden": 2},
    sequences=SEQUENCES,
    n_states=odd.LIMITED,
    order=odd.COUNT,
    n_hidden=odd.COUNT,
)


def traffic_data(rng, n=28):
    return {
        "counts": rng.poisson(8.0 + 8 * (np.arange(n) % 9 < 2)).astype(np.int64),
        "day": (np.arange(n) // 4) % 7,
    }


DAYS = odd.without(odd.LABELS, "huge", "ones", "zeros") | odd.kinds("refuse", seven=lambda a: a + 1)
add(
    "PoissonTraffic",
    built(models.PoissonTraffic),
    traffic_data,
    counts=odd.without(odd.LABELS, "minus two", "extra axis")
    | odd.kinds("refuse", minus_two=lambda a: odd._with(a, -2)),
    day=DAYS,
)
add(
    "TrafficPrior",
    lambda **a: models.TrafficPrior(**a).negative_log_density(np.arange(11.0) / 8),
    lambda rng: {"base_rate": (1.0, 0.5), "day_concentration": 2.0},
    day_concentration=odd.POSITIVE,
    base_rate=odd.kinds(
        "refuse",
        one=odd.constant((1.0,)),
        three=odd.constant((1.0, 1.0, 1.0)),
        nan=odd.constant((1.0, np.nan)),
        negative=odd.constant((-1.0, 1.0)),
        inf=odd.constant((1.0, np.inf)),
        strings=odd.constant(("a", "b")),
        None_=odd.constant(None),
        string=odd.constant("ab"),
    )
    | odd.kinds("same", list=list, array=np.array),
)


def sentences(rng):
    labels = [np.arange(n) % 3 for n in (4, 3, 5, 6)]
    return {
        "emissions": [dyadic(rng, len(tags), 3) for tags in labels],
        "labels": labels,
        "ridge": 0.25,
    }


def each_of(family):
    """The kinds of a family, for one of a list of arrays."""
    return {
        f"one {name}": lambda rows, kind=kind: _wrapped(kind, rows) for name, kind in family.items()
    }


def _wrapped(kind, rows):
    made = kind(rows[1])
    value = [rows[0], made.value, *rows[2:]]
    plain = None if made.plain is None else [rows[0], made.plain, *rows[2:]]
    return odd.Odd(made.must, value, plain)


LISTS = odd.kinds(
    "refuse",
    None_=odd.constant(None),
    none=odd.constant([]),
    string=odd.constant("abc"),
    fewer=lambda s: s[:-1],
    number=odd.constant(1),
    dict=lambda s: dict(enumerate(s)),
)
for scheme, name in ((None, "sentences"), (weighting.hide_labels, "tokens")):
    add(
        f"LinearChainCRF {name}",
        built(models.LinearChainCRF),
        lambda rng, scheme=scheme: sentences(rng) | {"scheme": scheme},
        emissions=LISTS | each_of(odd.TABLE),
        labels=LISTS
        | each_of(odd.without(odd.LABELS, "float64"))
        | odd.kinds("equal", floats=lambda s: [x.astype(float) for x in s]),
        ridge=odd.POSITIVE,
        scheme=odd.without(odd.OBJECTS, "None "),
    )


def affinity(rng):
    return models.RBFAffinity(dyadic(rng, N, 2), 2.0)


def is_rbf(found, points, sigma):
    points = np.asarray(points, np.longdouble)
    with np.errstate(all="ignore"):
        squares = ((points[:, None] - points) ** 2).sum(-1)
        close(found, np.exp(-squares / (2 * np.longdouble(np.ravel(sigma)[0]))).astype(float), 1e-6)


add(
    "RBFAffinity",
    lambda **a: models.RBFAffinity(**a).entries(np.arange(len(a["points"]))),
    lambda rng: {"points": dyadic(rng, N, 2), "sigma": 2.0},
    is_rbf,
    points=odd.SERIES,
    sigma=odd.POSITIVE,
)
add(
    "RBFAffinity.product",
    lambda **a: affinity(np.random.default_rng(0)).product(**a),
    lambda rng: {"right": dyadic(rng, N, 2)},
)


def weights_matrix(rng):
    half = rng.integers(0, 9, (N, N)) / 8.0
    return half + half.T


add(
    "GraphAffinity",
    lambda matrix: models.GraphAffinity(matrix).entries(np.arange(N)),
    lambda rng: {"matrix": weights_matrix(rng)},
    lambda found, matrix: close(found, matrix),
    matrix=odd.without(odd.TABLE, "sparse", "pandas")
    | odd.kinds("same", sparse=odd.csr_matrix)
    | odd.kinds("equal", pandas=pd.DataFrame)
    | odd.kinds("refuse", outlier=lambda a: odd._with(a, 1e12)),
)
add(
    "ManifoldEnergy",
    lambda **a: _energy_probe(models.ManifoldEnergy(**a)),
    lambda rng: {"features": dyadic(rng, N, 3), "affinity": affinity(rng)},
    features=odd.TABLE,
    affinity=odd.OBJECTS,
)


def _energy_probe(energy):
    return energy.value(np.ones(3), np.ones(N)), energy.matrix(np.ones(N)), energy.full


def energy(rng):
    return models.ManifoldEnergy(dyadic(rng, N, 3), affinity(rng))


def half_labelled(rng):
    return np.where(np.arange(N) % 4 == 3, np.nan, np.sign(np.arange(N) % 3 - 0.5))


for name in ("square", "logistic", "squared_hinge"):
    rare = ("nan", "all nan") + (
        ()
        if name == "square"
        else ("shifted", "large", "small", "outlier", "tiny", "zeros", "huge")
    )
    add(
        f"SemiSupervised {name}",
        built(models.SemiSupervised),
        lambda rng, name=name: {
            "energy": energy(rng),
            "y": half_labelled(rng),
            "loss": name,
            "gamma_s": 1.0,
            "gamma_p": 0.125,
            "gamma_i": 0.25,
            "ridge": 2 * np.eye(3),
        },
        energy=odd.OBJECTS,
        loss=odd.CHOICE,
        gamma_s=odd.POSITIVE,
        gamma_p=odd.NONNEGATIVE,
        gamma_i=odd.NONNEGATIVE,
        y=odd.without(odd.TABLE, *rare, "int8", "int64", "uint8", "uint64", "bool")
        | odd.kinds("refuse", all_nan=lambda a: a * np.nan),
        ridge=odd.without(odd.TABLE, "None ", "zeros"),
    )
add(
    "kernel_form",
    models.kernel_form,
    lambda rng: {"points": dyadic(rng, N, 2), "centres": dyadic(rng, 4, 2), "sigma": 2.0},
    points=odd.SERIES,
    centres=odd.SERIES,
    sigma=odd.POSITIVE,
)
add(
    "median_square_distance",
    models.median_square_distance,
    lambda rng: {"points": dyadic(rng, N, 2), "rng": np.random.default_rng(5), "n_pairs": 50},
    points=odd.SERIES | odd.kinds("refuse", one=lambda a: a[:1]),
    rng=odd.RNG,
    n_pairs=odd.COUNT,
)


def with_classes(rng):
    return {
        "X": dyadic(rng, N, 2),
        "y": np.arange(N) % 3 * 1.0,
        "loss": "contrastive",
        "gamma_i": 0.25,
    }


add(
    "PairwiseLinear ranking",
    built(models.PairwiseLinear),
    lambda rng: with_classes(rng) | {"y": dyadic(rng, N), "loss": "ranking"},
    X=odd.TABLE,
    y=odd.TABLE,
    loss=odd.CHOICE,
    gamma_i=odd.NONNEGATIVE,
)
add(
    "PairwiseLinear contrastive",
    built(models.PairwiseLinear),
    with_classes,
    X=odd.TABLE,
    y=odd.TABLE,
    loss=odd.CHOICE,
    gamma_i=odd.NONNEGATIVE,
    block=odd.COUNT,
)
CALLS["PairwiseLinear contrastive"].families.pop("block")
add(
    "contrastive",
    lambda margin: models.contrastive(margin).value(np.arange(4.0) / 2, np.ones(4) / 2),
    lambda rng: {"margin": 1.5},
    margin=odd.POSITIVE,
)
add("ranking", lambda: models.ranking().value(np.arange(4.0), np.ones(4)), lambda rng: {})
for kind, plain in (
    (Gaussian, {"mean_scale": 10.0}),
    (AutoRegression, {"order": 1}),
    (NeuralAutoRegression, {"order": 1, "n_hidden": 2}),
):
    add(
        f"emissions.{kind.__name__}",
        lambda kind=kind, **a: probe(models.HMM(sequences(np.random.default_rng(0)), 2, kind(**a))),
        lambda rng, plain=plain: dict(plain),
        **{
            name: odd.POSITIVE
            if name == "mean_scale"
            else odd.WHOLE_0
            if (kind, name) == (AutoRegression, "order")
            else odd.COUNT
            for name in plain
        },
    )

# methods of the models


@cache
def zoo():
    """A small model of each family, and params of it."""
    rng = np.random.default_rng(1)
    found = {
        "GLM": glm(),
        "GLM gaussian": glm("gaussian"),
        "GLM poisson": glm("poisson"),
        "HiddenMRF": mrf(),
        "GaussianHMM": models.GaussianHMM(series(rng)[:, None], 2),
        "AutoRegressiveHMM": models.AutoRegressiveHMM(sequences(rng), 2),
        "NeuralHMM": models.NeuralHMM(sequences(rng), 2, n_hidden=2),
        "PoissonTraffic": models.PoissonTraffic(**traffic_data(rng)),
        "LinearChainCRF": models.LinearChainCRF(**sentences(rng)),
        "LinearChainCRF tokens": models.LinearChainCRF(
            **sentences(rng), scheme=weighting.hide_labels
        ),
        "SemiSupervised": models.SemiSupervised(energy(rng), half_labelled(rng), "logistic"),
        "PairwiseLinear": models.PairwiseLinear(dyadic(rng, N, 2), dyadic(rng, N)),
    }
    rounded = {}
    for name, model in found.items():
        start = np.asarray(model.initial_params(np.random.default_rng(0)))
        rounded[name] = (
            (start + rng.integers(-4, 5, len(start)) / 16.0).astype(np.float16).astype(float)
        )
    return found, rounded


def two_sites(name):
    model = zoo()[0][name]
    sites = np.arange(model.n_sites) if model.observed is None else np.flatnonzero(model.observed)
    return sites[[0, 2]]


def method(name, attribute, undefined=False, **arguments):
    """A call of a method of a model of the zoo; arguments: {argument: (plain, family)}."""
    plain = {key: value for key, (value, _) in arguments.items()}
    add(
        f"{name}.{attribute}",
        lambda **a: getattr(zoo()[0][name], attribute)(**a),
        lambda rng: {k: v(rng) if callable(v) else v for k, v in plain.items()},
        unbounded=True,
        undefined=undefined,
        **{k: f for k, (_, f) in arguments.items()},
    )


for name in zoo()[0]:
    params = (zoo()[1][name], odd.PARAMS)
    n = zoo()[0][name].n_sites
    method(
        name,
        "objective",
        params=params,
        weights=(lambda rng, n=n: rng.integers(1, 9, n) / 8.0, odd.WEIGHTS),
    )
    fold = (
        odd.without(odd.SITES, "turned", "mask", "one") if name == "PairwiseLinear" else odd.SITES
    )
    method(name, "heldout_loss", params=params, fold=(two_sites(name), fold))
    method(
        name,
        "initial_params",
        rng=(lambda rng: np.random.default_rng(5), odd.without(odd.RNG, "None ")),
    )
    for extra in ("unpack", "posterior", "log_densities", "log_chain", "log_prior", "hold"):
        if hasattr(zoo()[0][name], extra):
            method(name, extra, params=params)
for name in ("GaussianHMM", "AutoRegressiveHMM", "NeuralHMM", "PoissonTraffic", "LinearChainCRF"):
    add(
        f"{name}.pack",
        lambda params, name=name: zoo()[0][name].pack(zoo()[0][name].unpack(params)),
        lambda rng, name=name: {"params": zoo()[1][name]},
        lambda found, params: close(found, params),
    )
method(
    "GLM",
    "predict",
    params=(zoo()[1]["GLM"], odd.PARAMS),
    X=(lambda rng: dyadic(rng, 5, 2), odd.without(odd.SERIES, "empty")),
)
method(
    "AutoRegressiveHMM",
    "sequence_losses",
    params=(zoo()[1]["AutoRegressiveHMM"], odd.PARAMS),
    sequences=(sequences, odd.without(SEQUENCES, "none")),
)
NEW_SENTENCES = odd.without(LISTS, "fewer", "None ") | odd.without(
    each_of(odd.TABLE), "one too short", "one too long"
)
for attribute in ("predict", "marginals"):
    method(
        "LinearChainCRF",
        attribute,
        params=(zoo()[1]["LinearChainCRF"], odd.PARAMS),
        emissions=(lambda rng: sentences(rng)["emissions"], NEW_SENTENCES),
    )
for name in ("SemiSupervised", "PairwiseLinear"):
    method(
        name,
        "printed_cross",
        params=(zoo()[1][name], odd.PARAMS),
        folds=(Folds([two_sites(name)]), odd.OBJECTS),
    )
method(
    "PairwiseLinear",
    "pair_losses",
    params=(zoo()[1]["PairwiseLinear"], odd.PARAMS),
    fold=(two_sites("PairwiseLinear"), odd.without(odd.SITES, "turned", "one")),
)
WHOLE_STEPS = {"max_iterations": odd.COUNT, "tolerance": odd.NONNEGATIVE}
add(
    "hmm.em.restarts",
    lambda **a: hmm_em.restarts(zoo()[0]["GaussianHMM"], **a).params,
    lambda rng: {"rng": np.random.default_rng(5), "n_restarts": 2},
    rng=odd.RNG,
    n_restarts=odd.COUNT,
)
add(
    "hmm.em.expectation_maximisation",
    lambda **a: hmm_em.expectation_maximisation(zoo()[0]["GaussianHMM"], **a).params,
    lambda rng: {"start": zoo()[1]["GaussianHMM"], "max_iterations": 100, "tolerance": 1e-6},
    start=odd.PARAMS,
    max_iterations=odd.COUNT,
    tolerance=odd.NONNEGATIVE,
)
add(
    "em",
    lambda model, **a: models.em(model, **a),
    lambda rng: {
        "model": mrf(),
        "weights": np.ones(N),
        "start": zoo()[1]["HiddenMRF"],
        "tolerance": 1e-8,
        "max_steps": 120,  # an int8 holds it
    },
    model=odd.OBJECTS,
    weights=odd.without(odd.WEIGHTS, "None "),
    start=odd.without(odd.PARAMS, "None "),
    tolerance=odd.NONNEGATIVE,
    max_steps=odd.COUNT,
)

# fits and methods


@cache
def fitted(name="GLM"):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return acv.fit(zoo()[0][name])


@cache
def result(name="GLM", exact=False):
    run = acv.exact if exact else acv.newton_step
    return run(zoo()[0][name], fitted(name), three_folds())


FITTED = odd.OBJECTS | odd.kinds(
    "refuse", other=lambda f: fitted("LinearChainCRF"), params=lambda f: f.params
)
RESULT = odd.OBJECTS | odd.kinds(
    "refuse", other=lambda r: other_result(), params=lambda r: r.params
)
SCALAR_START = {"tolerance": odd.POSITIVE}


@cache
def other_result():
    name = "LinearChainCRF"
    return acv.newton_step(zoo()[0][name], fitted(name), [np.array([0]), np.array([1])])


def a_model(name="GLM"):
    return lambda rng: {"model": zoo()[0][name]}


add(
    "fit",
    acv.fit,
    lambda rng: (
        a_model()(rng)
        | {"start": zoo()[1]["GLM"], "rng": np.random.default_rng(5), "tolerance": 1e-6}
    ),
    model=odd.OBJECTS,
    start=odd.without(odd.PARAMS, "None "),
    tolerance=odd.POSITIVE | odd.kinds("sane", inf=odd.constant(np.inf)),
)
add(
    "fit rng",
    acv.fit,
    lambda rng: a_model("GaussianHMM")(rng) | {"rng": np.random.default_rng(5)},
    rng=odd.without(odd.RNG, "None "),
)
add(
    "fit_at",
    acv.fit_at,
    lambda rng: a_model()(rng) | {"params": zoo()[1]["GLM"]},
    unbounded=True,
    model=odd.OBJECTS,
    params=odd.PARAMS,
)
add(
    "fit_path",
    acv.fit_path,
    lambda rng: a_model()(rng) | {"start": zoo()[1]["GLM"]},
    model=odd.OBJECTS,
    start=odd.without(odd.PARAMS, "None "),
)
RUN = {"model": odd.OBJECTS, "fit": FITTED, "folds": odd.FOLDS}
DAMPED = {"damping": odd.NONNEGATIVE}
OWN = {
    "no_adjustment": ({}, {}),
    "infinitesimal_jackknife": ({"damping": 0.5}, DAMPED),
    "frozen_newton": ({"steps": 2, "damping": 0.5}, {"steps": odd.COUNT} | DAMPED),
    "newton_step": ({"damping": 0.5}, DAMPED),
    "exact": (
        {"tolerance": 1e-6},
        {"tolerance": odd.NONNEGATIVE | odd.kinds("sane", inf=odd.constant(np.inf))},
    ),
    "ladder": ({}, {}),
}
for name, (plain, families) in OWN.items():
    for model in ("GLM",) if name == "ladder" else ("GLM", "HiddenMRF", "GaussianHMM"):
        add(
            f"{name} {model}",
            getattr(acv, name),
            lambda rng, plain=plain, model=model: (
                {"model": zoo()[0][model], "fit": fitted(model), "folds": three_folds()} | plain
            ),
            **(RUN | families if model == "GLM" else families | {"folds": odd.FOLDS}),
        )
add(
    "as_printed",
    acv.as_printed,
    lambda rng: {
        "model": zoo()[0]["PairwiseLinear"],
        "fit": fitted("PairwiseLinear"),
        "folds": three_folds(),
        "damping": 0.5,
    },
    **RUN,
    **DAMPED,
)
add(
    "linearised",
    acv.linearised,
    lambda rng: a_model()(rng) | {"result": result()},
    model=odd.OBJECTS,
    result=RESULT,
)
CHECKED = {"model": odd.OBJECTS, "result": RESULT}
add(
    "check_result",
    acv.check_result,
    lambda rng: a_model()(rng) | {"result": result(), "limit": 0.5},
    limit=odd.POSITIVE,
    **CHECKED,
)
add(
    "refit_unreliable",
    acv.refit_unreliable,
    lambda rng: a_model()(rng) | {"result": result(), "check": np.array([True, False, True])},
    check=odd.without(
        odd.FLAGS,
        "None ",
        "list",
        "none observed",
        "ints",
        "uint8",
        "floats",
        "object",
        "pandas",
        "all observed",
    )
    | odd.kinds(
        "refuse", numbers=lambda a: [0, 2], ints=lambda a: a.astype(int), floats=lambda a: a * 1.0
    )
    | odd.kinds("equal", list=lambda a: a.tolist()),
    **CHECKED,
)
add(
    "compare_methods",
    lambda exact, other: acv.compare_methods(exact, other).drop(columns=["seconds"]),
    lambda rng: {"exact": result(exact=True), "other": result()},
    exact=RESULT,
    other=RESULT,
)
add(
    "compare_models",
    acv.compare_models,
    lambda rng: {"results": {"a": result(), "b": result(exact=True)}},
    results=odd.kinds(
        "refuse",
        None_=odd.constant(None),
        list=lambda r: list(r.values()),
        none=odd.constant({}),
        other=lambda r: r | {"c": other_result()},
        strings=odd.constant({"a": "b"}),
        number=odd.constant(1),
    ),
)
for name in ("relative_errors", "theta_errors"):
    add(
        name,
        getattr(acv, name),
        lambda rng: {"exact": result(exact=True), "result": result()},
        exact=RESULT,
        result=RESULT,
    )
add(
    "difference_estimate",
    acv.difference_estimate,
    lambda rng: (
        a_model()(rng) | {"result": result(), "n_exact": 2, "rng": np.random.default_rng(5)}
    ),
    n_exact=odd.without(odd.LIMITED, "one", "bool"),
    rng=odd.RNG,
    **CHECKED,
)
add(
    "check_model",
    acv.check_model,
    lambda rng: (
        a_model()(rng)
        | {"params": zoo()[1]["GLM"], "rng": np.random.default_rng(5), "tolerance": 1e-4}
    ),
    model=odd.OBJECTS,
    params=odd.without(odd.PARAMS, "nan", "far"),
    rng=odd.RNG,
    tolerance=odd.POSITIVE,
)
add(
    "derivatives_of",
    lambda model: acv.derivatives_of(model).value_and_gradient(zoo()[1]["GLM"], np.ones(N)),
    a_model(),
    model=odd.OBJECTS,
)
add(
    "Fit.standard_errors_between",
    lambda **a: fitted().standard_errors_between(**a),
    lambda rng: {"a": zoo()[1]["GLM"], "b": np.ones(3)},
    unbounded=True,
    a=odd.PARAMS,
    b=odd.without(odd.PARAMS, "zero axes"),
)
add(
    "CVResult",
    lambda: (result().pointwise, result().se, result().to_frame()),
    lambda rng: {},
    undefined=True,
)

# resampling and bounds


def resamples(rng):
    return folds.bootstrap_weights(N, 40, np.random.default_rng(5))


RESAMPLED = (
    odd.without(
        odd.TABLE,
        "too short",
        "too long",
        "int8",
        "int64",
        "uint8",
        "uint64",
        "bool",
        "shifted",
        "outlier",
        "large",
        "empty",
    )
    | odd.kinds("refuse", narrow=lambda a: a[:, :-1], negative=lambda a: odd._with(a, -1.0))
    | odd.kinds("same", int8=lambda a: a.astype(np.int8), uint8=lambda a: a.astype(np.uint8))
    | odd.kinds("sane", empty=lambda a: a[:0])
)
for name in ("jackknife_params", "refits"):
    add(
        f"bootstrap.{name}",
        getattr(bootstrap, name),
        lambda rng, name=name: a_model()(rng) | {"fit": fitted(), "weights": resamples(rng)},
        model=odd.OBJECTS,
        fit=FITTED,
        weights=RESAMPLED,
    )
add(
    "bootstrap.interval",
    bootstrap.interval,
    lambda rng: {"params": dyadic(rng, 20, 3), "level": 0.5},
    params=odd.SERIES,
    level=odd.POSITIVE | odd.kinds("refuse", above=odd.constant(1.5), huge=odd.constant(1e200)),
)
add(
    "bootstrap.jackknife_after_bootstrap",
    bootstrap.jackknife_after_bootstrap,
    lambda rng: {"params": dyadic(rng, 40, 3), "weights": resamples(rng)},
    params=odd.TABLE,
    weights=odd.without(RESAMPLED, "narrow")
    | odd.OTHER_LENGTH
    | odd.kinds("refuse", small=lambda a: a + 1e-9, empty=lambda a: a[:0]),
)
add(
    "bounds.theorem1",
    bounds.theorem1,
    lambda rng: {
        "model": bounded(),
        "fit": acv.fit(bounded()),
        "folds": three_folds(),
        "radius": 0.5,
    },
    unbounded=True,
    model=odd.OBJECTS,
    fit=FITTED,
    folds=odd.FOLDS,
    radius=odd.without(odd.NONNEGATIVE, "None "),
)


@cache
def bounded():
    rng = np.random.default_rng(1)
    return models.GLM(dyadic(rng, N, 2), np.arange(N) % 2, penalty=1.0)


add(
    "bounds.Ball",
    lambda **a: bounds.Ball(**a).c_op(),
    lambda rng: {"model": bounded(), "params": zoo()[1]["GLM"], "radius": 0.5},
    unbounded=True,
    model=odd.OBJECTS,
    params=odd.PARAMS,
    radius=odd.NONNEGATIVE,
)

# incremental learners


def examples(rng):
    return {"X": dyadic(rng, N, 3), "y": np.where(np.arange(N) % 2, 1.0, -1.0)}


LEARNERS = {
    "pegasos": (learners.pegasos, {"n_features": 3, "regularization": 0.5}),
    "lsqsgd": (learners.lsqsgd, {"n_features": 3, "step": 0.125}),
    "k_means": (learners.k_means, {"n_features": 3, "n_clusters": 2, "batch_size": 2}),
    "histogram": (
        learners.histogram,
        {"lower": -np.ones(3), "upper": 3 * np.ones(3), "n_bins": 2, "pseudo_count": 0.5},
    ),
}
OF_LEARNER = {
    "n_features": odd.without(odd.LIMITED, "one", "two", "bool"),
    "regularization": odd.POSITIVE,
    "step": odd.POSITIVE,
    "n_clusters": odd.COUNT,
    "batch_size": odd.COUNT,
    "n_bins": odd.LIMITED,
    "pseudo_count": odd.POSITIVE,
    "lower": odd.without(odd.TABLE, "int8", "int64", "uint8", "uint64", "bool"),
    "upper": odd.without(odd.TABLE, "int8", "int64", "uint8", "uint64", "bool"),
}


def learnt(make):
    def function(**settings):
        learner = make(**settings)
        data = examples(np.random.default_rng(0))
        learner.check(**data)
        state = learner.update(learner.init(), **data)
        return state, learner.loss(state, **data)

    return function


ROWS_X = odd.without(odd.TABLE, "empty")
ROWS_Y = odd.without(odd.TABLE, "None ", "bool", "int8", "int64", "uint8", "uint64", "empty")
for name, (make, settings) in LEARNERS.items():
    add(
        f"learners.{name}",
        learnt(make),
        lambda rng, settings=settings: dict(settings),
        **{k: OF_LEARNER[k] for k in settings},
    )
    learner = make(**settings)
    own_y = odd.without(ROWS_Y, *(() if learner.needs else ()))
    add(
        f"{name}.update",
        lambda X, y, learner=learner: learner.update(learner.init(), X, y),
        examples,
        X=ROWS_X,
        y=own_y,
    )
    add(
        f"{name}.loss",
        lambda X, y, learner=learner: learner.loss(trained(learner), X, y),
        examples,
        unbounded=name in ("lsqsgd", "k_means"),
        X=ROWS_X,
        y=own_y,
    )
    add(
        f"{name}.learn",
        lambda rows, learner=learner: learner.learn(learner.init(), **data(), rows=rows),
        lambda rng: {"rows": np.array([3, 5, 1])},
        rows=odd.without(odd.SITES, "repeated", "turned", "repeated unsigned"),
    )
    for front in ("treecv", "kfold"):
        add(
            f"{front} {name}",
            lambda X, y, front=front, learner=learner, **a: getattr(acv, front)(
                learner, acv.Examples(X, y), **a
            ),
            lambda rng: examples(rng) | {"folds": 3},
            unbounded=name in ("lsqsgd", "k_means"),
            X=ROWS_X,
            y=own_y,
            folds=odd.without(odd.LIMITED, "one", "bool"),
        )


def data():
    return examples(np.random.default_rng(0))


def trained(learner):
    return learner.update(learner.init(), **data())


def partition(rng):
    return [np.array([0, 3, 4, 10]), np.array([1, 5, 7, 11]), np.array([2, 6, 9, 8])]


for front in ("treecv", "kfold"):
    add(
        f"{front}",
        lambda learner, data, front=front, **a: getattr(acv, front)(learner, data, **a),
        lambda rng: {
            "learner": learners.pegasos(3, 0.5),
            "data": acv.Examples(**examples(rng)),
            "folds": partition(rng),
            "order": "randomized",
            "rng": np.random.default_rng(5),
        },
        learner=odd.OBJECTS,
        data=odd.OBJECTS,
        order=odd.CHOICE,
        folds=odd.without(odd.FOLDS, "all sites", "generator", "number")
        | odd.kinds("equal", generator=iter),
        rng=odd.without(odd.RNG, "number"),
    )
add(
    "Examples",
    lambda **a: (acv.Examples(**a).X, acv.Examples(**a).y),
    examples,
    X=odd.TABLE,
    y=odd.without(odd.TABLE, "None "),
)
add(
    "Examples.take",
    lambda rows: acv.Examples(**data()).take(rows).X,
    lambda rng: {"rows": np.array([1, 4])},
    rows=odd.without(odd.SITES, "repeated", "repeated unsigned", "turned", "negative"),
)


def sgd():
    from sklearn.linear_model import SGDRegressor

    return SGDRegressor(shuffle=False, random_state=0)


add(
    "learners.PartialFit",
    lambda estimator: acv.kfold(learners.PartialFit(estimator), acv.Examples(**data()), 3),
    lambda rng: {"estimator": sgd()},
    estimator=odd.OBJECTS,
)

# scikit-learn


@cache
def logistic():
    from sklearn.linear_model import LogisticRegression

    rows = X_and_y("logistic")(np.random.default_rng(1))
    return LogisticRegression(C=0.5, tol=1e-10).fit(rows["X"], rows["y"]), rows["X"], rows["y"]


SK_X = odd.without(
    odd.TABLE,
    "pandas",
    "int8",
    "int64",
    "uint8",
    "uint64",
    "bool",
    "huge",
    "large",
    "small",
    "tiny",
    "shifted",
    "constant",
    "zeros",
    "outlier",
    "zero axes",
) | odd.kinds("same", pandas=pd.DataFrame)
SK_Y = odd.without(BINARY, "constant", "zeros", "bool", "pandas", "extra axis", "dict", "tiny")
SK_Y |= odd.kinds("same", bool=lambda a: a > 0, pandas=pd.Series)
add(
    "approx_cross_validate",
    lambda estimator, X, y, **a: {
        k: v for k, v in acv.approx_cross_validate(estimator, X, y, **a).items() if "time" not in k
    },
    lambda rng: (
        dict(zip(("estimator", "X", "y"), logistic(), strict=True))
        | {"cv": 3, "method": "newton_step", "unreliable": "refit", "sample_weight": np.ones(N)}
    ),
    estimator=odd.OBJECTS,
    X=SK_X,
    y=SK_Y,
    method=odd.CHOICE,
    unreliable=odd.CHOICE,
    cv=odd.without(odd.LIMITED, "None ", "one", "bool"),
    sample_weight=odd.without(odd.TABLE, "None ", "bool", "int8", "int64", "uint8", "uint64"),
)
add(
    "estimators.as_glm",
    lambda estimator, X, y, sample_weight: probe(estimators.as_glm(estimator, X, y, sample_weight)),
    lambda rng: (
        dict(zip(("estimator", "X", "y"), logistic(), strict=True)) | {"sample_weight": np.ones(N)}
    ),
    estimator=odd.OBJECTS,
    X=SK_X,
    y=SK_Y,
    sample_weight=odd.without(odd.TABLE, "None ", "bool", "int8", "int64", "uint8", "uint64"),
)
add(
    "estimators.fit_of",
    lambda estimator, model: estimators.fit_of(estimator, model),
    lambda rng: {"estimator": logistic()[0], "model": estimators.as_glm(*logistic())},
    estimator=odd.OBJECTS,
    model=odd.OBJECTS,
)
add(
    "estimators.params_of",
    estimators.params_of,
    lambda rng: {"estimator": logistic()[0]},
    estimator=odd.OBJECTS,
)
add(
    "estimators.with_params",
    lambda **a: estimators.params_of(estimators.with_params(**a)),
    lambda rng: {"estimator": logistic()[0], "params": np.ones(3)},
    unbounded=True,
    estimator=odd.OBJECTS,
    params=odd.PARAMS,
)


# plots


def drawn(name):
    def function(**arguments):
        import matplotlib

        matplotlib.use("Agg")
        fig, ax = acv.plots.subplots()
        getattr(acv.plots, name)(ax, *arguments.values())
        fig.canvas.draw()

    return function


add(
    "plots.scatter",
    drawn("scatter"),
    lambda rng: {"reference": result(exact=True), "other": result()},
    reference=RESULT,
    other=RESULT,
)
add(
    "plots.differences",
    drawn("differences"),
    lambda rng: {"reference": result(exact=True), "baseline": result(), "other": result()},
    reference=RESULT,
    baseline=RESULT,
    other=RESULT,
)
add(
    "plots.error_ladder",
    drawn("error_ladder"),
    lambda rng: {"errors": {"exact": np.ones(3)}},
    errors=odd.kinds(
        "refuse",
        None_=odd.constant(None),
        list=odd.constant([1.0]),
        strings=odd.constant({"exact": "abc"}),
    ),
)

# geojson


def geojson(rng):
    import json
    import os
    import tempfile

    def square(x):
        return {
            "type": "Feature",
            "properties": {"n": 3},
            "geometry": {
                "type": "Polygon",
                "coordinates": [[[x, 0], [x + 1, 0], [x + 1, 1], [x, 1], [x, 0]]],
            },
        }

    path = os.path.join(tempfile.gettempdir(), f"acvlib-attack-{os.getpid()}.geojson")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"features": [square(0), square(1)]}, file)
    return {"path": path, "column": "n"}


add(
    "mrf.areas.areas_from_geojson",
    lambda **a: areas.areas_from_geojson(**a).edges,
    geojson,
    column=odd.CHOICE,
)

# laws of scale, and what only a longer series shows


def law(name, function, check, **plain):
    """Calls without an odd argument, whose result a law knows."""
    add(
        name,
        function,
        lambda rng: dict(plain),
        check,
        **{next(iter(plain)): odd.kinds("sane", as_it_is=lambda value: value)},
    )


def scaled_fit(scale, shift=0.0):
    rows = X_and_y("logistic")(np.random.default_rng(1))
    model = models.GLM(rows["X"] * scale + shift, rows["y"], "logistic")
    return acv.fit(model).objective


for size in (1e-150, 1e-9, 1e-3, 1e3, 1e9, 1e150):
    law(
        f"scale of X {size:g}",
        scaled_fit,
        lambda found, scale: close(found, scaled_fit(1.0), 1e-5),
        scale=size,
    )
law(
    "shift of X",
    lambda shift: scaled_fit(1.0, shift),
    lambda found, shift: close(found, scaled_fit(1.0), 1e-4),
    shift=1e4,
)


def walk(kind):
    rng = np.random.default_rng(3)
    x = {
        "price": 1e5 + 100 * rng.standard_normal(60).cumsum(),
        "outlier": np.append(series(rng, 60), 1e4),
        "large": 1e6 * series(rng, 60),
        "small": 1e-6 * series(rng, 60),
        "shifted": 1e6 + series(rng, 60),
        "log-normal": np.exp(3 * rng.standard_normal(60)),
        "binary": (series(rng, 60) > 2) * 1.0,
        "thirty": series(rng, 30),
        "four": series(rng, 60)[:4],
    }[kind]
    found = acv.fit(models.GaussianHMM(x[:, None], 2))
    return found.objective, found.params


for kind in (
    "price",
    "outlier",
    "large",
    "small",
    "shifted",
    "log-normal",
    "binary",
    "thirty",
    "four",
):
    law(f"fit GaussianHMM {kind}", walk, lambda found, kind: None, kind=kind)


def long_chain(n):
    node = np.tile([[-800.0, -900.0]], (n, 1))
    edge = np.tile(np.log([[1 - 1e-300, 1e-300], [0.5, 0.5]]), (n - 1, 1, 1))
    return chain.log_partition(node, edge)


law("chain of 10,000 steps", long_chain, lambda found, n: close(found, -800.0 * n, 1e-9), n=10_000)
law(
    "chain of one step",
    lambda n: chain.log_partition(np.zeros((n, 3)), np.zeros((0, 3, 3))),
    lambda found, n: close(found, np.log(3.0)),
    n=1,
)


def near_zero(log_odds):
    rng = np.random.default_rng(3)
    model = models.GaussianHMM(series(rng, 200)[:, None], 2)
    start = model.initial_params(rng).copy()
    start[1] = log_odds
    value, gradient = model.derivatives.value_and_gradient(start, np.ones(200))
    return value, gradient


for size in (50.0, 700.0, 800.0, 1e5):
    law(f"near-zero transition {size:g}", near_zero, lambda found, log_odds: None, log_odds=size)


def quiet(n):
    day = (np.arange(n) // 8) % 7
    model = models.PoissonTraffic(np.random.default_rng(n).poisson(8.0, n), day)
    found = acv.fit(model)
    return found.objective, found.params


for size in (2, 14, 30, 1000):
    law(f"fit PoissonTraffic without events {size}", quiet, lambda found, n: None, n=size)
law(
    "CRF fold that empties the sentences",
    lambda n: acv.exact(
        zoo()[0]["LinearChainCRF tokens"],
        fitted("LinearChainCRF tokens"),
        [np.arange(n), np.arange(4)],
    ),
    lambda found, n: None,
    n=7,
)


def deleted(folds):
    """Exact folds of a model by deletion of rows."""
    rows = X_and_y("logistic")(np.random.default_rng(1))
    found = acv.exact(
        models.GLM(rows["X"], rows["y"], "logistic", penalty=0.5),
        acv.fit(models.GLM(rows["X"], rows["y"], "logistic", penalty=0.5)),
        three_folds(),
    )
    refits = [
        acv.fit(
            models.GLM(np.delete(rows["X"], f, 0), np.delete(rows["y"], f), "logistic", penalty=0.5)
        ).params
        for f in THREE
    ]
    close(found.params, np.array(refits), 1e-5)
    return found.loss


law("exact is deletion", deleted, lambda found, folds: None, folds=THREE)
