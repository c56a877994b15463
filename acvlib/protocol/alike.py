"""Whether two models are of the same data."""

from typing import Any

import numpy as np

from . import with_defaults

OUTCOMES = ("y", "counts", "sequences", "labels")  # what a model predicts, under its own name


def data_difference(a: Any, b: Any) -> str:
    """How the data of two models differ, in words; nothing where no difference is found."""
    if a.n_sites != b.n_sites:
        return f"{a.n_sites} and {b.n_sites} sites"
    seen = [with_defaults(model).observed for model in (a, b)]
    seen = [np.ones(a.n_sites, bool) if each is None else each for each in seen]
    if not np.array_equal(*seen):
        return f"not the same sites are observed ({seen[0].sum()} and {seen[1].sum()})"
    for name in OUTCOMES:
        ours = _outcomes(a, name)
        theirs = _outcomes(b, name)
        if ours and theirs and not _same(ours, theirs):
            return f"their {name} are not equal"
    return ""


def _outcomes(model, name):
    """A list of arrays, empty where there is none; of sequences the channels that are predicted."""
    values = getattr(model, name, [])
    n_channels = getattr(model, "n_channels", None)
    if name == "sequences" and n_channels is not None:
        return [sequence[:, :n_channels] for sequence in values]
    several = isinstance(values, tuple | list)
    return [np.asarray(each) for each in (values if several else [values])]


def _same(a, b):
    pairs = zip(a, b, strict=False)
    return len(a) == len(b) and all(np.array_equal(x, y, x.dtype.kind == "f") for x, y in pairs)
