"""The table of doors: every public way into acvlib, its data, how it is asked, what it answers.

A door's `data(rng)` are its inputs by name, whole numbers where they can be, so that they are exact
in every type and unit. `ask(**inputs)` gives {answer: Said}. `axes` names what is counted along
each axis of an input or answer: "row" of regressions, "sequence", "frame", "node", "column" ...
An input `fold` has the number of the fold of each site.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from hmmlearn import hmm
from oracles.toy_models import FIRM
from scipy.special import expit
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import PredefinedSplit

import acvlib as acv
from acvlib import models
from acvlib.methods import ladder
from acvlib.models.hmm import families
from acvlib.models.hmm.emissions import Categorical, Channels, Gaussian, Poisson
from acvlib.models.mrf.areas import neighbours

from .law import Said

TIGHT = {"tolerance": 1e-9}  # standard errors: what equality to 1e-8 needs
METHODS = list(ladder.METHODS.values())


@dataclass(frozen=True)
class Door:
    """public: the names of acvlib that lead in. sites: the axis that folds leave out, if any.

    free: axes along which order means nothing. whole: inputs of whole numbers, of which any type
    will do. units: {input: (has_axis, shift, {other input or answer: how it follows})}, see
    test_units. weight: the input that counts sites. share: of a standard
    error, within which answers are equal; a door that takes no tolerance stops at 1e-6.
    """

    public: tuple[str, ...]
    data: Callable[[np.random.Generator], dict]
    ask: Callable[..., dict]
    axes: dict[str, tuple] = field(default_factory=dict)
    sites: str = "row"
    free: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    units: dict[str, tuple] = field(default_factory=dict)
    weight: str | None = None
    model: Callable[..., Any] | None = None
    examples: int = 5
    share: float = 1e-8


DOORS: dict[str, Door] = {}


def door(name: str, data: Callable, ask: Callable, model: Any = None, **settings: Any) -> None:
    """A line of the table; the first word of its name is that of acvlib or models, if not told."""
    first = name.split()[0]
    public = (f"models.{first}" if hasattr(models, first) else first,)
    DOORS[name] = Door(**{"public": public} | settings, data=data, ask=ask, model=model)


# How methods are called: the one place.


def folds_of(fold: Any, weight: Any = 1.0) -> acv.Folds:
    """`Folds` by the number of each site's fold; sites of weight 0 are in none."""
    kept = np.broadcast_to(np.asarray(weight, float), len(fold)) > 0.0
    parts = [np.flatnonzero((fold == k) & kept) for k in np.unique(fold)]
    return acv.Folds([part for part in parts if part.size])


def fitted(model: Any, fold: Any, weight: Any = 1.0, method: Callable = acv.exact) -> tuple:
    """(fit, result of a method) of a model."""
    fit = acv.fit(model, **TIGHT)
    settings = TIGHT if method is acv.exact else {}
    return fit, method(fit, folds_of(fold, weight), **settings)


def compared_by(
    door: str, candidates: dict, folds: acv.Folds, method: str | None = None, **settings: Any
) -> Any:
    """The table of `choose`, by its own method unless told; or of `compare_models`, by exact."""
    if door == "choose":
        return acv.choose(candidates, folds, method, **settings).table
    results_of = getattr(acv, method or "exact")
    results = {key: results_of(acv.fit(model), folds) for key, model in candidates.items()}
    return acv.compare_models(results)


def losses(result: Any) -> Said:
    return Said(result.pointwise, result.se)


def ask_fit(model_of: Callable, besides: Callable, method: Callable = acv.exact, **inputs) -> dict:
    """The losses of a method, and what besides(model, fit) says."""
    model = model_of(**inputs)
    fit, result = fitted(model, inputs["fold"], inputs.get("weight", 1.0), method)
    return {"losses": losses(result)} | besides(model, fit)


def errors(fit: Any) -> np.ndarray:
    """Standard errors of params (D,)."""
    return np.sqrt(np.diag(fit.hessian.solve(np.eye(len(fit.params)))))


# Regressions


