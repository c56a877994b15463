"""Records of tables with a column a rung."""

import pandas as pd
import pytest
from acvbook import ledger
from acvbook.studies import records


@pytest.fixture
def recorded(monkeypatch):
    calls = {}
    monkeypatch.setattr(ledger, "record", lambda id, value, *_, **k: calls.update({id: (value, k)}))
    monkeypatch.setattr(
        ledger, "record_draws", lambda id, values, *_, **k: calls.update({id: (list(values), k)})
    )
    return calls


def test_each_rung_is_recorded_beside_doing_nothing(recorded):
    table = pd.DataFrame({"no_adjustment": [3.0, 4.0], "as_printed": [1.0, 2.0]})
    records.record_rungs("a", table)
    values, keys = recorded.pop("a.as_printed")
    assert values == [1.0, 2.0]
    assert list(keys["baseline"]) == [3.0, 4.0]
    assert not recorded


def test_without_a_number_for_doing_nothing_there_is_no_baseline(recorded):
    table = pd.DataFrame({"no_adjustment": [float("nan")] * 2, "as_printed": [1.0, 2.0]})
    records.record_rungs("a", table)
    assert recorded["a.as_printed"][1]["baseline"] is None


def test_choices_are_shares_of_draws(recorded):
    index = pd.MultiIndex.from_product(
        [range(4), ("exact", "no_adjustment", "infinitesimal_jackknife")],
        names=["draw", "criterion"],
    )
    table = pd.DataFrame(
        {"gamma_p": 1.0, "gamma_i": 2.0, "regret": 0.0, "same": 1.0, "inside": 1.0}, index
    )
    table.loc[(0, "infinitesimal_jackknife"), ["same", "regret"]] = 0.0, 0.5
    table.loc[(slice(1, 3), "no_adjustment"), "same"] = 0.0
    records.record_choices("a", table, None)
    assert recorded["a.infinitesimal_jackknife"] == (0.75, {"baseline": 0.25, "draws": 4})
    assert recorded["a.regret"][0] == [0.5, 0.0, 0.0, 0.0]
    assert recorded["a.inside"][0] == 1.0
