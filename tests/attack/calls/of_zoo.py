"""A small model of each family: each of its methods that checks what it is given."""

import inspect

import numpy as np
from hmmlearn import hmm

import acvlib as acv
from acvlib.folds import Folds
from acvlib.models.hmm import em

from .. import inputs as odd
from .call import LISTS_OF_TABLES, Draw, add, close, eighths, table
from .of_models import DESCRIBED, MADE, SENTENCES, TOKENS
from .of_series import SEQUENCES, sequences

OF_GLM = [f"GLM {each}" for each in ("logistic", "gaussian", "poisson", "multinomial", "targets")]
OF_TOKENS = ["LinearChainCRF sentences", "LinearChainCRF tokens", "FeatureCRF sentences"]
OTHERS = ["HiddenMRF", "GaussianHMM", "AutoRegressiveHMM", "NeuralHMM", "PoissonTraffic"]
OTHERS += ["SemiSupervised logistic", "PairwiseLinear ranking"]
ZOO = {name: MADE[name] for name in OF_GLM + OF_TOKENS + OTHERS}
FORTY = ZOO["GaussianHMM"].sequences[0]


def rounded(model):
    """A point of its params that 16 bits hold exactly."""
    start = np.asarray(model.initial_params(np.random.default_rng(0)))
    moved = start + np.random.default_rng(2).integers(-4, 5, len(start)) / 16.0
    return moved.astype(np.float16).astype(float)


POINTS = {name: rounded(model) for name, model in ZOO.items()}


def values(name, model):
    """{argument: a value} of what methods take."""
    observed = np.ones(model.n_sites) if model.observed is None else model.observed
    fold = np.flatnonzero(observed)[[0, 2]]
    return {
        "params": POINTS[name],
        "weights": eighths(model.n_sites),
        "fold": fold,
        "folds": Folds([fold]),
        "rng": 5,
        "n": 2,
        "X": table(5, 2),
        "sequences": Draw(sequences) if len(POINTS[name]) > 7 else [FORTY],
        "sentences": DESCRIBED["sentences"]
        if name.startswith("Feature")
        else SENTENCES["emissions"],
    }


def checked(model):
    """{name: arguments} of each method that checks by annotations, or hands on to one."""
    methods = inspect.getmembers(type(model), inspect.isfunction)
    return {
        name: [key for key in inspect.signature(method).parameters if key != "self"]
        for name, method in methods
        if name[0] != "_" and (hasattr(method, "unchecked") or name == "predict")
    }


OWN_SEQUENCES = odd.without(SEQUENCES, "none", "None", "channels")
NOT_A_SET = "; fold: turned, mask, one"
LESS = "rng: None; X: too short, too long, empty"
for name, model in ZOO.items():
    plain = values(name, model)
    new = TOKENS if name.startswith("Feature") else LISTS_OF_TABLES
    new = odd.without(new, "None", "fewer", "one too short", "one too long")  # of any length
    for method, arguments in checked(model).items():
        if set(arguments) & plain.keys():
            bound = getattr(model, method)
            kept = {key: plain[key] for key in arguments if key in plain}
            less = LESS + (NOT_A_SET if name.startswith("Pairwise") else "")
            if name == "HiddenMRF" and method != "objective":
                less += "; weights: None"
            if name == "GLM multinomial":  # balanced: shares of no weight at all
                less += "; weights: zeros"
            families = {"sentences": new, "sequences": OWN_SEQUENCES, "folds": odd.OBJECTS}
            families = {key: families[key] for key in families.keys() & kept.keys()}
            settings = {"less": less, "instead": families, "X": odd.ONE}
            add(f"{name}.{method}", kept, by=bound, unbounded=True, **settings)
    if hasattr(model, "pack"):
        less = "params: far" if name == "PoissonTraffic" else ""  # beyond doubles
        packed = {"by": lambda params, m=model: m.pack(m.unpack(params)), "less": less}
        packed["law"] = lambda found, params: close(found, params)
        add(f"{name}.pack", {"params": POINTS[name]}, **packed)


LENGTHS = odd.always("refuse", short=[15, 24], zero=[40, 0], negative=[50, -10], text="ab")
LENGTHS |= odd.always("refuse", fraction=[15.5, 24.5], none=[], nested=[[15, 25]])
add(
    "from_hmmlearn",
    {"estimator": hmm.GaussianHMM(2, random_state=0).fit(FORTY), "X": FORTY, "lengths": [15, 25]},
    by=lambda estimator, X, lengths: acv.from_hmmlearn(estimator, X, lengths)[1],
    only="estimator lengths",
    lengths=LENGTHS,
)
HMM = ZOO["GaussianHMM"]
add(
    "hmm.em.expectation_maximisation",
    {"start": POINTS["GaussianHMM"], "max_iterations": 100, "tolerance": 1e-6},
    by=lambda **a: em.expectation_maximisation(HMM, **a).params,
    tolerance=odd.NONNEGATIVE,
)
