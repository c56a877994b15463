"""Pages made from recorded numbers: benchmarks, and errors by fold size."""

import json

import bench
import benchmarks_page
import pytest
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


def test_a_run_is_recorded_and_published(scripts):
    bench.run("one")
    bench.publish()
    record = json.loads((scripts / "published.json").read_text())["one"]
    assert [row["name"] for row in record["rows"]] == ["a", "b"]
    assert [row["met"] for row in record["rows"]] == [False, True]
    assert {"date", "commit", "cores", "processor"} <= set(record)


def test_a_script_that_fails_leaves_no_record(scripts):
    (scripts / "one.py").write_text("raise SystemExit(1)")
    with pytest.raises(SystemExit, match="one: failed"):
        bench.run("one")
    assert not (scripts / "records/one.json").exists()


def test_every_work_has_a_link():
    from pybtex.database import parse_file

    entries = parse_file(str(ROOT / "book" / "references.bib")).entries
    links = {"doi", "eprint", "url"}
    assert [name for name, entry in entries.items() if not links & set(entry.fields)] == []
