"""Calls with a law and no odd argument: scales, and what only a longer series shows."""

import numpy as np

import acvlib as acv
from acvlib import models
from acvlib.inference import chain

from .. import inputs as odd
from .call import add
from .of_folds import THREE, three_folds
from .of_graphs import close
from .of_methods import fitted
from .of_models import X_and_y, series


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
    lambda n: acv.exact(fitted("LinearChainCRF tokens"), [np.arange(n), np.arange(4)]),
    lambda found, n: None,
    n=7,
)


def deleted(folds):
    """Exact folds of a model by deletion of rows."""
    rows = X_and_y("logistic")(np.random.default_rng(1))
    found = acv.exact(
        acv.fit(models.GLM(rows["X"], rows["y"], "logistic", penalty=0.5)), three_folds()
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
