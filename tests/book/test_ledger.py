"""The ledger: verdicts come from the claims, stand-ins never count,
and nothing is silently missing.
"""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from acvbook import claims as claims_file
from acvbook import ledger

CLAIMS = """
[claims.plain]
source = "Table 9"
shows = "a number"
paper = 3
must.quick = "== 3 ± 0.1"
notebook = "demo"

[claims.pair]
source = "Figure 9"
shows = "two numbers, and one without a verdict"
must = { quick = ">= 0.9" }

[claims.pair.parts]
"left" = {}
"right" = { must.quick = "<= 0.1" }
"seconds" = { must = {} }

[claims.design]
source = "Theorem 9"
shows = "a theorem"
data = "simulated"
must.quick = "is true"
"""
REAL = SimpleNamespace(provenance="real", sha256="ab" * 32)
STAND_IN = SimpleNamespace(provenance="simulated", sha256=None)


_load = claims_file.load_claims


@pytest.fixture
def claims(tmp_path, monkeypatch):
    """The claims above, and a ledger begun for notebook "demo" that writes to ``tmp_path``."""
    (tmp_path / "claims.toml").write_text(CLAIMS, "utf-8")
    claims = _load(tmp_path / "claims.toml")
    monkeypatch.setenv("ACVLIB_OUTPUT", str(tmp_path))
    monkeypatch.setattr(ledger, "load_claims", lambda: claims)
    ledger.begin("demo", "quick", 7)
    return claims


@pytest.mark.parametrize(
    ("rule", "value", "expected"),
    [
        ("is true", True, True),
        ("is true", 1, False),
        ("<= 0.5", 0.5, True),
        ("< 0.5", 0.5, False),
        (">= 1e-3", 2, True),
        ("> 2", 2, False),
        ("== 3", 3, True),
        ("== 3 ± 0.1", 3.09, True),
        ("== 3 ± 0.1", 3.11, False),
    ],
)
def test_rule(rule, value, expected):
    assert claims_file.holds(rule, value) is expected


@pytest.mark.parametrize("rule", ["about 3", ">= 3 ± 1", "is false", "<=3"])
def test_rule_that_is_none_is_refused(rule):
    with pytest.raises(ledger.LedgerError, match="no such rule"):
        claims_file.holds(rule, 3)


def test_record_has_all_keys_and_plain_values(claims, tmp_path):
    ledger.record("plain", np.float64(3.05), REAL, seconds=1.5)
    (record,) = json.loads((tmp_path / "ledger" / "demo.json").read_text("utf-8"))
    keys = {
        "id",
        "value",
        "paper",
        "ok",
        "data",
        "scale",
        "seed",
        "commit",
        "data_sha256",
        "seconds",
        "versions",
    }
    assert keys <= record.keys()
    assert (record["value"], record["ok"], record["paper"]) == (3.05, True, 3)
    assert (record["data"], record["data_sha256"], record["seed"]) == ("real", REAL.sha256, 7)


def test_arrays_and_numpy_booleans_become_json(claims):
    assert ledger.record("pair", np.arange(3).tolist(), STAND_IN)["value"] == [0, 1, 2]
    assert ledger.record("design", np.bool_(True))["ok"] is True


def test_unknown_id_names_id_and_file(claims):
    with pytest.raises(ledger.LedgerError, match=r"nobody.9.*book/claims.toml"):
        ledger.record("nobody.9", 1)


def test_twice_is_refused(claims):
    ledger.record("plain", 3, REAL)
    with pytest.raises(ledger.LedgerError, match="recorded twice"):
        ledger.record("plain", 3, REAL)


@pytest.mark.parametrize("value", [float("nan"), np.inf, [1.0, np.nan], np.float32("nan")])
def test_value_that_is_not_finite_is_refused(claims, value):
    with pytest.raises(ledger.LedgerError, match="plain.*not a finite number"):
        ledger.record("plain", value, REAL)


def test_nothing_is_recorded_before_begin(monkeypatch):
    monkeypatch.setattr(ledger, "_run", None)
    with pytest.raises(ledger.LedgerError, match="comes first"):
        ledger.record("plain", 3)


def test_stand_in_never_counts(claims):
    assert ledger.record("plain", 3, STAND_IN)["ok"] is None


def test_claim_that_needs_no_data_counts(claims):
    assert ledger.record("design", False)["ok"] is False


def test_parent_counts_its_judged_parts(claims, tmp_path):
    ledger.record("pair.left", 0.95, REAL, seconds=1)
    ledger.record("pair.right", 0.05, REAL, seconds=2)
    ledger.record("pair.seconds", 12, REAL)
    parent = ledger.merge(tmp_path)[0]
    assert (parent["id"], parent["value"], parent["ok"], parent["seconds"]) == (
        "pair",
        "2 of 2 parts hold",
        True,
        3,
    )


def test_parent_fails_with_one_part_and_has_no_verdict_with_a_stand_in(claims, tmp_path):
    ledger.record("pair.left", 0.5, REAL)
    ledger.record("pair.right", 0.05, REAL)
    assert ledger.merge(tmp_path)[0]["ok"] is False
    ledger.begin("demo", "quick", 7)
    ledger.record("pair.left", 0.95, STAND_IN)
    assert ledger.merge(tmp_path)[0]["ok"] is None


def test_merge_keeps_the_order_of_the_claims_and_judges_anew(claims, tmp_path):
    ledger.record("design", True)
    ledger.record("plain", 3, REAL)
    claims["plain"].must["quick"] = ">= 4"
    merged = ledger.merge(tmp_path)
    assert [(record["id"], record["ok"]) for record in merged] == [
        ("plain", False),
        ("design", True),
    ]
    assert json.loads((tmp_path / "ledger.json").read_text("utf-8")) == merged


