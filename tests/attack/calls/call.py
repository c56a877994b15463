"""A public function, a plain call of it, odd inputs of each argument, and laws.

A law is an oracle: law(result, **arguments) raises AssertionError where an odd result is wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

N = 12
CALLS: dict[str, "Call"] = {}


@dataclass(frozen=True)
class Call:
    """function(**plain(rng)); families: {argument: {kind: ...}}; law as in the module."""

    function: Callable
    plain: Callable
    families: dict[str, dict]
    law: Callable | None = None
    unbounded: bool = False  # an infinite result may be right: the true number is beyond doubles
    undefined: bool = False  # nan in a result has a meaning that is documented


def add(name, function, plain, law=None, unbounded=False, undefined=False, **families):
    assert name not in CALLS, name
    CALLS[name] = Call(function, plain, families, law, unbounded, undefined)


def dyadic(rng, *shape):
    """Numbers that 16 bits hold exactly."""
    return (
        rng.integers(-32, 33, shape) / 16.0
        + np.arange(shape[0]).reshape(-1, *[1] * (len(shape) - 1)) / 8
    )
