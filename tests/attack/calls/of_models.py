"""Models of rows, maps and tokens, built from odd data."""

import geopandas
import numpy as np
import pandas as pd
import shapely

import acvlib as acv
from acvlib import models, weighting
from acvlib.models.mrf.areas import neighbours

from .. import inputs as odd
from .call import Draw, N, add, close, dyadic, public, table
from .of_graphs import GRID

THREES = np.arange(N) % 3
COUNTED = {"sample_weight": 1.0 + THREES}
MADE = {}


def probe(model):
    """What a model computes at a point: start, F, its gradient, and two held-out losses."""
    start = model.initial_params(np.random.default_rng(0))
    ones = np.ones(model.n_sites)
    observed = ones if model.observed is None else model.observed
    value, gradient = acv.derivatives_of(model).value_and_gradient(start, ones)
    losses = model.heldout_loss(start, np.flatnonzero(observed)[:2])
    return start, value, model.objective(start, ones), gradient, losses


def model(name, plain, by=None, **settings):
    """A call that builds a model, which then stands in `MADE`."""
    make = by or public(name.split()[0])
    add(name, plain, by=lambda **a: probe(make(**a)), **settings)
    MADE[name] = make(**drawn(plain))


def drawn(plain, seed=1):
    """Arguments by name, of which some are drawn."""
    rng = np.random.default_rng(seed)
    return {key: v.make(rng) if isinstance(v, Draw) else v for key, v in plain.items()}


# Regressions

PENALISED = {"intercept": True, "penalty": 0.5} | COUNTED
SPARSE = odd.kinds("refuse", sparse=odd.csr_matrix)
HALVES = np.arange(N) % 2 * 1.0
REGRESSION = {"X": table(N, 2)} | PENALISED
ONE = REGRESSION | {"site_penalty": 0.25}
RESPONSES = {"logistic": HALVES, "probit": HALVES}
RESPONSES |= {"poisson": np.arange(N) % 4 * 1.0, "gaussian": table(N)}
ROWS = {family: ONE | {"family": family, "y": y} for family, y in RESPONSES.items()}
ROWS["multinomial"] = REGRESSION | {"family": "multinomial", "y": THREES * 1.0, "balanced": True}
ROWS["targets"] = REGRESSION | {"family": "gaussian", "y": table(N, 3)}
NOT_BINARY = odd.kinds("refuse", huge=lambda a: a * 1e200, outlier=lambda a: a * 9 - 4)
NOT_BINARY |= odd.kinds("refuse", small=lambda a: a / 2, shifted=lambda a: a + 1e6)
Y = {"logistic": NOT_BINARY, "probit": NOT_BINARY, "multinomial": odd.NOT_WHOLE}
Y["poisson"] = odd.NOT_WHOLE | odd.kinds("refuse", zeros=np.zeros_like)
for name, plain in ROWS.items():
    unbounded = name == "poisson"
    settings = {"less": "y: extra axis" if name == "gaussian" else "", "unbounded": unbounded}
    model(f"GLM {name}", plain, y=Y.get(name, {}), X=SPARSE, **settings)
for loss, y in (("ranking", table(N)), ("contrastive", THREES * 1.0)):
    plain = {"X": table(N, 2), "y": y, "loss": loss, "gamma_i": 0.25}
    model(f"PairwiseLinear {loss}", plain)

# Maps

COUNTS = Draw(lambda rng: (rng.poisson(5 + 5 * HALVES) + THREES).astype(np.int64))
MAP = {"counts": COUNTS, "edges": GRID, "coupling": 0.25}
NAMED = odd.kinds("refuse", pandas=odd.pandas)  # names beside edges of places
BY_PLACE = odd.kinds("same", pandas=lambda a: pd.Series(a)[::-1])  # lined up by their numbers
EXPOSURE = odd.kinds("refuse", zeros=np.zeros_like, negative=lambda a: -a) | BY_PLACE
model("HiddenMRF", MAP | {"n_states": 2}, less="counts: too short, too long", counts=NAMED)
BESIDE = {"only": "exposure sample_weight", "less": "exposure: tiny, huge"}
BESIDE |= {"exposure": EXPOSURE, "sample_weight": BY_PLACE}
model("HiddenMRF exposed", MAP | {"exposure": 1.0 + THREES} | COUNTED, **BESIDE)
TWO = Draw(lambda rng: geopandas.GeoSeries([shapely.box(0, 0, 1, 1), shapely.box(1, 0, 2, 1)]))
OF_KIND = {"by": lambda areas, kind: neighbours(areas, kind), "only": "kind", "kind": odd.CHOICE}
add("neighbours", {"areas": TWO, "kind": "rook"}, **OF_KIND)

# Tokens

TAGS = [np.arange(n) % 3 for n in (4, 3, 5, 6)]
SCORES = Draw(lambda rng: [dyadic(rng, len(tags), 3) for tags in TAGS])
SENTENCES = {"emissions": SCORES, "tags": TAGS, "ridge": 0.25}
HALF_COUNTED = {"sample_weight": np.array([1.0, 2.0, 0.5, 3.0])}
OF_TAGS = odd.LISTS | odd.each_of(odd.without(odd.LABELS, "float64"))
OF_TAGS |= odd.kinds("equal", floats=lambda s: [x.astype(float) for x in s])


