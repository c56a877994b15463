"""The words that a claim puts between “ and ” are the paper's own."""

import re

import pytest
from acvbook.claims import ROOT, load_claims

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
