"""Learners, treecv and kfold."""

import numpy as np

import acvlib as acv
from acvlib import learners

from .. import inputs as odd
from .call import N, add, dyadic


def examples(rng):
    return {"X": dyadic(rng, N, 3), "y": np.where(np.arange(N) % 2, 1.0, -1.0)}


LEARNERS = {
    "pegasos": (learners.pegasos, {"n_features": 3, "regularization": 0.5}),
    "lsqsgd": (learners.lsqsgd, {"n_features": 3, "step": 0.125}),
    "k_means": (learners.k_means, {"n_features": 3, "n_clusters": 2, "batch_size": 2}),
    "histogram": (
        learners.histogram,
        {"lower": -np.ones(3), "upper": 3 * np.ones(3), "n_bins": 2, "pseudo_count": 0.5},
    ),
}
OF_LEARNER = {
    "n_features": odd.without(odd.LIMITED, "one", "two", "bool"),
    "regularization": odd.POSITIVE,
    "step": odd.POSITIVE,
    "n_clusters": odd.COUNT,
    "batch_size": odd.COUNT,
    "n_bins": odd.LIMITED,
    "pseudo_count": odd.POSITIVE,
    "lower": odd.without(odd.TABLE, "int8", "int64", "uint8", "uint64", "bool"),
    "upper": odd.without(odd.TABLE, "int8", "int64", "uint8", "uint64", "bool"),
}


def learnt(make):
    def function(**settings):
        learner = make(**settings)
        data = examples(np.random.default_rng(0))
        learner.check(**data)
        state = learner.update(learner.init(), **data)
        return state, learner.loss(state, **data)

    return function


ROWS_X = odd.without(odd.TABLE, "empty")
ROWS_Y = odd.without(odd.TABLE, "None ", "bool", "int8", "int64", "uint8", "uint64", "empty")
for name, (make, settings) in LEARNERS.items():
    add(
        f"learners.{name}",
        learnt(make),
        lambda rng, settings=settings: dict(settings),
        **{k: OF_LEARNER[k] for k in settings},
    )
    learner = make(**settings)
    own_y = odd.without(ROWS_Y, *(() if learner.needs else ()))
    add(
        f"{name}.update",
        lambda X, y, learner=learner: learner.update(learner.init(), X, y),
        examples,
        X=ROWS_X,
        y=own_y,
    )
    add(
        f"{name}.loss",
        lambda X, y, learner=learner: learner.loss(trained(learner), X, y),
        examples,
        unbounded=name in ("lsqsgd", "k_means"),
        X=ROWS_X,
        y=own_y,
    )
    for front in ("treecv", "kfold"):
        add(
            f"{front} {name}",
            lambda X, y, front=front, learner=learner, **a: getattr(acv, front)(
                learner, acv.Examples(X, y), **a
            ),
            lambda rng: examples(rng) | {"folds": 3},
            unbounded=name in ("lsqsgd", "k_means"),
            X=ROWS_X,
            y=own_y,
            folds=odd.without(odd.LIMITED, "one", "bool"),
        )


def data():
    return examples(np.random.default_rng(0))


def trained(learner):
    return learner.update(learner.init(), **data())


def partition(rng):
    return [np.array([0, 3, 4, 10]), np.array([1, 5, 7, 11]), np.array([2, 6, 9, 8])]


for front in ("treecv", "kfold"):
    add(
        f"{front}",
        lambda learner, data, front=front, **a: getattr(acv, front)(learner, data, **a),
        lambda rng: {
            "learner": learners.pegasos(3, 0.5),
            "data": acv.Examples(**examples(rng)),
            "folds": partition(rng),
            "order": "randomized",
            "rng": np.random.default_rng(5),
        },
        learner=odd.OBJECTS,
        data=odd.OBJECTS,
        order=odd.CHOICE,
        folds=odd.without(odd.FOLDS, "all sites", "generator", "number")
        | odd.kinds("equal", generator=iter),
        rng=odd.without(odd.RNG, "number"),
    )
add(
    "Examples",
    lambda **a: (acv.Examples(**a).X, acv.Examples(**a).y),
    examples,
    X=odd.TABLE,
    y=odd.without(odd.TABLE, "None "),
)
add(
    "Examples.take",
    lambda rows: acv.Examples(**data()).take(rows).X,
    lambda rng: {"rows": np.array([1, 4])},
    rows=odd.without(odd.SITES, "repeated", "repeated unsigned", "turned", "negative"),
)


def frame(X, y):
    """The rows as a frame whose column "y" is the target."""
    import polars

    return polars.DataFrame(X, schema=["a", "b", "c"]).with_columns(polars.Series("y", y))


add(
    "Examples.of",
    lambda target, **a: acv.Examples.of(frame(**data()), target, **a).X,
    lambda rng: {"target": "y", "features": ["c", "a"], "memory": 2**30},
    target=odd.without(odd.CHOICE, "None "),
    features=odd.kinds(
        "refuse",
        text=odd.constant("a"),
        none_there=odd.constant(["z"]),
        twice=odd.constant(["a", "a"]),
        target=odd.constant(["a", "y"]),
        empty=odd.constant([]),
        numbers=odd.constant([1.5]),
    ),
)
add(
    "Examples.of a source",
    acv.Examples.of,
    lambda rng: {"source": frame(**data())},
    source=odd.without(odd.OBJECTS, "string"),  # the name of a file: tests/rows/test_rows.py
)
add(
    "treecv, kept",
    lambda cache: acv.treecv(learners.pegasos(3, 0.5), acv.Examples(**data()), 4, cache=cache),
    lambda rng: {"cache": None},
    cache=odd.kinds("refuse", number=odd.constant(3), array=odd.constant(np.ones(3))),
)


def sgd():
    from sklearn.linear_model import SGDRegressor

    return SGDRegressor(shuffle=False, random_state=0)


add(
    "learners.PartialFit",
    lambda estimator: acv.kfold(learners.PartialFit(estimator), acv.Examples(**data()), 3),
    lambda rng: {"estimator": sgd()},
    estimator=odd.OBJECTS,
)
