"""Fits, methods and what compares them."""

from dataclasses import replace
from functools import cache

import numpy as np

import acvlib as acv

from .. import inputs as odd
from .call import N, add
from .of_folds import three_folds
from .of_zoo import zoo


@cache
def fitted(name="GLM"):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return acv.fit(zoo()[0][name])


@cache
def result(name="GLM", exact=False):
    run = acv.exact if exact else acv.newton_step
    return run(fitted(name), three_folds())


FITTED = odd.OBJECTS | odd.kinds("refuse", model=lambda f: f.model, params=lambda f: f.params)
ANY_RESULT = odd.OBJECTS | odd.kinds("refuse", params=lambda r: r.params)
RESULT = ANY_RESULT | odd.kinds("refuse", other=lambda r: other_result())
SCALAR_START = {"tolerance": odd.POSITIVE}


@cache
def other_result():
    name = "LinearChainCRF"
    return acv.newton_step(fitted(name), [np.array([0]), np.array([1])])


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
RUN = {"fit": FITTED, "folds": odd.FOLDS}
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
    "from_scratch": (
        {"n_starts": 2, "rng": 5},
        {"n_starts": odd.LIMITED, "rng": odd.without(odd.RNG, "None ")},
    ),
    "ladder": ({}, {}),
}
for name, (plain, families) in OWN.items():
    for model in ("GLM",) if name == "ladder" else ("GLM", "HiddenMRF", "GaussianHMM"):
        add(
            f"{name} {model}",
            getattr(acv, name),
            lambda rng, plain=plain, model=model: (
                {"fit": fitted(model), "folds": three_folds()} | plain
            ),
            **(RUN | families if model == "GLM" else families | {"folds": odd.FOLDS}),
        )
add(
    "as_printed",
    acv.as_printed,
    lambda rng: {"fit": fitted("PairwiseLinear"), "folds": three_folds(), "damping": 0.5},
    **RUN,
    **DAMPED,
)
add("linearised", acv.linearised, lambda rng: {"result": result()}, result=ANY_RESULT)
CHECKED = {"result": ANY_RESULT}
add(
    "check_result",
    acv.check_result,
    lambda rng: {"result": result(), "limit": 0.5},
    limit=odd.POSITIVE,
    **CHECKED,
)
add(
    "refit_unreliable",
    acv.refit_unreliable,
    lambda rng: {"result": result(), "check": np.array([True, False, True])},
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
    "leave_future_out",
    # how long it took is no result
    lambda **arguments: replace(acv.leave_future_out(**arguments), seconds=0.0),
    lambda rng: ({"fit": fitted("GaussianHMM"), "starts": np.array([30, 33, 36]), "anchors": 2}),
    fit=FITTED | odd.kinds("refuse", other=lambda f: fitted()),
    starts=odd.without(odd.SITES, "turned"),
    anchors=odd.without(odd.COUNT, "one"),
)
add(
    "most_influential",
    acv.most_influential,
    lambda rng: ({"fit": fitted(), "phi": lambda p: p[0], "k": 2, "method": "greedy"}),
    fit=FITTED,
    phi=odd.kinds(
        "refuse",
        None_=odd.constant(None),
        number=odd.constant(1.0),
        constant=lambda phi: lambda p: 1.0,
        vector=lambda phi: lambda p: p,
        floats=lambda phi: lambda p: float(p[0]),
        nan=lambda phi: lambda p: np.nan * p[0],
    ),
    k=odd.without(odd.LIMITED, "one", "bool"),
    method=odd.kinds(
        "refuse", None_=odd.constant(None), other=odd.constant("best"), list=lambda m: [m]
    ),
)


def ridge_of(alpha):
    return replace(zoo()[0]["GLM"], penalty=alpha[0], site_penalty=alpha[1])


def losses_and_slopes(**arguments):
    found = acv.cv_gradient(**arguments)
    return found.loss, found.gradient


def chosen(**arguments):
    found = acv.tune(**arguments)
    return found.alpha, found.loss, found.losses


