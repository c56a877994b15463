"""Numbers in prose come from the ledger; what is published is complete, and quotes the papers."""

import ast
import re

import publish
import pytest
import scoreboard
from acvbook import ledger, origin, prose
from acvbook.claims import Claim, LedgerError, load_claims
from places import ROOT

CLAIM = Claim("ghosh.x", "Table 9", "In 384 tracts.", paper="682.5 hours", must={"quick": ">= 1"})
CLAIMS = {CLAIM.id: CLAIM, "ghosh.y": Claim("ghosh.y", "Table 9", "A number.")}
NUMBERS = {"value": 0.99871, "baseline": True, "spread": [0.25, 12345.6], "draws": 30}
VERDICT = {"scale": "paper", "holds": True, "ok": True, "power": True, "data": "real"}
RECORDS = {"ghosh.x": NUMBERS | VERDICT | {"seconds": None}}


NUMERALS = {"{value}`ghosh.x`": "0.999", "{value}`ghosh.x | .1%`": "99.9%"}
NUMERALS |= {"{value}`ghosh.x baseline`": "yes", "{value}`ghosh.x low|.1f`": "0.2"}
NUMERALS |= {"{value}`ghosh.x high`": "12,346", "{value}`ghosh.x draws`": "30"}
NUMERALS |= {"{value}`ghosh.y`": prose.NOT_MEASURED, "{given}`384` tracts": "384 tracts"}


@pytest.mark.parametrize(("role", "text"), NUMERALS.items())
def test_a_role_becomes_its_number_and_a_badge_links_to_the_row_of_its_claim(role, text):
    assert prose.fill(f"R is {role}.", RECORDS, CLAIMS) == f"R is {text}."
    badge = prose.fill("{verdict}`ghosh.x`", RECORDS, CLAIMS)
    assert 'class="verdict verdict-power" href="scoreboard.html#claim-ghosh-x"' in badge
    assert badge.endswith(">ghosh.x: reproduced</a>")


@pytest.mark.parametrize(
    ("role", "complaint"),
    [
        ("{value}`ghosh.z`", r"ghosh\.z is not listed"),
        ("{verdict}`ghosh.z`", r"ghosh\.z is not listed"),
        ("{value}`ghosh.x median`", "median is none of value, baseline"),
        ("{value}`ghosh.x seconds`", r"ghosh\.x was recorded without seconds"),
    ],
)
def test_a_role_without_a_number_is_refused(role, complaint):
    with pytest.raises(LedgerError, match=complaint):
        prose.fill(role, RECORDS, CLAIMS)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a correlation of .9975, not 0.5", [".9975", "0.5"]),
        ("within 13 % of 1,234.5 seconds, 2e-7 or 5e3", ["13", "1,234.5", "2e-7", "5e3"]),
        ("10 of 10, and 14, 17, 12", ["10", "10", "14", "17", "12"]),
        ("one of 4 folds in 2015, AR(3), L2, w2a, x86", []),
        ("Figure 8, Table 12, Eq. 7, Theorems 5 and 6, chapter 9", []),
        ("`n = 50` and ``k = 60`` and $x = 70$ and $$ y = 80 $$", []),
        ("[the page](https://example.org/99) and {cite:t}`giordano2019`", []),
        ("{value}`ghosh.x | .7f` and {given}`384`", []),
        ("```{math}\n:label: eq-77\nx = 88\n```\n", []),
        ("```python\nx = 88\n```\nbut 99", ["99"]),
        ("```{figure} figures/a99.svg\n:name: fig-88\n:alt: 77\nA caption with 66.\n```", ["66"]),
        ("| n | 55 |", ["55"]),
    ],
)
def test_typed_numbers_are_found(text, found):
    assert [numeral for numeral, _ in prose.typed_numbers(text, set())] == found


def test_numbers_of_settings_and_of_the_papers_may_be_typed():
    allowed = prose.literals(ast.parse('folds(10_000, share=0.25)\nname = "top 50"'))
    allowed |= prose.numerals_of([CLAIM])
    text = "10,000 folds of .25, the top 50, 682.5 hours in 384 tracts; 51 others"
    assert [numeral for numeral, _ in prose.typed_numbers(text, allowed)] == ["51"]


CONSTANT = ['ledger.record("ghosh.x", 18)', 'n = 18\nledger.record("ghosh.x", 2 * n)']
CONSTANT += ['for k in "xy":\n    ledger.record(f"ghosh.{k}", 3)']
CONSTANT += ['ledger.record("ghosh.x", len([1, 2]))']
MEASURED = ['ledger.record("ghosh.x", count(lines))', 'ledger.record("ghosh.x", table.loc["a"])']
MEASURED += ['n = 18\nn = count()\nledger.record("ghosh.x", n)', 'ledger.record("ghosh.y", 18)']
MEASURED += ['for k in folds:\n    ledger.record("ghosh.x", k)']


@pytest.mark.parametrize("code", [*CONSTANT, *MEASURED])
def test_a_constant_is_no_measurement(code):
    """`ghosh.y` is only reported."""
    found = list(prose.judged_constants(ast.parse(code), {"ghosh.x"}))
    assert found == (["ghosh.x"] if code in CONSTANT else [])


