"""A public function, a plain call of it, odd inputs of each argument by its name, and laws.

A law is an oracle: law(result, **arguments) raises AssertionError where an odd result is wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np

import acvlib as acv

from .. import inputs as odd

N = 12
CALLS: dict[str, "Call"] = {}
FITTED = odd.OBJECTS | odd.kinds("refuse", model=lambda f: f.model, params=lambda f: f.params)
RESULT = odd.OBJECTS | odd.kinds("refuse", params=lambda r: r.params)
LISTS_OF_TABLES = odd.LISTS | odd.each_of(odd.TABLE)
BY_NAME = {  # what an argument is made of, wherever it has this name; each word is one
    "X y points features node edge": odd.TABLE,
    "exposure sample_weight": odd.without(odd.TABLE, "zero axes"),
    "params": odd.PARAMS,
    "start": odd.START,
    "weights": odd.WEIGHTS,
    "fold": odd.SITES,
    "starts rows": odd.SET_OF_SITES,
    "folds omitted": odd.FOLDS,
    "observed": odd.FLAGS,
    "edges": odd.EDGES,
    "classes labels counts day": odd.LABELS,
    "emissions": LISTS_OF_TABLES,
    "rng": odd.RNG,
    "penalty site_penalty gamma_i gamma_p damping": odd.NONNEGATIVE,
    "sigma gamma_s ridge limit level concentration mean_scale weight_sd": odd.POSITIVE,
    "regularization step pseudo_count day_concentration tolerance": odd.POSITIVE,
    "coupling": odd.NUMBER,
    "percent": odd.PERCENT,
    "n_sites n_resamples": odd.SIZE,
    "n_states n_components n_categories k n_folds n_starts per_fold horizon": odd.LIMITED,
    "n_exact n_features n_bins": odd.LIMITED,
    "steps n n_hidden n_restarts max_iterations max_evaluations anchors": odd.COUNT,
    "n_clusters batch_size": odd.COUNT,
    "buffer gap radius context order": odd.WHOLE_0,
    "family intercept balanced loss sites covariance method unreliable output": odd.CHOICE,
    "model estimator energy affinity learner data emission scheme source": odd.OBJECTS,
    "fit": FITTED,
    "result exact other": RESULT,
}
FAMILIES = {name: family for names, family in BY_NAME.items() for name in names.split()}


class Draw(NamedTuple):
    """An argument that is drawn anew: a function of a generator."""

    make: Callable


@dataclass(frozen=True)
class Call:
    """function(**plain); families: {argument: {kind: ...}}; law as in the module."""

    function: Callable
    plain: dict
    families: dict[str, dict]
    law: Callable | None
    unbounded: bool  # an infinite result may be right: the true number is beyond doubles

    def arguments(self, seed):
        rng = np.random.default_rng(seed)
        return {name: _fresh(value, rng) for name, value in self.plain.items()}


def _fresh(value, rng):
    if isinstance(value, Draw):
        return value.make(rng)
    if isinstance(value, list):
        return [_fresh(own, rng) for own in value]
    return value.copy() if isinstance(value, np.ndarray) else value


def public(path):
    """The object of that dotted name below acvlib, or below its models."""
    first = path.split(".")[0]
    return reduce(getattr, path.split("."), acv if hasattr(acv, first) else acv.models)


def add(name, plain, law=None, *, by=None, less="", only="", instead=None, unbounded=False, **more):
    """A call, whose arguments are attacked as `FAMILIES` says by their names.

    by: what is called, if not what the first word of its name is; less: "argument: kind, kind; ..."
    that mean something else here; only: the arguments that are attacked, if not all; more: kinds
    beside those of a name; instead: in their place.
    """
    assert name not in CALLS, name
    families = {key: FAMILIES.get(key, {}) | more.get(key, {}) for key in plain}
    families |= instead or {}
    for each in filter(None, less.split("; ")):
        key, gone = each.split(": ")
        families[key] = odd.without(families.get(key, {}), *gone.split(", "))
    kept = only.split() or families
    families = {key: families[key] for key in plain if families[key] and key in kept}
    CALLS[name] = Call(by or public(name.split()[0]), plain, families, law, unbounded)


def dyadic(rng, *shape):
    """Numbers that 16 bits hold exactly."""
    rows = np.arange(shape[0]).reshape(-1, *[1] * (len(shape) - 1))
    return rng.integers(-32, 33, shape) / 16.0 + rows / 8


def table(*shape):
    return Draw(lambda rng: dyadic(rng, *shape))


def eighths(n):
    """Weights."""
    return Draw(lambda rng: rng.integers(1, 9, n) / 8.0)


def close(found, expected, tolerance=1e-8):
    np.testing.assert_allclose(found, expected, tolerance, tolerance * 1e-2)