OF_ALPHA = odd.without(odd.TABLE, "zeros", "tiny", "small", "huge", "bool", "int8", "int64")
OF_ALPHA = odd.without(OF_ALPHA, "uint8", "uint64", "too short")  # 0, or too few for ridge_of
MODEL_OF = odd.kinds(
    "refuse",
    None_=odd.constant(None),
    number=odd.constant(1.0),
    model=lambda of: zoo()[0]["GLM"],
    none=lambda of: lambda alpha: None,
    ignores=lambda of: lambda alpha: zoo()[0]["GLM"],
    random=lambda of: lambda alpha: of(alpha * np.random.default_rng().uniform(1, 2)),
)
TUNED = {
    "model_of": MODEL_OF,
    "folds": odd.without(odd.FOLDS, "None "),
    "tolerance": odd.POSITIVE,
    "bounds": odd.kinds(
        "refuse",
        number=odd.constant(1.0),
        turned=lambda b: b[::-1],
        elsewhere=odd.constant((30.0, 40.0)),
        nan=odd.constant((np.nan, 1.0)),
        strings=odd.constant(("a", "b")),
        three=odd.constant((1.0, 2.0, 3.0)),
    ),
}


def tuned(rng):
    own = {"model_of": ridge_of, "folds": three_folds(), "params": zoo()[1]["GLM"]}
    return own | {"bounds": (1e-3, 20.0), "tolerance": 1e-6}


add(
    "cv_gradient",
    losses_and_slopes,
    lambda rng: tuned(rng) | {"alpha": np.array([0.5, 0.25])},
    alpha=OF_ALPHA,
    params=odd.without(odd.PARAMS, "None "),
    **TUNED,
)
add(
    "tune",
    chosen,
    lambda rng: tuned(rng) | {"start": np.array([0.5, 0.25]), "max_evaluations": 2},
    start=OF_ALPHA,
    max_evaluations=odd.COUNT,
    **TUNED,
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
add(
    "choose",
    lambda **arguments: acv.choose(**arguments).table,
    lambda rng: (
        {"models": {"a": zoo()[0]["GLM"], "b": replace(zoo()[0]["GLM"], penalty=2.0)}}
        | {"folds": three_folds(), "method": "newton_step", "n_starts": 2, "rng": 5}
    ),
    models=odd.kinds(
        "refuse",
        None_=odd.constant(None),
        none=odd.constant({}),
        nobody=odd.constant([]),
        number=odd.constant(3),
        string=odd.constant("GLM"),
        alone=lambda m: m["a"],
        fits=lambda m: {"a": fitted()},
        other=lambda m: m | {"c": zoo()[0]["LinearChainCRF"]},
        others_data=lambda m: m | {"c": replace(m["a"], y=1.0 - m["a"].y)},
        fewer=lambda m: m | {"c": replace(m["a"], sample_weight=np.arange(N) > 0)},
    ),
    folds=odd.FOLDS,
    method=odd.CHOICE,
    n_starts=odd.without(odd.LIMITED, "one", "bool"),
    rng=odd.without(odd.RNG, "None "),
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
    lambda rng: ({"result": result(), "n_exact": 2, "rng": np.random.default_rng(5)}),
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


def certificate_law(found, result, complete=False, sharp=False):
    """Bounds hold the exact refits, to which the fits of the zoo are short."""
    exact = acv.exact(result.fit, result.folds, tolerance=1e-9)
    seen = found.certified
    errors = result.fit.standard_errors_between(found.result.params, exact.params)
    assert (errors <= found.theta_errors + 1e-6)[seen].all()
    low, high = found.loss_interval.T
    inside = (low - 1e-6 <= exact.fold_losses) & (exact.fold_losses <= high + 1e-6)
    assert inside[seen].all()


add(
    "certify",
    acv.certify,
    lambda rng: {"result": other_result()},  # of a model in its scope
    certificate_law,
    unbounded=True,
    result=ANY_RESULT,
)
