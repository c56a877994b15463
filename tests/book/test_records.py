"""What readers are shown: tables, records of those with a column a rung, and figures.

Pages made from recorded numbers: benchmarks, and the scoreboard, where no stand-in counts.
"""

import json
from types import SimpleNamespace

import bench
import benchmarks_page
import numpy as np
import pandas as pd
import pytest
import scoreboard
from acvbook import figures, ledger, tables
from acvbook.claims import Claim, anchor, kind, load_claims, words
from acvbook.studies import records
from places import ROOT

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


def test_one_draw_has_one_value_and_choices_stand_beside_those_of_doing_nothing(recorded):
    """And columns have other names."""
    ours, nothing = pd.Series({"R": 1.0, "b": 2.0}), pd.Series({"R": 0.5, "b": 0.0})
    ledger.record_table("a", ours, None, nothing, {"R": "", "b": "share"}, draws=7)
    assert recorded["a"] == (1.0, {"baseline": 0.5, "draws": 7})
    assert recorded["a.share"] == (2.0, {"baseline": 0.0, "draws": 7})
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


SAID = {"theta_error": "parameter error (SE)", "em_steps": "em steps", "AR(1)": "AR(1)"}
SAID |= {"r_loss.newton_step": "R of losses, one Newton step", "(0.0, 5.0]": "(0.0, 5.0]"}
CELLS = [("0.123456", 0, "0.123"), ("52871.8241", 0, "52,872"), ("1.8526", 4, "1.8526")]
CELLS += [("0.98", 4, "0.98"), ("1.234567e-05", 0, "1.23e-05"), ("-0.000", 0, "0")]
CELLS += [("12", 3, "12"), ("nan", 3, "nan"), ("two", 3, "two")]


@pytest.mark.parametrize(("name", "said"), SAID.items())
def test_names_are_put_in_words(name, said):
    assert tables.words(name) == said


@pytest.mark.parametrize(("cell", "decimals", "shown"), CELLS)
def test_numbers_have_three_digits_or_those_of_their_column(cell, decimals, shown):
    assert tables.number(cell, decimals) == shown


def test_digits_tell_the_rows_of_a_column_apart():
    frame = pd.DataFrame({"loss": [1.85261, 1.85103, 1.81802], "seconds": [12.3456, 0.0123, 1.0]})
    html = tables.readable(frame.to_html())
    assert all(f"<td>{shown}</td>" in html for shown in ("1.8526", "1.8510", "0.0123", "12.3"))


def test_same_figure_is_same_file_and_only_a_stand_in_is_marked(tmp_path, monkeypatch):
    monkeypatch.setenv("ACVLIB_OUTPUT", str(tmp_path))

    def drawn(name, data=None):
        fig, ax = figures.subplots()
        ax.plot([1, 3, 2], label="line")
        return figures.save(fig, name, data)

    drawn("one")
    drawn("two")
    output = tmp_path / "figures"
    assert (output / "one.svg").read_bytes() == (output / "two.svg").read_bytes()
    assert sorted(path.name for path in output.iterdir()) == ["one.svg", "two.svg"]
    marked = {"simulated": ["simulated data"], "rebuilt": ["rebuilt data"]}
    for provenance, texts in (marked | {"real": [], "real, partial": []}).items():
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


ROWS = [
    {"name": "ours over theirs", "value": 0.5, "limit": 1.0, "at_least": False, "met": True},
    {"name": "theirs over ours", "value": 3.0, "limit": 8.0, "at_least": True, "met": False},
    {"name": "largest difference", "value": 0.0, "limit": None, "at_least": False, "met": True},
]
CIRCUMSTANCES = {"date": "2026-11-23", "commit": "abc", "processor": "P", "cores": 2, "python": "3"}


def test_page_has_every_ratio_its_limit_and_where_and_a_figure_seconds_over_those_of_peers():
    page = benchmarks_page.page({"glm": CIRCUMSTANCES | {"rows": ROWS}})
    assert "1 of 2 limits are met." in page
    assert "| ours over theirs | 0.5 | met: ≤ 1 |" in page
    assert "| theirs over ours | 3 | **missed**: ≥ 8 |" in page
    assert "| largest difference | 0 |  |" in page
    assert "2026-11-23, commit `abc`, P, 2 cores, Python 3." in page
    assert "Leave-one-out of regressions" in page, "what the script says of itself"
    rows = [
        ROWS[0] | {"name": "EM over hmmlearn's, K = 2"},
        ROWS[0] | {"name": "Viterbi over hmmlearn's, K = 2", "value": 1.5, "met": False},
        ROWS[1] | {"name": "words, KFold: refits over ours", "value": 4.0, "met": True},
        ROWS[0] | {"name": "hmmlearn: difference of log p, relative"},
    ]
    ratios = benchmarks_page.beside_peers({"doors": CIRCUMSTANCES | {"rows": rows}})
    jobs = {"scikit-learn": [(0.25, True)], "hmmlearn": [(0.5, True), (1.5, False)]}
    assert list(ratios.items()) == list(jobs.items())


SCRIPT = """
import sys
sys.path.insert(0, {benchmarks!r})
from _measure import report
report("a", 2.0, 1.0)
report("b", 3)
"""


