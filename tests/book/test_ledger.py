"""The ledger: verdicts come from the claims, stand-ins never count, nothing is silently missing."""

import fcntl
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from acvbook import claims as claims_file
from acvbook import ledger
from oracles.wrappers import raises

PAPERS = """
[papers]
plain = "Plain"
pair = "Pair"
design = "Design"
"""
CLAIMS = """
[claims.plain]
source = "Table 9"
shows = "a number"
paper = 3
must.quick = "== 3 ± 0.1"
notebook = "demo"
nothing = "a count"
fixed = "a count"

[claims.pair]
source = "Figure 9"
shows = "two numbers, and one without a verdict"
paper = "both are good"
must = { quick = ">= 0.9" }

[claims.pair.parts]
"left" = {}
"right" = { must.quick = "<= 0.1" }
"seconds" = { must = {} }

[claims.design]
source = "Theorem 9"
shows = "a theorem"
data = "simulated"
paper = "it is true"
must.quick = "is true"
nothing = "a theorem"
fixed = "a theorem"
"""
REAL = SimpleNamespace(provenance="real", sha256="ab" * 32)
STAND_IN = SimpleNamespace(provenance="simulated", sha256=None)


def folder_of(tmp_path, text):
    folder = tmp_path / "claims"
    folder.mkdir()
    (folder / "papers.toml").write_text(PAPERS, "utf-8")
    (folder / "chapter.toml").write_text(text, "utf-8")
    return folder


@pytest.fixture
def claims(tmp_path, monkeypatch):
    """The claims above, and a ledger begun for notebook "demo" that writes to ``tmp_path``."""
    claims = claims_file.load_claims(folder_of(tmp_path, CLAIMS))
    monkeypatch.setenv("ACVLIB_OUTPUT", str(tmp_path))
    monkeypatch.setattr(ledger, "load_claims", lambda: claims)
    ledger.begin("demo", "quick", 7)
    return claims


RULES = [("is true", True, True), ("is true", 1, False), ("<= 0.5", 0.5, True)]
RULES += [("< 0.5", 0.5, False), (">= 1e-3", 2, True), ("> 2", 2, False), ("== 3", 3, True)]
RULES += [("== 3 ± 0.1", 3.09, True), ("== 3 ± 0.1", 3.11, False)]


@pytest.mark.parametrize(("rule", "value", "expected"), RULES)
def test_rule(rule, value, expected):
    assert claims_file.holds(rule, value) is expected


def test_record_has_all_keys_and_plain_values_and_draws_their_median_and_spread(claims, tmp_path):
    ledger.record("plain", np.float64(3.05), REAL, seconds=1.5)
    (record,) = json.loads((tmp_path / "ledger" / "demo.json").read_text("utf-8"))
    assert list(record) == ledger.KEYS
    assert [record[key] for key in ("value", "ok", "paper", "power")] == [3.05, True, 3, None]
    assert (record["data"], record["data_sha256"], record["seed"]) == ("real", REAL.sha256, 7)
    both = ledger.record("pair.right", 0.95, [REAL, STAND_IN])
    assert (both["data"], both["data_sha256"]) == ("real, partial", REAL.sha256)
    draws = ledger.record_draws("pair.left", np.arange(11), REAL, baseline=np.zeros(11))
    assert (draws["value"], draws["spread"], draws["draws"]) == (5, [1, 9], 11)
    assert (draws["baseline"], draws["power"]) == (0, True)


def test_what_is_no_claim_or_was_recorded_or_comes_before_begin_is_refused(claims, monkeypatch):
    raises(r"nobody.9.*book/claims", ledger.record, "nobody.9", 1, error=ledger.LedgerError)
    ledger.record("plain", 3, REAL)
    raises("recorded twice", ledger.record, "plain", 3, REAL, error=ledger.LedgerError)
    monkeypatch.setattr(ledger, "_run", None)
    raises("comes first", ledger.record, "plain", 3, error=ledger.LedgerError)


