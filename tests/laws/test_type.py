"""Law 2: whole numbers are the same in every type and container, or refused with a remedy."""

import numpy as np
import pandas as pd
import polars
import pytest
import scipy.sparse as sp
from hypothesis import strategies as st

import acvlib as acv
from acvlib import models
from acvlib.models.hmm import families

from .doors import DOORS
from .law import RNG, ask, cases, hold, refused, same

SIGNED = ("int8", "int16", "int64", "float32", "object")
UNSIGNED = ("bool", "uint8", "uint16", "uint64")
HELD = {
    "fortran": np.asfortranarray,
    "strided": lambda a: np.repeat(a, 2, axis=0)[::2],
    "masked": np.ma.masked_array,
    "pandas": lambda a: pd.Series(a) if np.ndim(a) == 1 else pd.DataFrame(a),
    "polars": lambda a: polars.Series(a) if np.ndim(a) == 1 else polars.DataFrame(a),
}
SPARSE = [name for name in DOORS if name.startswith("approx")]


def typed(kind, value):
    """The same numbers as another type or in another container."""
    if isinstance(value, list):
        return [typed(kind, own) for own in value]
    if kind in HELD:
        return HELD[kind](value)
    if kind in UNSIGNED and value.min() < 0:
        kind = "int8"
    return value.astype(kind)


@cases("type", [name for name, door in DOORS.items() if door.whole])
def test_types_change_nothing(name):
    door = DOORS[name]
    kinds = st.sampled_from([*SIGNED, *UNSIGNED, *HELD])

    @hold(door.examples + 2, rng=RNG, kind=kinds, number=st.integers(0, 1))
    def check(rng, kind, number):
        data = door.data(rng)
        key = door.whole[number % len(door.whole)]
        if kind == "bool":
            if key != "X":
                kind = "uint8"
            else:
                data[key] = (data[key] > 3) * 1.0
        if name in SPARSE and kind == "float32":
            kind = "int16"  # in which scikit-learn itself computes less exactly
        if (name, kind, key) == ("approx_cross_validate", "object", "y"):
            kind = "int16"  # scikit-learn takes no labels that are objects
        other = data | {key: typed(kind, data[key])}
        if kind != "masked" or not refused(door.ask, **other, words="masked"):
            same(ask(door.ask, **other), door.ask(**data), door.share)


@pytest.mark.filterwarnings("ignore:score of .* undefined")  # of counts that are all 0
@cases("type", SPARSE, "sparse, wide or not")
def test_sparse_numbers_are_the_same_in_every_type(name):
    """Also with more columns than rows, where the work is that of n columns."""
    door = DOORS[name]
    kinds = st.sampled_from(["bool", "int8", "uint8", "int32", "int64", "float64"])

    @hold(door.examples, rng=RNG, kind=kinds, wide=st.booleans())
    def check(rng, kind, wide):
        data = door.data(rng)
        if wide and "linear" not in name:
            data["X"] = np.column_stack([rng.integers(0, 8, (len(data["y"]), 60)), data["X"]])
        if kind == "bool":
            data["X"] = data["X"] > 3
        data["X"] = data["X"] * 1.0
        expected = door.ask(**data)
        same(ask(door.ask, **data | {"X": sp.csr_matrix(data["X"].astype(kind))}), expected)


SEQUENCES = ("GaussianHMM", "PoissonHMM", "NegativeBinomialHMM", "CategoricalHMM", "MixtureHMM")


@cases("type", SEQUENCES, "lengths as floats, a table as lists")
def test_lengths_are_lengths_in_any_type_and_a_table_as_lists_is_a_table_or_refused(name):
    """Rows of two or three numbers are frames, or sequences: who asks must say which."""
    kind = getattr(families, name)
    x = DOORS[name].data(np.random.default_rng(0))["x"]
    lengths = [len(own) for own in x]
    for made in (np.array(lengths, float), pd.Series(lengths), tuple(lengths)):
        model = ask(kind, (np.concatenate(x), made), 2)
        assert [len(own) for own in model.sequences] == lengths
    tables = [x[0], np.column_stack([x[0], x[0][:, 0]])]
    for table in tables if name != "CategoricalHMM" else ():  # which has no tables
        if not refused(kind, table.tolist(), 2):
            assert [own.shape for own in kind(table.tolist(), 2).sequences] == [table.shape]


TEXT = {
    "GLM": lambda frame, y: models.GLM(frame, y),
    "Examples": lambda frame, y: acv.Examples.of(frame.assign(y=y), "y"),
    "PairwiseLinear": lambda frame, y: models.PairwiseLinear(frame, y),
}


@cases("type", TEXT, "a column of text; sparse, where it is not taken")
def test_a_column_of_text_is_named_and_a_sparse_table_refused_with_a_remedy(name):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(20, 3))).add_prefix("lab_").assign(city=["a", "b"] * 10)
    assert refused(TEXT[name], frame, np.arange(20) % 2, words="city")
    kind = getattr(models, name, None) or acv.Examples
    table = sp.csr_matrix(np.arange(40.0).reshape(20, 2))
    assert refused(kind, table, np.arange(20) % 2, words="toarray")


@cases("type", ["GLM", "Examples", "HMM", "PairwiseLinear"], "of whole numbers")
def test_whole_numbers_that_floats_round_are_refused(name):
    """2^53 + 1 is 2^53 as a float, in every container."""
    table = pd.DataFrame({"a": [2**53, 1, 4], "b": [3, 5, 1]})
    y = np.arange(3.0)
    calls = {
        "GLM": lambda x: models.GLM(x, y, "gaussian", penalty=1.0),
        "Examples": lambda x: acv.rows.Examples.of(x) if hasattr(x, "iloc") else acv.Examples(x),
        "HMM": lambda x: models.HMM([x], 1),
        "PairwiseLinear": lambda x: models.PairwiseLinear(x, y),
    }
    for add in (0, 1):
        table.loc[0, "a"] += add
        for kind in ("int64", "uint64", "Int64", "object"):
            typed = table.astype(kind)
            frames = [typed] if name == "Examples" and kind != "object" else []
            for form in (np.asarray(typed), *frames):
                assert refused(calls[name], form, words="2^53") == bool(add)
