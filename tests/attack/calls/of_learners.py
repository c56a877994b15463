"""Learners, treecv and kfold."""

from functools import partial

import numpy as np

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
BOUNDS = odd.without(odd.TABLE, "int8", "int64", "uint8", "uint64", "bool")


def trained(learner):
    return learner.update(learner.init(), **DATA)


def learnt(make, **settings):
    learner = make(**settings)
    learner.check(**DATA)
    state = trained(learner)
    return state, learner.loss(state, **DATA)


def updated(learner, X, y):
    return learner.update(learner.init(), X, y)


def lost(learner, X, y):
    return learner.loss(trained(learner), X, y)


def crossed(front, learner, X, y, k):
    return getattr(acv, front)(learner, acv.Examples(X, y), k)


for name, settings in LEARNERS.items():
    make = getattr(learners, name)
    more = {"lower": BOUNDS, "upper": BOUNDS, "step": odd.POSITIVE}
    add(
        f"learners.{name}",
        settings,
        by=partial(learnt, make),
        less="n_features: one, two, bool",
        **more,
    )
    learner = make(**settings)
    own = {"less": "X: empty; y: empty, None", "unbounded": name in ("lsqsgd", "k_means")}
    add(f"{name}.update", ROWS, by=partial(updated, learner), **own)
    add(f"{name}.loss", ROWS, by=partial(lost, learner), **own)
    own["less"] += "; k: one, bool"
    for front in ("treecv", "kfold"):
        add(f"{front} {name}", ROWS | {"k": 3}, by=partial(crossed, front, learner), **own)
PARTS = [np.array([0, 3, 4, 10]), np.array([1, 5, 7, 11]), np.array([2, 6, 9, 8])]
PLAIN = {"learner": learners.pegasos(3, 0.5), "data": EXAMPLES, "folds": PARTS}
for front in ("treecv", "kfold"):
    add(
        front,
        PLAIN | {"order": "randomized", "rng": 5},
        less="folds: number; rng: generator",
        instead={"order": odd.CHOICE},
    )
add("Examples", ROWS, by=lambda **a: acv.Examples(**a).X, less="y: None")
add(
    "Examples.take",
    {"rows": np.array([1, 4])},
    by=lambda rows: EXAMPLES.take(rows).X,
    less="rows: negative",
)


def frame():
    """The rows as a frame whose column "y" is the target."""
    import polars

    columns = dict(zip("abc", DATA["X"].T, strict=True))
    return polars.DataFrame(columns | {"y": SIGNS})


add(
    "Examples.of",
    {"target": "y", "columns": ["c", "a"]},
    by=lambda target, columns: acv.Examples.of(frame(), target, features=columns).X,
    target=odd.without(odd.CHOICE, "None"),
    columns=odd.always(
        "refuse",
        text="a",
        none_there=["z"],
        twice=["a", "a"],
        target=["a", "y"],
        empty=[],
        numbers=[1.5],
    ),
)
# the name of a file: tests/rows/test_rows.py
add("Examples.of a source", {"source": frame()}, less="source: string")


def sgd():
    from sklearn.linear_model import SGDRegressor

    return SGDRegressor(shuffle=False, random_state=0)


add(
    "learners.PartialFit",
    {"estimator": sgd()},
    by=lambda estimator: acv.kfold(learners.PartialFit(estimator), EXAMPLES, 3),
)