@pytest.mark.parametrize(
    ("left", "right", "value", "data", "ok"),
    [
        (0.95, REAL, "2 of 2 parts hold", "real", True),
        (0.5, REAL, "1 of 2 parts hold", "real", False),
        (0.5, STAND_IN, "0 of 1 parts hold; on simulated data 1 of 1", "real, partial", False),
    ],
)
def test_parent_counts_its_judged_parts(claims, tmp_path, left, right, value, data, ok):
    ledger.record("pair.left", left, REAL, seconds=1)
    ledger.record("pair.right", 0.05, right, seconds=2)
    ledger.record("pair.seconds", 12, REAL)
    parent = ledger.merge(tmp_path)[0]
    assert [parent[key] for key in ("value", "data", "ok", "seconds")] == [value, data, ok, 3]


@pytest.mark.parametrize(
    ("moves", "baseline", "power"), [(0.95, 0.5, True), (0.5, 0.5, False), (0.95, 0.05, False)]
)
def test_a_claim_has_power_if_most_of_its_parts_have(claims, tmp_path, moves, baseline, power):
    """A rule of ours beside a part lends it power and never decides; elsewhere it lends none."""
    claims["pair.left.moves"] = replace(claims["pair.left"], id="pair.left.moves", ours=True)
    claims["pair.third"] = replace(claims["pair.left"], id="pair.third")
    claims["pair.ours"] = replace(claims["pair.right"], id="pair.ours", ours=True)
    parts = ("pair.left", "pair.left.moves", "pair.right", "pair.third", "pair.ours")
    claims["pair"] = replace(claims["pair"], parts=parts)
    ledger.record("pair.left", 0.95, REAL, baseline=0.92)
    ledger.record("pair.left.moves", moves, REAL, baseline=0.0)
    ledger.record("pair.right", 0.05, REAL, baseline=baseline)
    ledger.record("pair.third", 0.95, REAL, baseline=0.92)
    ledger.record("pair.ours", 0.05, REAL, baseline=0.5)
    parent = ledger.merge(tmp_path, claims)[0]
    assert (parent["ok"], parent["power"]) == (True, power)


def test_other_real_data_are_called_so(claims, tmp_path):
    claims["plain"] = replace(claims["plain"], other="of another month")
    ledger.record("plain", 3, REAL)
    (record,) = ledger.merge(tmp_path, claims)
    assert (record["data"], record["ok"]) == ("real, other", True)
    assert claims_file.words(claims["plain"], record) == "reproduced on other data at quick scale"
    (again,) = ledger.judged([record], claims | {"plain": replace(claims["plain"], other=None)})
    assert again["data"] == "real"


@pytest.mark.parametrize(("value", "found"), [(4.1, 0), (1.9, 1), (0.4, 0)])
def test_a_single_timing_near_its_rule_is_a_problem(claims, tmp_path, value, found):
    timed = {"unit": ledger.SECONDS, "must": {"quick": ">= 1"}, "explanation": "slow"}
    claims["plain"] = replace(claims["plain"], **timed)
    ledger.record("plain", value, REAL)
    texts = ledger.problems(ledger.merge(tmp_path, {"plain": claims["plain"]}), {})
    texts += ledger.problems(ledger.merge(tmp_path, claims), {"plain": claims["plain"]})
    assert len(texts) == found
    assert all("single timings within a factor of two" in text for text in texts)


@pytest.mark.parametrize("data", ["rebuilt", "simulated"])
def test_nothing_is_reproduced_on_data_that_stand_in(claims, tmp_path, data):
    for name, value in (("plain", 3), ("pair.left", 0.95)):
        record = ledger.record(name, value, SimpleNamespace(provenance=data, sha256=None))
        assert (record["holds"], record["ok"]) == (True, None)
    assert ledger.merge(tmp_path)[1]["ok"] is None  # of the parent


def test_merge_keeps_the_order_of_claims_judges_anew_and_leaves_out_what_is_gone(claims, tmp_path):
    ledger.record("design", True)
    ledger.record("plain", 3, REAL)
    claims["plain"].must["quick"] = ">= 4"
    merged = ledger.merge(tmp_path)
    found = [(record["id"], record["ok"]) for record in merged]
    assert found == [("plain", False), ("design", True)]
    assert json.loads((tmp_path / "ledger.json").read_text("utf-8")) == merged
    del claims["plain"]
    assert [record["id"] for record in ledger.merge(tmp_path)] == ["design"]
    assert ledger.problems([{"id": "gone", "scale": "quick", "holds": None}], claims={}) == []


