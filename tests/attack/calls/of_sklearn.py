"""scikit-learn's estimators."""

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge

import acvlib as acv

from .. import inputs as odd
from .call import N, add, dyadic
from .of_models import HALVES, NOT_BINARY, THREES

X = dyadic(np.random.default_rng(1), N, 2)
LOGISTIC = LogisticRegression(C=0.5, tol=1e-10)
SEVERAL = {  # estimator, y
    "classes": (LOGISTIC, THREES),
    "balanced": (LogisticRegression(C=0.5, tol=1e-10, class_weight="balanced"), HALVES),
    "targets": (Ridge(), dyadic(np.random.default_rng(2), N, 2)),
}
ROWS = {"estimator": clone(LOGISTIC).fit(X, HALVES), "X": X, "y": HALVES}
ONES = {"params": {"sample_weight": np.ones(N)}}
WHOLE_TYPES = "int8, int64, uint8, uint64, bool"
LESS_X = f"X: {WHOLE_TYPES}, zero axes, {', '.join(odd.SCALES)}"
LESS_Y = "y: constant, zeros, extra axis, dict, tiny, zero axes"
LESS = f"{LESS_X}; {LESS_Y}; cv: None, one, bool"
OWN = {
    "X": odd.kinds("same", pandas=pd.DataFrame, sparse=csr_array),
    "y": NOT_BINARY | odd.kinds("same", bool=lambda a: a > 0, pandas=pd.Series),
    "cv": odd.LIMITED,
}


def scores(sample_weight, **a):
    said = acv.approx_cross_validate(params={"sample_weight": sample_weight}, **a)
    return {key: value for key, value in said.items() if "time" not in key}


STEP = {"cv": 3, "method": "newton_step"}
SCORED = ROWS | STEP | {"unreliable": "refit", "sample_weight": np.ones(N)}
add("approx_cross_validate", SCORED, by=scores, less=f"{LESS}; sample_weight: None", **OWN)
add("approx_cross_val_predict", ROWS | STEP | {"output": "predict_proba"}, less=LESS, **OWN)
for name, (estimator, y) in SEVERAL.items():
    own = OWN | {"y": {} if name == "targets" else OWN["y"]}
    less = LESS_X if name == "targets" else f"{LESS_X}; {LESS_Y}"
    plain = {"X": X, "y": y} | ONES
    fit = estimator.fit(X, y)
    # {} is what None is
    add(
        f"approx_cross_val_predict {name}",
        plain,
        by=lambda fit=fit, **a: acv.approx_cross_val_predict(fit, cv=3, **a),
        less=less + (", bool" if name == "classes" else ""),
        instead={"params": odd.without(odd.OBJECTS, "None", "dict")},
        **own,
    )
TUNED = {"by": lambda **a: acv.approx_tune(**a).scores, "values": odd.SERIES} | OWN
VALUES = {"values": np.array([0.125, 1.0, 10.0])}
add("approx_tune", ROWS | VALUES, less=f"{LESS_X}; {LESS_Y}", **TUNED)
