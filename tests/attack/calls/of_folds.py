"""Calls of folds, weightings and the bootstrap's weights."""

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

from acvlib import folds
from acvlib.folds import Folds

from .. import inputs as odd
from .call import N, add, eighths, table

THREE = [np.array([0, 3, 4]), np.array([1, 5, 7]), np.array([2, 6, 9])]
SEEN = np.arange(N) % 5 != 1
THIRDS = np.arange(N) // 3
ON = {"n_sites": N, "observed": SEEN}


def is_folds(found, n_sites=N, **_):
    """Sorted, distinct, in range, scored within omitted, none of them all."""
    for omitted, scored in zip(found.omitted, found.scored, strict=True):
        assert len(omitted)
        assert len(set(omitted.tolist())) == len(omitted)
        assert omitted.min() >= 0
        assert omitted.max() < n_sites
        assert set(scored.tolist()) <= set(omitted.tolist())


SCHEMES = {
    "leave_one_out": {},
    "k_fold": {"k": 3, "rng": 5},
    "leave_future_out": {"starts": np.array([5, 8, 10]), "horizon": 2, "gap": 1, "lengths": [N]},
    "iid": {"percent": 25.0, "n_folds": 3, "rng": 5},
    "contiguous": {"percent": 25.0, "n_folds": 3, "rng": 5},
}
NONE_MEANS = {"k_fold": "rng: None", "leave_future_out": "horizon: None"}
for name, plain in SCHEMES.items():
    add(f"folds.{name}", ON | plain, is_folds, less=NONE_MEANS.get(name, ""))
# labels are any names
NAMES = "labels: strings, masked, fraction, minus two, None inside, too large for int64, object, "
NAMES += "complex, dates, huge, inf, minus inf; rng: None"
GROUPED = {"labels": THIRDS, "observed": SEEN, "per_fold": 2, "rng": 5}
add("folds.leave_group_out", GROUPED, less=NAMES)
add("folds.weights", {"n_sites": N, "sites": np.array([1, 4])}, sites=odd.SET_OF_SITES)
SPLIT = {"cv": KFold(3), "rows": table(N, 2), "observed": SEEN}
ROWS = odd.only(odd.TABLE, "None", "zero axes", "empty", "list")
ROWS |= odd.kinds("same", pandas=pd.DataFrame)
by_rows = {"by": lambda rows, **a: folds.from_splitter(X=rows, **a), "instead": {"rows": ROWS}}
add("folds.from_splitter", SPLIT, is_folds, only="rows observed", **by_rows)
add("Folds", {"omitted": THREE}, is_folds, less="omitted: no folds, empty fold, last beyond")
SCORED = {"omitted": THREE, "scored": [fold[:2] for fold in THREE]}
LESS = "scored: all None, table, empty fold, object array"
add("Folds scored", SCORED, is_folds, only="scored", less=LESS, scored=odd.FOLDS)
OF = {"by": lambda **a: Folds.of(*a.values()), "less": "n_sites: million, billions, beyond"}
add("Folds.of", {"folds": THREE, "n_sites": N}, is_folds, **OF)
add("Folds.indicator", {"n_sites": N}, by=lambda n_sites: Folds(THREE).indicator(n_sites))

# weighting

add("weighting.check", {"weights": np.ones(N), "n_sites": N}, only="weights")
VALUES = odd.without(odd.WEIGHTS, "zero axes")  # one number for all
VALUES |= odd.kinds("refuse", zeros=np.zeros_like, huge=lambda a: a * 1e200)
add("weighting.site_weights", {"values": eighths(N), "n_sites": N}, only="values", values=VALUES)