def test_what_is_missing_unexplained_or_weak_is_a_problem_of_the_part(claims, tmp_path):
    ledger.record("design", False)
    ledger.record("pair.left", 0.1, REAL)
    ledger.record_draws("pair.right", [0.1, 0.1, 0.1], REAL, baseline=[0.1, 0.2, 0.3])
    assert ledger.problems(ledger.merge(tmp_path), claims) == [
        "plain: demo should record it, and did not",
        "pair.left: 0.1 does not meet '>= 0.9', unexplained",
        "pair.left: no baseline: does doing nothing meet the rule too?",
        "pair.left: 1 draws, and not 3: one draw decides nothing",
        "design: False does not meet 'is true', unexplained",
    ]


PLAIN = """
[claims.plain]
source = "Table 9"
shows = "a number"
"""


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('must.quick = ">= 3"', r"plain: the paper states no such rule: ours = true"),
        ("ours = true", r"plain: ours is said of a part"),
        ('paper = "none"', r"plain: paper = 'none' has no meaning"),
        ('parts.left = { must.quick = ">= 3", ours = true }', r"plain: all its rules are ours"),
        ('must = { quik = ">= 3" }', r"plain: must = .*quik.* has no meaning"),
        ('must.quick = "=> 3"', r"plain: no such rule: '=> 3'"),
        ('must.quick = "<= inf"', r"plain: no such rule: '<= inf'"),
        ('must.quick = "== 3 ± -1"', r"plain: no such rule"),
        ('must.quick = ">= 3 ± 1"', r"plain: no such rule"),
        ("must.quick = 3", r"plain: no such rule: 3"),
        ('data = "Real"', r"plain: data = 'Real' has no meaning"),
        ('scales = ["papre"]', r"plain: scales = \['papre'\]"),
        ('mus.quick = ">= 3"', r"plain: no key mus; there are changed, data"),
        ('parts.left = { must.quik = "> 1" }', r"plain\.left: must = .*quik"),
        ("parts.left = 3", r"plain\.left: 3 is not a table"),
        ('[claims."plain.left"]', r"plain\.left: no shows and no source"),
        ("[claim.other]", r"the file: no key claim; there are claims, papers"),
        ('[claims."nobody.x"]', r"nobody\.x: its first word is no paper"),
        ("draws = 1", r"plain: draws = 1 has no meaning"),
        ('must = { quick = ">= 3"', r"Unclosed inline table"),
        ("parts.left = {}" + PLAIN.replace("plain", '"plain.left"'), r"left stands there twice"),
    ],
)
def test_claims_without_meaning_are_refused(tmp_path, line, complaint):
    """A verdict that is switched off by a slip would look like one that was never asked for."""
    folder = folder_of(tmp_path, PLAIN + line)
    with pytest.raises(ledger.LedgerError, match=complaint) as raised:
        claims_file.load_claims(folder)
    assert str(raised.value).startswith(str(folder / "chapter.toml"))


@pytest.mark.parametrize("content", [b"\x00\xff", b"[claims", b"claims = 3"])
@pytest.mark.parametrize("name", ["chapter.toml", "papers.toml"])
def test_damaged_claims_are_named(tmp_path, content, name):
    folder = folder_of(tmp_path, PLAIN)
    (folder / name).write_bytes(content)
    raises(re.escape(str(folder / name)), claims_file.load_claims, folder, error=ledger.LedgerError)


@pytest.mark.parametrize("content", ["", "[", "3", "[3]", '[{"id": "plain"}]', "[[]]"])
def test_damaged_record_is_named(claims, tmp_path, content):
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "demo.json").write_text(content)
    raises(r"demo\.json is damaged .* run demo", ledger.merge, tmp_path, error=ledger.LedgerError)


def test_a_chapter_that_runs_alone_waits_for_others(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "ROOT", tmp_path)
    ledger.begin("demo", "paper", 0)
    with (tmp_path / "build" / ".running").open("w") as of_another:
        with ledger.alone(), pytest.raises(BlockingIOError):
            fcntl.flock(of_another, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(of_another, fcntl.LOCK_SH | fcntl.LOCK_NB)
    ledger.begin("demo", "quick", 0)
