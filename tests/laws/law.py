"""What the tests of all laws share: examples, questions at a door, equality.

`HYPOTHESIS_PROFILE` says how many examples: "quick" by default, a quarter of what a law asks for;
"ci" three times that, up to 50, the same each time; "nightly" 2,000 or more, others every night.
"""

import math
import os
import traceback
from collections import Counter
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import acvlib

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
SHARE_DRAWN = {"quick": 0.25, "ci": 3.0, "nightly": 125.0}[PROFILE]
NIGHTLY = PROFILE == "nightly"
LIBRARY = str(Path(acvlib.__file__).parent)
RNG = st.builds(np.random.default_rng, st.integers(0, 2**32 - 1))
SHARE = 1e-8  # of a standard error: what equal means
TESTED = Counter()  # (law, door or situation): that a test asks for it
DONE = Counter()  # calls of doors, and numbers compared: a law without any says nothing


class Refused(AssertionError):
    """A door raised, or warned of, what the law says it must answer."""


class Said(NamedTuple):
    """One answer: its values, and the standard error that they are compared in; None: exactly."""

    values: Any
    unit: float | np.ndarray | None = None


def ask(call: Any, *args: Any, **inputs: Any) -> Any:
    """What a door answers; `Refused` where the library raises. Errors of the test stay errors."""
    DONE["asked"] += 1
    try:
        return call(*args, **inputs)
    except Exception as error:
        chain = [error, error.__cause__, error.__context__]
        frames = [f for each in chain if each for f in traceback.extract_tb(each.__traceback__)]
        if any(frame.filename.startswith(LIBRARY) for frame in frames):
            raise Refused(f"{type(error).__name__}: {error}") from error
        raise


def refused(call: Any, *args: Any, words: str = "", **inputs: Any) -> bool:
    """Whether a door refuses in words, by a ValueError or TypeError that holds these."""
    try:
        ask(call, *args, **inputs)
    except Refused as error:
        cause = error.__cause__
        return isinstance(cause, ValueError | TypeError) and words.lower() in str(cause).lower()
    return False


def same(found: dict, expected: dict, share: float = SHARE) -> None:
    """Assert that all answers are equal: decisions exactly, numbers to a share of their error."""
    assert found.keys() == expected.keys()
    compared = sum(np.size(said.values) for said in expected.values())
    assert compared, "nothing is compared"
    DONE["compared"] += compared
    for name, (values, unit) in expected.items():
        if unit is None:
            assert_array_equal(found[name].values, values, err_msg=name)
        else:
            gap = np.asarray(found[name].values, float) - np.asarray(values, float)
            assert np.all(np.isnan(np.asarray(values, float)) == np.isnan(gap)), name
            moved = np.nan_to_num(gap) != 0.0  # an answer that is the same for all has no spread
            shares = np.divide(gap, unit, out=np.zeros(gap.shape), where=moved)
            assert_allclose(shares, 0.0, atol=share, err_msg=name)


def hold(examples: int, **drawn: Any) -> Callable:
    """Run what it decorates on drawn examples: of seeds, so that there is nothing to shrink."""
    most = math.ceil(SHARE_DRAWN * examples)
    profile = settings(
        max_examples=max(most, 2000) if NIGHTLY else most,
        deadline=None,
        derandomize=not NIGHTLY,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )

    def run(check):
        before = DONE.total()
        profile(given(**drawn)(check))()
        assert DONE.total() > before, "this law asked no door and compared nothing"

    return run


def take(value: Any, axes: tuple, axis: str, order: np.ndarray) -> Any:
    """A value with its entries along an axis in another order, or repeated, or left out."""
    for number, own in enumerate(axes):
        if own != axis:
            continue
        if isinstance(value, list) and number == 0:
            value = [value[i] for i in order]
        elif isinstance(value, list):
            value = [np.take(each, order, number - 1) for each in value]
        elif np.ndim(value) > number:
            value = np.take(value, order, number)
    return value


def taken(values: dict, door: Any, axis: str, order: np.ndarray) -> dict:
    """All inputs, or all answers, of a door along an axis."""

    def one(name, value):
        axes = door.axes.get(name, ())
        if not isinstance(value, Said):
            return take(value, axes, axis, order)
        unit = take(value.unit, axes, axis, order) if np.ndim(value.unit) else value.unit
        return Said(take(value.values, axes, axis, order), unit)

    return {name: one(name, value) for name, value in values.items()}


def is_here(name: str) -> bool:
    """Whether a door's package is installed: `make test` has no torch, `make test-book` has."""
    return "from_torch" not in name or find_spec("torch") is not None


def cases(law: str, names: Any, situation: str = "") -> Any:
    """Parametrise a test by doors, in a situation if it has several."""
    params = []
    for name in names:
        key = f"{name}: {situation}" if situation else name
        TESTED[law, key] += 1
        absent = pytest.mark.skipif(not is_here(name), reason="torch is not installed")
        params.append(pytest.param(name, id=key, marks=absent))
    return pytest.mark.parametrize("name", params)
