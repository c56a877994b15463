"""What readers are shown: tables, records of those with a column a rung, and figures."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from acvbook import figures, ledger
from acvbook.studies import records
from acvbook.tables import number, readable, words

RUNGS = ("as_printed", "infinitesimal_jackknife", "no_adjustment")
ENDINGS = ["same", "p.as_printed", "in_se.infinitesimal_jackknife", "gamma_p", "gamma_i", "share"]
ENDINGS += RUNGS[:2]


@pytest.fixture
def recorded(monkeypatch):
    calls = {}
    claims = ["a", *(f"a.{ending}" for ending in ENDINGS)]
    monkeypatch.setattr(ledger, "_run", SimpleNamespace(claims=claims))
    for name in ("record", "record_draws"):
        keep = lambda id, value, *_, **k: calls.update({id: (value, k)})  # noqa: E731
        monkeypatch.setattr(ledger, name, keep)
    return calls


@pytest.mark.parametrize("nothing", [[3.0, 4.0], None])
def test_each_rung_that_is_claimed_is_recorded_beside_doing_nothing(recorded, nothing):
    columns = {"no_adjustment": nothing or np.nan, "as_printed": [1.0, 2.0], "not_claimed": 0.0}
    records.record_rungs("a", pd.DataFrame(columns))
    values, keys = recorded.pop("a.as_printed")
    assert list(values) == [1.0, 2.0]
    baseline = keys["baseline"]
    assert (baseline if nothing is None else list(baseline)) == nothing
    assert not recorded


def test_one_draw_has_one_value_and_columns_other_names(recorded):
    ours, nothing = pd.Series({"R": 1.0, "b": 2.0}), pd.Series({"R": 0.5, "b": 0.0})
    ledger.record_table("a", ours, None, nothing, {"R": "", "b": "share"}, draws=7)
    assert recorded["a"] == (1.0, {"baseline": 0.5, "draws": 7})
    assert recorded["a.share"] == (2.0, {"baseline": 0.0, "draws": 7})


def test_choices_are_recorded_beside_those_of_doing_nothing(recorded):
    index = pd.MultiIndex.from_product([range(4), ["exact", *RUNGS[1:]]])
    columns = {"gamma_p": 1.0, "gamma_i": 2.0, "regret": 0.0, "in_se": 0.0, "same": 1.0}
    table = pd.DataFrame(columns, index.set_names(["draw", "criterion"]))
    table.loc[(0, "infinitesimal_jackknife"), ["same", "in_se"]] = 0.0, 0.5
    table.loc[(slice(1, 3), "no_adjustment"), "same"] = 0.0
    records.record_choices("a", table, None)
    assert list(recorded["a.in_se.infinitesimal_jackknife"][0]) == [0.5, 0.0, 0.0, 0.0]
    assert recorded["a.same"] == (0.75, {"baseline": 0.25, "draws": 4})


def test_of_settings_the_largest_is_recorded_with_their_range(recorded):
    index = pd.MultiIndex.from_product([(0.1, 1.0), range(3), RUNGS])
    values = np.repeat([0.2, 0.4], 9) + np.tile(np.repeat([-0.1, 0.0, 0.3], 3), 2)
    table = pd.DataFrame({"r": values}, index.set_names(["width", "draw", "rung"]))
    records.record_settings("a", table, None, {"p": "r"})
    assert recorded["a.p.as_printed"] == (0.4, {"draws": 3, "spread": [0.2, 0.4]})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("theta_error", "parameter error (SE)"),
        ("r_loss.newton_step", "R of losses, one Newton step"),
        ("em_steps", "em steps"),
        ("AR(1)", "AR(1)"),
        ("(0.0, 5.0]", "(0.0, 5.0]"),
    ],
)
def test_names_are_put_in_words(name, said):
    assert words(name) == said


@pytest.mark.parametrize(
    ("cell", "decimals", "shown"),
    [
        ("0.123456", 0, "0.123"),
        ("52871.8241", 0, "52,872"),
        ("1.8526", 4, "1.8526"),
        ("0.98", 4, "0.98"),
        ("1.234567e-05", 0, "1.23e-05"),
        ("-0.000", 0, "0"),
        ("12", 3, "12"),
        ("nan", 3, "nan"),
        ("two", 3, "two"),
    ],
)
def test_numbers_have_three_digits_or_those_of_their_column(cell, decimals, shown):
    assert number(cell, decimals) == shown


def test_digits_tell_the_rows_of_a_column_apart():
    frame = pd.DataFrame({"loss": [1.85261, 1.85103, 1.81802], "seconds": [12.3456, 0.0123, 1.0]})
    html = readable(frame.to_html())
    assert all(f"<td>{shown}</td>" in html for shown in ("1.8526", "1.8510", "0.0123", "12.3"))


@pytest.fixture
def output(tmp_path, monkeypatch):
    monkeypatch.setenv("ACVLIB_OUTPUT", str(tmp_path))
    return tmp_path / "figures"


def drawn(name, data=None):
    fig, ax = figures.subplots()
    ax.plot([1, 3, 2], label="line")
    return figures.save(fig, name, data)


def test_same_figure_is_same_file(output):
    drawn("one")
    drawn("two")
    assert (output / "one.svg").read_bytes() == (output / "two.svg").read_bytes()
    assert sorted(path.name for path in output.iterdir()) == ["one.svg", "two.svg"]


@pytest.mark.parametrize(
    ("provenance", "texts"),
    [
        ("simulated", ["simulated data"]),
        ("rebuilt", ["rebuilt data"]),
        ("real", []),
        ("real, partial", []),
    ],
)
def test_only_a_stand_in_is_marked(output, provenance, texts):
    fig = drawn("marked", SimpleNamespace(provenance=provenance))
    assert [text.get_text() for text in fig.texts] == texts


def test_the_word_for_the_data_is_below_a_legend_outside_the_axes(tmp_path):
    legends = []
    for data in (None, SimpleNamespace(provenance="simulated")):
        fig, axes = figures.subplots(1, 2, figsize=(10, 4))
        for ax in axes:
            for name in ("no_adjustment", "infinitesimal_jackknife", "newton_step", "exact"):
                ax.plot([0, 1], [0, 1], **figures.RUNGS[name].look)
        figures.save(fig, "wide", data, tmp_path)
        legends.append(fig.legends[0].get_window_extent())
    assert legends[1].extents == pytest.approx(legends[0].extents, abs=1.0)
    assert fig.texts[-1].get_window_extent().y1 < legends[1].y0
