"""Models built from odd data."""

import numpy as np
import pandas as pd
import pytest

import acvlib as acv
from acvlib import models, weighting
from acvlib.models.hmm.emissions import AutoRegression, Gaussian, NeuralAutoRegression

from .. import inputs as odd
from .call import CALLS, N, add, dyadic
from .of_graphs import close, grid_edges


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


OF_GLM = {
    "X": odd.TABLE | odd.kinds("refuse", sparse=odd.csr_matrix),
    "family": odd.CHOICE,
    "intercept": odd.CHOICE,
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


def several_rows(family):
    def plain(rng):
        classes = np.arange(N) % 3 * 1.0
        return {
            "X": dyadic(rng, N, 2),
            "y": classes if family == "multinomial" else dyadic(rng, N, 3),
            "family": family,
            "intercept": True,
            "penalty": 0.5,
            "sample_weight": 1.0 + np.arange(N) % 3,
            "balanced": family == "multinomial",
        }

    return plain


for name, labels in {"multinomial": odd.LABELS, "gaussian": odd.TABLE}.items():
    of_both = {key: kinds for key, kinds in OF_GLM.items() if key not in ("offset", "site_penalty")}
    add(f"GLM of several {name}", built(models.GLM), several_rows(name), y=labels, **of_both)


def several(name):
    return models.GLM(**several_rows(name)(np.random.default_rng(1)))


SAMPLE_WEIGHT = OF_GLM["sample_weight"]
COUNTED = {"sample_weight": np.array([1.0, 2.0, 0.5, 3.0])}


def counts(rng):
    return rng.poisson(5 + 5 * (np.arange(N) % 2)).astype(np.int64) + np.arange(N) % 3


def mrf(scheme=weighting.drop_latents):
    return models.HiddenMRF(counts(np.random.default_rng(1)), grid_edges(), 0.25, scheme=scheme)


add(
    "HiddenMRF",
    built(models.HiddenMRF),
    lambda rng: {"counts": counts(rng), "edges": grid_edges(), "coupling": 0.25, "n_states": 2},
    counts=odd.without(odd.COUNTS, "ones")
    | odd.kinds("sane", ones=np.ones_like)
    | odd.kinds("refuse", pandas=odd._pandas),  # names beside edges of places
    edges=odd.EDGES,
    coupling=odd.NUMBER,
    n_states=odd.LIMITED,
)
add(
    "HiddenMRF exposed",
    built(models.HiddenMRF),
    lambda rng: {
        "counts": counts(rng),
        "edges": grid_edges(),
        "coupling": 0.25,
        "exposure": 1.0 + np.arange(N) % 3,
        "sample_weight": 1.0 + np.arange(N) % 3,
    },
    sample_weight=SAMPLE_WEIGHT,
    exposure=odd.without(odd.TABLE, "None ", "zeros", "tiny", "huge")
    | odd.kinds("refuse", zeros=np.zeros_like, negative=lambda a: -a, pandas=odd._pandas),
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


def codes(rng, n=40):
    """Three categories, which two states prefer."""
    return (np.arange(n) // 8 % 2 + rng.integers(0, 2, n)).astype(np.int64)


MISSING = odd.kinds("sane", nan=lambda a: odd._with(a, np.nan))
OF_CODES = odd.without(
    odd.COUNTS, "nan", "masked", "extra axis", "ragged", "dict", "ones", "zeros", "huge"
)
add(
    "CategoricalHMM",
    built(models.CategoricalHMM),
    lambda rng: {"x": codes(rng), "n_states": 2, "n_categories": 4, "emission_concentration": 1.5},
    x=OF_CODES | MISSING | odd.kinds("refuse", huge=lambda a: a * 10**9, zeros=np.zeros_like),
    n_states=odd.LIMITED,
    n_categories=odd.without(odd.LIMITED, "one", "two", "None ", "bool"),
    emission_concentration=odd.POSITIVE,
)
add(
    "PoissonHMM",
    built(models.PoissonHMM),
    lambda rng: {"x": codes(rng), "n_states": 2},
    x=OF_CODES | MISSING | odd.kinds("sane", huge=lambda a: a * 10**9),
    n_states=odd.LIMITED,
)
add(
    "MixtureHMM",
    built(models.MixtureHMM),
    lambda rng: {
        "x": series(rng)[:, None],
        "n_states": 2,
        "n_components": 2,
        "covariance": "diag",
        "mean_scale": 10.0,
    },
    n_states=odd.LIMITED,
    n_components=odd.LIMITED,
    covariance=odd.CHOICE,
    mean_scale=odd.without(odd.POSITIVE, "inf"),
)
add(
    "GLMHMM",
    built(models.GLMHMM),
    lambda rng: {
        "y": codes(rng) % 2,
        "inputs": dyadic(rng, 40, 2),
        "n_states": 2,
        "family": "bernoulli",
        "weight_sd": 2.0,
    },
    y=odd.without(OF_CODES, "fraction") | MISSING,
    inputs=odd.kinds(
        "refuse",
        None_=odd.constant(None),
        string=odd.constant("data"),
        short=lambda a: a[:-1],
        inf=lambda a: odd._with(a, np.inf),
        complex=lambda a: a + 1j,
        constant=np.ones_like,
    )
    | odd.kinds("sane", nan=lambda a: odd._with(a, np.nan))
    | odd.kinds("same", list=lambda a: [a], float32=lambda a: a.astype(np.float32)),
    n_states=odd.LIMITED,
    family=odd.CHOICE,
    weight_sd=odd.POSITIVE,
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
        lambda rng, scheme=scheme: sentences(rng) | {"scheme": scheme} | COUNTED,
        emissions=LISTS | each_of(odd.TABLE),
        labels=LISTS
        | each_of(odd.without(odd.LABELS, "float64"))
        | odd.kinds("equal", floats=lambda s: [x.astype(float) for x in s]),
        ridge=odd.POSITIVE,
        scheme=odd.without(odd.OBJECTS, "None "),
        sample_weight=SAMPLE_WEIGHT,
    )


def described(rng):
    words = rng.integers(0, 4, (4, 3))
    tokens = [[{"w": f"w{word}", "x": word / 4} for word in own] for own in words]
    return {"sentences": tokens, "labels": [["A", "B", "A"]] * 3 + [["B", "A", "C"]]}


TOKENS = LISTS | odd.kinds(
    "refuse",
    words=lambda s: [*s[:-1], "three small words"],
    empty=lambda s: [*s[:-1], []],
    numbers=lambda s: [*s[:-1], [1, 2, 3]],
    nan=lambda s: [*s[:-1], [{"x": np.nan}] * 3],
    none=lambda s: [*s[:-1], [{"x": None}] * 3],
    array=lambda s: [*s[:-1], [{"x": np.ones(2)}] * 3],
)
NAMED = LISTS | odd.kinds(
    "refuse",
    numbers=lambda s: [*s[:-1], [0, 1, 2]],
    word=lambda s: [*s[:-1], "ABC"],
    longer=lambda s: [*s[:-1], [*s[-1], "A"]],
)
for scheme, name in ((None, "sentences"), (weighting.hide_labels, "tokens")):
    add(
        f"FeatureCRF {name}",
        built(acv.FeatureCRF),
        lambda rng, scheme=scheme: described(rng) | {"ridge": 0.25, "scheme": scheme} | COUNTED,
        sentences=TOKENS,
        labels=NAMED,
        ridge=odd.POSITIVE,
        scheme=odd.without(odd.OBJECTS, "None "),
        sample_weight=SAMPLE_WEIGHT,
    )


def from_crfsuite(X, y):
    crfsuite = pytest.importorskip("sklearn_crfsuite")
    plain = described(np.random.default_rng(0))
    fitted = crfsuite.CRF(c1=0, c2=0.5).fit(plain["sentences"], plain["labels"])
    return acv.from_crfsuite(fitted, X, y)[1]


add(
    "from_crfsuite",
    from_crfsuite,
    lambda rng: dict(zip("Xy", described(np.random.default_rng(0)).values(), strict=True)),
    X=TOKENS,
    y=NAMED,
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
)
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
            name: odd.without(odd.POSITIVE, "inf")  # a flat prior
            if name == "mean_scale"
            else odd.WHOLE_0
            if (kind, name) == (AutoRegression, "order")
            else odd.COUNT
            for name in plain
        },
    )
