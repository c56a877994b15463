"""What is published is complete, quotes the papers, and says what its numbers come from."""

import re

import publish
import pytest
from acvbook import ledger, origin
from acvbook.claims import load_claims
from places import ROOT

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


@pytest.fixture(scope="module")
def records():
    return ledger.judged(ledger.read(PUBLISHED / "ledger.json"))


def test_the_published_ledger_is_complete_and_each_failure_has_its_reason(records):
    """What a new chapter records, or one since it was changed, comes when it is published."""
    chapters = ROOT / "notebooks"
    runs = {name: origin.run_of(name, PUBLISHED) for name in NAMES}
    changed = {name for name in NAMES if origin.changes(runs[name], chapters / f"{name}.py")}
    recorded = {record["id"] for record in records}
    claims = load_claims()
    current = {None, *NAMES} - changed
    late = {id for id in claims.keys() - recorded if claims[id].notebook not in current}
    assert ledger.problems(records, {n: claims[n] for n in claims.keys() - late}) == []


def test_no_claim_of_a_paper_fails_by_a_rule_of_ours_or_on_a_stand_in_unexplained(records):
    claims, failed = load_claims(), {r["id"] for r in records if r["ok"] is False}
    fails = [claims[id] for id in failed & claims.keys() if not claims[id].is_ours]
    causes = [{part for part in c.parts if part in failed} or {c.id} for c in fails]
    assert causes
    assert all(any(not claims[id].is_ours for id in own) for own in causes)
    assert publish.stand_ins(records, claims) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_chapter_is_of_one_run_whose_files_are_all_there(records, name):
    run = origin.run_of(name, PUBLISHED)
    assert {record["commit"] for record in records if record["notebook"] == name} <= {run["commit"]}
    assert {"day", "code", "modules", "packages", "data"} <= run.keys()
    assert all((PUBLISHED / file).is_file() for file in run["files"] if "ledger/" not in file)


def test_each_figure_is_of_a_published_run():
    kept = {file for name in NAMES for file in origin.run_of(name, PUBLISHED)["files"]}
    figures = {str(path.relative_to(PUBLISHED)) for path in PUBLISHED.glob("figures/*")}
    assert figures <= kept


def plain(text):
    """Without the breaks of lines and words, accents of quotes, and case."""
    text = re.sub(r"-\s+", "-", text).replace("’", "'").replace("-", "")
    return re.sub(r"[\s*_]+", " ", text).lower()


@pytest.mark.parametrize(("paper", "quoted"), sorted(QUOTED))
def test_a_quotation_stands_in_its_paper(paper, quoted):
    path = PAPERS / TEXTS[paper]
    if not path.is_file():
        pytest.skip("the papers' texts are not here")
    assert plain(quoted) in plain(path.read_text("utf-8"))
