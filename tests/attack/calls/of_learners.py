"""Learners, treecv and kfold."""

from functools import partial

import numpy as np
import polars
from sklearn.linear_model import SGDRegressor

import acvlib as acv
from acvlib import learners

from .. import inputs as odd
from .call import N, add, dyadic, table

SIGNS = np.where(np.arange(N) % 2, 1.0, -1.0)
ROWS = {"X": table(N, 3), "y": SIGNS}
DATA = {"X": dyadic(np.random.default_rng(0), N, 3), "y": SIGNS}
EXAMPLES = acv.Examples(**DATA)
LEARNERS = {
    "pegasos": {"n_features": 3, "regularization": 0.5},
    "lsqsgd": {"n_features": 3, "step": 0.125},
    "k_means": {"n_features": 3, "n_clusters": 2},
    "histogram": {"lower": -np.ones(3), "upper": 3 * np.ones(3), "n_bins": 2, "pseudo_count": 0.5},
}
FEW = "n_features: one, two, bool"
BOUNDS = odd.without(odd.TABLE, "int8", "int64", "uint8", "uint64", "bool")


def learnt(make, **settings):
    learner = make(**settings)
    learner.check(**DATA)
    state = learner.update(learner.init(), **DATA)
    return state, learner.loss(state, **DATA)


def crossed(front, learner, X, y, k):
    return getattr(acv, front)(learner, acv.Examples(X, y), k)


for name, settings in LEARNERS.items():
    make = getattr(learners, name)
    more = {"lower": BOUNDS, "upper": BOUNDS, "step": odd.POSITIVE}
    add(f"learners.{name}", settings, by=partial(learnt, make), less=FEW, **more)
    learner = make(**settings)
    own = {"less": "X: empty; y: empty, None", "unbounded": name in ("lsqsgd", "k_means")}
    add(f"{name}.update", ROWS, by=lambda X, y, a=learner: a.update(a.init(), X, y), **own)
    state = learner.update(learner.init(), **DATA)
    add(f"{name}.loss", ROWS, by=partial(learner.loss, state), **own)
    own["less"] += "; k: one, bool"
    for front in ("treecv", "kfold"):
        add(f"{front} {name}", ROWS | {"k": 3}, by=partial(crossed, front, learner), **own)
PARTS = [np.array([0, 3, 4, 10]), np.array([1, 5, 7, 11]), np.array([2, 6, 9, 8])]
PLAIN = {"learner": learners.pegasos(3, 0.5), "data": EXAMPLES, "folds": PARTS}
PLAIN |= {"order": "randomized", "rng": 5}
for front in ("treecv", "kfold"):
    add(front, PLAIN, less="folds: number; rng: generator", instead={"order": odd.CHOICE})
add("Examples", ROWS, by=lambda **a: acv.Examples(**a).X, less="y: None")
TWO_ROWS = {"rows": np.array([1, 4])}
add("Examples.take", TWO_ROWS, by=lambda rows: EXAMPLES.take(rows).X, less="rows: negative")


COLUMNS = dict(zip("abc", DATA["X"].T, strict=True))
FRAME = polars.DataFrame(COLUMNS | {"y": SIGNS})  # whose column "y" is the target
OF_COLUMNS = odd.always("refuse", text="a", none_there=["z"], twice=["a", "a"], target=["a", "y"])
OF_COLUMNS |= odd.always("refuse", empty=[], numbers=[1.5])
add(
    "Examples.of",
    {"target": "y", "columns": ["c", "a"]},
    by=lambda target, columns: acv.Examples.of(FRAME, target, features=columns).X,
    target=odd.without(odd.CHOICE, "None"),
    columns=OF_COLUMNS,
)
# the name of a file: tests/rows/test_rows.py
add("Examples.of a source", {"source": FRAME}, less="source: string")
by_parts = {"by": lambda estimator: acv.kfold(learners.PartialFit(estimator), EXAMPLES, 3)}
SGD = SGDRegressor(shuffle=False, random_state=0)
add("learners.PartialFit", {"estimator": SGD}, **by_parts)