def tokens_of(rng):
    words = rng.integers(0, 4, (4, 3))
    return [[{"w": f"w{word}", "x": word / 4} for word in own] for own in words]


NAMES = [["A", "B", "A"]] * 3 + [["B", "A", "C"]]
DESCRIBED = {"sentences": Draw(tokens_of), "names": NAMES, "ridge": 0.25}
TOKENS = odd.LISTS | odd.kinds(
    "refuse",
    words=lambda s: [*s[:-1], "three small words"],
    empty=lambda s: [*s[:-1], []],
    numbers=lambda s: [*s[:-1], [1, 2, 3]],
    nan=lambda s: [*s[:-1], [{"x": np.nan}] * 3],
    none_in=lambda s: [*s[:-1], [{"x": None}] * 3],
    array=lambda s: [*s[:-1], [{"x": np.ones(2)}] * 3],
)
OF_NAMES = odd.LISTS | odd.kinds(
    "refuse",
    numbers=lambda s: [*s[:-1], [0, 1, 2]],
    word=lambda s: [*s[:-1], "ABC"],
    longer=lambda s: [*s[:-1], [*s[-1], "A"]],
)
linear_crf = {"by": lambda tags, **a: models.LinearChainCRF(labels=tags, **a), "tags": OF_TAGS}
feature_crf = {"by": lambda names, **a: acv.FeatureCRF(labels=names, **a), "names": OF_NAMES}
for scheme, of in ((None, "sentences"), (weighting.hide_labels, "tokens")):
    more = {"scheme": scheme} | HALF_COUNTED
    less = "scheme: None"
    model(f"LinearChainCRF {of}", SENTENCES | more, less=less, **linear_crf)
    model(f"FeatureCRF {of}", DESCRIBED | more, less=less, sentences=TOKENS, **feature_crf)


def from_crfsuite(sentences, names):
    import sklearn_crfsuite

    plain = drawn(DESCRIBED)
    fitted = sklearn_crfsuite.CRF(c1=0, c2=0.5).fit(plain["sentences"], plain["names"])
    return acv.from_crfsuite(fitted, sentences, names)[1]


DATA = {key: drawn(DESCRIBED)[key] for key in ("sentences", "names")}
add("from_crfsuite", DATA, by=from_crfsuite, sentences=TOKENS, names=OF_NAMES)

# Manifolds


def is_rbf(found, points, sigma):
    points = np.asarray(points, np.longdouble)
    with np.errstate(all="ignore"):
        squares = ((points[:, None] - points) ** 2).sum(-1)
        close(found, np.exp(-squares / (2 * np.longdouble(np.ravel(sigma)[0]))).astype(float), 1e-6)


def energy_probe(**a):
    energy = models.ManifoldEnergy(**a)
    return energy.value(np.ones(3), np.ones(N)), energy.matrix(np.ones(N)), energy.full


SYMMETRIC = Draw(lambda rng: (half := rng.integers(0, 9, (N, N)) / 8.0) + half.T)
AFFINITY = models.RBFAffinity(dyadic(np.random.default_rng(0), N, 2), 2.0)
ENERGY = models.ManifoldEnergy(dyadic(np.random.default_rng(2), N, 3), AFFINITY)
RBF = {"points": odd.ONE, "less": "points: too short, too long"}
RBF["by"] = lambda points, sigma: models.RBFAffinity(points, sigma).entries(np.arange(len(points)))
add("RBFAffinity", {"points": table(N, 2), "sigma": 2.0}, is_rbf, **RBF)
add(
    "GraphAffinity",
    {"matrix": SYMMETRIC},
    lambda found, matrix: close(found, matrix),
    by=lambda matrix: models.GraphAffinity(matrix).entries(np.arange(N)),
    matrix=odd.TABLE
    | odd.kinds("same", sparse=odd.csr_matrix)
    | odd.kinds("equal", pandas=pd.DataFrame)
    | odd.kinds("refuse", outlier=lambda a: odd.holed(a, 1e12)),
)
add("ManifoldEnergy", {"features": table(N, 3), "affinity": AFFINITY}, by=energy_probe)
PARTLY = np.where(np.arange(N) % 4 == 3, np.nan, np.sign(THREES - 0.5))
SMOOTH = {"energy": ENERGY, "y": PARTLY, "gamma_s": 1.0, "gamma_p": 0.125, "gamma_i": 0.25}
for loss in ("square", "logistic", "squared_hinge"):
    rare = ", shifted, large, small, outlier, tiny, zeros, huge" if loss != "square" else ""
    model(
        f"SemiSupervised {loss}",
        SMOOTH | {"loss": loss, "quadratic": 2 * np.eye(3)},
        by=lambda quadratic, **a: models.SemiSupervised(ridge=quadratic, **a),
        less=f"y: nan, int8, int64, uint8, uint64, bool{rare}",
        quadratic=odd.without(odd.TABLE, "None", "zeros"),
    )
