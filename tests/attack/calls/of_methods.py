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
add(
    "fit",
    {"model": GLM, "start": POINT, "rng": 5, "tolerance": 1e-6},
    less="rng: None",
    tolerance=odd.TOLERANCE,
)
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
for name, plain in METHODS.items():
    for model in ("GLM logistic", "HiddenMRF", "GaussianHMM")[: 1 if name == "ladder" else 3]:
        add(
            f"{name} {model}",
            {"fit": fitted(model), "folds": THREE} | plain,
            less="rng: None" if "rng" in plain else "",
            instead={"tolerance": odd.NONNEGATIVE | odd.always("sane", inf=np.inf)},
        )
PAIRED = {"fit": fitted("PairwiseLinear ranking"), "folds": THREE, "damping": 0.5}
add("as_printed", PAIRED)
add("linearised", {"result": STEP})
add("check_result", {"result": STEP, "limit": 0.5})
add(
    "refit_unreliable",
    {"result": STEP, "check": np.array([True, False, True])},
    check=odd.without(odd.FLAGS, "none observed", "uint8", "object", "pandas", "all observed")
    | odd.kinds("equal", list=np.ndarray.tolist)
    | odd.kinds("refuse", int=lambda a: a.astype(int), float=lambda a: a * 1.0)
    | odd.always("refuse", numbers=[0, 2]),
)
# how long it took is no result
add(
    "leave_future_out",
    {"fit": fitted("GaussianHMM"), "starts": np.array([30, 33, 36]), "anchors": 2},
    by=lambda **arguments: replace(acv.leave_future_out(**arguments), seconds=0.0),
    less="anchors: one",
    starts=odd.NOT_SITES,
    fit=odd.always("refuse", other=FIT),
)
add(
    "most_influential",
    {"fit": FIT, "phi": lambda p: p[0], "k": 2, "method": "greedy"},
    less="k: one, bool",
    phi=odd.always(
        "refuse",
        None_=None,
        number=1.0,
        constant=lambda p: 1.0,
        vector=lambda p: p,
        floats=lambda p: float(p[0]),
        nan=lambda p: np.nan * p[0],
    ),
)
add("influence", {"fit": FIT}, by=lambda fit: acv.influence(fit).to_numpy())
add(
    "robustness_interval",
    {"fit": acv.fit(replace(GLM, site_penalty=0.0)), "phi": lambda p: p[0], "k": 2},
    less="k: one, bool",
    phi=odd.always(
        "refuse", None_=None, number=1.0, vector=lambda p: p, curved=lambda p: p[0] ** 3
    ),
)


def ridge_of(alpha):
    return replace(GLM, penalty=alpha[0], site_penalty=alpha[1])


def losses_and_slopes(**arguments):
    found = acv.cv_gradient(**arguments)
    return found.loss, found.gradient


def chosen(**arguments):
    found = acv.tune(**arguments)
    return found.alpha, found.loss, found.losses


# 0, or too few for ridge_of
OF_ALPHA = odd.without(odd.TABLE, "zeros", "tiny", "small", "huge", "bool", "too short")
TUNED = {"folds": THREE, "params": POINT, "bounds": (1e-3, 20.0), "tolerance": 1e-6}
TUNED |= {"model_of": ridge_of}
ODD_OF_TUNED = {
    "less": "params: None; folds: None",
    "model_of": odd.always(
        "refuse",
        None_=None,
        number=1.0,
        model=GLM,
        none=lambda alpha: None,
        ignores=lambda alpha: GLM,
        random=lambda alpha: ridge_of(alpha * np.random.default_rng().uniform(1, 2)),
    ),
    "bounds": odd.always(
        "refuse",
        number=1.0,
        turned=(20.0, 1e-3),
        elsewhere=(30.0, 40.0),
        nan=(np.nan, 1.0),
        strings=("a", "b"),
        three=(1.0, 2.0, 3.0),
    ),
}
ALPHA = np.array([0.5, 0.25])
add("cv_gradient", TUNED | {"alpha": ALPHA}, by=losses_and_slopes, alpha=OF_ALPHA, **ODD_OF_TUNED)
add(
    "tune",
    TUNED | {"start": ALPHA, "max_evaluations": 2},
    by=chosen,
    instead={"start": OF_ALPHA},
    **ODD_OF_TUNED,
)
add(
    "compare_methods",
    {"exact": EXACT, "other": STEP},
    by=lambda exact, other: acv.compare_methods(exact, other).drop(columns=["seconds"]),
    exact=OTHER,
    other=OTHER,
)
for name in ("relative_errors", "theta_errors"):
    add(name, {"exact": EXACT, "result": STEP}, exact=OTHER, result=OTHER)
RESULTS = {"a": STEP, "b": EXACT}
add(
    "compare_models",
    {"results": RESULTS},
    results=odd.always(
        "refuse",
        None_=None,
        list=[STEP, EXACT],
        none={},
        other=RESULTS | {"c": OF_OTHERS},
        strings={"a": "b"},
        number=1,
    ),
)
CANDIDATES = {"a": GLM, "b": replace(GLM, penalty=2.0)}
# aic and bic are nan under a ridge
add(
    "choose",
    {"models": CANDIDATES, "folds": THREE, "method": "newton_step", "n_starts": 2, "rng": 5},
    by=lambda **arguments: acv.choose(**arguments).table.drop(columns=["aic", "bic"]),
    less="n_starts: one, bool; rng: None; method: None",
    models=odd.always(
        "refuse",
        None_=None,
        none={},
        nobody=[],
        number=3,
        string="GLM",
        alone=GLM,
        fits={"a": FIT},
        other=CANDIDATES | {"c": ZOO["LinearChainCRF sentences"]},
        others_data=CANDIDATES | {"c": replace(GLM, y=1.0 - GLM.y)},
        fewer=CANDIDATES | {"c": replace(GLM, sample_weight=np.arange(N) > 0)},
    ),
)
add("difference_estimate", {"result": STEP, "n_exact": 2, "rng": 5}, less="n_exact: one, bool")
add(
    "check_model",
    {"model": GLM, "params": POINT, "rng": 5, "tolerance": 1e-4},
    less="params: None, nan, far",
)
add(
    "derivatives_of",
    {"model": GLM},
    by=lambda model: acv.derivatives_of(model).value_and_gradient(POINT, np.ones(N)),
)
add(
    "Fit.standard_errors_between",
    {"a": POINT, "b": np.ones(3)},
    by=FIT.standard_errors_between,
    unbounded=True,
    a=odd.PARAMS,
    b=odd.without(odd.PARAMS, "zero axes"),
)


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
