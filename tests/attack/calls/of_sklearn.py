"""scikit-learn's estimators, plots and files."""

from functools import cache

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

import acvlib as acv
from acvlib import models

from .. import inputs as odd
from .call import N, add, dyadic
from .of_models import BINARY, X_and_y


def weighing(call):
    """With sample_weight in place of params = {"sample_weight": ...}."""

    def called(estimator, X, y, sample_weight, **a):
        return call(estimator, X, y, params={"sample_weight": sample_weight}, **a)

    return called


@cache
def several(kind):
    """A fitted estimator of three classes, of balanced ones, or of two targets."""
    from sklearn.linear_model import LogisticRegression, Ridge

    X = dyadic(np.random.default_rng(1), N, 2)
    if kind == "targets":
        y = dyadic(np.random.default_rng(2), N, 2)
        return Ridge().fit(X, y), X, y
    y = np.arange(N) % (3 if kind == "classes" else 2)
    weight = None if kind == "classes" else "balanced"
    return LogisticRegression(C=0.5, tol=1e-10, class_weight=weight).fit(X, y), X, y


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
) | odd.kinds("same", pandas=pd.DataFrame, sparse=csr_array)
SK_Y = odd.without(BINARY, "constant", "zeros", "bool", "pandas", "extra axis", "dict", "tiny")
SK_Y |= odd.kinds("same", bool=lambda a: a > 0, pandas=pd.Series)
add(
    "approx_cross_validate",
    weighing(
        lambda *rows, **a: {
            k: v for k, v in acv.approx_cross_validate(*rows, **a).items() if "time" not in k
        }
    ),
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
    "approx_cross_val_predict",
    acv.approx_cross_val_predict,
    lambda rng: (
        dict(zip(("estimator", "X", "y"), logistic(), strict=True))
        | {"cv": 3, "method": "newton_step", "output": "predict_proba"}
    ),
    estimator=odd.OBJECTS,
    X=SK_X,
    y=SK_Y,
    method=odd.CHOICE,
    output=odd.CHOICE,
    cv=odd.without(odd.LIMITED, "None ", "one", "bool"),
)
for kind in ("classes", "balanced", "targets"):
    add(
        f"approx_cross_val_predict {kind}",
        acv.approx_cross_val_predict,
        lambda rng, kind=kind: (
            dict(zip(("estimator", "X", "y"), several(kind), strict=True))
            | {"cv": 3, "params": {"sample_weight": np.ones(N)}}
        ),
        X=SK_X,
        y=SK_Y if kind != "targets" else odd.TABLE,
        params=odd.without(odd.OBJECTS, "None ", "dict"),  # {} is what None is
    )
add(
    "approx_tune",
    lambda **a: acv.approx_tune(**a).scores,
    lambda rng: (
        dict(zip(("estimator", "X", "y"), logistic(), strict=True))
        | {"values": np.array([0.125, 1.0, 10.0])}
    ),
    estimator=odd.OBJECTS,
    X=SK_X,
    y=SK_Y,
    values=odd.SERIES,
)


# plots


def drawn(name):
    def function(**arguments):
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot as plt

        fig, ax = plt.subplots()
        getattr(acv.plots, name)(ax, *arguments.values())
        fig.canvas.draw()

    return function


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
    return {"areas": path, "counts": "n", "coupling": 0.5, "n_states": 1}


add(
    "HiddenMRF.from_map",
    lambda **a: models.HiddenMRF.from_map(**a).edges,
    geojson,
    counts=odd.CHOICE,
)