NOTEBOOK = """# %% [markdown]
# R is .9975, not {value}`ghosh.z`.
#
# ```{figure} figures/a.svg
# :name: fig-a
# A caption.
# ```

# %%
ledger.record("ghosh.x", 18)
"""


def test_what_is_wrong_in_a_chapter(tmp_path):
    (tmp_path / "01_demo.py").write_text(NOTEBOOK, "utf-8")
    settings = {"notebook": "01_demo", "paper": 1, "must": {"quick": ">= 1"}}
    claims = {
        "ghosh.x": Claim("ghosh.x", "", "", figure="fig-a", **settings),
        "ghosh.w": Claim("ghosh.w", "", "", figure="fig-b", **settings),
    }
    assert prose.problems(tmp_path, claims) == [
        "01_demo: .9975 is typed, not from the ledger: 'R is .9975, not {value}`ghosh.z`.'",
        "01_demo: {value}`ghosh.z` names no claim",
        "01_demo: ghosh.x: no {verdict}`ghosh.x` under its figure",
        "01_demo: ghosh.w: no figure has :name: fig-b",
        "01_demo: ghosh.w: no {verdict}`ghosh.w` under its figure",
        "01_demo: the value of ghosh.x is a constant: no rule can be tested on it",
    ]


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.py")), ids=lambda p: p.stem)
def test_prose_of_the_book(path):
    assert not list(prose.of_chapter(path.stem, prose.cells_of(path), load_claims()))


PUBLISHED = ROOT / "book" / "published"
NAMES = sorted(path.stem for path in PUBLISHED.glob("*.ipynb"))
PAPERS = ROOT.parent / "shared" / "papers"
TEXTS = {
    "ghosh": "structured-acv-2020.txt",
    "joulani": "treecv-2015.txt",
    "giordano": "swiss-army-ij-2019.txt",
    "zhu": "general-acv-2021.txt",
}
QUOTED = {
    (claim.id.partition(".")[0], quoted)
    for claim in load_claims().values()
    for words in (claim.paper, claim.shows, claim.explanation, claim.changed)
    for quoted in re.findall("“([^”]+)”", str(words))
}
PAGES = (*ROOT.glob("notebooks/*.py"), *ROOT.glob("book/*.md"), *ROOT.glob("book/exercises/*.md"))
PROSE = "".join(path.read_text("utf-8") for path in PAGES).replace("\n# ", " ")
QUOTED |= {("", quoted) for quoted in re.findall("“([^”]{2,})”", PROSE)}


@pytest.fixture(scope="module")
def records():
    return ledger.judged(ledger.read(PUBLISHED / "ledger.json"))


def test_the_published_ledger_is_complete_and_each_figure_is_of_a_run(records):
    """What a new chapter records, or one since it was changed, comes when it is published."""
    chapters = ROOT / "notebooks"
    runs = {name: origin.run_of(name, PUBLISHED) for name in NAMES}
    changed = {name for name in NAMES if origin.changes(runs[name], chapters / f"{name}.py")}
    recorded = {record["id"] for record in records}
    claims = load_claims()
    current = {None, *NAMES} - changed
    late = {id for id in claims.keys() - recorded if claims[id].notebook not in current}
    assert ledger.problems(records, {n: claims[n] for n in claims.keys() - late}) == []
    kept = {file for run in runs.values() for file in run["files"]}
    assert kept >= {str(path.relative_to(PUBLISHED)) for path in PUBLISHED.glob("figures/*")}


def test_no_claim_fails_by_a_rule_of_ours_or_on_a_stand_in_unexplained(records):
    """Doing nothing fails most rules that hold."""
    claims, failed = load_claims(), {r["id"] for r in records if r["ok"] is False}
    fails = [claims[id] for id in failed & claims.keys() if not claims[id].is_ours]
    causes = [{part for part in c.parts if part in failed} or {c.id} for c in fails]
    assert causes
    assert all(any(not claims[id].is_ours for id in own) for own in causes)
    assert publish.stand_ins(records, claims) == []
    text = scoreboard.first(claims, {record["id"]: record for record in records})
    assert float(re.search(r"of all, ours too, ([\d.]+)%", text)[1]) >= 74


@pytest.mark.parametrize("name", NAMES)
def test_a_chapter_is_of_one_run_whose_files_are_all_there(records, name):
    run = origin.run_of(name, PUBLISHED)
    assert {record["commit"] for record in records if record["notebook"] == name} <= {run["commit"]}
    assert {"day", "code", "modules", "packages", "data"} <= run.keys()
    assert all((PUBLISHED / file).is_file() for file in run["files"] if "ledger/" not in file)


def plain(text):
    """Without the breaks of lines and words, accents of quotes, and case."""
    text = re.sub(r"-\s+", "-", text).replace("’", "'").replace("-", "")
    return re.sub(r"[\s*_]+", " ", text).lower()


@pytest.mark.parametrize(("paper", "quoted"), sorted(QUOTED))
def test_a_quotation_stands_in_its_paper(paper, quoted):
    """A page does not say in a place for machines which paper it quotes: it may be any."""
    paths = [PAPERS / file for name, file in TEXTS.items() if paper in ("", name)]
    if not all(path.is_file() for path in paths):
        pytest.skip("the papers' texts are not here")
    assert any(plain(quoted) in plain(path.read_text("utf-8")) for path in paths)