def responses(rng, eta, family):
    """y of a family, whole numbers; both classes in every three folds."""
    n = len(eta)
    if family in ("logistic", "probit"):
        order = np.argsort(np.argsort(eta + 2 * rng.normal(size=n)))
        return (order >= n // 2).astype(float)
    if family == "multinomial":
        return np.arange(n) % 3 * 1.0
    if family == "gaussian":
        return np.round(3 * eta + 2 * rng.normal(size=n))
    return rng.poisson(np.exp(eta)) * 1.0


def rows(rng, family="gaussian", n=24, p=2):
    """Covariates 0 ... 7, responses, a fold of each row."""
    X = rng.integers(0, 8, (n, p)).astype(float)
    X[:2] = [[0.0] * p, [7.0] * p]
    y = responses(rng, (X[:, 0] - 3.5) / 3, family)
    fold = np.arange(n) % 2 + 2 * (np.arange(n) > 11)
    return {"X": X, "y": y, "weight": np.ones(n), "fold": fold}


def with_penalty(rng, family):
    penalty = 0.5 if family == "multinomial" else np.full(2, 0.5)
    return rows(rng, family) | {"penalty": penalty}


def glm(family, X, y, weight, penalty, fold=None):
    return models.GLM(X, y, family, penalty=penalty, sample_weight=weight)


def of_regression(model, fit):
    said = predictions(model.predict(fit.params, model.X))
    if len(fit.params) == 3:  # one number a row
        said["coef"] = Said(fit.params[1:], errors(fit)[1:])
    return said


OF_ROWS = {"X": ("row", "column"), "penalty": ("column",), "coef": ("column",)}
OF_ROWS |= dict.fromkeys(["y", "weight", "fold", "losses", "prediction"], ("row",))
REGRESSION = {
    "axes": OF_ROWS,
    "free": ("row", "column"),
    "whole": ("X", "y"),
    "weight": "weight",
    "units": {"X": (True, True, {"coef": "per unit", "penalty": "square of unit"})},
    "examples": 16,
}


def regression_door(name, family, method, **settings):
    model = partial(glm, family)
    asked = partial(ask_fit, model, of_regression, method)
    settings = REGRESSION | settings
    if family == "multinomial":  # one penalty for all columns: they are moved, not stretched
        settings["units"] = {"X": (True, True, {"scale": 1.0})}
    door(name, partial(with_penalty, family=family), asked, model, **settings)


for family in ("gaussian", "logistic", "probit", "poisson", "multinomial"):
    regression_door(f"GLM {family}", family, acv.exact, public=("models.GLM", "fit", "exact"))
for method in METHODS:
    regression_door(method.__name__, "logistic", method, examples=10)


# What is done with results


def ask_tools(tool, X, y, weight, fold, penalty):
    model = glm("logistic", X, y, weight, penalty)
    fit, result = fitted(model, fold, weight, acv.newton_step)
    return tool(model, fit, result, folds_of(fold, weight))


def tool_of_exact(tool):
    """Of a function of (exact, other result): a table or array by fold or method."""

    def told(model, fit, result, folds):
        table = tool(acv.exact(fit, folds, **TIGHT), result)
        columns = ["loss", "se", "relative_error", "theta_error"]
        numbers = table[columns].to_numpy() if hasattr(table, "columns") else np.sort(table)
        return {"table": Said(numbers, 1.0)}

    return told


def checked_folds(model, fit, result, folds):
    """losses: refitted by params alone: a fold's loss counts each row once, whatever it weighs."""
    check = acv.check_result(result)
    by_params = acv.refit_unreliable(result, check.theta_errors > 0.5)
    return {
        "flags": Said(int(check.unreliable.sum())),
        "mended": losses(acv.refit_unreliable(result)),
        "losses": losses(by_params),
    }


def certified(model, fit, result, folds):
    proof = acv.certify(result)
    ends = np.array([proof.lower.pointwise, proof.upper.pointwise])
    return {"interval": Said(ends.T, max(np.ptp(ends, axis=0).mean(), 1e-9) * 1e6)}


def influential(model, fit, result, folds):
    found = acv.most_influential(fit, lambda params: params[1], 2)
    size = errors(fit)[1]
    return {"psi": Said(found.psi / model.sample_weight, size), "effect": Said(found.exact, size)}


def measured(model, fit, result, folds):
    found = acv.influence(fit)
    of_units = np.broadcast_to(model.sample_weight, model.n_sites)
    found = found.div(of_units[found.index], axis=0).reindex(range(model.n_sites))
    return {"leverage": Said(found.leverage.to_numpy(), 1.0)}


def compared(model, fit, result, folds):
    other = acv.fit(replace(model, penalty=4.0 * model.penalty), **TIGHT)
    table = acv.compare_models({"a": result, "b": acv.exact(other, folds, **TIGHT)})
    elpd = table.elpd[["a", "b"]].to_numpy() / sum(map(len, folds))
    return {"elpd": Said(elpd, result.se), "best": Said(table.index[0])}


def chosen(model, fit, result, folds):
    other = replace(model, penalty=64.0 * model.penalty)
    choice = acv.choose({"a": model, "b": other}, folds)
    elpd = choice.table.elpd[["a", "b"]].to_numpy() / sum(map(len, folds))
    return {"elpd": Said(elpd, result.se), "best": Said(choice.best)}


def tuned(tool):
    def told(model, fit, result, folds):
        found = tool(lambda alpha: replace(model, penalty=alpha[0]), [0.5], folds, **TIGHT)
        return {"loss": Said(found.loss, result.se), "gradient": Said(found.gradient, result.se)}

    return told


def resampled(model, fit, result, folds):
    """Of weights that are all 1, and of those of the folds."""
    weights = np.stack([acv.folds.weights(model.n_sites, fold) for fold in folds])
    params = np.sort(acv.bootstrap.refits(fit, weights, **TIGHT)[:, 1])
    return {"params": Said(params, errors(fit)[1])}


OF_TABLES = OF_ROWS | dict.fromkeys(["psi", "mended", "leverage", "interval"], ("row",))
TOOLS = {
    "compare_methods": tool_of_exact(acv.compare_methods),
    "relative_errors": tool_of_exact(acv.relative_errors),
    "theta_errors": tool_of_exact(acv.theta_errors),
    "check_result": checked_folds,
    "certify": certified,
    "most_influential": influential,
    "influence": measured,
    "compare_models": compared,
    "choose": chosen,
    "cv_gradient": tuned(acv.cv_gradient),
    "tune": tuned(partial(acv.tune, max_evaluations=1)),
    "bootstrap.refits": resampled,
}
ON_RESULTS = REGRESSION | {"axes": OF_TABLES, "free": ("row",), "units": {}, "examples": 4}
for name, tool in TOOLS.items():
    public = (name, "refit_unreliable") if name == "check_result" else (name,)
    data = partial(with_penalty, family="logistic")
    door(name, data, partial(ask_tools, tool), public=public, **ON_RESULTS)


# scikit-learn


def ask_sklearn(tool, told, estimator, X, y, weight, fold):
    settings = {"cv": PredefinedSplit(fold), "params": {"sample_weight": weight}}
    fit = estimator.fit(X, y, sample_weight=weight)
    return told(tool(fit, X, y, method="exact", **settings))


def scores(said):
    return {"score": Said(np.sort(said["test_score"]), said["cv_result"].se)}


def predictions(mean):
    return {"prediction": Said(mean, np.std(mean) / len(mean) ** 0.5)}


def tuned_scores(found):
    return {"scores": Said(found.scores, found.errors.min()), "best": Said(found.best)}


NEWTON = {"solver": "newton-cholesky", "tol": 1e-10, "max_iter": 1000}
OF_FOLDS = (acv.approx_cross_validate, scores)
OF_EACH = (acv.approx_cross_val_predict, predictions)
OF_VALUES = (partial(acv.approx_tune, values=np.array([0.5, 8.0])), tuned_scores)
SKLEARN = {
    "approx_cross_validate": (OF_FOLDS, LogisticRegression(C=2.0, **NEWTON), "logistic"),
    "approx_cross_validate Poisson": (OF_FOLDS, PoissonRegressor(alpha=0.1, **NEWTON), "poisson"),
    "approx_cross_val_predict": (OF_EACH, Ridge(2.0), "gaussian"),
    # by default it drops what is small beside the largest column, in whatever units
    "approx_cross_val_predict linear": (OF_EACH, LinearRegression(tol=0.0), "gaussian"),
    "approx_tune": (OF_VALUES, Ridge(2.0), "gaussian"),
}
for name, (tool, estimator, family) in SKLEARN.items():
    # a penalty that has one number for all columns: they are moved, not stretched
    penalised = not isinstance(estimator, LinearRegression)
    settings = {"units": {"X": (True, True, {"scale": 1.0} if penalised else {})}}
    settings["weight"] = "weight" if name.startswith("approx_cross_val_predict") else None
    asked = partial(ask_sklearn, *tool, estimator)
    door(name, partial(rows, family=family), asked, **REGRESSION | {"examples": 10} | settings)


# Sequences


def paths(rng, n=6, length=16, n_states=2):
    """Hidden states (n, length) that stay and change, all of them in each sequence."""
    part = length // n_states
    starts = rng.integers(0, n_states, n)[:, None]
    return (starts + (np.arange(length) + rng.integers(0, 3, (n, 1))) // part) % n_states


def of_sequences(rng, emit):
    x = [np.asarray(emit(rng, own), float).reshape(len(own), -1) for own in paths(rng)]
    n = len(x)
    return {"x": x, "weight": np.ones(n), "fold": np.arange(n) % 3}


def real_frames(rng, z):
    return np.round(8 * z[:, None] * [1.0, -1.0] + 2 * rng.normal(size=(len(z), 2)))


def autoregressive(rng, z, part=1):
    x = np.zeros(len(z))
    noise = 4 * rng.normal(size=len(z))
    for t in range(len(z)):
        x[t] = np.round(20 * z[t] + 0.4 * (x[t - 1] - 20 * z[t - 1] if t else 0.0) + noise[t])
    return np.round(x / part)


def mixed_frames(rng, z):
    """Two levels of each state."""
    return real_frames(rng, z) + 24 * rng.integers(0, 2, (len(z), 1))


def count_frames(rng, z):
    return rng.poisson(1 + 11 * z[:, None] * [1, 0] + 11 * (1 - z[:, None]) * [0, 1])


def burst_frames(rng, z):
    return rng.poisson(count_frames(rng, z) * rng.gamma(2.0, 0.5, (len(z), 2)))


def code_frames(rng, z):
    codes = np.where(rng.random(len(z)) < 0.85, z, rng.integers(0, 3, len(z)))
    codes[:3] = [0, 1, 2]
    return codes


def kinds_of_frames(rng, z):
    """A level, a count, a code and another level."""
    first, last = real_frames(rng, z).T
    return np.column_stack([first, count_frames(rng, z)[:, 0], code_frames(rng, z), last])


def driven(rng, z):
    """[y, input]: what is chosen follows the input in state 1, and goes against it in state 0."""
    u = rng.integers(-4, 5, len(z))
    y = rng.random(len(z)) < expit(np.where(z, 3.0, -3.0) * u)
    return np.column_stack([y, u])


def hmm_of(kind, settings, x, weight, fold=None, sites="sequences"):
    return kind(x, n_states=2, sample_weight=weight, sites=sites, **settings)


def glm_hmm(x, inputs, weight, fold=None):
    return models.GLMHMM(x, inputs, 2, sample_weight=weight, sites="sequences")


def ask_sequences(model_of, names, x, weight, fold, **inputs):
    """States in the order of the mean of their frames, or of what an input does to it."""
    model = model_of(x=x, weight=weight, **inputs)
    fit, result = fitted(model, fold, weight)
    posterior = model.posterior(fit.params)
    driver = inputs.get("inputs", np.ones((len(x), len(x[0]), 1)))
    frames = [
        (np.asarray(own, float) * np.asarray(u))[model.context :, 0]
        for own, u in zip(x, driver, strict=True)
    ]
    order = np.argsort(posterior.T @ np.concatenate(frames) / posterior.sum(axis=0))
    states = np.argsort(order)[model.decode(fit.params).states]
    n_frames = len(states)
    named = model.unpack(fit.params)
    said = {
        "losses": losses(result),
        "posterior": Said(posterior[:, order].reshape(len(x), -1, 2), 1.0),
        "states": Said(states.reshape(len(x), -1)),
        "transition": Said(named.transition[np.ix_(order, order)], n_frames**-0.5),
    }
    for name in names:
        value = np.asarray(getattr(named.emission, name))
        size = np.ptp(np.concatenate(x), axis=0) / n_frames**0.5
        unit = size if value.ndim == 2 else size[0]
        said[name] = Said(value[order] if value.ndim else value, unit)
    return said


OF_SEQUENCES = {
    "x": ("sequence", "frame", "channel"),
    "inputs": ("sequence", "frame", "input"),
    "known": ("sequence", "frame"),
    "posterior": ("sequence", "frame", "state"),
    "states": ("sequence", "frame"),
    **dict.fromkeys(["weight", "fold", "losses"], ("sequence",)),
}
LEVELS = {"mean": "in unit", "sd": "of unit", "losses": "density"}
KINDS = Channels([((0, 3), Gaussian()), (1, Poisson()), (2, Categorical())])
HMMS = {  # frames, parameters, what follows the unit of a channel, settings
    "GaussianHMM": (real_frames, ("mean", "sd"), LEVELS, {}),
    "GaussianHMM full": (real_frames, ("mean",), LEVELS, {"covariance": "full"}),
    "MixtureHMM": (mixed_frames, (), LEVELS, {}),
    "AutoRegressiveHMM": (autoregressive, ("sd",), LEVELS, {}),
    "NeuralHMM": (lambda rng, z: autoregressive(rng, z, 4), (), LEVELS, {"n_hidden": 1}),
    "PoissonHMM": (count_frames, ("rate",), {}, {}),
    "CategoricalHMM": (code_frames, ("probability",), {}, {}),
    "NegativeBinomialHMM": (burst_frames, ("rate", "dispersion"), {}, {}),
    "HMM of channels": (kinds_of_frames, (), LEVELS, {"emission": KINDS}),
}
CHAIN = {"axes": OF_SEQUENCES, "sites": "sequence", "free": ("sequence",), "weight": "weight"}
for name, (frames, names, follow, settings) in HMMS.items():
    model_of = partial(hmm_of, getattr(families, name.split()[0]), settings)
    own = {"whole": ("x",), "units": {"x": (True, True, follow)} if follow else {}}
    own["examples"] = 2 if name in ("MixtureHMM", "NeuralHMM") else 4
    if not hasattr(models, name.split()[0]):  # a shorthand of HMM that its family alone has
        own["public"] = ("models.HMM",)
    if name == "NeuralHMM":  # too flat to compare
        own["weight"] = None
    asked = partial(ask_sequences, model_of, names)
    door(name, partial(of_sequences, emit=frames), asked, model_of, **CHAIN | own)


def of_driven(rng):
    data = of_sequences(rng, driven)
    y, inputs = ([own[:, [j]] for own in data["x"]] for j in (0, 1))
    return data | {"x": y, "inputs": inputs}


def with_known_states(rng):
    """Of a third of all frames."""
    data = of_sequences(rng, real_frames)
    known = [np.where(rng.random(len(own)) < 0.3, own[:, 0] > 4.0, np.nan) for own in data["x"]]
    return data | {"known": known}


def known_hmm(x, known, weight, fold=None):
    return models.GaussianHMM(x, 2, sample_weight=weight, sites="sequences", known_states=known)


OF_KNOWN = CHAIN | {"whole": ("x",), "units": {"x": (True, True, LEVELS)}, "examples": 4}
asked = partial(ask_sequences, known_hmm, ("mean", "sd"))
door("GaussianHMM with known states", with_known_states, asked, known_hmm, **OF_KNOWN)
OF_INPUTS = {"whole": ("x", "inputs"), "units": {"inputs": (True, False, {})}}
door("GLMHMM", of_driven, partial(ask_sequences, glm_hmm, ()), glm_hmm, **CHAIN | OF_INPUTS)


def by_frames(rng):
    """One sequence; blocks of frames are left out."""
    x = np.concatenate(of_sequences(rng, real_frames)["x"][:4])
    return {"x": x, "weight": np.ones(len(x)), "fold": np.arange(len(x)) // 16}


def hmm_by_frames(x, weight=1.0, fold=None):
    return models.HMM([x], 2, sites="steps", sample_weight=weight)


def of_frames(model, fit):
    order = np.argsort(model.unpack(fit.params).emission.mean[:, 0])
    return {"posterior": Said(model.posterior(fit.params)[:, order], 1.0)}


def ask_future(x, weight, fold):
    model = hmm_by_frames(x, weight)
    found = acv.leave_future_out(acv.fit(model, **TIGHT), np.arange(40, 56, 4))
    return {"losses": Said(found.losses, np.std(found.losses) / 2)}


def ask_scratch(x, weight, fold):
    fit = acv.fit(hmm_by_frames(x, weight))
    return {"losses": losses(acv.from_scratch(fit, folds_of(fold, weight), n_starts=3))}


OF_FRAMES = {"x": ("frame", "channel"), "weight": ("frame",), "fold": ("frame",)}
FRAMES = {
    "axes": OF_FRAMES | {"losses": ("frame",), "posterior": ("frame", "state")},
    "sites": "frame",
    "whole": ("x",),
    "units": {"x": (True, True, {"losses": "density"})},
    "model": hmm_by_frames,
}
asked = partial(ask_fit, hmm_by_frames, of_frames)
door("HMM", by_frames, asked, public=("models.HMM", "fit"), **FRAMES)
door("leave_future_out", by_frames, ask_future, **FRAMES)
door("from_scratch", by_frames, ask_scratch, **FRAMES | {"share": 1e-6, "examples": 2})


# Other models


def grid(rng):
    """Counts of 3 x 4 areas that are high on one side, with their adjacency."""
    place = np.arange(12)
    x, y = place % 4, place // 4
    adjacency = (np.abs(x[:, None] - x) + np.abs(y[:, None] - y) == 1).astype(float)
    counts = 1.0 + rng.poisson(np.where(x < 2, 2.0, 14.0))
    exposure = rng.integers(1, 3, 12) * 1.0
    data = {"counts": counts * exposure, "adjacency": adjacency, "exposure": exposure}
    return data | {"weight": np.ones(12), "fold": place % 3}


def mrf(counts, adjacency, exposure, weight, fold=None):
    return models.HiddenMRF(counts, adjacency, 0.4, exposure=exposure, sample_weight=weight)


def on_map(data):
    """The same as a map of unit squares."""
    import geopandas
    from shapely.geometry import box

    squares = [box(i % 4, i // 4, i % 4 + 1, i // 4 + 1) for i in range(12)]
    columns = {"n": data["counts"], "people": data["exposure"]}
    return geopandas.GeoDataFrame(columns, geometry=squares)


def mrf_of_map(counts, adjacency, exposure, weight, fold=None):
    areas = on_map({"counts": counts, "exposure": exposure})
    settings = {"exposure": areas["people"], "sample_weight": weight}
    return models.HiddenMRF(areas["n"], neighbours(areas, "rook"), 0.4, **settings)


def sorted_params(model, fit):
    """In ascending order, of models whose params are alike."""
    order = np.argsort(fit.params)
    return {"params": Said(fit.params[order], errors(fit)[order])}


def sentences(rng, n=12, length=5):
    tags = [(np.arange(length) + rng.integers(0, 3)) % 3 for _ in range(n)]
    tags = [np.where(rng.random(length) < 0.3, rng.integers(0, 3, length), own) for own in tags]
    scores = [np.round(np.eye(3)[own] * 2 + rng.normal(size=(length, 3))) for own in tags]
    scores = [np.abs(own) for own in scores]
    return {"scores": scores, "tags": tags, "weight": np.ones(n), "fold": np.arange(n) % 4}


def dense_crf(scores, tags, weight, fold=None):
    return models.LinearChainCRF(scores, tags, 0.5, sample_weight=weight)


def words(scores):
    return [[{"w": f"w{row.argmax()}", "x": float(row[0])} for row in own] for own in scores]


def names_of(tags):
    return [["NVOA"[tag] for tag in own] for own in tags]


def feature_crf(scores, tags, weight, fold=None):
    return acv.FeatureCRF(words(scores), names_of(tags), 0.5, sample_weight=weight)


def predicted_tags(model, fit):
    """Their losses: of two sequences of tags that are as probable, either may be said."""
    said = replace(model, labels=model.predict(fit.params), sample_weight=1.0)
    return {"tags": Said(said.heldout_loss(fit.params, np.arange(said.n_sites)), 1.0)}


def ask_crfsuite(scores, tags, weight, fold):
    import sklearn_crfsuite

    X, y = words(scores), names_of(tags)
    crf = sklearn_crfsuite.CRF(algorithm="lbfgs", c1=0.0, c2=0.5, max_iterations=500)
    model, params = acv.from_crfsuite(crf.fit(X, y), X, y)
    fit = acv.fit(model, start=params, **TIGHT)
    result = acv.exact(fit, folds_of(fold), **TIGHT)
    return {"losses": losses(result)} | predicted_tags(model, fit)


OF_SENTENCES = {name: ("sentence",) for name in ("scores", "tags", "weight", "fold", "losses")}
TAGGED = {"axes": OF_SENTENCES, "sites": "sentence", "free": ("sentence",), "weight": "weight"}


def half_labelled(rng):
    X = rng.integers(-4, 5, (16, 2)) / 1.0
    y = np.where(np.arange(16) < 12, np.sign(X[:, 0] + rng.normal(size=16) + 0.1), np.nan)
    fold = np.where(np.isnan(y), -1, np.arange(16) % 4)
    return {"X": X, "points": X, "y": y, "ridge": np.eye(2), "fold": fold}


def semisupervised(X, points, y, ridge, fold=None):
    energy = models.ManifoldEnergy(X, models.RBFAffinity(points, 3.0))
    return models.SemiSupervised(energy, y, "logistic", ridge=ridge)


def ask_labelled(method, X, points, y, ridge, fold):
    model = semisupervised(X, points, y, ridge)
    fit, result = fitted(model, fold, fold >= 0, method)
    if method is acv.as_printed:
        result = acv.linearised(result)
    return {"losses": losses(result)} | all_params(model, fit)


def with_ranks(rng):
    data = rows(rng)
    return {"X": data["X"], "y": data["y"], "gamma": 0.1, "fold": data["fold"]}


def pairwise(X, y, gamma=0.1, fold=None):
    return models.PairwiseLinear(X, y, "ranking", gamma)


def all_params(model, fit):
    return {"coef": Said(fit.params, errors(fit))}


def a_month(rng):
    hours = np.arange(112)
    busy = (hours % 9 < 2) & (rng.random(112) < 0.8)
    counts = rng.poisson(6.0 + 12 * busy) * 1.0
    return {"counts": counts, "day": hours // 4 % 7, "fold": hours // 28}


def traffic(counts, day, fold=None):
    return models.PoissonTraffic(counts, day, prior=FIRM)


def ask_hmmlearn(x, fold, weight=None):
    theirs = hmm.GaussianHMM(2, n_iter=50, random_state=0, transmat_prior=2.0, startprob_prior=2.0)
    rows_of_all = np.concatenate(x)
    lengths = [len(sequence) for sequence in x]
    theirs.fit(rows_of_all.astype(float), lengths)
    model, params = acv.from_hmmlearn(theirs, rows_of_all, lengths)
    fit = acv.fit(model, start=params, **TIGHT)
    return {"losses": losses(acv.exact(fit, folds_of(fold), **TIGHT))}


def ask_foreign(adapter, X, y, fold, weight=None, penalty=None):
    """A logistic regression written in JAX or torch, which is imported when it is asked."""
    if adapter == "from_torch":
        import torch as xp
    else:
        import jax.numpy as xp

    def terms(params, sites):  # JAX makes arrays of its own precision, which it sets when it calls
        X_, y_ = xp.asarray(np.asarray(X, float)), xp.asarray(np.asarray(y, float))
        eta = params[0] + X_[sites] @ params[1:]
        return xp.logaddexp(0.0 * eta, eta) - y_[sites] * eta

    def loss(params, weights):
        return (weights * terms(params, slice(None))).sum() + 0.5 * (params**2).sum()

    model = getattr(acv, adapter)(loss, terms, len(y), np.zeros(3))
    return {"losses": losses(fitted(model, fold)[1])}


def incremental(method, X, y, fold, weight=None):
    folds = [np.flatnonzero(fold == k) for k in np.unique(fold)]
    result = method(acv.learners.lsqsgd(2, 0.01), acv.Examples(X, y), folds)
    return {"losses": Said(result.pointwise, result.se)}


OF_NODES = dict.fromkeys(["counts", "exposure", "weight", "fold", "losses"], ("node",))
OF_NODES["adjacency"] = ("node", "node")
MRF = {
    "axes": OF_NODES,
    "sites": "node",
    "whole": ("counts", "exposure"),
    "units": {"exposure": (False, False, {"params": "log per unit"})},
}
PLAIN = {"axes": OF_ROWS, "whole": ("X", "y"), "free": ("row",), "examples": 2}
OF_POINTS = {
    "axes": OF_ROWS | {"points": ("row",), "ridge": ("column", "column")},
    "free": ("row", "column"),
    "whole": ("X", "points"),
    "units": {"X": (True, False, {"coef": "per unit", "ridge": "square of unit"})},
}
of_grid = partial(ask_fit, mrf, sorted_params)
door("HiddenMRF", grid, of_grid, mrf, free=("node",), **MRF)
of_map = partial(ask_fit, mrf_of_map, sorted_params)
door("HiddenMRF of a map", grid, of_map, mrf_of_map, public=("models.HiddenMRF",), **MRF)
WHOLE = {"whole": ("scores", "tags")}
of_dense, of_words = (partial(ask_fit, crf, predicted_tags) for crf in (dense_crf, feature_crf))
door("LinearChainCRF", sentences, of_dense, dense_crf, **TAGGED | WHOLE)
door("FeatureCRF", sentences, of_words, feature_crf, **TAGGED)
door("from_crfsuite", sentences, ask_crfsuite, **TAGGED | {"weight": None})
PARTS = {"public": ("models.SemiSupervised", "models.ManifoldEnergy", "models.RBFAffinity")}
of_exact, of_print = (partial(ask_labelled, each) for each in (acv.exact, acv.as_printed))
door("SemiSupervised", half_labelled, of_exact, semisupervised, **OF_POINTS | PARTS)
door("as_printed", half_labelled, of_print, public=("as_printed", "linearised"), **OF_POINTS)
RANKED = {"units": {"X": (False, True, {"coef": "per unit", "gamma": "square of unit"})}}
ranks, months = (partial(ask_fit, kind, all_params) for kind in (pairwise, traffic))
door("PairwiseLinear", with_ranks, ranks, pairwise, **PLAIN | RANKED | {"examples": 15})
MONTH = {"axes": {name: ("step",) for name in ("counts", "day", "fold", "losses")}}
MONTH |= {"sites": "step", "whole": ("counts", "day"), "examples": 2}
MONTH["public"] = ("models.PoissonTraffic", "models.TrafficPrior")
door("PoissonTraffic", a_month, months, traffic, **MONTH)
THEIRS = CHAIN | {"weight": None, "whole": ("x",)}
door("from_hmmlearn", partial(of_sequences, emit=real_frames), ask_hmmlearn, **THEIRS)
BINARY, FOREIGN = partial(rows, family="logistic"), PLAIN | {"whole": ()}
door("from_jax", BINARY, partial(ask_foreign, "from_jax"), **FOREIGN | {"examples": 1})
door("from_torch", BINARY, partial(ask_foreign, "from_torch"), **FOREIGN)
for method in (acv.treecv, acv.kfold):
    name, asked = method.__name__, partial(incremental, method)
    door(name, rows, asked, **PLAIN | {"free": (), "public": (name, "Examples")})