def test_a_run_is_recorded_and_published_unless_its_script_fails(tmp_path, monkeypatch):
    """In a folder of one benchmark, in place of ours."""
    for name, path in {"BENCHMARKS": "", "RECORDS": "records", "PUBLISHED": "all.json"}.items():
        monkeypatch.setattr(bench, name, tmp_path / path)
    (tmp_path / "one.py").write_text(SCRIPT.format(benchmarks=str(ROOT / "benchmarks")))
    bench.run("one")
    bench.publish()
    record = json.loads((tmp_path / "all.json").read_text())["one"]
    assert [row["name"] for row in record["rows"]] == ["a", "b"]
    assert [row["met"] for row in record["rows"]] == [False, True]
    assert {"date", "commit", "cores", "processor"} <= set(record)
    (tmp_path / "records/one.json").unlink()
    (tmp_path / "one.py").write_text("raise SystemExit(1)")
    with pytest.raises(SystemExit, match="one: failed"):
        bench.run("one")
    assert not (tmp_path / "records/one.json").exists()


def test_every_work_has_a_link():
    from pybtex.database import parse_file

    entries = parse_file(str(ROOT / "book" / "references.bib")).entries
    links = {"doi", "eprint", "url"}
    assert [name for name, entry in entries.items() if not links & set(entry.fields)] == []


RULE = {"quick": ">= 1", "paper": ">= 1"}
PLACE = {"notebook": "05_mrf", "figure": "fig-nine", "explanation": "Its scaling is not known."}
OF_PAPER = {"paper": 0.5, "unit": "nats", "must": RULE}
CLAIM = Claim("ghosh.fig9", "Figure 9", "A number, |o| times.", **OF_PAPER, **PLACE)
NUMBERS = {"value": 0.123456, "baseline": 0.1, "draws": 20, "spread": [0.1, 0.2]}
REBUILT = "not testable: rebuilt data (the rule holds on them)"
SIMULATED = "not testable: simulated data (the rule fails on them)"


def record(holds, power=None, data="real", scale="paper"):
    ok = holds if data.startswith("real") else None
    said = {"holds": holds, "ok": ok, "power": power, "data": data, "scale": scale}
    return {"id": CLAIM.id, "data_sha256": "ab" * 32} | NUMBERS | said


@pytest.mark.parametrize(
    ("entry", "name", "verdict"),
    [
        (None, "reported", "not yet"),
        (record(None), "reported", "reported"),
        (record(True, power=True), "power", "reproduced"),
        (record(True), "held", "reproduced"),
        (record(True, power=False), "held", "reproduced, without power"),
        (record(True, power=True, scale="quick"), "power", "reproduced at quick scale"),
        (record(False), "failed", "not reproduced"),
        (record(False, data="real, other"), "failed", "not reproduced on other data"),
        (record(True, True, "real, other"), "power", "reproduced on other data"),
        (record(True, data="rebuilt"), "open", REBUILT),
        (record(False, data="simulated"), "open", SIMULATED),
    ],
)
def test_verdict(entry, name, verdict):
    assert (kind(CLAIM, entry), words(CLAIM, entry)) == (name, verdict)


def test_a_row_has_number_unit_spread_baseline_data_and_link_and_what_is_new_is_held():
    row = scoreboard.row(CLAIM, {CLAIM.id: record(True, power=True)})
    assert r"A number, \|o\| times." in row
    assert "| 0.5 nats | 0.123 nats (0.1 to 0.2, 20 draws) | 0.1 | real `abababab` |" in row
    assert '<a href="05_mrf.html#fig-nine"><span class="verdict verdict-power">reproduced' in row
    ours = Claim("beyond.x", "new", "A number.", must=RULE)
    assert words(ours, record(True, power=True)) == "held"


def test_of_a_claim_of_parts_the_row_says_how_many_doing_nothing_meets_a_failure_why_once():
    parent = Claim("ghosh.a", "Figure 9", "Many numbers.", parts=("a.x", "a.y", "a.z"))
    powers = {"a.x": True, "a.y": False, "a.z": None}
    recorded = {id: record(True, power=power) for id, power in powers.items()}
    whole = record(True) | {"baseline": None}
    assert "| meets 1 of 2 rules |" in scoreboard.row(parent, {parent.id: whole, **recorded})
    parts = {f"ghosh.fig9.{n}": Claim(f"ghosh.fig9.{n}", "", "", explanation="Why.") for n in "ab"}
    parent = Claim("ghosh.fig9", "Figure 9", "Two numbers.", parts=tuple(parts))
    recorded = {id: record(False) | {"id": id} for id in (parent.id, *parts)}
    section = scoreboard.section("Name, citation", [parent], parts | {parent.id: parent}, recorded)
    assert section.count("Why.") == 1
    assert "- `ghosh.fig9.a`, `ghosh.fig9.b`: Why." in section


def test_the_summary_counts_each_claim_once_and_what_to_know_first():
    claims = {f"ghosh.{name}": Claim(f"ghosh.{name}", "", "", paper=1, must=RULE) for name in "abc"}
    entries = (record(True, power=True), record(False), record(None))
    recorded = dict(zip(claims, entries, strict=True))
    summary = scoreboard.summary({"Name, citation": [*claims.values()]}, {}, recorded)
    assert "| Name | 1 | 0 | 1 | 0 | 1 |\n" in summary
    entries = (record(True, power=True), record(True, power=False), record(True, data="rebuilt"))
    recorded = {id: entry | {"id": id} for id, entry in zip(claims, entries, strict=True)}
    text = scoreboard.first(claims, recorded)
    assert all(words in text for words in ("Of 2 rules of the papers", "meets 1 too", " 50.0% of"))
    assert "Of 3 rules of the papers, 0 are about\n   simulated data, and 2 were" in text


def test_every_claim_of_the_book_and_every_part_has_its_row():
    """Badges lead to them, also in a run that did not measure them."""
    page = scoreboard.page([], {})
    claims = load_claims()
    assert page.count(">not yet</span>") == len(claims)
    assert all(f'<span id="{anchor(id)}"></span>' in page for id in claims)
