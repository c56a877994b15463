"""Fits, methods and what compares them."""

import warnings
from dataclasses import replace
from functools import cache

import numpy as np

import acvlib as acv

from .. import inputs as odd
from .call import N, add
from .of_folds import THREE
from .of_zoo import POINTS, ZOO


@cache
def fitted(name="GLM logistic"):
    with warnings.catch_warnings(action="ignore"):
        return acv.fit(ZOO[name])


GLM, POINT = ZOO["GLM logistic"], POINTS["GLM logistic"]
FIT = fitted()
STEP, EXACT = acv.newton_step(FIT, THREE), acv.exact(FIT, THREE)
OF_OTHERS = acv.newton_step(fitted("LinearChainCRF sentences"), [np.array([0]), np.array([1])])
OTHER = odd.always("refuse", other=OF_OTHERS)
HOW = {"model": GLM, "start": POINT, "rng": 5, "tolerance": 1e-6}
add("fit", HOW, less="rng: None", tolerance=odd.TOLERANCE)
add("fit of starts", {"model": ZOO["GaussianHMM"], "rng": 5}, only="rng", less="rng: None")
add("fit_at", {"model": GLM, "params": POINT}, unbounded=True)
add("fit_path", {"model": GLM, "start": POINT})
METHODS = {
    "no_adjustment": {},
    "infinitesimal_jackknife": {"damping": 0.5},
    "frozen_newton": {"steps": 2, "damping": 0.5},
    "newton_step": {"damping": 0.5},
    "exact": {"tolerance": 1e-6},
    "from_scratch": {"n_starts": 2, "rng": 5},
    "ladder": {},
}
UP_TO_ANY = {"tolerance": odd.NONNEGATIVE | odd.always("sane", inf=np.inf)}
for name, plain in METHODS.items():
    for model in ("GLM logistic", "HiddenMRF", "GaussianHMM")[: 1 if name == "ladder" else 3]:
        own = {"fit": fitted(model), "folds": THREE} | plain
        add(f"{name} {model}", own, less="rng: None" * ("rng" in plain), instead=UP_TO_ANY)
PAIRED = {"fit": fitted("PairwiseLinear ranking"), "folds": THREE, "damping": 0.5}
add("as_printed", PAIRED)
add("linearised", {"result": STEP})
add("check_result", {"result": STEP, "limit": 0.5})
CHECK = odd.without(odd.FLAGS, "none observed", "uint8", "object", "pandas", "all observed")
CHECK |= odd.kinds("equal", list=np.ndarray.tolist) | odd.always("refuse", numbers=[0, 2])
CHECK |= odd.kinds("refuse", int=lambda a: a.astype(int), float=lambda a: a * 1.0)
add("refit_unreliable", {"result": STEP, "check": np.array([True, False, True])}, check=CHECK)
FUTURE = {"fit": fitted("GaussianHMM"), "starts": np.array([30, 33, 36]), "anchors": 2}
NO_FUTURE = {"starts": odd.NOT_SITES, "fit": odd.always("refuse", other=FIT)}
# how long it took is no result
untimed = {"by": lambda **a: replace(acv.leave_future_out(**a), seconds=0.0)}
add("leave_future_out", FUTURE, less="anchors: one", **untimed | NO_FUTURE)
PHI = odd.always("refuse", None_=None, number=1.0, vector=lambda p: p)
CURVED = odd.always("refuse", curved=lambda p: p[0] ** 3)
CONSTANT = odd.always("refuse", constant=lambda p: 1.0, floats=lambda p: float(p[0]))
CONSTANT |= odd.always("refuse", nan=lambda p: np.nan * p[0])
FIRST = {"fit": FIT, "phi": lambda p: p[0], "k": 2}
GREEDY = FIRST | {"method": "greedy"}
PROVABLE = FIRST | {"fit": acv.fit(replace(GLM, site_penalty=0.0))}
add("most_influential", GREEDY, less="k: one, bool", phi=PHI | CONSTANT)
add("influence", {"fit": FIT}, by=lambda fit: acv.influence(fit).to_numpy())
add("robustness_interval", PROVABLE, less="k: one, bool", phi=PHI | CURVED)
RIDGED = acv.fit(replace(GLM, site_penalty=0.0, penalty=9.0))
add("same_choice", {"fit": PROVABLE["fit"], "other": RIDGED, "k": 2}, less="k: one, bool")


def ridge_of(alpha):
    return replace(GLM, penalty=alpha[0], site_penalty=alpha[1])


def told(door, *names):
    """What a door says under these names."""
    return lambda **a: [getattr(found, name) for found in [door(**a)] for name in names]


