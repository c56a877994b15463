"""Calls of folds and weightings."""

import numpy as np
import pandas as pd

from acvlib import folds, weighting
from acvlib.folds import Folds

from .. import inputs as odd
from .call import N, add, dyadic

THREE = [np.array([0, 3, 4]), np.array([1, 5, 7]), np.array([2, 6, 9])]


def three_folds(rng=None):
    return [fold.copy() for fold in THREE]


def flags(rng):
    return np.arange(N) % 5 != 1


def with_flags(**more):
    return lambda rng: (
        {"n_sites": N, "observed": flags(rng), **more}
        | ({"rng": np.random.default_rng(5)} if "rng" in more else {})
    )


OBSERVED = {"n_sites": odd.SIZE, "observed": odd.without(odd.FLAGS, "None ")}


def is_folds(found, n_sites=N, **_):
    """Sorted, distinct, in range, scored within omitted, none of them all."""
    for omitted, scored in zip(found.omitted, found.scored, strict=True):
        assert len(omitted)
        assert len(set(omitted.tolist())) == len(omitted)
        assert omitted.min() >= 0
        assert omitted.max() < n_sites
        assert set(scored.tolist()) <= set(omitted.tolist())


K = odd.LIMITED
add("folds.leave_one_out", folds.leave_one_out, with_flags(), is_folds, **OBSERVED)
add(
    "folds.k_fold",
    folds.k_fold,
    with_flags(k=3, rng=1),
    is_folds,
    k=K,
    rng=odd.without(odd.RNG, "None "),
    **OBSERVED,
)
add(
    "folds.leave_future_out",
    folds.leave_future_out,
    with_flags(starts=np.array([5, 8, 10]), horizon=2, gap=1),
    is_folds,
    starts=odd.without(odd.SITES, "repeated", "repeated unsigned", "turned"),
    horizon=odd.without(K, "None "),
    gap=odd.WHOLE_0,
    **OBSERVED,
)
add(
    "folds.iid",
    folds.iid,
    with_flags(percent=25.0, n_folds=3, rng=1),
    is_folds,
    percent=odd.PERCENT,
    n_folds=K,
    rng=odd.RNG,
    **OBSERVED,
)
add(
    "folds.contiguous",
    folds.contiguous,
    with_flags(percent=25.0, n_folds=3, rng=1),
    is_folds,
    percent=odd.PERCENT,
    n_folds=K,
    rng=odd.RNG,
    **OBSERVED,
)
GROUPS = odd.without(
    odd.LABELS,
    "strings",
    "masked",
    "fraction",
    "minus two",
    "None inside",
    "too large for int64",
    "object",
    "complex",
    "dates",
    "huge",
    "inf",
    "minus inf",
)
add(
    "folds.leave_group_out",
    folds.leave_group_out,
    lambda rng: {
        "labels": np.arange(N) // 3,
        "lengths": np.ones(N, int),
        "observed": flags(rng),
        "per_fold": 2,
        "rng": np.random.default_rng(5),
    },
    labels=GROUPS,
    observed=OBSERVED["observed"],
    per_fold=K,
    rng=odd.without(odd.RNG, "None "),
)
add(
    "folds.weights",
    folds.weights,
    lambda rng: {"n_sites": N, "sites": np.array([1, 4])},
    n_sites=odd.SIZE,
    sites=odd.without(odd.SITES, "repeated", "repeated unsigned", "turned"),
)
add(
    "folds.from_splitter",
    folds.from_splitter,
    lambda rng: {"cv": 3, "X": dyadic(rng, N, 2), "observed": flags(rng)},
    is_folds,
    cv=odd.without(odd.COUNT, "one"),
    observed=OBSERVED["observed"],
    X=odd.kinds(
        "refuse",
        None_=odd.constant(None),
        number=odd.constant(3),
        zero_axes=odd.constant(np.array(1.0)),
        empty=lambda a: a[:0],
    )
    | odd.kinds("same", list=lambda a: a.tolist(), pandas=pd.DataFrame),
)
add(
    "Folds",
    Folds,
    lambda rng: {"omitted": three_folds()},
    is_folds,
    omitted=odd.without(odd.FOLDS, "all sites", "no folds", "empty fold", "last beyond"),
)
add(
    "Folds scored",
    Folds,
    lambda rng: {"omitted": three_folds(), "scored": [f[:2] for f in THREE]},
    is_folds,
    scored=odd.without(odd.FOLDS, "all None", "all sites", "table", "empty fold", "object array"),
)
add(
    "Folds.of",
    lambda folds, n_sites: Folds.of(folds, n_sites),
    lambda rng: {"folds": three_folds(), "n_sites": N},
    is_folds,
    folds=odd.FOLDS,
    n_sites=odd.without(odd.SIZE, "million", "billions", "beyond"),
)
add(
    "Folds.indicator",
    lambda n_sites: Folds(three_folds()).indicator(n_sites),
    lambda rng: {"n_sites": N},
    n_sites=odd.SIZE,
)

# weighting

add(
    "weighting.check",
    weighting.check,
    lambda rng: {"weights": np.ones(N), "n_sites": N},
    weights=odd.WEIGHTS,
)
for weights_of in (weighting.sample_weights, weighting.site_weights):
    add(
        f"weighting.{weights_of.__name__}",
        weights_of,
        lambda rng: {"values": rng.integers(1, 9, N) / 8.0, "n_sites": N},
        values=odd.without(odd.WEIGHTS, "zero axes")  # one number for all
        | odd.kinds("refuse", zeros=np.zeros_like, huge=lambda a: a * 1e200),
    )
PATH = np.stack([np.arange(N - 1), np.arange(1, N)], 1)
for scheme in (weighting.keep_latents, weighting.drop_latents):
    add(
        f"weighting.{scheme.__name__}",
        scheme,
        lambda rng: {"weights": rng.integers(0, 9, N) / 8.0, "edges": PATH.copy()},
    )
add(
    "weighting.hide_labels",
    weighting.hide_labels,
    lambda rng: {"weights": rng.integers(0, 9, N) / 8.0, "labels": np.arange(N) % 3, "n_labels": 3},
)
