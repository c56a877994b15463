"""Calls of the bootstrap."""

import numpy as np

from acvlib import bootstrap

from .. import inputs as odd
from .call import N, add
from .of_methods import FITTED, fitted


def resamples(rng):
    return 1.0 * np.random.default_rng(5).multinomial(N, np.full(N, 1 / N), 40)


RESAMPLED = (
    odd.without(
        odd.TABLE,
        "too short",
        "too long",
        "int8",
        "int64",
        "uint8",
        "uint64",
        "bool",
        "shifted",
        "outlier",
        "large",
        "empty",
    )
    | odd.kinds("refuse", narrow=lambda a: a[:, :-1], negative=lambda a: odd._with(a, -1.0))
    | odd.kinds("same", int8=lambda a: a.astype(np.int8), uint8=lambda a: a.astype(np.uint8))
    | odd.kinds("sane", empty=lambda a: a[:0])
)
for name in ("jackknife_params", "refits"):
    add(
        f"bootstrap.{name}",
        getattr(bootstrap, name),
        lambda rng, name=name: {"fit": fitted(), "weights": resamples(rng)},
        fit=FITTED,
        weights=RESAMPLED,
    )