# 0, or too few for ridge_of
OF_ALPHA = odd.without(odd.TABLE, "zeros", "tiny", "small", "huge", "bool", "too short")
TUNED = {"folds": THREE, "params": POINT, "bounds": (1e-3, 20.0), "tolerance": 1e-6}
TUNED |= {"model_of": ridge_of}
NO_MODEL = {"None_": None, "number": 1.0, "model": GLM}
NO_MODEL |= {"none": lambda alpha: None, "ignores": lambda alpha: GLM}
NO_MODEL["random"] = lambda alpha: ridge_of(alpha * np.random.default_rng().uniform(1, 2))
NO_BOUNDS = {"number": 1.0, "turned": (20.0, 1e-3), "elsewhere": (30.0, 40.0)}
NO_BOUNDS |= {"nan": (np.nan, 1.0), "strings": ("a", "b"), "three": (1.0, 2.0, 3.0)}
ODD_OF_TUNED = {
    "less": "params: None; folds: None",
    "model_of": odd.always("refuse", **NO_MODEL),
    "bounds": odd.always("refuse", **NO_BOUNDS),
}
ALPHA = np.array([0.5, 0.25])
slopes = told(acv.cv_gradient, "loss", "gradient")
chosen = told(acv.tune, "alpha", "loss", "losses")
add("cv_gradient", TUNED | {"alpha": ALPHA}, by=slopes, alpha=OF_ALPHA, **ODD_OF_TUNED)
TWICE = TUNED | {"start": ALPHA, "max_evaluations": 2}
add("tune", TWICE, by=chosen, instead={"start": OF_ALPHA}, **ODD_OF_TUNED)
BOTH = {"exact": EXACT, "other": STEP}
without_seconds = {"by": lambda **a: acv.compare_methods(*a.values()).drop(columns=["seconds"])}
add("compare_methods", BOTH, exact=OTHER, other=OTHER, **without_seconds)
for name in ("relative_errors", "theta_errors"):
    add(name, {"exact": EXACT, "result": STEP}, exact=OTHER, result=OTHER)
RESULTS = {"a": STEP, "b": EXACT}
NO_RESULTS = {"None_": None, "list": [STEP, EXACT], "none": {}, "strings": {"a": "b"}, "number": 1}
NO_RESULTS["other"] = RESULTS | {"c": OF_OTHERS}
add("compare_models", {"results": RESULTS}, results=odd.always("refuse", **NO_RESULTS))
CANDIDATES = {"a": GLM, "b": replace(GLM, penalty=2.0)}
NO_MODELS = {"None_": None, "none": {}, "nobody": [], "number": 3, "string": "GLM", "alone": GLM}
NO_MODELS |= {"fits": {"a": FIT}, "other": CANDIDATES | {"c": ZOO["LinearChainCRF sentences"]}}
NO_MODELS["others_data"] = CANDIDATES | {"c": replace(GLM, y=1.0 - GLM.y)}
NO_MODELS["fewer"] = CANDIDATES | {"c": replace(GLM, sample_weight=np.arange(N) > 0)}
# aic and bic are nan under a ridge
add(
    "choose",
    {"models": CANDIDATES, "folds": THREE, "method": "newton_step", "n_starts": 2, "rng": 5},
    by=lambda **arguments: acv.choose(**arguments).table.drop(columns=["aic", "bic"]),
    less="n_starts: one, bool; rng: None; method: None",
    models=odd.always("refuse", **NO_MODELS),
)
add("difference_estimate", {"result": STEP, "n_exact": 2, "rng": 5}, less="n_exact: one, bool")
THERE = {"model": GLM, "params": POINT, "rng": 5, "tolerance": 1e-4}
add("check_model", THERE, less="params: None, nan, far")
at_point = {"by": lambda model: acv.derivatives_of(model).value_and_gradient(POINT, np.ones(N))}
add("derivatives_of", {"model": GLM}, **at_point)
ENDS = {"a": odd.PARAMS, "b": odd.without(odd.PARAMS, "zero axes")}
between = {"by": FIT.standard_errors_between, "unbounded": True} | ENDS
add("Fit.standard_errors_between", {"a": POINT, "b": np.ones(3)}, **between)


def certificate_law(found, result):
    """Bounds hold the exact refits, to which the fits of the zoo are short."""
    exact = acv.exact(result.fit, result.folds, tolerance=1e-9)
    seen = found.certified
    errors = result.fit.standard_errors_between(found.result.params, exact.params)
    assert (errors <= found.theta_errors + 1e-6)[seen].all()
    low, high = found.loss_interval.T
    inside = (low - 1e-6 <= exact.fold_losses) & (exact.fold_losses <= high + 1e-6)
    assert inside[seen].all()


add("certify", {"result": OF_OTHERS}, certificate_law, unbounded=True)

# The bootstrap

COUNTS = 1.0 * np.random.default_rng(5).multinomial(N, np.full(N, 1 / N), 40)
RESAMPLED = odd.without(odd.TABLE, "too short", "too long", "shifted", "outlier", "large", "empty")
RESAMPLED |= odd.kinds("refuse", narrow=lambda a: a[:, :-1], negative=lambda a: odd.holed(a, -1.0))
for name in ("jackknife_params", "refits"):
    add(f"bootstrap.{name}", {"fit": FIT, "weights": COUNTS}, instead={"weights": RESAMPLED})
