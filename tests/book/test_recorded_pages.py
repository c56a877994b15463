"""Pages made from recorded numbers: benchmarks, and the scoreboard, where no stand-in counts."""

import json

import bench
import benchmarks_page
import pytest
import scoreboard
from acvbook.claims import Claim, anchor, kind, load_claims, words
from places import ROOT

ROWS = [
    {"name": "ours over theirs", "value": 0.5, "limit": 1.0, "at_least": False, "met": True},
    {"name": "theirs over ours", "value": 3.0, "limit": 8.0, "at_least": True, "met": False},
    {"name": "largest difference", "value": 0.0, "limit": None, "at_least": False, "met": True},
]
CIRCUMSTANCES = {"date": "2026-11-23", "commit": "abc", "processor": "P", "cores": 2, "python": "3"}


def test_page_has_every_ratio_its_limit_and_where_it_was_measured():
    page = benchmarks_page.page({"glm": CIRCUMSTANCES | {"rows": ROWS}})
    assert "1 of 2 limits are met." in page
    assert "| ours over theirs | 0.5 | met: ≤ 1 |" in page
    assert "| theirs over ours | 3 | **missed**: ≥ 8 |" in page
    assert "| largest difference | 0 |  |" in page
    assert "2026-11-23, commit `abc`, P, 2 cores, Python 3." in page
    assert "Leave-one-out of regressions" in page, "what the script says of itself"


def test_figure_has_our_seconds_over_those_of_each_peer():
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


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    """A folder of one benchmark, in place of ours."""
    monkeypatch.setattr(bench, "BENCHMARKS", tmp_path)
    monkeypatch.setattr(bench, "RECORDS", tmp_path / "records")
    monkeypatch.setattr(bench, "PUBLISHED", tmp_path / "published.json")
    (tmp_path / "one.py").write_text(SCRIPT.format(benchmarks=str(ROOT / "benchmarks")))
    return tmp_path


def test_a_run_is_recorded_and_published_unless_its_script_fails(scripts):
    bench.run("one")
    bench.publish()
    record = json.loads((scripts / "published.json").read_text())["one"]
    assert [row["name"] for row in record["rows"]] == ["a", "b"]
    assert [row["met"] for row in record["rows"]] == [False, True]
    assert {"date", "commit", "cores", "processor"} <= set(record)
    (scripts / "records/one.json").unlink()
    (scripts / "one.py").write_text("raise SystemExit(1)")
    with pytest.raises(SystemExit, match="one: failed"):
        bench.run("one")
    assert not (scripts / "records/one.json").exists()


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


def test_of_a_claim_of_parts_the_row_says_how_many_doing_nothing_meets():
    parent = Claim("ghosh.a", "Figure 9", "Many numbers.", parts=("a.x", "a.y", "a.z"))
    powers = {"a.x": True, "a.y": False, "a.z": None}
    recorded = {id: record(True, power=power) for id, power in powers.items()}
    whole = record(True) | {"baseline": None}
    row = scoreboard.row(parent, {parent.id: whole, **recorded})
    assert "| meets 1 of 2 rules |" in row


def test_failures_of_one_reason_are_explained_once_below_their_table():
    parts = {f"ghosh.fig9.{n}": Claim(f"ghosh.fig9.{n}", "", "", explanation="Why.") for n in "ab"}
    parent = Claim("ghosh.fig9", "Figure 9", "Two numbers.", parts=tuple(parts))
    recorded = {id: record(False) | {"id": id} for id in (parent.id, *parts)}
    section = scoreboard.section("Name, citation", [parent], parts | {parent.id: parent}, recorded)
    assert section.count("Why.") == 1
    assert "- `ghosh.fig9.a`, `ghosh.fig9.b`: Why." in section


def test_the_summary_counts_each_claim_once():
    own = [Claim(f"ghosh.{name}", "", "", paper=1, must=RULE) for name in "abc"]
    entries = (record(True, power=True), record(False), record(None))
    recorded = dict(zip(("ghosh.a", "ghosh.b", "ghosh.c"), entries, strict=True))
    summary = scoreboard.summary({"Name, citation": own}, {}, recorded)
    assert "| Name | 1 | 0 | 1 | 0 | 1 |\n" in summary


def test_what_to_know_first_is_counted():
    claims = {f"ghosh.{name}": Claim(f"ghosh.{name}", "", "", paper=1, must=RULE) for name in "abc"}
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
