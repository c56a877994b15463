"""Models of series, built from odd data, and series that are odd as a whole."""

import numpy as np
import pandas as pd

import acvlib as acv
from acvlib import models
from acvlib.inference import chain
from acvlib.models.hmm.emissions import AutoRegression, Gaussian, NeuralAutoRegression
from acvlib.models.hmm.families import NegativeBinomialHMM

from .. import inputs as odd
from .call import Draw, add, close, table
from .of_models import model, probe


def series(rng, n=40):
    state = (np.arange(n) // 8) % 2
    return rng.integers(-16, 17, n) / 16.0 + 3.0 * state


def sequences(rng, channels=2):
    """Three, of one or two channels."""
    every = [np.column_stack([series(rng, n), series(rng, n)[::-1]]) for n in (12, 15, 20)]
    return [own[:, :channels] for own in every]


def codes(rng, n=40):
    """Three categories, which two states prefer."""
    return (np.arange(n) // 8 % 2 + rng.integers(0, 2, n)).astype(np.int64)


X = Draw(lambda rng: series(rng)[:, None])
TWO = {"n_states": 2}
MISSING = odd.kinds("sane", nan=lambda a: odd.holed(a, np.nan))


def masked_sequences(s):
    """Frames that are wholly masked are missing, as wholly nan ones are."""
    rows = np.broadcast_to(np.arange(len(s[0]))[:, None] == 5, s[0].shape)
    missing = np.where(rows, np.nan, s[0])
    return odd.Pair(([*s[1:], np.ma.masked_array(s[0], rows)], [*s[1:], missing]))


SEQUENCES = (
    odd.without(odd.LISTS, "fewer")
    | odd.kinds(
        "refuse",
        an_array=lambda s: s[0],
        flat=lambda s: s[0][:, 0],
        partly_masked=lambda s: [*s, np.ma.masked_array(np.ones((9, 2)), np.eye(9, 2))],
        complex=lambda s: [x + 1j for x in s],
        strings=lambda s: [x.astype(str) for x in s],
        inf=lambda s: [*s, np.full((3, s[0].shape[1]), np.inf)],
        empty_one=lambda s: [*s, np.empty((0, s[0].shape[1]))],
        channels=lambda s: [*s, np.ones((4, 3))],
        cube=lambda s: [x[..., None] for x in s],
    )
    | odd.kinds(
        "same",
        tuple=tuple,
        float32=lambda s: [x.astype(np.float32) for x in s],
        lists=lambda s: [x.tolist() for x in s],
        pandas=lambda s: [pd.DataFrame(x) for x in s],
        masked=masked_sequences,
    )
    | odd.kinds(
        "sane", huge=lambda s: [x * 1e200 for x in s], tiny=lambda s: [x * 1e-300 for x in s]
    )
)
FLAT = odd.kinds("same", flat_ones=lambda s: [x[:, 0] for x in s])
RAGGED = odd.Pair(([[1.0, 2.0], [3.0]], [np.arange(1.0, 3.0), np.full(1, 3.0)]))
OF_X = odd.without(odd.SERIES, "extra axis", "dict") | MISSING | odd.always("same", ragged=RAGGED)
OF_X |= odd.kinds("same", masked=lambda a: odd.Pair((odd.masked(a), odd.holed(a, np.nan))))
OF_X |= odd.kinds("refuse", list=np.ndarray.tolist, tuple=lambda a: odd.tuples(a.tolist()))
model("GaussianHMM", {"x": X} | TWO, x=OF_X)
SETTINGS = {"emission": Gaussian(), "sites": "sequences", "concentration": 1.5, "context": 1}
ONE_CHANNEL = Draw(lambda rng: sequences(rng, 1))
LESS = "context: None; sites: None; emission: its class"
KNOWN = odd.kinds(
    "same",
    joined=np.concatenate,
    lists=lambda z: [own.tolist() for own in z],
    pandas=lambda z: [pd.Series(own, dtype="Float64") for own in z],
    masked=lambda z: [np.ma.masked_invalid(own) for own in z],
)
KNOWN |= odd.kinds("refuse", fewer=lambda z: z[1:], minus=lambda z: [-own for own in z], text=str)
OF_ONE = {"sequences": ONE_CHANNEL} | TWO | SETTINGS
OF_ONE["known_states"] = [np.resize([np.nan, 1.0, np.nan], n) for n in (12, 15, 20)]
model("HMM", OF_ONE, less=LESS, sequences=SEQUENCES | FLAT, known_states=KNOWN)
PAIRS = {"sequences": Draw(sequences)} | TWO
model("AutoRegressiveHMM", PAIRS | {"order": 1}, sequences=SEQUENCES)
model("NeuralHMM", PAIRS | {"order": 1, "n_hidden": 2}, sequences=SEQUENCES, order=odd.COUNT)
OTHERS = ("masked", "extra axis", "ragged", "dict", "ones", "zeros", "huge")
OF_CODES = odd.without(odd.COUNTS, *OTHERS) | MISSING
model(
    "CategoricalHMM",
    {"x": Draw(codes), "n_categories": 4, "emission_concentration": 1.5} | TWO,
    less="n_categories: one, two, None, bool",
    x=OF_CODES | odd.kinds("refuse", huge=lambda a: a * 10**9, zeros=np.zeros_like),
    emission_concentration=odd.POSITIVE,
)
OF_COUNTS = OF_CODES | odd.kinds("sane", huge=lambda a: a * 10**9)
for name, door in {"PoissonHMM": None, "NegativeBinomialHMM": NegativeBinomialHMM}.items():
    model(name, {"x": Draw(codes)} | TWO, by=door, x=OF_COUNTS)
PARTED = {"x": X, "n_components": 2, "covariance": "diag", "mean_scale": 10.0}
model("MixtureHMM", PARTED | TWO, less="mean_scale: inf")  # a flat prior
model(
    "GLMHMM",
    {"y": Draw(lambda rng: codes(rng) % 2), "inputs": table(40, 2)}
    | {"family": "bernoulli", "weight_sd": 2.0}
    | TWO,
    less="weight_sd: inf",  # a flat prior
    instead={"y": odd.without(OF_CODES, "fraction")},
    inputs=odd.only(odd.TABLE, "None", "string", "too short", "inf", "complex", "float32")
    | MISSING
    | odd.kinds("refuse", constant=np.ones_like)
    | odd.kinds("same", list=lambda a: [a]),
)
EMISSIONS = {Gaussian: {"mean_scale": 10.0}, AutoRegression: {"order": 1}}
EMISSIONS[NeuralAutoRegression] = {"order": 1, "n_hidden": 2}
FIXED = sequences(np.random.default_rng(0))
for kind, plain in EMISSIONS.items():
    own = {"less": "mean_scale: inf"} if kind is Gaussian else {}
    if kind is NeuralAutoRegression:
        own = {"order": odd.kinds("refuse", zero=lambda v: 0)}
    emitted = {"by": lambda kind=kind, **a: probe(models.HMM(FIXED, 2, kind(**a)))}
    add(f"emissions.{kind.__name__}", plain, **emitted | own)

# Traffic

TRAFFIC = {
    "counts": Draw(lambda rng: rng.poisson(8.0 + 8 * (np.arange(28) % 9 < 2)).astype(np.int64)),
    "day": np.arange(28) // 4 % 7,
}
SEVEN = odd.kinds("refuse", seven=lambda a: a + 1)
model("PoissonTraffic", TRAFFIC, less="counts: extra axis; day: huge, ones, zeros", day=SEVEN)
RATE = odd.kinds("same", list=list, array=np.array)
RATE |= odd.always("refuse", one=(1.0,), three=(1.0, 1.0, 1.0), nan=(1.0, np.nan), None_=None)
RATE |= odd.always(
    "refuse", negative=(-1.0, 1.0), inf=(1.0, np.inf), strings=("a", "b"), string="ab"
)
add(
    "TrafficPrior",
    {"base_rate": (1.0, 0.5), "day_concentration": 2.0},
    by=lambda **a: models.TrafficPrior(**a).negative_log_density(np.arange(11.0) / 8),
    base_rate=RATE,
)

# What is odd about a series as a whole: each is an input of a call without others


def whole(name, function, law=None, **odd_ones):
    sane = odd.always("sane", **odd_ones)
    add(name, {"whole": next(iter(odd_ones.values()))}, law, by=function, whole=sane)


def fitted_series(whole):
    found = acv.fit(models.GaussianHMM(whole[:, None], 2))
    return found.objective, found.params


RNG = np.random.default_rng(3)
SIXTY = series(RNG, 60)
whole(
    "fit of a GaussianHMM",
    fitted_series,
    price=1e5 + 100 * RNG.standard_normal(60).cumsum(),
    outlier=np.append(SIXTY, 1e4),
    log_normal=np.exp(3 * RNG.standard_normal(60)),
    binary=(SIXTY > 2) * 1.0,
    thirty=SIXTY[:30],
    four=SIXTY[:4],
)


def near_zero(whole):
    hidden = models.GaussianHMM(SIXTY[:, None], 2)
    start = hidden.initial_params(np.random.default_rng(3)).copy()
    start[1] = whole  # log odds of a move
    return hidden.derivatives.value_and_gradient(start, np.ones(60))


def traffic_fit(whole):
    day = np.arange(len(whole)) // 8 % 7
    found = acv.fit(models.PoissonTraffic(whole, day))
    return found.objective, found.params


def long_chain(whole):
    node = np.tile([[-800.0, -900.0]], (whole, 1))
    edge = np.tile(np.log([[1 - 1e-300, 1e-300], [0.5, 0.5]]), (whole - 1, 1, 1))
    return chain.log_partition(node, edge)


def scaled(whole):
    X, y = table(12, 2).make(np.random.default_rng(1)), np.arange(12) % 2
    return acv.fit(models.GLM(X * whole, y, penalty=whole**2)).objective


LAWS = {"chain": lambda found, whole: close(found, -800.0 * whole, 1e-9)}
LAWS["scale"] = lambda found, whole: close(found, scaled(1.0), 1e-5)
whole("near-zero transition", near_zero, likely=50.0, rare=700.0, never=800.0, far=1e5)
NONE = RNG.poisson(8.0, 1000)
BUSY = NONE + RNG.poisson(9.0, 1000) * (np.arange(1000) % 9 < 2)
whole("fit of traffic", traffic_fit, busy=BUSY, quiet=NONE, two=NONE[:2], month=NONE[:30])
whole("chain of many steps", long_chain, LAWS["chain"], long=10_000, short=2)
whole("scale of X", scaled, LAWS["scale"], tiny=1e-150, small=1e-9, large=1e9, huge=1e150)