def test_merge_refuses_an_id_that_was_dropped_from_the_claims(claims, tmp_path):
    ledger.record("plain", 3, REAL)
    del claims["plain"]
    with pytest.raises(ledger.LedgerError, match="plain in demo.json"):
        ledger.merge(tmp_path)


def test_missing_and_unexplained_are_problems(claims, tmp_path):
    ledger.record("design", False)
    missing, unexplained = ledger.problems(ledger.merge(tmp_path))
    assert missing == "plain: demo should record it, and did not"
    assert unexplained.startswith("design: False does not meet 'is true'")


@pytest.mark.parametrize(
    ("explanation", "found"), [("why", []), (None, ["a.x: 0 does not meet '> 1', unexplained"])]
)
def test_a_claim_of_parts_is_explained_by_them(explanation, found):
    part = claims_file.Claim("a.x", "", "", must={"quick": "> 1"}, explanation=explanation)
    records = [{"id": id, "ok": False, "value": 0, "scale": "quick"} for id in ("a", "a.x")]
    assert (
        ledger.problems(records, {"a": claims_file.Claim("a", "", "", parts=("a.x",)), "a.x": part})
        == found
    )


PLAIN = """
[claims.plain]
source = "Table 9"
shows = "a number"
"""


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('must = { quik = ">= 3" }', r"plain: must = .*quik.*the scales are quick and paper"),
        ('must = ">= 3"', r"plain: must = '>= 3'"),
        ('must.quick = "=> 3"', r"plain: no such rule: '=> 3'"),
        ('must.quick = ">= three"', r"plain: no such rule: '>= three'"),
        ('must.quick = "<= inf"', r"plain: no such rule: '<= inf'"),
        ('must.quick = ">= nan"', r"plain: no such rule"),
        ('must.quick = "== 3 ± -1"', r"plain: no such rule"),
        ("must.quick = 3", r"plain: no such rule: 3"),
        ('data = "Real"', r"plain: data = 'Real' is neither real nor simulated"),
        ('scales = ["papre"]', r"plain: scales = \['papre'\]"),
        ('scales = [["paper"]]', r"plain: scales = \[\['paper'\]\]"),
        ('scales = "paper"', r"plain: scales = 'paper'"),
        ('mus.quick = ">= 3"', r"plain: no key mus; there are data, explanation"),
        ("notebook = 7", r"plain: notebook = 7 is not a text"),
        ("parts = 3", r"plain, parts: 3 is not a table"),
        ('parts.left = { must.quik = "> 1" }', r"plain\.left: must = .*quik"),
        ('parts.left = { dta = "real" }', r"plain\.left: no key dta"),
        ("parts.left = 3", r"plain\.left: 3 is not a table"),
        ('[claims."plain.left"]', r"plain\.left: no shows and no source"),
        ("[claim.other]", r"the file: no key claim; there are claims, papers"),
        ('[papers]\nghosh = "x"', r"plain: its first word is no paper"),
        ('source = "twice"', r"Cannot overwrite a value"),
        ('must = { quick = ">= 3"', r"Unclosed inline table"),
    ],
)
def test_claims_without_meaning_are_refused(tmp_path, line, complaint):
    """A verdict that is switched off by a slip would look like one that was never asked for."""
    path = tmp_path / "claims.toml"
    path.write_text(PLAIN + line, "utf-8")
    with pytest.raises(ledger.LedgerError, match=complaint) as raised:
        _load(path)
    assert str(raised.value).startswith(str(path))


@pytest.mark.parametrize("content", [b"", b"\x00\xff", b"[claims", b"claims = 3"])
def test_damaged_claims_are_named(tmp_path, content):
    path = tmp_path / "claims.toml"
    path.write_bytes(content)
    with pytest.raises(ledger.LedgerError, match=re.escape(str(path))):
        _load(path)


def test_a_part_that_is_a_claim_already_is_refused(tmp_path):
    twice = PLAIN + "parts.left = {}\n" + PLAIN.replace("plain", '"plain.left"')
    (tmp_path / "claims.toml").write_text(twice, "utf-8")
    with pytest.raises(ledger.LedgerError, match=r"plain\.left stands there twice"):
        _load(tmp_path / "claims.toml")


@pytest.mark.parametrize("scale", ["qiuck", "", None])
def test_scale_without_rules_is_refused(claims, scale):
    with pytest.raises(ledger.LedgerError, match="scale = .* is not quick or paper"):
        ledger.begin("demo", scale, 7)


def test_provenance_without_meaning_is_refused(claims):
    with pytest.raises(ledger.LedgerError, match="provenance = 'Real' is neither"):
        ledger.record("plain", 3, SimpleNamespace(provenance="Real", sha256="ab"))


@pytest.mark.parametrize("content", ["", "[", "3", "[3]", '[{"id": "plain"}]', "[[]]"])
def test_damaged_record_is_named(claims, tmp_path, content):
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "demo.json").write_text(content)
    with pytest.raises(ledger.LedgerError, match=r"demo\.json is damaged .* run demo"):
        ledger.merge(tmp_path)


def test_interrupted_write_leaves_the_old_file(claims, tmp_path, monkeypatch):
    ledger.record("plain", 3, REAL)
    before = (tmp_path / "ledger" / "demo.json").read_text("utf-8")
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        ledger.record("design", True)
    assert (tmp_path / "ledger" / "demo.json").read_text("utf-8") == before


def test_every_claim_of_the_book_can_be_judged():
    for claim in _load().values():
        assert claim.data in ("real", "simulated"), claim.id
        for scale, rule in claim.must.items():
            assert scale in ("quick", "paper"), claim.id
            assert claims_file.holds(rule, 0.0) in (True, False), claim.id
