"""Records of tables with a column a rung."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from acvbook import ledger
from acvbook.studies import records

ENDINGS = [
    "as_printed",
    "infinitesimal_jackknife",
    "regret",
    "gamma_p",
    "gamma_i",
    "error",
    "share",
]


@pytest.fixture
def recorded(monkeypatch):
    calls = {}
    claims = ["a", *(f"a.{ending}" for ending in ENDINGS)]
    monkeypatch.setattr(ledger, "_run", SimpleNamespace(claims=claims))
    for name in ("record", "record_draws"):
        keep = lambda id, value, *_, **k: calls.update({id: (value, k)})  # noqa: E731
        monkeypatch.setattr(ledger, name, keep)
    return calls


def test_each_rung_that_is_claimed_is_recorded_beside_doing_nothing(recorded):
    columns = {"no_adjustment": [3.0, 4.0], "as_printed": [1.0, 2.0], "not_claimed": 0.0}
    records.record_rungs("a", pd.DataFrame(columns))
    values, keys = recorded.pop("a.as_printed")
    assert list(values) == [1.0, 2.0]
    assert list(keys["baseline"]) == [3.0, 4.0]
    assert not recorded


def test_without_a_number_for_doing_nothing_there_is_no_baseline(recorded):
    table = pd.DataFrame({"no_adjustment": [np.nan] * 2, "as_printed": [1.0, 2.0]})
    records.record_rungs("a", table)
    assert recorded["a.as_printed"][1]["baseline"] is None


def test_one_draw_has_one_value_and_columns_other_names(recorded):
    ours, nothing = pd.Series({"R": 1.0, "b": 2.0}), pd.Series({"R": 0.5, "b": 0.0})
    ledger.record_table("a", ours, None, nothing, {"R": "", "b": "share"}, draws=7)
    assert recorded["a"] == (1.0, {"baseline": 0.5, "draws": 7})
    assert recorded["a.share"] == (2.0, {"baseline": 0.0, "draws": 7})


def test_choices_are_shares_of_draws(recorded):
    criteria = ("exact", "no_adjustment", "infinitesimal_jackknife")
    index = pd.MultiIndex.from_product([range(4), criteria], names=["draw", "criterion"])
    table = pd.DataFrame({"gamma_p": 1.0, "gamma_i": 2.0, "regret": 0.0, "same": 1.0}, index)
    table.loc[(0, "infinitesimal_jackknife"), ["same", "regret"]] = 0.0, 0.5
    table.loc[(slice(1, 3), "no_adjustment"), "same"] = 0.0
    records.record_choices("a", table, None)
    assert recorded["a.infinitesimal_jackknife"] == (0.75, {"baseline": 0.25, "draws": 4})
    assert list(recorded["a.regret"][0]) == [0.5, 0.0, 0.0, 0.0]
