"""A CRF fitted by sklearn-crfsuite as a model and its params."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .features import FeatureCRF

OFFSET = 28  # byte of the model file at which that of the table of features stands
LOGGED = 1e-4  # relative error of F in crfsuite's log
FEATURE = np.dtype([("kind", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])


def from_crfsuite(
    fitted: Any, X: Sequence[Any], y: Sequence[Sequence[str]]
) -> tuple[FeatureCRF, np.ndarray]:
    """The `FeatureCRF` of a fitted `sklearn_crfsuite.CRF` and the params (D,) that it holds.

    X, y: what it was fitted to. Weights are read from its model file, as `state_features_` has six
    digits only. L-BFGS stops early: `acv.fit(model, start=params)` goes on to the optimum.

    Raises
    ------
    ValueError : not fitted; an algorithm other than lbfgs, c1 above 0, or min_freq; other data
    """
    if getattr(fitted, "tagger_", None) is None:
        raise ValueError("the CRF is not fitted: call its fit(X, y)")
    if fitted.algorithm not in (None, "lbfgs") or fitted.c1:
        found = f"algorithm={fitted.algorithm!r}, c1={fitted.c1!r}"
        raise ValueError(f"{found}: only lbfgs with c1=0 has a smooth objective; fit that")
    if fitted.min_freq:
        found = f"min_freq={fitted.min_freq!r}: each refit of crfsuite drops the features that are"
        raise ValueError(f"{found} rare in its own data, which weights of 0 do not; fit without")
    c2 = 1.0 if fitted.c2 is None else fitted.c2
    if not c2 > 0.0:
        raise ValueError(f"c2 = {c2!r}: without a penalty there is no optimum; give c2 > 0")
    model = FeatureCRF(X, y, 2.0 * c2)
    if set(model.classes) != set(fitted.classes_):
        both = f"{sorted(fitted.classes_)}, those of y {list(model.classes)}"
        raise ValueError(f"its labels are {both:.300}: give the X and y that it was fitted to")
    free, params = _weights(fitted, model)
    model = FeatureCRF(model.sentences, y, 2.0 * c2, free=free)
    last = getattr(getattr(fitted, "training_log_", None), "last_iteration", None) or {}
    own = model.objective(params, np.ones(model.n_sites))
    if abs(last.get("loss", own) - own) > LOGGED * (1.0 + abs(own)):
        both = f"crfsuite's log ends at F = {last['loss']:g}, and F of X, y is {own:g}"
        raise ValueError(f"{both}: give the X and y that it was fitted to")
    return model, params


def _weights(fitted, model):
    """(numbers of the weights in the model file, in order, and the weights)."""
    info = fitted.tagger_.info()
    attribute = _renumbered(info.attributes, model.names, "attribute")
    label = _renumbered(info.labels, model.classes, "label")
    stored = _features(fitted.modelfile.name)
    links = stored["kind"] == 1
    sources = stored["source"]
    row = np.empty(len(stored), np.int64)
    row[~links] = attribute[sources[~links]]
    row[links] = len(model.names) + label[sources[links]]
    numbers = len(model.classes) * row + label[stored["target"]]
    order = np.argsort(numbers)
    return numbers[order], stored["weight"][order]


def _features(path):
    """The table of features in a model file of crfsuite."""
    content = Path(path).read_bytes()
    (offset,) = np.frombuffer(content, "<u4", 1, OFFSET)
    name, _, count = np.frombuffer(content, "<u4", 3, offset)
    if content[:4] != b"lCRF" or name.tobytes() != b"FEAT":
        raise ValueError(f"{path} is not a model file of crfsuite 0.12: fit the CRF again")
    return np.frombuffer(content, FEATURE, count, offset + 12)


def _renumbered(ids, names, what):
    """For each of crfsuite's ids, {name: id}, our number of the name."""
    numbers = {name: number for number, name in enumerate(names)}
    unknown = [name for name in ids if name not in numbers]
    if unknown:
        found = f"its {what} {unknown[0]!r:.60} and {len(unknown) - 1} more are not in X, y"
        raise ValueError(f"{found}: give the X and y that it was fitted to")
    ours = np.empty(len(ids), np.int64)
    for name, number in ids.items():
        ours[int(number)] = numbers[name]
    return ours
